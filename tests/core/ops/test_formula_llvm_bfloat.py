"""Formulas on bfloat16 two by two: the results of float32 rounded once, wherever a row begins and ends."""

import ml_dtypes
import numpy as np
import pytest
from tests.core.ops.test_formula_llvm import CHAIN, Kernel, run

from atled.ops.formula import Program
from atled.ops.formula_layout import plan_layout
from atled.ops.formula_llvm import write_llvm

pytest.importorskip("llvmlite.binding", reason="llvmlite, which builds the kernels, is not installed")

# So many operations that the NaN of an attribute is looked for apart.
LIMITED = Program(
    ("x",), ("low", "high"), (("y", "minimum(maximum((x * 1.5 + 0.5) * x - 0.25 + x * x, low), high) * x - x"),)
)
NAN, INFINITE = float("nan"), float("inf")
LIMITS = [(-0.5, 2.0), (NAN, 1.0), (-1.0, NAN), (NAN, NAN), (-INFINITE, INFINITE), (-0.0, 0.0), (0.0, -0.0), (2.0, 1.0)]

SUM = Program(("x", "y"), (), (("z", "x + y"),))
SAME = Program(("x",), (), (("y", "x"),))
PROGRAMS = [
    *((LIMITED, limits) for limits in LIMITS),
    (CHAIN, (0.25, -1.5)),
    (SUM, ()),
    (Program(("x", "y"), ("a",), (("z", "where(x < y, x * a, exp(y))"),)), (0.75,)),
    (SAME, ()),
    (Program(("x",), (), (("y", "tanh(x)"), ("z", "abs(x) - 1"))), ()),
]


def any_numbers(rng, *shape):
    """Of all bits there are, infinities, NaN, denormals and both zeros among them, and of numbers around 1."""
    bits = rng.integers(0, 1 << 16, shape).astype(np.uint16).view(ml_dtypes.bfloat16)
    return np.where(rng.random(shape) < 0.5, bits, rng.standard_normal(shape).astype(ml_dtypes.bfloat16))


def same(found, expected):
    with np.errstate(over="ignore", invalid="ignore"):  # of signalling NaN, too
        expected = expected.astype(ml_dtypes.bfloat16)
        is_nan = np.isnan(expected)
        assert np.array_equal(np.isnan(found), is_nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~is_nan], expected.view(np.uint16)[~is_nan])


@pytest.mark.parametrize("limits", LIMITS)
def test_limits_are_those_of_float32_to_the_sign_of_zero(limits):
    x = any_numbers(np.random.default_rng(1), 1001)
    x[:4] = 0.0, -0.0, np.nan, np.inf
    (expected,) = run(LIMITED, [x.astype("f"), np.full(1001, 7, "f")], limits)
    (found,) = run(LIMITED, [x, np.full(1001, 7, ml_dtypes.bfloat16)], limits)
    same(found, expected)
    assert np.isnan(found).all() == np.isnan(limits).any()


@pytest.mark.parametrize("seed", range(8))
def test_results_are_those_of_float32_rounded_once(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        program, attributes = PROGRAMS[int(rng.integers(len(PROGRAMS)))]
        shape = (int(rng.integers(1, 4)), int(rng.integers(1, 70)))
        # Rows of their own, one for all, a number for each row, or one for all.
        kinds = [shape, shape[1:], (shape[0], 1), (1,)]
        shapes = [shape, *(kinds[int(rng.integers(4))] for _ in program.inputs[1:])]
        inputs = [any_numbers(rng, *s) for s in shapes]
        wide = [x.astype(np.float32) for x in inputs]
        parts = int(rng.integers(1, 4))
        outputs = [np.full(shape, 7, ml_dtypes.bfloat16) for _ in program.output_names]
        found = run(program, [*inputs, *outputs], attributes, parts=parts)
        expected = run(program, [*wide, *(y.astype("f") for y in outputs)], attributes)
        for y, single in zip(found, expected, strict=True):
            same(y, single)


def test_a_range_that_begins_within_a_pair_writes_nothing_else():
    rng, program = np.random.default_rng(3), SUM
    for shape in ((61,), (4, 9)):
        x, y = any_numbers(rng, *shape), any_numbers(rng, *shape[-1:])
        z = np.empty(shape, "f")
        run(program, [x.astype("f"), y.astype("f"), z])
        for _ in range(20):
            begin, end = sorted(rng.integers(0, x.size + 1, 2).tolist())
            target = np.full(shape, 7, ml_dtypes.bfloat16)
            plan = plan_layout(program, [shape, y.shape, shape], [x.dtype] * 3)
            words = plan.words.copy()
            for word, array in zip(plan.address_words, (x, y, target), strict=True):
                words[word] = array.ctypes.data
            assert Kernel.of(program, plan.layout, ranges=True).function(words.ctypes.data, begin, end) == 0
            expected = np.full(z.size, 7, "f")
            expected[begin:end] = z.reshape(-1)[begin:end]
            same(target.reshape(-1), expected)


def test_results_take_the_place_of_an_input():
    x = any_numbers(np.random.default_rng(4), 103)
    (expected,) = run(SAME, [x.astype("f"), np.empty(103, "f")])
    program = Program(("x",), (), (("y", "x + 1"),))
    (wide,) = run(program, [x.astype("f"), np.empty(103, "f")])
    same(x, expected)
    run(program, [x, x])
    same(x, wide)


def test_only_rows_of_bfloat16_alone_are_taken_by_pairs():
    program = SUM

    def text(*dtypes):
        return write_llvm(program, plan_layout(program, [(64,)] * 3, dtypes).layout, "kernel")

    assert "load i32" in text("bfloat16", "bfloat16", "bfloat16")
    assert "load i32" not in text("bfloat16", "float32", "bfloat16")
