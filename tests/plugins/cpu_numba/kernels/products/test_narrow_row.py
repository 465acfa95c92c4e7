"""One row in half or bf16 times a matrix that is widened as it is read: float32's results, rounded once."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import Context
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.products import narrow_row
from atled_cpu_numba.kernels.shared.launch import narrow_dtypes
from narrow_numbers import DTYPES, any_numbers, check_rounded

configs = pytest.mark.parametrize("config", list(DTYPES))


def computed(config, function, *arrays):
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        return function(*map(nn.NdArray.from_numpy_array, arrays)).data


@configs
@pytest.mark.parametrize("k, n", [(64, 128), (257, 48), (1024, 512), (31, 1040), (5, 4096), (129, 47)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_results_are_those_of_float32_rounded_once(config, k, n, has_bias):
    rng, before = np.random.default_rng(5), pool.thread_count()
    shapes = [(1, k), (k, n), *([(n,)] if has_bias else [])]
    arrays = [rng.standard_normal(shape).astype(DTYPES[config]) for shape in shapes]

    def function(*inputs):
        return F.relu(F.affine(*inputs))

    expected = computed("float", function, *(array.astype("f") for array in arrays))
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            check_rounded(computed(config, function, *arrays), expected)
    finally:
        pool.set_thread_count(before)


@configs
def test_infinities_and_nan_are_values(config):
    rng = np.random.default_rng(6)
    x, w = (any_numbers(rng, shape, DTYPES[config]) for shape in ((1, 3), (3, 4096)))
    expected = computed("float", F.batch_matmul, x[None].astype("f"), w[None].astype("f"))
    check_rounded(computed(config, F.batch_matmul, x[None], w[None]), expected)


def by_columns(a, b):
    return F.batch_matmul(a, b, transpose_b=True)


@configs
@pytest.mark.parametrize("batch, rows, k, n", [(1, 1, 512, 784), (1, 1, 77, 64), (1, 3, 401, 33), (5, 2, 300, 17)])
def test_dot_products_are_those_of_float32_rounded_once(config, batch, rows, k, n):
    rng, before = np.random.default_rng(7), pool.thread_count()
    arrays = [rng.standard_normal(shape).astype(DTYPES[config]) for shape in ((batch, rows, k), (batch, n, k))]
    expected = computed("float", by_columns, *(array.astype("f") for array in arrays))
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            check_rounded(computed(config, by_columns, *arrays), expected)
    finally:
        pool.set_thread_count(before)


@configs
@pytest.mark.parametrize("batch, m, n", [(1, 300, 512), (1, 13, 1), (3, 40, 65), (1, 1, 300)])
@pytest.mark.parametrize("transpose_a", [False, True])
def test_products_of_one_term_are_those_of_float32_rounded_once(config, batch, m, n, transpose_a):
    rng = np.random.default_rng(8)
    a, b = (any_numbers(rng, shape, DTYPES[config]) for shape in ((batch, m, 1), (batch, 1, n)))
    a = a.swapaxes(1, 2) if transpose_a else a

    def product(a, b):
        return F.batch_matmul(a, b, transpose_a=transpose_a)

    expected = computed("float", product, np.ascontiguousarray(a, "f"), b.astype("f"))
    check_rounded(computed(config, product, np.ascontiguousarray(a), b), expected)


@configs
@pytest.mark.parametrize(
    "shapes, note",
    [
        (((1, 784, 1), (1, 1, 512)), "formula"),
        (((1, 1, 512), (1, 784, 512)), "dot products"),
        (((1, 4, 512), (1, 784, 512)), "dot products"),
        (((1, 5, 512), (1, 784, 512)), None),
        (((1, 1, 512), (1, 7, 512)), None),
    ],
)
def test_dot_products_and_products_of_one_term_are_taken(config, shapes, note):
    a, b = (ArrayDesc(shape, DTYPES[config]) for shape in shapes)
    transposed = b.shape[1] != 1
    y = ArrayDesc((1, a.shape[1], b.shape[1 if transposed else 2]), DTYPES[config])
    call = Call(op_spec("BatchMatmul"), (a, b), (y,), {"transpose_a": False, "transpose_b": transposed})
    prepared = narrow_row.prepare(call)
    note = note if DTYPES[config].name in narrow_dtypes() else None
    assert (prepared and prepared.note) == note


@configs
@pytest.mark.parametrize("rows, k, n", [(1, 64, 128), (2, 64, 128), (1, 64, 127), (1, 8, 16)])
def test_one_row_of_whole_vectors_is_taken(config, rows, k, n):
    descs = [ArrayDesc(shape, DTYPES[config]) for shape in ((rows, k), (k, n), (rows, n))]
    prepared = narrow_row.prepare(Call(op_spec("Affine"), (*descs[:2], None), (descs[2],), {"base_axis": 1}))
    is_taken = (rows, k, n) == (1, 64, 128) and DTYPES[config].name in narrow_dtypes()
    assert (prepared is not None) is is_taken
