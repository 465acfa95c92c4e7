"""Graphs that take their dtypes from their operands, against NumPy called directly: values and dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled_sim
from atled.array_desc import ArrayDesc
from atled.conformance.broken.shelf import PLUGIN
from atled.conformance.running import evaluate
from atled.errors import RefusedError
from atled.graph.nodes.dispatch import choose
from atled.graph.nodes.gradient import backpropagate
from atled.graph.nodes.ir import Graph, IRValue
from atled.ops.elementwise import whole_operand, with_numbers
from atled.ops.spec import SPECS
from atled_contexts import Context, register_plugin, unregister_plugin

DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)
CONTEXTS = ("reference:float", "cpu:float", "sim:float")

_BINARY: dict[str, Callable[..., Any]] = {
    "Add2": np.add,
    "Sub2": np.subtract,
    "Mul2": np.multiply,
    "Minimum2": np.minimum,
    "Maximum2": np.maximum,
}
_COMPARED: dict[str, Callable[..., Any]] = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "LogicalAnd": np.logical_and,
    "LogicalOr": np.logical_or,
    "LogicalXor": np.logical_xor,
}
_INEXACT: dict[str, Callable[..., Any]] = {"Exp": np.exp, "Tanh": np.tanh, "Div2": np.true_divide}
_REDUCED: dict[str, Callable[..., Any]] = {"Sum": np.sum, "Max": np.max, "Min": np.min}
_NUMBERS: tuple[int | float, ...] = (0, 1, 2, 3, 100, 0.5, -1.5, True)


class Traced:
    """A value of the graph with what NumPy has; is_exact: it was computed without rounding."""

    def __init__(self, value: IRValue, expected: np.ndarray, is_exact: bool) -> None:
        self.value = value
        self.expected = expected
        self.is_exact = is_exact


class Program:
    """Draws calls, makes them in the graph and does them in NumPy."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.draw = draw

    def __call__(self, graph: Graph, leaves: list[Traced], count: int) -> list[Traced]:
        known = list(leaves)
        for _ in range(count):
            made = self.call(graph, known)
            if made is not None:
                known.append(made)
        return known[len(leaves) :]

    def call(self, graph: Graph, known: list[Traced]) -> Traced | None:
        kind = self.draw(
            st.sampled_from(("binary", "binary", "compared", "number", "cast", "inexact", "reduced", "moved"))
        )
        x, other = (known[self.draw(st.integers(0, len(known) - 1))] for _ in range(2))
        with np.errstate(all="ignore"):
            try:
                return getattr(self, kind)(graph, x, other)
            except NotThere:
                return None

    def binary(self, graph: Graph, x: Traced, other: Traced) -> Traced:
        op = self.draw(st.sampled_from(sorted(_BINARY)))
        expected = _numpy(_BINARY[op], x.expected, other.expected)
        return Traced(graph.op(op, x.value, other.value), expected, _exact(expected, x, other))

    def compared(self, graph: Graph, x: Traced, other: Traced) -> Traced:
        if not (x.is_exact and other.is_exact) or {x.expected.dtype.name, other.expected.dtype.name} >= {
            "int64",
            "uint64",
        }:
            raise NotThere
        op = self.draw(st.sampled_from(sorted(_COMPARED)))
        return Traced(graph.op(op, x.value, other.value), _COMPARED[op](x.expected, other.expected), True)

    def number(self, graph: Graph, x: Traced, other: Traced) -> Traced:
        op = self.draw(st.sampled_from(sorted(_BINARY)))
        number = self.draw(st.sampled_from(_NUMBERS))
        position = self.draw(st.integers(0, 1))
        operands: list[Any] = [x.expected, x.expected]
        operands[position] = number
        expected = _numpy(_BINARY[op], *operands)
        spec = with_numbers(SPECS[op], {position: type(number)})
        return Traced(graph.op(spec.name, x.value, **{f"x{position}": number}), expected, _exact(expected, x))

    def cast(self, graph: Graph, x: Traced, other: Traced) -> Traced:
        dtype = np.dtype(self.draw(st.sampled_from(DTYPES)))
        if x.expected.dtype.kind == "f" and dtype.kind in "iub" and not _is_whole(x, dtype):
            raise NotThere  # not defined
        expected = x.expected.astype(dtype)
        return Traced(graph.op("Cast", x.value, dtype=dtype), expected, _exact(expected, x))

    def inexact(self, graph: Graph, x: Traced, other: Traced) -> Traced:
        op = self.draw(st.sampled_from(sorted(_INEXACT)))
        given = (x, other) if op == "Div2" else (x,)
        expected = _numpy(_INEXACT[op], *(item.expected for item in given))
        return Traced(graph.op(op, *(item.value for item in given)), expected, False)

    def reduced(self, graph: Graph, x: Traced, other: Traced) -> Traced:
        op = self.draw(st.sampled_from(sorted(_REDUCED)))
        if not x.expected.ndim:
            raise NotThere
        axis = self.draw(st.sampled_from((0, -1, None)))
        made = graph.op(op, x.value, axes=axis, keep_dims=True)
        expected = _REDUCED[op](x.expected, axis=axis, keepdims=True)
        return Traced(made[0] if isinstance(made, tuple) else made, expected, _exact(expected, x))

    def moved(self, graph: Graph, x: Traced, other: Traced) -> Traced:
        if not x.expected.ndim:
            raise NotThere
        backwards = {"start": (-1,), "stop": (-x.expected.shape[0] - 1,), "step": (-1,)}
        if x.expected.ndim == 1:
            return Traced(graph.op("Slice", x.value, **backwards), x.expected[::-1], x.is_exact)
        swapped = np.swapaxes(x.expected, 0, -1)
        axes = tuple(range(x.expected.ndim))
        y = graph.op("Transpose", x.value, axes=(axes[-1], *axes[1:-1], 0))
        y = graph.op("Concatenate", y, y, axis=0)
        y = graph.op("Transpose", y, axes=(axes[-1], *axes[1:-1], 0))
        doubled = np.swapaxes(np.concatenate([swapped, swapped]), 0, -1)
        start = (0,) * (len(axes) - 1) + (1,)
        stop = (*x.expected.shape[:-1], x.expected.shape[-1] + 1)
        return Traced(graph.op("Slice", y, start=start, stop=stop), doubled[..., 1 : stop[-1]], x.is_exact)


