"""Outcomes by probabilities: rows that do not add up to 1, and order."""

import numpy as np
import pytest

from atled.ops import outcomes  # noqa: F401  # registers the specs
from atled.ops.spec import SPECS

INT = np.dtype(np.int64)


def counts(pvals, unis):
    return SPECS["MultinomialCounts"].reference(np.array(pvals), np.array(unis), dtype=INT).tolist()


def choice(p, unis):
    return SPECS["ChoiceIndices"].reference(np.array(p), np.array(unis), dtype=INT).tolist()


def test_an_outcome_is_the_first_whose_running_sum_exceeds_the_number():
    assert counts([[0.25, 0.25, 0.5]], [0.0, 0.2499, 0.25, 0.4999, 0.5, 0.9999]) == [[2, 2, 2]]


def test_draws_of_one_row_are_as_far_apart_as_there_are_rows():
    assert counts([[0.5, 0.5], [0.5, 0.5]], [0.1, 0.9, 0.2, 0.8]) == [[2, 0], [0, 2]]


def test_what_a_row_lacks_is_not_counted():
    assert counts([[0.25, 0.25]], [0.4, 0.6, 0.9]) == [[0, 1]]


def test_a_choice_divides_what_is_left():
    # Behind outcome 2 there are 1/3 and 2/3.
    assert choice([[0.2, 0.4, 0.4]], [0.7, 0.34, 0.0]) == [[2, 1, 0]]


def test_where_nothing_is_left_there_is_minus_one():
    assert choice([[1.0, 0.0, 0.0]], [0.5, 0.5, 0.5]) == [[0, -1, -1]]


@pytest.mark.parametrize("op", ["MultinomialCounts", "ChoiceIndices"])
def test_probabilities_are_not_changed(op):
    p = np.array([[0.25, 0.75]])
    SPECS[op].reference(p, np.array([0.5]), dtype=INT)
    np.testing.assert_array_equal(p, [[0.25, 0.75]])
