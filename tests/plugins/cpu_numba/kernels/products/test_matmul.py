"""Affine and BatchMatmul against NumPy in float64."""

import numpy as np
import pytest

from atled_cpu_numba import pool
from atled_cpu_numba.kernels.products import matmul, matmul_plan
from atled_cpu_numba.kernels.shared.lanes import Lanes

SIZES = [
    (0, 3, 4), (1, 1, 1), (1, 70, 33), (3, 5, 0), (5, 3, 2), (7, 20, 10), (8, 9, 16), (9, 400, 17), (12, 16, 32),
    (13, 17, 33), (64, 1, 31), (130, 400, 10), (100, 770, 50), (250, 33, 600), (1, 401, 300),
    (1, 400, 9), (1, 401, 26), (1, 400, 50), (1, 400, 130),
    (300, 4, 0), (2, 300, 40), (70, 30, 1), (4, 33, 17), (24, 1300, 50), (70, 1100, 40), (300, 40, 40),
]  # fmt: skip


def close(y, reference, scale):
    """Error of a float32 sum, relative to the sum of the magnitudes."""
    np.testing.assert_array_less(np.abs(y - reference), 3e-6 * scale + 1e-30)


@pytest.mark.parametrize("m, k, n", SIZES)
@pytest.mark.parametrize("with_bias", [True, False])
def test_affine(run, parts, m, k, n, with_bias):
    rng = np.random.default_rng(m + k + n)
    x, w = rng.standard_normal((m, k), "f"), rng.standard_normal((k, n), "f")
    b = rng.standard_normal(n, "f") if with_bias else None
    y = np.full((m, n), np.nan, "f")
    assert run(matmul, "Affine", [x, w, b], [y], parts=parts, base_axis=1) == 0
    reference = x.astype("d") @ w + (0 if b is None else b)
    close(y, reference, np.abs(x) @ np.abs(w) + 1)


@pytest.mark.parametrize("m, k, n", SIZES)
@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_batch_matmul(run, parts, m, k, n, transpose_a, transpose_b):
    rng = np.random.default_rng(m + k + n)
    batch = 1 if m * n > 5000 else 3
    a = rng.standard_normal((batch, k, m) if transpose_a else (batch, m, k), "f")
    b = rng.standard_normal((batch, n, k) if transpose_b else (batch, k, n), "f")
    y = np.full((batch, m, n), np.nan, "f")
    assert run(matmul, "BatchMatmul", [a, b], [y], parts=parts, transpose_a=transpose_a, transpose_b=transpose_b) == 0
    a2, b2 = (a.swapaxes(1, 2) if transpose_a else a), (b.swapaxes(1, 2) if transpose_b else b)
    close(y, a2.astype("d") @ b2, np.abs(a2) @ np.abs(b2) + 1)


def test_affine_flattens_x_at_base_axis(run):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 4, 5), "f"), rng.standard_normal((20, 2, 7), "f")
    y = np.empty((2, 3, 2, 7), "f")
    assert run(matmul, "Affine", [x, w], [y], base_axis=2) == 0
    np.testing.assert_allclose(y, np.tensordot(x.reshape(2, 3, 20), w, 1), rtol=1e-4, atol=1e-5)


def test_infinite_rows_stay_in_their_rows(run):
    x, w = np.ones((13, 40), "f"), np.ones((40, 33), "f")
    x[12, 3] = np.inf
    y = np.empty((13, 33), "f")
    assert run(matmul, "Affine", [x, w, None], [y], base_axis=1) == 0
    assert (y[:12] == 40).all()
    assert np.isinf(y[12]).all()


