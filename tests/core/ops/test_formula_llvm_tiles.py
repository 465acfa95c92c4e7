"""Formulas on operands with strides: kernels compiled by llvmlite against NumPy on the same views."""

import numpy as np
import pytest
from tests.core.ops.test_formula_llvm import Kernel

from atled.ops.formula import Program
from atled.ops.formula_layout import STRIDED, Layout, plan_layout
from atled.ops.formula_llvm import write_llvm

pytest.importorskip("llvmlite.binding", reason="llvmlite, which builds the kernels, is not installed")

SUM = Program(("a", "b"), ("alpha",), (("y", "a + b * alpha"),))
SHAPES = [(5, 7), (70, 150), (3, 40, 17), (1, 9), (1000,), (2, 3, 4, 5), (0, 4), (16, 16), (300, 2), (2, 5000), ()]


def element_strides(array):
    return tuple(stride // array.itemsize for stride in array.strides)


def run(program, arrays, attributes=(), *, parts=1, **options):
    """Computes into the last arrays, share by share in reverse order."""
    strides = [element_strides(array) for array in arrays]
    plan = plan_layout(program, [a.shape for a in arrays], [a.dtype for a in arrays], None, strides)
    words = plan.words.copy()
    for word, array in zip(plan.address_words, arrays, strict=True):
        words[word] = array.ctypes.data
    for attribute, value in zip(program.attributes, attributes, strict=True):
        words[plan.attribute_words[attribute]] = np.float64(value).view(np.int64)
    kernel = Kernel.of(program, plan.layout, **options)
    for part in reversed(range(parts)):
        assert kernel.function(words.ctypes.data, part, parts) == 0
    return plan


def random_view(shape, kind, random):
    """Shape of a base, and what takes a view of this shape out of it."""
    order = random.permutation(len(shape)) if kind != "plain" else np.arange(len(shape))
    steps = [int(random.choice([1, 2, -1, 3])) if kind == "steps" else 1 for _ in shape]
    reach = [size * abs(step) for size, step in zip(shape, steps, strict=True)]

    def take(base):
        stepped = base.transpose(np.argsort(order))[tuple(slice(None, None, step) for step in steps)]
        return stepped[(*(slice(size) for size in shape), ...)]

    return [reach[axis] for axis in order], take


@pytest.mark.parametrize(("dtype", "masks"), [("float16", True), ("float32", False), ("float64", True)])
def test_views_are_read_and_written_in_place(dtype, masks):
    random = np.random.default_rng(3)
    for number in range(33):
        shape = SHAPES[number % len(SHAPES)]
        kinds = random.choice(["plain", "turned", "steps"], 3)
        views = [random_view(shape, kind, random) for kind in kinds]
        bases = [random.integers(-32, 32, reach).astype(dtype) for reach, _ in views]
        a, b, y = (take(base) for base, (_, take) in zip(bases, views, strict=True))
        expected = bases[2].copy()
        views[2][1](expected)[...] = a + b * 0.5
        run(SUM, [a, b, y], (0.5,), parts=int(random.integers(1, 4)), masks=masks)
        np.testing.assert_array_equal(bases[2], expected, err_msg=f"{shape} {kinds}")


def test_bytes_are_copied_too():
    random = np.random.default_rng(5)
    x = random.integers(0, 2, (40, 70)).astype(bool)
    copy, y = Program(("x",), (), (("y", "x"),)), np.zeros((40, 35), np.float32)
    run(copy, [x[:, ::2], y], masks=True)
    np.testing.assert_array_equal(y, x[:, ::2])
    z = np.zeros((70, 40), np.float32)
    run(copy, [x.T, z])
    np.testing.assert_array_equal(z, x.T)


def test_an_output_may_be_the_same_view_as_an_input():
    base = np.arange(70 * 50, dtype=np.float32).reshape(70, 50)
    expected = base.copy()
    expected.T[::2] = expected.T[::2] * 2 + 1
    run(Program(("x",), (), (("x", "x * 2 + 1"),)), [base.T[::2], base.T[::2]])
    np.testing.assert_array_equal(base, expected)


def test_large_angles_and_rows_that_are_the_same_are_found_in_tiles():
    x = np.linspace(-3e6, 3e6, 66 * 40, dtype=np.float32).reshape(40, 66)
    b = np.arange(66, dtype=np.float32)[:, None][::-1]
    y = np.zeros((66, 40), np.float32)
    run(Program(("x", "b"), (), (("y", "sin(x) + b"),)), [x.T, np.broadcast_to(b, y.shape), y])
    np.testing.assert_allclose(y, np.sin(x.T.astype(np.float64)) + b, atol=1e-5)


def test_axes_are_walked_through_as_most_of_the_operands_lie():
    def layout(*arrays):
        strides = [element_strides(array) for array in arrays]
        plan = plan_layout(SUM, [a.shape for a in arrays], [a.dtype for a in arrays], None, strides)
        return plan.layout.rank, plan.layout.inner_strides, plan.layout.in_order

    x = np.zeros((70, 50), np.float32)
    assert layout(x.T, x.T, x.T) == (0, (1, 1, 1), False)
    assert layout(x, x, x) == (0, (1, 1, 1), True)
    assert layout(x[:, :30], x[:, 20:], x[:, 10:40]) == (1, (1, 1, 1), True)
    assert layout(x, x, np.zeros((50, 70), np.float32).T) == (1, (1, 1, STRIDED), False)
    assert layout(x[::2], x[1::2], x[::2]) == (1, (1, 1, 1), True)
    assert layout(x[:, ::2], x[:, 1::2], x[:, ::2]) == (1, (STRIDED,) * 3, False)


def test_layouts_that_the_writer_does_not_take_are_refused():
    with pytest.raises(ValueError, match="in rank 0: give an outer axis"):
        Layout(["float32"], "float32", 0, [STRIDED])
    with pytest.raises(ValueError, match="has no form on ranges: give a layout in C order"):
        write_llvm(SUM, Layout(["float32"] * 3, "float32", 1, [1, 1, STRIDED], False), "kernel", ranges=True)
