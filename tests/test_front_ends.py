"""Front ends stand on the engine: what they import, and that nothing of the core imports them."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))

from structure.imports import read_checkout  # after the path is set

ROOT = Path(__file__).parents[1]
FRONT_ENDS = ("atled.neon", "atled.keras_backend")
FOLDERS = ("atled.ops", "atled.calling", "atled.graph.forward", "atled.graph.backward")
"""Of the core's folders, what a front end may import; and all files at its root but NNabla's functions."""
NOT = {
    "functions",
    "parametric_functions",
    "solvers",
    "initializer",
    "parameter",
    "function",
    "compiled_step",
    "__main__",
}


def within(module, package):
    return module == package or module.startswith(f"{package}.")


@pytest.fixture(scope="module")
def lines():
    return read_checkout(ROOT).imports


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_a_front_end_imports_the_faces_of_the_core_and_its_ops(lines, front_end):
    for line in lines:
        if within(line.source, front_end) and not within(line.target, front_end):
            package, _, rest = line.target.partition(".")
            is_face = package == "atled" and "." not in rest and rest not in NOT
            allowed = is_face or package == "atled_contexts" or any(within(line.target, each) for each in FOLDERS)
            assert allowed and (package != "atled" or (ROOT / f"core/atled/{rest}.py").exists() or "." in rest), line


@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_nothing_else_of_the_core_imports_a_front_end(lines, front_end):
    assert [line for line in lines if within(line.target, front_end) and not within(line.source, front_end)] == []