@pytest.mark.parametrize("m, k, n", SIZES)
@pytest.mark.parametrize("transpose_a, transpose_b", [(False, False), (True, False), (False, True)])
def test_double(run, m, k, n, transpose_a, transpose_b):
    rng = np.random.default_rng(m + k + n)
    a, b = rng.standard_normal((2, k, m) if transpose_a else (2, m, k)), rng.standard_normal((2, k, n))
    given = np.ascontiguousarray(b.swapaxes(1, 2)) if transpose_b else b
    y = np.full((2, m, n), np.nan)
    assert run(matmul, "BatchMatmul", [a, given], [y], parts=3, transpose_a=transpose_a, transpose_b=transpose_b) == 0
    reference = np.matmul((a.swapaxes(1, 2) if transpose_a else a).astype(np.longdouble), b)
    # As that of float32, in units of the last place.
    np.testing.assert_array_less(np.abs(y - reference), 6e-15 * (k + np.abs(reference)) + 1e-30)


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("batch, m, n", [(1, 100, 770), (1, 513, 3), (3, 40, 65), (1, 1, 300), (1, 700, 1)])
@pytest.mark.parametrize("transpose_a, transpose_b", [(False, False), (True, False), (True, True)])
def test_products_of_one_term_are_products_of_numbers(run, parts, dtype, batch, m, n, transpose_a, transpose_b):
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((batch, m, 1)).astype(dtype), rng.standard_normal((batch, 1, n)).astype(dtype)
    a[0, 0], b[0, 0, 0] = np.inf, np.nan
    expected, y = a * b, np.full((batch, m, n), np.nan, dtype)
    a, b = a.swapaxes(1, 2) if transpose_a else a, b.swapaxes(1, 2) if transpose_b else b
    given = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    assert run(matmul, "BatchMatmul", [a, b], [y], parts=parts, **given) == 0
    np.testing.assert_array_equal(y, expected)


def test_mixed_dtypes_and_empty_sums_are_refused(make_call):
    a, b, y = np.empty((3, 0), "f"), np.empty((0, 3), "f"), np.empty((3, 3), "f")
    assert "empty" in matmul.accepts(make_call("BatchMatmul", [a, b], [y], transpose_a=False, transpose_b=False))
    call = make_call("BatchMatmul", [a.astype("d"), b], [y], transpose_a=False, transpose_b=False)
    assert "float32 and float64" in matmul.accepts(call)


@pytest.mark.parametrize("m, k, n", [(1030, 40, 33), (205, 600, 35), (40, 9, 70)])
@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_large_matrices_are_taken_in_blocks(run, parts, monkeypatch, m, k, n, transpose_a, transpose_b):
    for bound in ("_STRIDED_ELEMENTS", "_STRIDED_COLUMNS", "_SHORT_K", "_ACROSS_ROWS"):
        monkeypatch.setattr(matmul_plan, bound, 0)
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((k, m) if transpose_a else (m, k), "f"), rng.standard_normal((k, n), "f")
    b = np.ascontiguousarray(b.T) if transpose_b else b
    y = np.full((m, n), np.nan, "f")
    assert run(matmul, "BatchMatmul", [a, b], [y], parts=parts, transpose_a=transpose_a, transpose_b=transpose_b) == 0
    a2, b2 = a.T if transpose_a else a, b.T if transpose_b else b
    close(y, a2.astype("d") @ b2, np.abs(a2) @ np.abs(b2) + 1)


@pytest.mark.parametrize("m, k, n", [(205, 70, 33), (200, 600, 100), (7, 520, 64), (40, 16, 70)])
@pytest.mark.parametrize("transpose_a", [True, False])
def test_both_matrices_are_packed_where_rows_lie_far_apart(run, parts, monkeypatch, m, k, n, transpose_a):
    monkeypatch.setattr(matmul_plan, "_is_far", lambda p, dtype: p.b_column == 1)
    monkeypatch.setattr(matmul_plan, "_FAR_COLUMN_STEP", 48)
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((2, k, m) if transpose_a else (2, m, k), "f"), rng.standard_normal((2, k, n), "f")
    y = np.full((2, m, n), np.nan, "f")
    assert run(matmul, "BatchMatmul", [a, b], [y], parts=parts, transpose_a=transpose_a, transpose_b=False) == 0
    a2 = a.swapaxes(1, 2) if transpose_a else a
    close(y, a2.astype("d") @ b, np.abs(a2) @ np.abs(b) + 1)