class NotThere(Exception):
    """NumPy does not define such a call."""


def _numpy(function: Callable[..., Any], *operands: Any) -> np.ndarray:
    try:
        return np.asarray(function(*operands))
    except (TypeError, OverflowError):
        raise NotThere from None


def _exact(result: np.ndarray, *operands: Traced) -> bool:
    """Whether nothing was rounded: whole numbers that any of the floats holds."""
    small = result.dtype.kind != "f" or bool((np.abs(result) <= 2.0**10).all())
    return small and all(item.is_exact for item in operands)


def _is_whole(x: Traced, dtype: np.dtype) -> bool:
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return x.is_exact and bool(((x.expected >= least) & (x.expected <= most)).all())


def _leaf(draw: Callable[..., Any], shape: tuple[int, ...]) -> np.ndarray:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu" and draw(st.booleans()):
        bounds = np.iinfo(dtype)
        return rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
    return rng.integers(0 if dtype.kind in "bu" else -3, 4, shape).astype(dtype)


@pytest.mark.parametrize("context", CONTEXTS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_graphs_of_mixed_dtypes_compute_as_numpy_does(context: str, data: st.DataObject) -> None:
    _check_graph(context, data)


def test_devices_that_compile_formulas_compute_as_numpy_does() -> None:
    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        _check_graph("sim:float", data)

    with atled_sim.compile_formulas():
        check()


def _check_graph(context: str, data: st.DataObject) -> None:
    """Draws leaves and calls, and compares all values that are asked for."""
    shapes = data.draw(st.sampled_from((((3, 5), (3, 5), (5,)), ((4,), (), (4,)), ((2, 1, 3), (2, 4, 1), (3,)))))
    arrays = [_leaf(data.draw, shape) for shape in shapes]
    count = data.draw(st.integers(1, 9))
    traced: list[Traced] = []

    def build(graph: Graph, values: list[IRValue | None]) -> list[IRValue]:
        leaves = [Traced(value, array, True) for value, array in zip(values, arrays, strict=True)]  # type: ignore[arg-type]  # all are there
        made = Program(data.draw)(graph, leaves, count)
        kept = data.draw(st.sets(st.integers(0, len(made) - 1), max_size=3)) if made else set()
        traced[:] = [made[position] for position in sorted({*kept, len(made) - 1})] if made else []
        return [item.value for item in traced]

    outcome = evaluate(build, arrays, Context(context, fallback="quiet"), by_operands=True)
    for item, found in zip(traced, outcome.results, strict=True):
        assert found.dtype == item.expected.dtype
        if item.is_exact or found.dtype.kind != "f":
            np.testing.assert_array_equal(found, item.expected)
        else:
            tolerance = 2e-2 if np.dtype(np.float16) in {array.dtype for array in arrays} else 1e-5
            np.testing.assert_allclose(found.astype(np.float64), item.expected.astype(np.float64), rtol=tolerance)


def _value(op: str, arrays: list[np.ndarray], context: str = "cpu:float", **attributes: Any) -> np.ndarray:
    def build(graph: Graph, values: list[IRValue | None]) -> list[IRValue]:
        return [graph.op(op, *values, **attributes)]

    return evaluate(build, arrays, Context(context, fallback="quiet"), by_operands=True).results[0]


@pytest.mark.parametrize("context", CONTEXTS)
def test_int64_is_exact_beyond_what_float64_holds(context: str) -> None:
    x = np.array([2**62 + 1, -(2**62) - 3, 2**53 + 1], np.int64)
    np.testing.assert_array_equal(_value("Add2", [x, x[::-1].copy()], context), x + x[::-1])
    np.testing.assert_array_equal(_value("Maximum2", [x, x - 1], context), x)
    np.testing.assert_array_equal(_value("Sum", [x], context), x.sum())
    np.testing.assert_array_equal(_value("Greater", [x, x - 1], context), [True] * 3)


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_choice_has_the_dtype_of_what_is_chosen(context: str) -> None:
    condition = np.array([0.5, 0.0, -0.25], np.float64)
    x, y = np.array([300, 2, 3], np.int16), np.array([1, 2, 200], np.uint8)
    found = _value("Where", [condition, x, y], context)
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, [300, 2, 3])


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("float16", "float16"), "half"),
        (("float16", "float32"), "float"),
        (("int32", "float32"), "double"),
        (("int8",) * 2, "float"),
    ],
)
def test_the_type_config_is_the_standard_one_of_the_dtype(dtypes: tuple[str, str], expected: str) -> None:
    descs = tuple(ArrayDesc((2,), dtype) for dtype in dtypes)
    call = choose(SPECS["Add2"], descs, {"inplace": False}, Context("cpu:float"), by_operands=True).call
    assert call.type_config == expected


