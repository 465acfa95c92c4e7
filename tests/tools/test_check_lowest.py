"""The lower bounds that `make check-lowest` installs."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import check_lowest  # after the path is set


def table(name: str, *dependencies: str, **extras: list[str]) -> dict[str, Any]:
    project = {"name": name, "requires-python": ">=3.11", "dependencies": dependencies, "optional-dependencies": extras}
    return {"build-system": {"requires": ["hatchling>=1.27"]}, "project": project}


def test_every_bound_is_installed_as_it_is_stated():
    tables = [
        table("atled", "numpy>=2.0", "pluggy>=1.5", h5=["h5py>=3.11"], all=["atled[h5]"], dev=["ruff"]),
        table(
            "atled-mine",
            "atled>=0.1",
            "numpy>=2.0",
            "pyopencl>=2024.1",
            test=["pyopencl[pocl]>=2024.1; os_name == 'nt'"],
        ),
    ]
    wanted = ["h5py==3.11", "hatchling==1.27", "numpy==2.0", "pluggy==1.5", "pyopencl[pocl]==2024.1"]
    assert check_lowest.lowest(tables) == wanted
    assert check_lowest.oldest_python(tables) == "3.11"


@pytest.mark.parametrize(("dependency", "words"), [("numpy", "no lower bound"), ("numpy>=2.1", "two lower bounds")])
def test_a_package_without_one_bound_is_refused(dependency: str, words: str):
    with pytest.raises(check_lowest.BoundError, match=words):
        check_lowest.lowest([table("atled", "numpy>=2.0"), table("atled-mine", dependency)])


def test_our_distributions_state_a_bound_for_all_they_need():
    names = {
        text.partition("==")[0].partition("[")[0] for text in check_lowest.lowest(check_lowest.projects().values())
    }
    assert {"numpy", "numba", "llvmlite", "pluggy", "h5py", "protobuf", "pyopencl", "pytest"} <= names
