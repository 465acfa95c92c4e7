"""Entry points read from folders are those of `importlib.metadata`."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile

import pytest

from atled_contexts import distributions, entry_points

GROUP = "some.group"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Makes a distribution: (name of its info, entry points, in which of two folders on the path)."""
    rooms = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(sys, "path", [str(room) for room in rooms] + [str(tmp_path / "absent")])

    def make(info, text, room=0, metadata="METADATA"):
        path = rooms[room] / info
        path.mkdir(parents=True)
        name, version = info.rpartition(".")[0].split("-")[:2]
        (path / metadata).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: no header\n")
        if text is not None:
            (path / "entry_points.txt").write_text(text)

    return make


def listed():
    found = importlib.metadata.entry_points(group=GROUP)
    return [(entry.name, entry.value, entry.dist.name, entry.dist.version) for entry in found]


def declared():
    return [(entry.name, entry.value, entry.distribution, entry.version) for entry in distributions.declared(GROUP)]


def test_sections_comments_and_blanks_are_read_as_importlib_does(folder):
    folder("one-1.0.dist-info", "[other]\na = b\n\n[some.group]\n# c = d\n x = m.n : o.p \n\ny=q\n[last]\nz = r\n")
    assert declared() == listed() == [("x", "m.n : o.p", "one", "1.0"), ("y", "q", "one", "1.0")]


def test_the_first_distribution_of_a_name_counts_even_if_it_declares_nothing(folder):
    folder("Some_Name-2.0.dist-info", None)
    folder("some.name-1.0.dist-info", "[some.group]\nx = m\n", room=1)
    folder("two-1.0.egg-info", "[some.group]\ny = n\n", room=1, metadata="PKG-INFO")
    assert declared() == listed() == [("y", "n", "two", "1.0")]


def test_zip_files_and_further_finders_are_left_to_importlib(folder, tmp_path, monkeypatch):
    folder("one-1.0.dist-info", "[some.group]\nx = m\n")

    class Finder:
        @staticmethod
        def find_spec(*_):
            return None

        @staticmethod
        def find_distributions(*_):
            return []

    with monkeypatch.context() as patch:
        patch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
        assert distributions.declared(GROUP) is None
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        file.writestr("module.py", "")
    sys.path.append(str(tmp_path / "all.zip"))
    assert distributions.declared(GROUP) is None


def test_installed_plugins_are_the_same_either_way():
    def told(found):
        return sorted((each.name, each.distribution, each.version, each.module) for each in found)

    found, listed_ones = entry_points._declared(), entry_points._listed()
    assert told(found) == told(listed_ones) and found
    assert {each.name: each.load() for each in found} == {each.name: each.load() for each in listed_ones}