@pytest.mark.parametrize("m, n", [(12, 32), (50, 96), (7, 64), (120, 33)])
@pytest.mark.parametrize("transpose_a", [True, False])
def test_results_beyond_the_caches(run, parts, monkeypatch, m, n, transpose_a):
    monkeypatch.setattr(matmul_plan, "_STREAM_BYTES", 0)
    rng = np.random.default_rng(m + n)
    a, b = rng.standard_normal((1, 9, m) if transpose_a else (1, m, 9), "f"), rng.standard_normal((1, 9, n), "f")
    y = np.full((1, m, n), np.nan, "f")
    assert run(matmul, "BatchMatmul", [a, b], [y], parts=parts, transpose_a=transpose_a, transpose_b=False) == 0
    a2 = a.swapaxes(1, 2) if transpose_a else a
    close(y, a2.astype("d") @ b, np.abs(a2) @ np.abs(b) + 1)


@pytest.mark.parametrize(
    "m, k, n, transpose_a, transpose_b, note",
    [
        (128, 784, 512, False, False, "a in place, b in place, 12x32 tiles"),
        (784, 128, 512, True, False, "a in place, b in place, 12x32 tiles"),
        (784, 512, 512, True, False, "a transposed, b in place, 12x32 tiles"),
        (1024, 128, 128, True, False, "a transposed, b in place, 12x32 tiles"),
        (1024, 96, 128, True, False, "a in place, b in place, 12x32 tiles"),
        (128, 512, 784, False, True, "a packed, b in place, 12x32 tiles written transposed"),
        (512, 128, 10, True, False, "a in place, b in place, 12x32 tiles written transposed"),
        (128, 10, 512, False, True, "a in place, b packed, 12x32 tiles"),
        (8192, 16, 1024, True, False, "a in place, b in place, 12x32 tiles written past the caches"),
        (128, 512, 10, False, False, "a in place, 8x16 tiles"),
        (4, 512, 512, False, True, "dot products"),
        (1, 512, 512, False, False, "sums of rows"),
        (512, 1, 700, True, False, "formula"),
        (1024, 1024, 1024, False, False, "a packed, b in place, 12x32 tiles"),
        (65, 2048, 256, False, False, "a packed, b in place, 12x32 tiles"),
        (64, 2048, 256, False, False, "a in place, b in place, 12x32 tiles"),
        (1024, 1024, 255, False, False, "a in place, b in place, 12x32 tiles"),
        (1024, 1000, 1024, False, False, "a in place, b in place, 12x32 tiles"),
        (512, 1024, 512, False, True, "a packed, b packed, 12x32 tiles"),
    ],
)
def test_the_note_names_the_way_that_the_shape_decides(make_call, monkeypatch, m, k, n, transpose_a, transpose_b, note):
    monkeypatch.setattr(
        matmul_plan, "lanes_of", lambda _: Lanes(vector=16, rows=12, columns=32, dot_rows=4, dot_columns=6)
    )
    a = np.empty((k, m) if transpose_a else (m, k), "f")
    b = np.empty((n, k) if transpose_b else (k, n), "f")
    call = make_call("BatchMatmul", [a, b], [np.empty((m, n), "f")], transpose_a=transpose_a, transpose_b=transpose_b)
    assert matmul.prepare(call).note == note


