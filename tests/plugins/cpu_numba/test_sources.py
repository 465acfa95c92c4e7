"""The keys of kernels follow from the files that their code comes from, and from no others."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import atled_cpu_numba
from atled_cpu_numba import sources
from atled_cpu_numba.catalogue import written_kernels
from atled_cpu_numba.store import Kernel, _build_files

ROOT = Path(atled_cpu_numba.__file__).parent

# A kernel in a subfolder, with a piece from elsewhere that is imported where the kernel is built.
USER = """
from atled_cpu_numba.store import Kernel

def _build():
    from atled_cpu_numba.kernels.shared import (  # the pieces (all of them)
        options,
        one_more as piece,
    )

USER = Kernel("user", _build)
"""
ALONE = USER.replace('"user"', '"alone"').replace("        one_more as piece,\n", "")

KEYS = """
import importlib, json, sys
import atled_cpu_numba
from atled_cpu_numba.store import registered
for name in sys.argv[1:]:
    importlib.import_module("atled_cpu_numba.kernels." + name)
kernels = registered(atled_cpu_numba.__path__[0])
print(json.dumps({kernel.name: [kernel.text_key(), kernel.fingerprint()] for kernel in kernels}))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the plugin's package, to be edited."""
    ignored = shutil.ignore_patterns("__pycache__", "*.xz")
    return shutil.copytree(ROOT, tmp_path / "path" / ROOT.name, ignore=ignored)


def keys(copy: Path, *modules: str) -> dict[str, list[str]]:
    """Both keys of the kernels of some modules of the copy; asked in a process of its own, which reads the files."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy.parent), *sys.path])}
    found = subprocess.run([sys.executable, "-c", KEYS, *modules], env=environment, capture_output=True, check=True)
    result: dict[str, list[str]] = json.loads(found.stdout)
    return result


def edit(path: Path) -> None:
    with path.open("a") as file:
        file.write("\nEDITED = True\n")


def test_keys_change_with_what_a_kernel_is_built_from_and_with_nothing_else(copy: Path) -> None:
    (copy / "kernels" / "deep").mkdir()
    (copy / "kernels" / "deep" / "__init__.py").touch()
    (copy / "kernels" / "deep" / "user.py").write_text(USER)
    (copy / "kernels" / "shared" / "one_more.py").write_text("STEP = 1\n")
    modules = ["deep.user", "products.matmul", "winograd.forward", "suppression", "reduction.any_axes"]
    before = keys(copy, *modules)
    assert {"user", "matmul_float32", "winograd_float32", "suppress_float32"} < before.keys()

    def changed() -> set[str]:
        nonlocal before
        earlier, before = before, keys(copy, *modules)
        differing = {name for name in earlier if set(earlier[name]).isdisjoint(before[name])}
        assert all(earlier[name] == before[name] for name in earlier.keys() - differing), (
            "the two keys follow other files"
        )
        return differing

    edit(copy / "kernels" / "shared" / "one_more.py")
    assert changed() == {"user"}

    for folder in ("kernels", "kernels/deep"):
        (copy / folder / "alone.py").write_text(ALONE.replace('"alone"', f'"alone in {folder}"'))
    for machinery in sources.NO_CODE:
        edit(copy / Path(machinery).relative_to(ROOT))
    modules += ["alone", "deep.alone"]
    assert changed() == set()
    assert {"alone in kernels", "alone in kernels/deep"} < before.keys()

    edit(copy / "kernels" / "shared" / "vectors.py")
    vectors = changed()
    assert {"matmul_float64", "pack_float32", "winograd_float32"} < vectors and not vectors & {
        "user",
        "suppress_float32",
        "alone in kernels",
    }

    edit(copy / "codegen.py")
    assert changed() == before.keys()


@pytest.mark.parametrize(
    "line",
    [
        "from atled_cpu_numba.kernels.shared import vectors",
        "    from atled_cpu_numba.kernels.shared import vectors",
        "from atled_cpu_numba.kernels.shared.vectors import copy_rows",
        "from atled_cpu_numba.kernels.shared import lanes as l, vectors as v  # both",
        "from atled_cpu_numba.kernels.shared import (lanes,\n  # one (of many)\n  vectors)",
        "from atled_cpu_numba.kernels.shared \\\n  import lanes, \\\n  vectors",
        "import os, atled_cpu_numba.kernels.shared.vectors as v",
        'importlib.import_module("atled_cpu_numba.kernels.shared.vectors")',
        "from . import vectors",
        "from .vectors import copy_rows",
        "from ..shared import vectors",
        "from ... import codegen; from ..shared.vectors import copy_rows",
        "from atled_cpu_numba.kernels.shared import launch; from atled_cpu_numba.kernels.shared import vectors",
    ],
)
def test_an_import_is_followed_in_whatever_form_it_is_written(line: str, copy: Path, monkeypatch: pytest.MonkeyPatch):
    importing = copy / "kernels" / "shared" / "importing.py"
    importing.write_text(line + "\n")
    monkeypatch.setattr(sources, "_ROOT", str(copy))
    assert {
        str(copy / "kernels" / "shared" / "vectors.py"),
        str(copy / "kernels" / "shared" / "lanes.py"),
    } <= sources.imported_by(str(importing))


def test_packages_on_the_way_are_followed_too(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (copy / "kernels" / "deep").mkdir()
    package = copy / "kernels" / "deep" / "__init__.py"
    package.write_text("from atled_cpu_numba.kernels.shared.lanes import host_lanes\n")
    (importing := copy / "kernels" / "shared" / "importing.py").write_text(
        "from atled_cpu_numba.kernels.deep import host_lanes\n"
    )
    monkeypatch.setattr(sources, "_ROOT", str(copy))
    assert {str(package), str(copy / "kernels" / "shared" / "lanes.py")} <= sources.imported_by(str(importing))


def test_a_build_is_known_with_what_it_was_given(tmp_path: Path) -> None:
    files = []
    for name in ("outer", "inner"):
        text = f"def function(piece=None): return lambda: piece  # {name}\n"
        (tmp_path / f"{name}.py").write_text(text)
        files.append(tmp_path / f"{name}.py")

    names: dict[str, Any] = {}
    for path in files:
        exec(compile(path.read_text(), str(path), "exec"), names)
        names[path.stem] = names["function"]
    outer, inner = names["outer"], names["inner"]
    given = [functools.partial(outer, inner), functools.partial(outer, piece=inner), outer(inner)]
    alone = [outer, functools.cache(outer), functools.partial(outer, 1)]

    def fingerprints(builds: list[Any]) -> list[str]:
        return [Kernel("k", build).fingerprint() for build in builds]

    before = fingerprints(alone), fingerprints(given)
    assert len({*before[0]}) == 1 and not {*before[0]} & {*before[1]}
    files[1].write_text(files[1].read_text() + "# edited\n")
    sources._read.cache_clear()
    assert fingerprints(alone) == before[0]
    assert not {*fingerprints(given)} & {*before[1]}


Origin = tuple[str, str]

# What the files say, by another way: names are followed from the function that builds a kernel to where they are made.


def followed(kernel: Kernel) -> frozenset[str]:
    return frozenset().union(*(sources.imported_by(file) for file in _build_files(kernel.build)))


@functools.cache
def module(path: str) -> tuple[dict[str, list[ast.stmt]], dict[str, Origin]]:
    """The statements of a file that make each of its names, and where those come from that it imports."""
    made: dict[str, list[ast.stmt]] = {}
    imported: dict[str, Origin] = {}
    for statement in ast.parse(Path(path).read_text()).body:
        for name in bound(statement):
            made.setdefault(name, []).append(statement)
        imported.update(imports(statement))
    return made, imported


def bound(statement: ast.stmt) -> set[str]:
    """The names that a statement at the top of a module makes, imports aside."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    within = {
        id(node) for loop in ast.walk(statement) if isinstance(loop, ast.comprehension) for node in ast.walk(loop)
    }
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in within
    }


