"""The imports between the modules of a checkout or a revision, read as text: nothing of it is imported."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

# The source roots, and which packages in them are measured; the rest of a path is the module's name.
_MODULE = re.compile(r"(?:core/(?=atled/)|contexts/(?=atled_contexts/)|plugins/[^/]+/src/)(.+)\.py")
_ROOTS = ("core/atled", "contexts/atled_contexts", "plugins")

# When an import is executed: as its module is imported, never (under `if TYPE_CHECKING:`), or as a function is called.
AT_IMPORT, TYPING, IN_CALL = "import", "typing", "call"


class Import(NamedTuple):
    """One import of a module of the project by another, with the private names that it takes from it."""

    path: str
    line: int
    source: str
    target: str
    when: str
    private: tuple[str, ...]


def read_checkout(root: Path) -> Code:
    """The code below `root`, by paths relative to it."""
    paths = (path for folder in _ROOTS for path in sorted((root / folder).rglob("*.py")))
    named = ((path.relative_to(root).as_posix(), path) for path in paths)
    return Code({name: path.read_bytes() for name, path in named if _MODULE.fullmatch(name)})


def read_revision(root: Path, revision: str) -> Code:
    """The same of a revision of the git repository at `root`; nothing is checked out.

    Raises:
        ValueError: git has no such revision, or it has none of the packages.
    """
    command = ["git", "-C", str(root), "archive", "--format=tar", revision, "--", *_ROOTS]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise ValueError(f"git cannot read revision {revision}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        files = (member for member in archive if member.isfile() and _MODULE.fullmatch(member.name))
        return Code({file.name: archive.extractfile(file).read() for file in files})


class Code:
    """Python files of the packages that are measured, by path.

    Raises:
        ValueError: a path that is in none of them.
    """

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._sources = sources
        self.modules = {_module(path): path for path in sources}

    @cached_property
    def imports(self) -> list[Import]:
        """The imports of these modules by others of them, in the order of paths and lines.

        `from package import module` is an import of the module. Names that a package passes on are imports of the
        package; that a module's parent packages are executed before it counts as nothing.
        """
        return [
            found
            for module, path in self.modules.items()
            for found in _imports(module, path, self._sources[path], self.modules)
        ]


def _module(path: str) -> str:
    match = _MODULE.fullmatch(path)
    if match is None:
        raise ValueError(f"{path} is in none of the packages that are measured: {', '.join(_ROOTS)}")
    return match[1].replace("/", ".").removesuffix(".__init__")


def _imports(module: str, path: str, text: bytes, modules: Mapping[str, str]) -> Iterator[Import]:
    package = module if path.endswith("/__init__.py") else module.rpartition(".")[0]
    for node, when in _import_statements(ast.parse(text, path).body, AT_IMPORT):
        for target, names in _targets(node, package, modules):
            if target in modules:
                yield Import(path, node.lineno, module, target, when, tuple(filter(_is_private, names)))


def _targets(
    node: ast.Import | ast.ImportFrom, package: str, modules: Mapping[str, str]
) -> Iterator[tuple[str, list[str]]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, []) for alias in node.names)
        return
    base = _absolute(node, package)
    names = [alias.name for alias in node.names]
    submodules = [name for name in names if f"{base}.{name}" in modules]
    yield from ((f"{base}.{name}", []) for name in submodules)
    if len(submodules) < len(names):
        yield base, [name for name in names if name not in submodules]


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])


def _import_statements(body: Iterable[ast.AST], when: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, when
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _import_statements(node.body, IN_CALL if when == AT_IMPORT else when)
        elif isinstance(node, ast.If):
            then, otherwise = _branches(node.test, when)
            yield from _import_statements(node.body, then)
            yield from _import_statements(node.orelse, otherwise)
        else:
            for field in ("body", "orelse", "handlers", "finalbody", "cases"):
                nested = getattr(node, field, ())
                # The body of a lambda is an expression; statements come in lists.
                yield from _import_statements(nested if isinstance(nested, list) else (), when)


def _branches(test: ast.expr, when: str) -> tuple[str, str]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        otherwise, then = _branches(test.operand, when)
        return then, otherwise
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return (TYPING, when) if name == "TYPE_CHECKING" else (when, when)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
