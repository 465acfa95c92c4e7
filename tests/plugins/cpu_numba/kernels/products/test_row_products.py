"""The pieces of matrix products, called by address: weights that are packed once and multiplied many times."""

import ctypes

import numpy as np
import pytest

from atled_cpu_numba.kernels.products.panels import BLOCK_WORDS, PACK
from atled_cpu_numba.kernels.products.row_products import FEW_ROWS, MULTIPLY_FEW, MULTIPLY_ROWS, packed_bytes
from atled_cpu_numba.kernels.products.wide_products import MULTIPLY_WIDE, are_wide, wide_columns
from atled_cpu_numba.kernels.shared.lanes import Lanes, lanes_of

KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def call(kernel, *words):
    block = np.zeros(BLOCK_WORDS, np.int64)
    block[: len(words)] = [word.ctypes.data if isinstance(word, np.ndarray) else word for word in words]
    assert KERNEL(kernel.address())(block.ctypes.data, 0, 1) == 0


def packed_once(b, transposed, width):
    """b (k, n), or its transpose, in panels of `width` columns."""
    k, n = b.shape[::-1] if transposed else b.shape
    rows, columns = (1, k) if transposed else (n, 1)
    dtype = b.dtype.name
    packed = np.full(packed_bytes(k, n, dtype, width) // b.itemsize, np.nan, dtype)
    call(PACK[dtype], b, columns, rows, n, k, packed, width)
    return packed


def columns_of(multiply, dtype):
    """Of a panel."""
    lanes = lanes_of(dtype)
    return wide_columns(lanes) if multiply is MULTIPLY_WIDE else lanes.columns


@pytest.mark.parametrize(
    "m, k, n", [(1, 5, 3), (4, 384, 96), (8, 9, 35), (16, 7, 20), (20, 17, 40), (32, 100, 70), (37, 1, 33)]
)
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("multiply", [MULTIPLY_ROWS, MULTIPLY_WIDE])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_packed_matrix_is_multiplied_many_times(m, k, n, transposed, multiply, dtype):
    rng = np.random.default_rng(m + n)
    b = rng.standard_normal((n, k) if transposed else (k, n), dtype)
    columns, step = columns_of(multiply, dtype), np.finfo(dtype).eps
    packed = packed_once(b, transposed, columns)
    for _ in range(2):
        a, y = rng.standard_normal((m, k), dtype), rng.standard_normal((m, n), dtype)
        expected = y + a.astype("d") @ (b.T if transposed else b)
        # k, m, n, a, a_row, b, b_step, b_panel, c, c_row, s, s_row, s_column, copy, ahead, a_column: Y += A B
        call(multiply[dtype], k, m, n, a, k, packed, columns, columns * k, y, n, y, n, 1, 0, 0, 1)
        np.testing.assert_allclose(y, expected, rtol=100 * step, atol=30 * step * k)


@pytest.mark.parametrize("k, n", [(1, 1), (0, 70), (40, 128), (33, 300)])
@pytest.mark.parametrize("m", range(1, FEW_ROWS + 1))
@pytest.mark.parametrize("is_back", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_are_what_many_rows_are_to_the_last_bit(m, k, n, is_back, dtype):
    rng = np.random.default_rng(k + n)
    a, b = rng.standard_normal((m, k + 3), dtype), rng.standard_normal((k, n), dtype)
    columns = lanes_of(dtype).columns
    packed = packed_once(b, False, columns)
    added = [rng.standard_normal((m, n), dtype), rng.standard_normal((1, n), dtype), np.zeros((1, columns), dtype)]
    for s, s_row, s_column in zip(added, (n, 0, 0), (1, 1, 0), strict=True):
        one, other = (np.full((m + 1, n), 7, dtype) for _ in range(2))
        words = k, m, n, a, k + 3, packed, columns, columns * k
        call(MULTIPLY_ROWS[dtype], *words, one, n, s, s_row, s_column, 0, 0, 1)
        call(MULTIPLY_FEW[dtype], *words, other, n, s, s_row, s_column, 0, 0, 1, is_back, 0, max(1, k))
        np.testing.assert_array_equal(other, one)
        np.testing.assert_allclose(one[:m], a[:, :k].astype("d") @ b + (s if s_column else 0), rtol=1e-4, atol=1e-4)
        assert (other[m] == 7).all()


@pytest.mark.parametrize("n", [1, 70, 128, 300])
@pytest.mark.parametrize("m", range(1, FEW_ROWS + 1))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_rows_add_up_steps_and_bound_the_last_sum_as_many_rows_do(m, n, dtype):
    rng = np.random.default_rng(n)
    k, k_step, columns = 53, 20, lanes_of(dtype).columns
    a, b = rng.standard_normal((m, k), dtype), rng.standard_normal((k, n), dtype)
    a[0, 7], b[40, 0] = np.nan, np.inf
    bias, word = rng.standard_normal(n, dtype), 8 // np.dtype(dtype).itemsize
    bounds = np.zeros(2 * word, dtype)
    bounds[0], bounds[word] = -1, 2
    one, other = (np.full((m + 1, n), 7, dtype) for _ in range(2))
    for k0 in range(0, k, k_step):
        kc = min(k_step, k - k0)
        packed = packed_once(np.ascontiguousarray(b[k0 : k0 + kc]), False, columns)
        s, s_row = (one, n) if k0 else (bias, 0)
        last = bounds if k0 + kc == k else 0
        a_step = np.ascontiguousarray(a[:, k0 : k0 + kc])
        words = kc, m, n, a_step, kc, packed, columns, columns * kc, one, n, s, s_row, 1, 0, 0, 1, 0, last
        call(MULTIPLY_ROWS[dtype], *words)
    packed = packed_once(b, False, columns)
    words = k, m, n, a, k, packed, columns, columns * k, other, n, bias, 0, 1, 0, 0, 1, 0, bounds, k_step
    call(MULTIPLY_FEW[dtype], *words)
    np.testing.assert_array_equal(other, one)
    assert np.isnan(other[0]).all()
    assert (other[m] == 7).all()
    assert ((other[1:m] >= -1) & (other[1:m] <= 2)).all()


@pytest.mark.parametrize("m, n", [(1, 1), (3, 24), (9, 31), (30, 48), (13, 64), (41, 130), (5, 200)])
@pytest.mark.parametrize("k", [0, 1, 6, 301])
@pytest.mark.parametrize("is_by_rows", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wide_tiles_are_what_others_are_to_the_last_bit(m, k, n, is_by_rows, dtype):
    rng = np.random.default_rng(m + k + n)
    a, b = rng.standard_normal((m, k) if is_by_rows else (k, m), dtype), rng.standard_normal((k, n), dtype)
    a_row, a_column = (k, 1) if is_by_rows else (1, m)
    for in_place in (True, False):
        results = []
        for multiply in (MULTIPLY_ROWS, MULTIPLY_WIDE):
            columns = columns_of(multiply, dtype)
            copy = np.full((k + 1) * columns, np.nan, dtype) if in_place else 0
            places = (b, n, columns) if in_place else (packed_once(b, False, columns), columns, columns * k)
            y, s = np.full((m + 1, n + 2), 7, dtype), np.arange(columns * -(-n // columns), dtype=dtype)
            call(multiply[dtype], k, m, n, a, a_row, *places, y, n + 2, s, 0, 1, copy, columns, a_column)
            results.append(y)
        np.testing.assert_array_equal(*results)
        assert (results[0][m] == 7).all()
        assert (results[0][:, n:] == 7).all()


AVX2 = Lanes(vector=8, rows=6, columns=16, dot_rows=3, dot_columns=3)
AVX512 = Lanes(vector=16, rows=12, columns=32, dot_rows=4, dot_columns=6)


@pytest.mark.parametrize(
    "m, n, lanes, expected",
    [
        (512, 256, AVX2, True), (8, 1024, AVX2, True), (512, 64, AVX2, True), (3, 256, AVX2, True),
        (512, 32, AVX2, False), (512, 16, AVX2, False), (6, 256, AVX2, False), (10, 256, AVX2, False),
        (512, 256, AVX512, False),
    ],
)  # fmt: skip
def test_tiles_are_wide_where_their_last_rows_and_columns_leave_a_gain(m, n, lanes, expected):
    assert are_wide(m, n, lanes) is expected
