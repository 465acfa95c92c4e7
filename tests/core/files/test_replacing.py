"""Files are replaced as a whole or not at all."""

import os

import pytest

from atled.files.replacing import replace_text, replacing


def test_the_new_file_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    replace_text(path, "old")
    replace_text(path, "neu ü")
    assert path.read_text("utf-8") == "neu ü"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as beside:
        with open(beside, "w") as file:
            file.write("half")
        assert path.read_text() == "old"
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_before_anything_was_written_comes_through(tmp_path):
    with pytest.raises(FileNotFoundError):
        replace_text(tmp_path / "missing" / "a.txt", "text")
    assert os.listdir(tmp_path) == []


def test_the_name_to_write_under_can_be_chosen(tmp_path):
    other = str(tmp_path / ".other")
    with replacing(tmp_path / "a.txt", other) as beside:
        assert beside == other
        (tmp_path / ".other").write_text("new")
    assert (tmp_path / "a.txt").read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]
