"""The benchmark of all functions: every one has a call that works, and gradients where it has some."""

from __future__ import annotations

import numpy as np
import pytest

import functions as benchmark
from atled import functions as F
from atled.ops.spec import FUNCTIONS
from function_rows.calls import CALLS
from harness import chart
from harness.case import Row
from harness.rounds import Comparison, Outcome


def test_every_function_is_measured():
    assert sorted(CALLS) == sorted(dir(F)), "add the call of a new function to benchmarks/function_rows/calls.py"
    names = {row.name for row in benchmark.rows()}
    assert set(CALLS) <= names
    for name, spec in FUNCTIONS.items():
        if spec.no_gradient:
            assert f"{name}, with backward" not in names


def test_a_function_without_a_call_is_named(monkeypatch, capsys):
    monkeypatch.delitem(CALLS, "tanh")
    assert "tanh" not in {row.name for row in benchmark.rows()}
    assert "not measured: tanh has no call" in capsys.readouterr().err


@pytest.mark.parametrize("backward", [False, True])
def test_a_case_computes_and_names_who_did(backward):
    from atled_contexts import reset_default_context
    from function_rows.timing import function_case

    try:
        case = function_case("atled", "split", backward=backward)
        reference = function_case("reference", "split", backward=backward)
    finally:
        reset_default_context()
    case.run()
    assert "Split: kernel" in case.note
    found, expected = case.results(), reference.results()
    assert len(found) == (5 if backward else 4)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_many_rows_are_drawn_as_dots(tmp_path):
    outcomes = [
        Outcome(Row(f"row {i}", "m:f", ("ours", "peer")), comparisons={"peer": Comparison(0.5, 0.4, 0.6, 0.0, True)})
        for i in range(100)
    ]
    chart.draw_chart(tmp_path / "chart.png", outcomes, "title")
    assert (tmp_path / "chart.png").stat().st_size > 1000
