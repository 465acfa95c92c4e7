"""The benchmark of all functions: every one has a call that works, and gradients where it has some."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import functions as benchmark
from atled import functions as F
from atled.ops.elementwise import Elementwise
from atled.ops.spec import FUNCTIONS
from function_rows.calls import CALLS, LARGE, SMALL_CALLS
from function_rows.layouts import LAYOUTS
from function_rows.own_calls import call_of
from function_rows.torch_calls import FORWARD_ONLY, TORCH_CALLS, WITHOUT_TORCH
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


def test_every_function_is_compared_with_torch_or_says_why_not():
    decided = set(TORCH_CALLS) | set(WITHOUT_TORCH)
    assert set(SIGNATURES) <= decided <= set(dir(F)), "a function of NNabla's has a call of torch's, or a reason"
    assert not set(TORCH_CALLS) & set(WITHOUT_TORCH)
    rows = {row.name: row for row in benchmark.rows()}
    assert {name for name in dir(F) if "torch" in rows[name].libraries} == set(TORCH_CALLS)
    assert "torch" not in rows["ceil, with backward"].libraries
    assert set(FORWARD_ONLY) <= set(TORCH_CALLS)


def test_every_function_is_called_with_few_elements_too():
    rows = {row.name for row in benchmark.rows()}
    assert set(SMALL_CALLS) == set(CALLS)
    assert {f"{name}, small" for name in CALLS} <= rows
    assert "sum, axis 1 of 3, with backward" in rows


@pytest.mark.parametrize("name", list(SMALL_CALLS))
def test_small_calls_are_computed(name):
    call = SMALL_CALLS[name]
    rng = np.random.default_rng(0)
    inputs = [None if item is None else nn.NdArray.from_numpy_array(item.make(rng)) for item in call.inputs]
    with nn.context_scope(nn.Context(["reference:float"])):
        getattr(F, name)(*inputs, **call.arguments)


@pytest.mark.parametrize(("name", "layout"), [(name, layout) for name, calls in LAYOUTS.items() for layout in calls])
def test_layouts_have_about_a_million_elements(name, layout):
    inputs = [item.make(np.random.default_rng(0)) for item in LAYOUTS[name][layout].inputs if item is not None]
    assert name in FUNCTIONS or name == "clip_by_value" or name == "clip_by_norm"
    assert max(array.size for array in inputs) <= 2 << 20


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
        assert {item.make(rng).shape for item in call.inputs} == {LARGE.rows}


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


def test_a_small_call_is_made_anew_each_time():
    from atled_contexts import reset_default_context
    from function_rows.timing import function_case

    try:
        case = function_case("atled", "sigmoid", backward=True, layout="small")
        case.run()
    finally:
        reset_default_context()
        nn.set_auto_forward(False)
    y, gx = case.results()
    assert y.shape == gx.shape == (8, 128)
    assert np.abs(gx).max() > 0


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
