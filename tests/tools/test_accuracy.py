"""The errors of the cpu backend are what docs/accuracy.md states, neither more nor far less."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import accuracy  # after the path is set

# A bound that no machine comes near says nothing.
CAUTION = 30


@pytest.mark.parametrize("case", accuracy.SUMS, ids=lambda case: case.name)
def test_sums_are_as_exact_as_stated(case):
    for error, bound in zip(accuracy.sum_errors(case), (case.result, *case.gradients), strict=True):
        assert bound / CAUTION < error <= bound


@pytest.mark.parametrize("case", accuracy.FUNCTIONS, ids=lambda case: case.name)
def test_functions_are_as_exact_as_stated(case):
    assert case.ulp / CAUTION < accuracy.function_error(case) <= case.ulp


def test_the_page_is_up_to_date():
    assert accuracy.PAGE.read_text("utf-8") == accuracy.page(), "run make generated"
