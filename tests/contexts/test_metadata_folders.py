"""Entry points are read from folders of metadata as `importlib.metadata` reads them, or left to it."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from atled_contexts import entry_points, metadata_folders

GROUP = "atled.plugins"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of the path."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    usual = [each for each in sys.meta_path if each is PathFinder or not hasattr(each, "find_distributions")]
    monkeypatch.setattr(sys, "meta_path", usual)
    return tmp_path


def install(folder: Path, name: str, points: str, *, version: str = "1.2", form: str = "dist") -> None:
    """A distribution as its installer leaves it."""
    metadata = folder / (f"{name}-{version}.dist-info" if form == "dist" else f"{name}.egg-info")
    metadata.mkdir(parents=True)
    header = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n\nName: of the description\n"
    (metadata / ("METADATA" if form == "dist" else "PKG-INFO")).write_text(header)
    (metadata / "entry_points.txt").write_text(points)


def listed() -> list[tuple[str, str, str, str, str]]:
    """What importlib.metadata says."""
    return sorted(
        (entry.name, entry.module, entry.attr or "", entry.dist.name, entry.dist.version)
        for entry in importlib.metadata.entry_points(group=GROUP)
        if entry.dist is not None
    )


def test_all_that_is_installed_here_is_read_alike() -> None:
    found = metadata_folders.entry_points(GROUP)
    assert found is not None and sorted(map(tuple, found)) == listed()


@pytest.mark.parametrize("form", ["dist", "egg"])
def test_each_form_of_a_line_is_read_alike(form: str, path: Path) -> None:
    points = (
        "[console_scripts]\nrun = thing:main\n\n# of plugins\n[atled.plugins]\n  one=thing_one\ntwo = thing.two : A.b\n"
        "# no = comment:it\nnumber-3 =  thing.three:PLUGIN  \n\n[atled.plugins.others]\nno = other\n"
    )
    install(path, "atled_thing", points, form=form)
    install(path, "other", "[console_scripts]\nrun = other:main\n")
    found = metadata_folders.entry_points(GROUP)
    assert found is not None and len(found) == 3 and sorted(map(tuple, found)) == listed()


def test_of_two_versions_the_first_one_on_the_path_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(path / "none"), str(path / "a"), str(path / "b")])
    install(path / "a", "atled_thing", "[atled.plugins]\nnew = thing\n", version="2.0")
    install(path / "b", "Atled.Thing", "[atled.plugins]\nold = thing\n", version="1.0")
    (found,) = metadata_folders.entry_points(GROUP) or ()
    assert (found.name, found.version) == ("new", "2.0") and listed() == [tuple(found)]


def test_what_it_stands_for_is_imported_when_it_is_loaded() -> None:
    point = metadata_folders.EntryPoint("name", "os.path", "join.__name__", "d", "1")
    assert point.load() == "join"
    assert metadata_folders.EntryPoint("name", "os.path", "", "d", "1").load() is __import__("os").path


class Finder:
    """Of an installer that has a form of its own."""

    @staticmethod
    def find_distributions(context: object) -> tuple[()]:
        return ()


def _finder(path: Path) -> None:
    sys.meta_path.append(Finder())  # type: ignore[arg-type]  # it finds no modules


def _archive(path: Path) -> None:
    with zipfile.ZipFile(path / "things.zip", "w") as archive:
        archive.writestr("thing.py", "")
    sys.path.append(str(path / "things.zip"))


def _egg(path: Path) -> None:
    (path / "thing.egg").mkdir()
    sys.path.append(str(path / "thing.egg"))


def _other_line(path: Path) -> None:
    install(path, "odd", "[atled.plugins]\nodd = thing:PLUGIN [extra]\n")


def _no_name(path: Path) -> None:
    install(path, "odd", "[atled.plugins]\nodd = thing:PLUGIN\n")
    (path / "odd-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\n")


def _other_bytes(path: Path) -> None:
    install(path, "odd", "")
    (path / "odd-1.2.dist-info" / "entry_points.txt").write_bytes(b"[atled.plugins]\n\xff = thing\n")


@pytest.mark.parametrize("other", [_finder, _archive, _egg, _other_line, _no_name, _other_bytes])
def test_what_has_another_form_is_left_to_the_library(
    other: object, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(path, "atled_thing", "[atled.plugins]\nthing = thing\n")
    assert callable(other)
    other(path)
    assert metadata_folders.entry_points(GROUP) is None


def test_the_library_is_asked_then(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = entry_points.installed()
    monkeypatch.setattr(metadata_folders, "entry_points", lambda group: None)
    slow = entry_points.installed()
    rows = [[(one.name, one.distribution, one.version, one.module) for one in each] for each in (quick, slow)]
    assert rows[0] == rows[1]


def test_discovery_does_without_the_library() -> None:
    code = "import sys, atled_contexts as c; c.plugins(); print('importlib.metadata' in sys.modules)"
    environment = {**os.environ, "ATLED_PLUGINS_ONLY": "none"}  # what plugins import is theirs to say
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