def test_a_context_keeps_a_type_config_of_the_same_dtype() -> None:
    descs = (ArrayDesc((2, 2), np.float32),) * 2
    attributes = {"transpose_a": False, "transpose_b": False}
    call = choose(SPECS["BatchMatmul"], descs, attributes, Context("reference:tf32"), by_operands=True).call
    assert call.type_config == "tf32"


@pytest.mark.parametrize("op", ["Sub2", "Sign"])
def test_what_numpy_does_not_promote_is_refused_with_the_remedy(op: str) -> None:
    arrays = [np.array([True])] * len(SPECS[op].inputs)
    with pytest.raises(RefusedError, match=r"no promotion of bool(.|\n)*cast one of them first"):
        _value(op, arrays)


def test_type_configs_mean_what_they_mean() -> None:
    x = np.array([3, 4], np.int32)

    def build(graph: Graph, values: list[IRValue | None]) -> list[IRValue]:
        return [graph.op("Add2", *values), graph.op("Greater", *values), graph.op("Sum", values[0])]

    outcome = evaluate(build, [x, x[:1]], Context("cpu:float"))
    assert [result.dtype.name for result in outcome.results] == ["float32"] * 3


def test_implementations_that_do_not_say_so_are_not_asked_about_integers() -> None:
    decision = choose(
        SPECS["Mean"], (ArrayDesc((2,), np.int8),), {"axes": (0,), "keep_dims": False}, Context("cpu"), by_operands=True
    )
    assert decision.implementation.note == "kernel"  # of float64, which the mean of integers is
    decision = choose(
        SPECS["Max"], (ArrayDesc((2,), np.int8),), {"axes": (0,), "keep_dims": False}, Context("cpu"), by_operands=True
    )
    assert "it computes floating-point numbers only" in {candidate.reason for candidate in decision.candidates}


