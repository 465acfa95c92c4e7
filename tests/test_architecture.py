"""docs/architecture.md names every room, and its trips through the code are those that its lines take."""

import ast
import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from structure.imports import read_checkout  # after the path is set
from structure.rooms import HALLS, Hall

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
TRIPS = PAGE[PAGE.index("\n## From `F.convolution") : PAGE.index("\n## Mechanisms")]
STOP = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
CODE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CPU = "plugins/cpu_numba/src/atled_cpu_numba/"

# Runs the sections of the trips; prints, per section, the functions of the checkout in the order of their first calls,
# and what it printed.
_TRACED = """
import contextlib, inspect, io, json, sys

from atled.graph.compile import plans

plans.MAY_BE_IN_PARTS = False  # what is shown does not depend on the kernels that were compiled before

sections, root = json.loads(sys.argv[1]), sys.argv[2]
namespace, found = {}, []

def note(frame, event, _):
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED  # not the body of a class, of a module imported on the way
    if event == "call" and is_function and code.co_filename.startswith(root):
        called.setdefault((code.co_filename[len(root):], code.co_qualname))

for section in sections:
    called = {}
    code = compile(section, "docs/architecture.md", "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        sys.setprofile(note)
        try:
            exec(code, namespace)
        finally:
            sys.setprofile(None)
    found.append((list(called), printed.getvalue()))
print(json.dumps(found))
"""


def room_paths():
    """The paths of all rooms, folders with a slash at their end."""
    code = read_checkout(ROOT)
    for hall in HALLS:
        for room in Hall(hall, code).rooms:
            if room == "atled_contexts":
                yield "contexts/atled_contexts/"
            elif room.startswith("plugins/"):
                (package,) = ROOT.glob(f"plugins/*/src/{room.removeprefix('plugins/')}")
                yield f"plugins/{package.parents[1].name}/"
            else:
                path = ("core/atled/" if hall == "core" else "core/atled/graph/") + room
                yield f"{path}/" if (ROOT / path).is_dir() else f"{path}.py"


def file_of(path):
    """The path in the checkout of a file that the page names in short."""
    if path.startswith("cpu/"):
        return CPU + path.removeprefix("cpu/")
    return path if path.startswith("contexts/") else f"core/atled/{path}"


def test_the_tables_of_rooms_have_every_room_and_no_other():
    rooms = PAGE[PAGE.index("\n## Rooms") : PAGE.index("\n## Words")]
    tables = re.findall(r"^\| (?:room|in `([^`]+)`) \|.*\n\|[-|]+\n((?:\|.*\n)+)", rooms, re.MULTILINE)
    listed = [folder + name for folder, rows in tables for name in re.findall(r"^\| `([^`]+)` \|", rows, re.MULTILINE)]
    assert sorted(path for path in listed if not path.startswith(CPU)) == sorted(room_paths())
    assert [path for path in listed if not (ROOT / path).exists()] == []


def test_every_word_is_there_once_and_each_group_is_in_order():
    tables = PAGE[PAGE.index("\n## Words") : PAGE.index("\n## From")].split("\n### ")[1:]
    groups = [re.findall(r"^\| ([\w -]+) \| (?!meaning)", table, re.MULTILINE) for table in tables]
    assert groups == [sorted(group) for group in groups]
    assert [len(group) for group in groups] == [table.count("\n| ") - 1 for table in tables]
    words = [word for group in groups for word in group]
    assert len(words) == len(set(words))


def test_files_that_the_page_names_in_short_exist():
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)[:`]", PAGE[PAGE.index("\n## From") :]))
    beside = {path.name for path in (ROOT / CPU).rglob("*.py")}  # named beside another file of the plugin
    assert [path for path in sorted(named - beside) if not (ROOT / file_of(path)).is_file()] == []


def names_of(file):
    """The qualified names of the functions and classes in a file."""

    def walk(node, before):
        for item in ast.iter_child_nodes(node):
            inner = before
            if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{before}{item.name}."
                yield inner[:-1]
            yield from walk(item, inner)

    return set(walk(ast.parse((ROOT / file).read_text("utf-8")), ""))


@pytest.mark.parametrize("file", sorted({file for file, _ in STOP.findall(PAGE)}))
def test_functions_that_the_page_names_are_in_their_files(file):
    assert {name for found, name in STOP.findall(PAGE) if found == file} - names_of(file_of(file)) == set()


def blocks(text, language):
    """The blocks of code in one language, joined."""
    return "\n".join(code for found, code in CODE.findall(text) if found == language)


def test_the_trips_are_those_that_their_lines_take(tmp_path):
    """Each stop is called, and called first, where the page has it; what is printed is what the page shows."""
    pytest.importorskip("atled_cpu_numba")
    sections = re.split(r"^##+ (.*)$", TRIPS, flags=re.MULTILINE)[1:]
    titles, texts = sections[::2], sections[1::2]
    code = [blocks(text, "python") for text in texts]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("ATLED_")}
    if "ATLED_CACHE_DIR" in os.environ:
        environment["ATLED_CACHE_DIR"] = os.environ["ATLED_CACHE_DIR"]
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", _TRACED, json.dumps(code), f"{ROOT}{os.sep}"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for title, text, (called, printed) in zip(titles, texts, json.loads(done.stdout), strict=True):
        stops = re.findall(r"^\d+\. `([\w/]+\.py): ([\w.]+)`", CODE.sub("", text), re.MULTILINE)
        positions = [first_call(called, file_of(file), name) for file, name in stops]
        missing = [stop for stop, position in zip(stops, positions, strict=True) if position < 0]
        assert missing == [], f"{title}: not called"
        order = [stop for _, stop in sorted(zip(positions, stops, strict=True))]
        assert order == stops, f"{title}: first called in another order"
        assert doctest.OutputChecker().check_output(blocks(text, "text"), printed, flags), f"{title}: prints\n{printed}"


def first_call(called, file, name):
    """The place of the first call of a function, or of any of a class; -1 where there is none."""
    places = (
        place
        for place, (found, qualified) in enumerate(called)
        if found == file and f"{qualified}.".startswith(f"{name}.")
    )
    return next(places, -1)
