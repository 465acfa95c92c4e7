"""Random descriptions on views of arrays, of mixed dtypes, with loops: as NumPy computes them."""

import sys
from pathlib import Path

import pytest

from atled_contexts import Context

sys.path.append(str(Path(__file__).parents[3] / "tools"))
fuzz_descriptions = pytest.importorskip("fuzz_descriptions", reason="the tools are in the repository alone")


@pytest.mark.parametrize("number", [*range(12), 91])
def test_a_random_description_gives_what_numpy_gives(number):
    fuzz_descriptions.check(2, number, Context(["cuda:float", "reference:float"], fallback="quiet"))