@pytest.mark.parametrize("number", [3, 0.5])
def test_gradients_flow_past_numbers(number: float) -> None:
    x = np.array([1.0, -2.0], np.float32)
    gy = np.array([1.0, 2.0], np.float32)
    spec = with_numbers(SPECS["Pow2"], {1: type(number)}) if number == 3 else with_numbers(SPECS["Mul2"], {1: float})

    def build(graph: Graph, values: list[IRValue | None]) -> list[IRValue]:
        made, seed = values
        assert made is not None and seed is not None
        y = graph.op(spec.name, made, x1=number)
        return [backpropagate(graph, list(graph.nodes), {y: seed}, [made])[made]]

    (found,) = evaluate(build, [x, gy], Context("cpu:float"), by_operands=True).results
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, gy * (3 * x**2 if number == 3 else number), rtol=1e-6)


def test_numbers_take_the_place_of_inputs_of_elementwise_ops_only() -> None:
    for spec, positions in ((SPECS["Sum"], {0: int}), (SPECS["Add2"], {0: int, 1: int}), (SPECS["Add2"], {2: int})):
        with pytest.raises(ValueError, match="only elementwise ops can have numbers"):
            with_numbers(spec, positions)


def test_an_int_that_no_float_holds_becomes_an_array() -> None:
    assert whole_operand(7, np.dtype(np.uint8)) == 7.0
    large = whole_operand(2**53 + 1, np.dtype(np.int64))
    assert isinstance(large, np.ndarray) and large.dtype == np.int64 and large == 2**53 + 1
    with pytest.raises(OverflowError, match="uint8 holds 0 to 255"):
        whole_operand(256, np.dtype(np.uint8))


def test_a_backend_without_the_type_config_of_a_dtype_gives_way() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    descs = (ArrayDesc((2,), ml_dtypes.bfloat16),) * 2
    register_plugin("shelf", PLUGIN)
    try:
        context = Context(["shelf:float", "reference:float"], fallback="quiet")
        decision = choose(SPECS["Add2"], descs, {"inplace": False}, context, by_operands=True)
    finally:
        unregister_plugin("shelf")
    assert (decision.backend, decision.fallback) == ("reference", True)
    assert decision.candidates[0].reason == "backend 'shelf' offers no 'bf16'"


def test_gradients_stop_at_integers_and_come_back_in_the_dtype_of_their_value() -> None:
    x, n = np.array([1.5, -2.0, 3.0], np.float32), np.array([2, 3, 4], np.int32)
    seed = np.array([1.0, 10.0, 100.0], np.float64)

    def build(graph: Graph, values: list[IRValue | None]) -> list[IRValue]:
        a, count, gy = values
        assert a is not None and gy is not None
        mask = graph.op("Greater", a, graph.op("Floor", a))
        y = graph.op("Where", graph.op("LogicalNot", mask), graph.op("Mul2", a, count), graph.op("Mul2", mask, a))
        return [backpropagate(graph, list(graph.nodes), {y: gy}, [a])[a]]

    (found,) = evaluate(build, [x, n, seed], Context("cpu:float"), by_operands=True).results
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [1.0, 30.0, 400.0])


@pytest.mark.parametrize("context", CONTEXTS)
def test_integers_are_assigned_as_they_are(context: str) -> None:
    x, target = np.array([2**62 + 1, -(2**53) - 1], np.int64), np.zeros((3, 2), np.int64)

    def build(graph: Graph, values: list[IRValue | None]) -> list[IRValue]:
        return [graph.op("Assign", *values)]

    outcome = evaluate(build, [target, x], Context(context), by_operands=True)
    np.testing.assert_array_equal(outcome.results[0], np.broadcast_to(x, (3, 2)))


@pytest.mark.parametrize("by_operands", [True, False])
def test_fused_copies_keep_integers(by_operands: bool) -> None:
    x = np.array([2**62 + 1, -(2**53) - 1], np.int64)

    def build(graph: Graph, values: list[IRValue | None]) -> list[IRValue]:
        return [graph.op("Identity", graph.op("Identity", values[0]))]

    outcome = evaluate(build, [x], Context("cpu:float"), by_operands=by_operands)
    assert len(outcome.plan.steps) == 1
    np.testing.assert_array_equal(outcome.results[0], x)
