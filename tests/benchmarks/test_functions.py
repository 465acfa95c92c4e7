"""The benchmark of all functions: every one has a call that works, and gradients where it has some."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import functions as benchmark
from atled import functions as F
from atled.ops.elementwise import Elementwise
from atled.ops.spec import FUNCTIONS
from function_rows.calls import CALLS, ROWS
from function_rows.own_calls import call_of
from harness import chart
from harness.case import Row
from harness.rounds import Comparison, Outcome
from nnabla_signatures import SIGNATURES


def test_every_function_is_measured_and_compared_where_nnabla_has_it():
    rows = {row.name: row for row in benchmark.rows()}
    assert set(dir(F)) <= set(rows), "add the call of a composite to benchmarks/function_rows/calls.py"
    assert set(SIGNATURES) == set(CALLS), "calls.py has the calls that NNabla can make, too"
    assert {name for name in dir(F) if "nnabla" in rows[name].libraries} == set(CALLS)
    for name, spec in FUNCTIONS.items():
        if spec.no_gradient:
            assert f"{name}, with backward" not in rows


def test_a_function_without_a_call_is_named(monkeypatch, capsys):
    monkeypatch.delitem(CALLS, "lstm")  # made of others, so there are no samples
    assert "lstm" not in {row.name for row in benchmark.rows()}
    assert "not measured: lstm has no call" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name, spec in FUNCTIONS.items() if spec.module.startswith("atled.")])
def test_a_function_without_a_call_has_one_of_its_samples(name, monkeypatch):
    monkeypatch.delitem(CALLS, name, raising=False)
    call = call_of(name)
    rng = np.random.default_rng(0)
    inputs = [None if item is None else nn.NdArray.from_numpy_array(item.make(rng)) for item in call.inputs]
    with nn.context_scope(nn.Context(["reference:float"])):
        getattr(F, name)(*inputs, **call.arguments)
    assert not FUNCTIONS[name].no_gradient or not any(item.grad for item in call.inputs if item)
    if isinstance(FUNCTIONS[name], Elementwise):
        assert {item.make(rng).shape for item in call.inputs} == {ROWS}


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


@pytest.mark.parametrize("others", [range(100), [3], [99]])  # rows in one column alone, too
def test_many_rows_are_drawn_as_dots(tmp_path, others):
    found = Comparison(0.5, 0.4, 0.6, 0.0, True)
    outcomes = [
        Outcome(
            Row(f"row {i}", "m:f", ("ours", "peer", "other")),
            comparisons={"peer": found, "other": found} if i in others else {"peer": found},
        )
        for i in range(100)
    ]
    chart.draw_chart(tmp_path / "chart.png", outcomes, "title")
    assert (tmp_path / "chart.png").stat().st_size > 1000
