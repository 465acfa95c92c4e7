"""The errors of the cpu backend are at most what docs/accuracy.md states."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import accuracy  # after the path is set


@pytest.mark.parametrize("case", accuracy.SUMS, ids=lambda case: case.name)
def test_sums_are_as_exact_as_stated(case):
    for error, bound in zip(accuracy.sum_errors(case), (case.result, *case.gradients), strict=True):
        assert error <= bound


@pytest.mark.parametrize("case", accuracy.FUNCTIONS, ids=lambda case: case.name)
def test_functions_are_as_exact_as_stated(case):
    assert accuracy.function_error(case) <= case.ulp


def test_the_page_is_up_to_date():
    assert accuracy.PAGE.read_text("utf-8") == accuracy.page(), "run make generated"
