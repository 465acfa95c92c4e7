"""Installs the lowest version of everything that our distributions depend on, and runs the core of the suite on them.

`python tools/check_lowest.py [ARGUMENT OF PYTEST ...]` makes `.venv-lowest` with the oldest Python that is declared.
Each bound `>=` of the pyproject.toml files is installed as `==`; what those need in turn is as new as pip finds it.
Left out are the extra `dev`, whose tools the tests do not use, and runtimes of 0.5 GB and more.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(_ROOT / "benchmarks"))  # it finds interpreters

from peers import PeerMissingError, find_python  # noqa: E402  # after the path is set

_VENV = _ROOT / ".venv-lowest"
_LEFT_OUT = {"cuda12", "cuda13", "dev", "intel", "torch"}
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[\w,-]+\])?>=(?P<version>[\w.]+)\s*(;.*)?")

# Contexts, graphs, plans, files, and what the cpu backend asks of LLVM and numba: some minutes on two cores.
_CORE = (
    "tests/contexts",
    "tests/core/graph",
    "tests/core/files/nnp",
    "tests/core/demo",
    "tests/core/calling/test_cached_calls.py",
    "tests/core/arrays/test_memory.py",
    "tests/core/arrays/test_array.py",
    "tests/core/files/test_parameters.py",
    "tests/core/test_solvers.py",
    "tests/core/arrays/test_spares.py",
    "tests/plugins/cpu_numba/test_narrow_types.py",
    "tests/plugins/cpu_numba/test_pool.py",
    "tests/plugins/cpu_numba/test_ranges.py",
    "tests/plugins/cpu_numba/test_store.py",
)


class BoundError(ValueError):
    """A requirement without a lower bound, or two lower bounds of one package."""


def projects() -> dict[Path, Mapping[str, Any]]:
    """The parsed pyproject.toml of each distribution of this repository, by folder."""
    files = [_ROOT / "pyproject.toml", *sorted(_ROOT.glob("plugins/*/pyproject.toml"))]
    files += sorted(_ROOT.glob("examples/*/pyproject.toml"))
    return {file.parent: tomllib.loads(file.read_text("utf-8")) for file in files}


def oldest_python(tables: Iterable[Mapping[str, Any]]) -> str:
    """The oldest Python that all distributions declare, such as "3.11"."""
    declared = {table["project"]["requires-python"] for table in tables}
    if len(declared) != 1:
        raise BoundError(f"the distributions declare different Pythons: {', '.join(sorted(declared))}; give them one")
    (text,) = declared
    return str(text).removeprefix(">=")


def lowest(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """Requirements of pip for the lower bounds, sorted by name.

    BoundError: a requirement has none, or two distributions have different ones for one package.
    """
    known = list(tables)
    own = {table["project"]["name"] for table in known}
    found: dict[str, tuple[str, set[str]]] = {}
    for text in _requirements(known):
        if re.split(r"[\[>;]", text)[0] in own:
            continue
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            raise BoundError(f"the requirement {text!r} states no lower bound; write NAME>=VERSION")
        version, extras = found.setdefault(match["name"], (match["version"], set()))
        if version != match["version"]:
            raise BoundError(f"{match['name']} has two lower bounds, {version} and {match['version']}; give it one")
        extras.update(re.findall(r"[\w-]+", match["extras"] or ""))
    listed = {name: f"[{','.join(sorted(extras))}]" if extras else "" for name, (_, extras) in found.items()}
    return [f"{name}{listed[name]}=={version}" for name, (version, _) in sorted(found.items())]


def _requirements(tables: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for table in tables:
        yield from table["build-system"]["requires"]
        yield from table["project"]["dependencies"]
        for name, extra in table["project"].get("optional-dependencies", {}).items():
            if name not in _LEFT_OUT:
                yield from extra


def _make_environment() -> str:
    """The path of the environment's Python, with everything installed."""
    tables = projects()
    wanted = lowest(tables.values())
    python = _VENV / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        subprocess.run([find_python(oldest_python(tables.values())), "-m", "venv", str(_VENV)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    # `editables` is what hatchling asks for when it builds an editable install.
    subprocess.run([*pip, "editables", *wanted], check=True)
    folders = [argument for folder in tables for argument in ("-e", str(folder))]
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", *folders], check=True)
    print("lowest versions:", ", ".join(wanted), flush=True)
    return str(python)


def main() -> int:
    """Install and test; the exit status."""
    usage = "%(prog)s [-h] [ARGUMENT OF PYTEST ...]"
    parser = argparse.ArgumentParser(usage=usage, description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    _, given = parser.parse_known_args()
    try:
        python = _make_environment()
    except (BoundError, PeerMissingError) as error:
        print(f"check-lowest: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"check-lowest: {' '.join(error.cmd)} failed: see its message above", file=sys.stderr)
        return 1
    arguments = given or ["-q", *_CORE]
    return subprocess.run([python, "-m", "pytest", *arguments], cwd=_ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
