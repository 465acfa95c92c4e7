"""Products below the size of the larger tiles: exact against integers, in every remainder of rows and columns."""

import numpy as np
import pytest

from atled_cpu_numba.kernels.products import matmul, small_products

SIZES = [(m, k, n) for m in (1, 3, 4, 5, 9) for k in (1, 3) for n in (*range(1, 9), 11, 15)]


def is_small(make_call, inputs, y, name="BatchMatmul", **attributes):
    prepared = matmul.prepare(make_call(name, inputs, [y], **attributes))
    return prepared.note == "small tiles"


@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_every_remainder_of_rows_and_columns(run, parts, make_call, transpose_a, transpose_b):
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        a = rng.integers(-9, 9, (3, k, m) if transpose_a else (3, m, k)).astype("f")
        b = rng.integers(-9, 9, (3, n, k) if transpose_b else (3, k, n)).astype("f")
        y = np.full((3, m, n), np.nan, "f")
        attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        if 1 < n <= 8 and m <= 5:
            assert is_small(make_call, [a, b], y, **attributes)
        assert run(matmul, "BatchMatmul", [a, b], [y], parts=parts, **attributes) == 0
        expected = (a.swapaxes(1, 2) if transpose_a else a) @ (b.swapaxes(1, 2) if transpose_b else b)
        np.testing.assert_array_equal(y, expected)


def test_the_bias_is_added_to_every_row(run, make_call):
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        x, w, b = (rng.integers(-9, 9, shape).astype("f") for shape in ((m, k), (k, n), (n,)))
        y = np.full((m, n), np.nan, "f")
        assert is_small(make_call, [x, w, b], y, "Affine", base_axis=1)
        assert run(matmul, "Affine", [x, w, b], [y], base_axis=1) == 0
        np.testing.assert_array_equal(y, x @ w + b)


def test_few_small_products_are_brief_and_many_are_not(make_call):
    for batch, is_brief in ((1, True), (16, True), (1 << 16, False)):
        a, b, y = (np.zeros((batch, *shape), "f") for shape in ((3, 4), (4, 5), (3, 5)))
        call = make_call("BatchMatmul", [a, b], [y], transpose_a=False, transpose_b=False)
        assert matmul.prepare(call).native.is_brief == is_brief


def test_sums_are_added_in_order_and_rounded_once_per_term(run):
    # 2**24 + 1 is no float32: in order, the first two terms give 2**24, and the third one leaves 0.
    a = np.array([[[2.0**24, 1, -(2.0**24)]]], "f")
    y = np.zeros((1, 1, 2), "f")
    assert run(matmul, "BatchMatmul", [a, np.ones((1, 3, 2), "f")], [y], transpose_a=False, transpose_b=False) == 0
    assert (y == 0).all()


def test_nan_and_infinity_stay_in_their_rows(run):
    x, w = np.ones((5, 3), "f"), np.ones((3, 6), "f")
    x[1, 2], x[4, 0] = np.inf, np.nan
    y = np.zeros((5, 6), "f")
    assert run(matmul, "Affine", [x, w, None], [y], base_axis=1) == 0
    np.testing.assert_array_equal(y, np.broadcast_to(np.array([[3], [np.inf], [3], [3], [np.nan]], "f"), (5, 6)))


def test_products_with_long_sums_or_many_tiles_are_left_to_larger_tiles():
    def are_few(m, k, n, b_column):
        return small_products.are_few(small_products.step_count(m, k, n, b_column), b_column)

    assert are_few(16, 16, 16, 1)
    assert not are_few(16, 16, 16, 16)
    assert not are_few(4, 200, 8, 1)
    assert not are_few(64, 64, 64, 1)
