"""The folder for the files of the demo is checked first."""

from __future__ import annotations

import pytest

from atled.demo.output import open_folder
from atled.errors import CommandError


def test_a_folder_is_made_with_those_above_it_and_left_empty(tmp_path):
    folder = open_folder(str(tmp_path / "a" / "b"))
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match=r"(?s)--out .*file.*no files can be written there.*another folder"):
        open_folder(str(tmp_path / "file" / "folder"))