@pytest.mark.parametrize("dtype, page", [("float32", 1024), ("float64", 512)])
def test_rows_whole_pages_apart_are_in_one_set_of_the_nearest_cache(monkeypatch, dtype, page):
    found = {}
    for rows in (6, 12):
        lanes = Lanes(vector=page // 64, rows=rows, columns=page // 32, dot_rows=4, dot_columns=6)
        monkeypatch.setattr(matmul_plan, "lanes_of", lambda _, lanes=lanes: lanes)
        pitches = 0, page // 2, page - 1, page, 3 * page
        found[rows] = [pitch for pitch in pitches if matmul_plan.do_rows_conflict(pitch, dtype)]
    assert found == {6: [], 12: [page, 3 * page]}


@pytest.mark.parametrize(
    "m, k, n, dtype, most_bytes",
    [
        (512, 512, 512, "float32", 768 << 10),
        (512, 500, 512, "float64", 768 << 10),
        (1000, 1000, 1000, "float32", 768 << 10),
        (1000, 1000, 96, "float32", 4 << 20),  # read for three panels
        (20000, 1000, 96, "float32", 768 << 10),
        (400, 300, 1000, "float32", 480 << 10),  # whole: as many bytes as it has
    ],
)
def test_a_part_of_a_matrix_at_a_time_stays_in_the_caches(monkeypatch, m, k, n, dtype, most_bytes):
    element, vector = np.dtype(dtype).itemsize, 64 // np.dtype(dtype).itemsize
    lanes = Lanes(vector=vector, rows=12, columns=2 * vector, dot_rows=4, dot_columns=6)
    monkeypatch.setattr(matmul_plan, "lanes_of", lambda _: lanes)
    product = matmul_plan.Product(1, m, k, n, k, 1, n, 1, m * k, k * n, m * n, n, 1)
    plan = next(way.plan() for way in matmul_plan.plan_ways(product, dtype) if way.pays)
    assert plan.way == matmul_plan.ROWS
    assert plan.row_step % 12 == 0
    assert 0.9 * most_bytes / 2 < element * min(m, plan.row_step) * min(k, plan.k_step) <= 1.1 * most_bytes


@pytest.mark.parametrize(
    "m, k, n, transpose_a, dtype, note",
    [
        (1024, 1024, 1024, False, "float32", "a packed, b packed, 4x24 tiles"),
        (512, 128, 1024, True, "float32", "a transposed, b packed, 4x24 tiles"),
        (512, 512, 512, False, "float32", "a in place, b in place, 4x24 tiles"),
        (1024, 64, 2048, False, "float32", "a in place, b in place, 4x24 tiles"),
        (1024, 32, 512, True, "float32", "a transposed, b in place, 4x24 tiles"),
        (512, 128, 64, True, "float32", "a transposed, b in place, 4x24 tiles"),
        (512, 128, 48, True, "float32", "a in place, b in place, 4x24 tiles"),
        (500, 128, 128, True, "float32", "a transposed, b in place, 4x24 tiles"),
        (500, 128, 112, True, "float32", "a in place, b in place, 4x24 tiles"),
        (500, 10, 512, True, "float32", "a in place, b in place, 4x24 tiles"),
        (8192, 16, 1024, True, "float32", "a transposed, b in place, 6x16 tiles written past the caches"),
        (1024, 128, 512, True, "float64", "a transposed, b packed, 4x12 tiles"),
        (512, 128, 32, True, "float64", "a transposed, b in place, 4x12 tiles"),
        (512, 512, 512, False, "float64", "a packed, b packed, 4x12 tiles"),
        (256, 256, 256, False, "float64", "a in place, b in place, 4x12 tiles"),
    ],
)
def test_large_matrices_are_packed_under_avx2(make_call, monkeypatch, m, k, n, transpose_a, dtype, note):
    vector = 32 // np.dtype(dtype).itemsize
    lanes = Lanes(vector=vector, rows=6, columns=2 * vector, dot_rows=3, dot_columns=3)
    monkeypatch.setattr(matmul_plan, "lanes_of", lambda _: lanes)
    a, b = np.empty((k, m) if transpose_a else (m, k), dtype), np.empty((k, n), dtype)
    call = make_call("BatchMatmul", [a, b], [np.empty((m, n), dtype)], transpose_a=transpose_a, transpose_b=False)
    assert matmul.prepare(call).note == note


@pytest.mark.parametrize(
    "m, note", [(48, "a packed, b in place, 6x16 tiles written transposed"), (49, "a in place, b packed, 4x24 tiles")]
)
def test_few_rows_are_computed_across_under_avx2(make_call, monkeypatch, m, note):
    monkeypatch.setattr(
        matmul_plan, "lanes_of", lambda _: Lanes(vector=8, rows=6, columns=16, dot_rows=3, dot_columns=3)
    )
    arrays = [np.empty((m, 512), "f"), np.empty((784, 512), "f")], [np.empty((m, 784), "f")]
    call = make_call("BatchMatmul", *arrays, transpose_a=False, transpose_b=True)
    assert matmul.prepare(call).note == note


@pytest.mark.parametrize(
    "m, k, n, transpose_a, transpose_b, note",
    [
        (512, 128, 10, True, False, "a in place, b in place, 6x16 tiles written transposed"),
        (512, 128, 16, True, False, "a in place, b in place, 6x16 tiles"),
        (512, 128, 17, True, False, "a in place, b in place, 6x16 tiles written transposed"),
        (128, 512, 10, False, False, "a in place, b packed, 6x16 tiles"),
        (128, 64, 10, False, False, "a in place, b in place, 6x16 tiles"),
        (4, 256, 512, False, True, "dot products"),
        (4, 255, 512, False, True, "a in place, b packed, 4x24 tiles"),
        (5, 255, 512, False, True, "a packed, b in place, 6x16 tiles written transposed"),
    ],
)
def test_few_columns_and_short_sums_under_avx2(make_call, monkeypatch, m, k, n, transpose_a, transpose_b, note):
    monkeypatch.setattr(
        matmul_plan, "lanes_of", lambda _: Lanes(vector=8, rows=6, columns=16, dot_rows=3, dot_columns=3)
    )
    a, b = np.empty((k, m) if transpose_a else (m, k), "f"), np.empty((n, k) if transpose_b else (k, n), "f")
    call = make_call("BatchMatmul", [a, b], [np.empty((m, n), "f")], transpose_a=transpose_a, transpose_b=transpose_b)
    assert matmul.prepare(call).note == note


def test_infinite_columns_stay_in_their_columns(run):
    gy, w = np.ones((1, 5, 40), "f"), np.ones((1, 33, 40), "f")
    w[0, 32, 3] = np.inf
    y = np.empty((1, 5, 33), "f")
    assert run(matmul, "BatchMatmul", [gy, w], [y], transpose_a=False, transpose_b=True) == 0
    assert (y[..., :32] == 40).all()
    assert np.isinf(y[..., 32]).all()


# Rows, columns, and which part of the sums two threads may take at most: half of them, and what is left of a tile.
@pytest.mark.parametrize(
    "m, n, most",
    [(64, 256, 0.51), (512, 256, 0.51), (64, 1024, 0.52), (128, 512, 0.52), (100, 300, 0.56), (8, 1000, 0.54)],
)
def test_two_threads_get_even_shares_of_wide_panels(monkeypatch, m, n, most):
    lanes = Lanes(vector=8, rows=6, columns=16, dot_rows=3, dot_columns=3)
    monkeypatch.setattr(matmul_plan, "lanes_of", lambda _: lanes)
    monkeypatch.setattr(pool, "thread_count", lambda: 2)
    product = matmul_plan.Product(1, m, 256, n, 256, 1, n, 1, m * 256, 256 * n, m * n, n, 1)
    plan = next(way.plan() for way in matmul_plan.plan_ways(product) if way.pays)
    rows, columns = matmul_plan.unit_sizes(product, plan, 4)
    pieces = [min(rows, m - i) * min(columns, n - j) for j in range(0, n, columns) for i in range(0, m, rows)]
    assert len(pieces) == 4
    # The caller takes shares from the first one on, a worker from the last one back: see `pool_ir`.
    ends = [0, 0]
    while pieces:
        thread = ends.index(min(ends))
        ends[thread] += pieces.pop(-thread)
    assert max(ends) <= most * m * n