def own_names(statement: ast.stmt) -> set[str]:
    """The names that a function binds for itself or in a function within it."""
    if not isinstance(statement, ast.FunctionDef):
        return set()
    found = {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    found |= {node.name for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)} - {statement.name}
    return found | {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def imports(tree: ast.AST) -> Iterator[tuple[str, Origin]]:
    """The names that are imported anywhere in a piece of a program, and from where."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, (str(node.module), alias.name)) for alias in node.names)


@functools.cache
def used(path: str, name: str) -> set[Origin]:
    """What the code that makes `name` in a file uses: the file, or module of the core, and the name there."""
    found: set[Origin] = set()
    made, imported = module(path)
    for statement in made.get(name, []):
        local = {**imported, **dict(imports(statement))}
        own = own_names(statement) - dict(imports(statement)).keys()
        for node in ast.walk(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in local:
                found.update(resolved(*local[node.value.id], node.attr))
            elif isinstance(node, ast.Name) and node.id not in own:
                found.update(resolved(*local[node.id]) if node.id in local else [(path, node.id)])
    return found


def resolved(package: str, name: str, attribute: str = "") -> Iterator[Origin]:
    if package.split(".")[0] not in ("atled", "atled_contexts", "atled_cpu_numba"):
        return
    below = ROOT.parent.joinpath(*package.split("."))
    if package.split(".")[0] != ROOT.name:  # of which files may lie beside the plugin's, where all come from wheels
        yield package, name
    elif (inner := below / f"{name}.py").is_file():
        if attribute:
            yield str(inner), attribute
    elif below.with_suffix(".py").is_file():
        yield str(below.with_suffix(".py")), name
    else:
        yield package, name


def is_value_in_key(kernel: Kernel, package: str, name: str) -> bool:
    return not package.endswith(".py") and getattr(importlib.import_module(package), name) in kernel.parameters


def test_no_code_of_a_kernel_comes_from_a_file_that_is_not_in_its_key() -> None:
    in_every_key = (str(ROOT / "kernels" / "shared" / "lanes.py"), "host_lanes")
    no_code = ("atled.plugin", "NamedTuple")  # the base of classes, whose fields are in files of the key
    missed = set()
    for kernel in written_kernels():
        build = kernel.build
        while isinstance(build, functools.partial):
            build = build.func
        waiting, seen = [(build.__code__.co_filename, build.__qualname__.split(".")[0])], {in_every_key, no_code}
        while waiting:
            place = waiting.pop()
            if place not in seen:
                seen.add(place)
                if place[0] in followed(kernel):
                    waiting += used(*place)
                elif not is_value_in_key(kernel, *place):
                    missed.add((kernel.name, *place))
        assert len(seen) > 4
    assert not missed, "follow these imports (sources.py), or name them among the kernel's sources or parameters"
