"""Files of the demo: a folder is checked first, a file is there as a whole or not at all."""

from __future__ import annotations

import os

import pytest

from atled.demo.output import open_folder, write_file
from atled.errors import CommandError


def test_a_folder_is_made_with_those_above_it_and_left_empty(tmp_path):
    folder = open_folder(str(tmp_path / "a" / "b"))
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match=r"(?s)--out .*file.*no files can be written there.*another folder"):
        open_folder(str(tmp_path / "file" / "folder"))


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "picture.png"
    write_file(path, b"old")
    write_file(path, b"new")
    assert path.read_bytes() == b"new"

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_file(path, b"newest")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["picture.png"]
