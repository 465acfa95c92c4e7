"""Files are replaced as a whole or not at all."""

import os

import pytest

from atled.files.replacing import replace_bytes, replace_text, replacing


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


def test_bytes_are_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "picture.png"
    replace_bytes(path, b"old")
    replace_bytes(path, b"new")
    assert path.read_bytes() == b"new"

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        replace_bytes(path, b"newest")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["picture.png"]


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


posix = pytest.mark.skipif(os.name != "posix", reason="links, permissions and pipes are those of POSIX")


@posix
def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path):
    path, link = tmp_path / "there" / "a.txt", tmp_path / "link.txt"
    path.parent.mkdir()
    link.symlink_to(path)
    for text in ("new", "newer"):  # at first it leads to nothing
        replace_text(link, text)
        assert link.is_symlink() and path.read_text() == text
    assert os.listdir(path.parent) == ["a.txt"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444], ids=oct)
def test_permissions_stay_as_they_were(tmp_path, mode):
    path = tmp_path / "a.txt"
    path.touch()
    path.chmod(mode)
    replace_text(path, "new")
    assert path.stat().st_mode & 0o777 == mode and path.read_text() == "new"


@posix
def test_a_pipe_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        replace_text(pipe, "new")
    assert pipe.is_fifo() and os.listdir(tmp_path) == ["pipe"]
