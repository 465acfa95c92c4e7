"""docs/architecture.md names every room, and its trips through the code are those that its lines take."""

import ast
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

# Runs the sections of the trips; prints, per section, the functions of the checkout in the order of their first calls.
_TRACED = """
import json, sys

sections, root = json.loads(sys.argv[1]), sys.argv[2]
namespace, found = {}, []

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root):
        called.setdefault((code.co_filename[len(root):], code.co_qualname))

for section in sections:
    called = {}
    code = compile(section, "docs/architecture.md", "exec")
    sys.setprofile(note)
    try:
        exec(code, namespace)
    finally:
        sys.setprofile(None)
    found.append(list(called))
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


def test_the_table_of_rooms_has_every_room_and_no_other():
    rooms = PAGE[PAGE.index("\n## Rooms") : PAGE.index("\n## Words")]
    assert sorted(re.findall(r"^\| `([^`]+)` \|", rooms, re.MULTILINE)) == sorted(room_paths())


def test_every_word_is_there_once_and_in_order():
    table = PAGE[PAGE.index("\n## Words") : PAGE.index("\n## From")]
    words = re.findall(r"^\| ([\w -]+) \| (?!meaning)", table, re.MULTILINE)
    assert words == sorted(set(words))
    assert len(words) == table.count("\n| ") - 1


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
    assert (ROOT / file).is_file()
    assert {name for found, name in STOP.findall(PAGE) if found == file} - names_of(file) == set()


def test_the_trips_are_those_that_their_lines_take(tmp_path):
    """Each stop is called, and called first, where the page has it."""
    pytest.importorskip("atled_cpu_numba")
    sections = re.split(r"^##+ (.*)$", TRIPS, flags=re.MULTILINE)[1:]
    titles, texts = sections[::2], sections[1::2]
    code = ["\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)) for text in texts]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("ATLED_")}
    if "ATLED_CACHE_DIR" in os.environ:
        environment["ATLED_CACHE_DIR"] = os.environ["ATLED_CACHE_DIR"]
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", _TRACED, json.dumps(code), f"{ROOT}{os.sep}"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for title, text, called in zip(titles, texts, json.loads(done.stdout), strict=True):
        lists = re.split(r"^```$", text, flags=re.MULTILINE)[-1]  # what stands below the lines
        stops = re.findall(r"^\d+\. `([\w/]+\.py): ([\w.]+)`", lists, re.MULTILINE)
        positions = [first_call(called, *stop) for stop in stops]
        missing = [stop for stop, position in zip(stops, positions, strict=True) if position < 0]
        assert missing == [], f"{title}: not called"
        order = [stop for _, stop in sorted(zip(positions, stops, strict=True))]
        assert order == stops, f"{title}: first called in another order"


def first_call(called, file, name):
    """The place of the first call of a function, or of any of a class; -1 where there is none."""
    places = (
        place
        for place, (found, qualified) in enumerate(called)
        if found == file and f"{qualified}.".startswith(f"{name}.")
    )
    return next(places, -1)
