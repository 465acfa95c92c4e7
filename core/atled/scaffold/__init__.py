"""New plugins: a complete distribution written from the templates beside this module, to be changed step by step.

Each kind of plugin has a folder of templates; those of all kinds are in `shared`. Placeholders such as `$name` are
replaced, `$guide` by the kind's own text; a folder `package` is named after the plugin's package.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template

import atled
from atled.errors import four_parts, listing
from atled_contexts import API_VERSION, MANIFEST, plugins, register_plugin, unregister_plugin

_TEMPLATES = Path(__file__).parent / "template"
_SHARED = "shared"
_GUIDE = "guide.tmpl"  # of a kind: which file is what, in which order to change it
_SUFFIX = ".tmpl"  # keeps tools from taking a template for the real thing

KINDS = ("device", "host")
"""What a plugin may compute on: arrays of a device, or those of other backends in host memory."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_LONGEST_NAME = 40


class ScaffoldError(ValueError):
    """A plugin that cannot be written: its name does not fit or is taken, or its folder is there already."""


def new_plugin(name: str, out: Path, kind: str = "device") -> Path:
    """Write a distribution for a plugin called `name` into a new folder below `out`; returns the folder.

    kind: one of `KINDS`.

    The folder appears complete or not at all. ScaffoldError: see there.  OSError: `out` cannot be written to.
    """
    _check_name(name)
    folder = out / f"atled-{name}"
    if folder.exists():
        raise ScaffoldError(
            four_parts(f"new plugin {name!r}", f"{folder} exists", "", "remove it, or choose another name or --out")
        )
    out.mkdir(parents=True, exist_ok=True)
    part = out / f".atled-{name}.{os.getpid()}.part"
    try:
        _write(part, kind, words(name))
        _write_manifest(part, name)
        os.rename(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def words(name: str) -> dict[str, str]:
    """What the templates' placeholders stand for."""
    package = f"atled_{name.replace('-', '_')}"
    return {
        "name": name,
        "package": package,
        "distribution": f"atled-{name}",
        "Class": "".join(part.capitalize() for part in name.split("-")),
        "api_version": API_VERSION,
        "atled_version": ".".join(atled.__version__.split(".")[:2]),
    }


def _check_name(name: str) -> None:
    asked = f"new plugin {name!r}"
    if not _NAME.match(name) or len(name) > _LONGEST_NAME:
        suggestion = (
            re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("atled")).strip("-")[:_LONGEST_NAME].strip("-")
        )
        fitting = f", such as {suggestion!r}" if _NAME.match(suggestion) else ""
        raise ScaffoldError(
            four_parts(
                asked,
                "not a name for a plugin: it becomes a distribution atled-NAME, a package and a backend",
                "",
                f"use lower-case letters and digits, in words joined by '-', at most {_LONGEST_NAME}{fitting}",
            )
        )
    records = plugins()
    taken = {record.name for record in records} | {backend for record in records for backend in record.backends}
    package = words(name)["package"]
    if name in taken or importlib.util.find_spec(package) is not None:
        wrong = "a plugin or backend has that name" if name in taken else f"a package {package} is installed"
        raise ScaffoldError(four_parts(asked, wrong, f"taken are {listing(sorted(taken))}", "choose another name"))


def _write(folder: Path, kind: str, replacements: Mapping[str, str]) -> None:
    guide = _filled(_TEMPLATES / kind / _GUIDE, replacements)
    for templates in (_TEMPLATES / _SHARED, _TEMPLATES / kind):
        for source in sorted(templates.rglob(f"*{_SUFFIX}")):
            if source.name == _GUIDE:
                continue
            place = source.relative_to(templates)
            parts = [replacements["package"] if part == "package" else part for part in place.parts]
            target = folder.joinpath(*parts).with_name(place.name.removesuffix(_SUFFIX))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled(source, {**replacements, "guide": guide}), "utf-8")


def _filled(template: Path, replacements: Mapping[str, str]) -> str:
    # An unknown placeholder is a KeyError: the templates are ours, and the tests write them all.
    return Template(template.read_text("utf-8")).substitute(replacements)


def _write_manifest(folder: Path, name: str) -> None:
    """Generate the manifest from what the plugin registers."""
    from atled.generators.manifest import (  # it loads the table of ops, which nothing above needs
        make_manifest,
        manifest_text,
    )

    package = words(name)["package"]
    with _importable(folder / "src", package):
        register_plugin(name, importlib.import_module(f"{package}.plugin").PLUGIN)
        try:
            text = manifest_text(make_manifest(name))
        finally:
            unregister_plugin(name)
    (folder / "src" / package / MANIFEST).write_text(text, "utf-8")


@contextmanager
def _importable(source: Path, package: str) -> Iterator[None]:
    """Within the block, the package can be imported; nothing of it stays in the process, nothing compiled on disk."""
    writes_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(source))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(source))
        sys.dont_write_bytecode = writes_bytecode
        for module in [module for module in sys.modules if module.partition(".")[0] == package]:
            del sys.modules[module]
