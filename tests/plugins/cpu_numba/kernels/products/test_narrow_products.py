"""Products in half and bf16: what is computed panel by panel, how precisely, and what is left to casts of arrays."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import Context
from atled_cpu_numba import matrix_unit, pool, processor
from atled_cpu_numba.kernels.products import narrow_products

ml_dtypes = pytest.importorskip("ml_dtypes")
DTYPES = {"half": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
HALF_OF_LAST_DIGIT = {"half": 2.0**-11, "bf16": 2.0**-8}
configs = pytest.mark.parametrize("config", list(DTYPES))


def drawn(config, *shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape).astype(DTYPES[config]) for shape in shapes]


def product(x, w, b=None):
    return (x @ w if b is None else x @ w + b), abs(x) @ abs(w)


def pointwise(x, w, b):
    found = np.einsum("mc,ncp->nmp", w[:, :, 0], x) + b[:, None]
    return found, np.einsum("mc,ncp->nmp", abs(w[:, :, 0]), abs(x))


# Whole panels, columns that are left over, of several images together, several pieces of A, a bias of both kinds.
CASES = {
    "whole panels": (F.affine, product, (24, 33), (33, 128)),
    "bias": (F.affine, product, (37, 40), (40, 117), (117,)),
    "pieces of rows": (F.affine, product, (500, 1000), (1000, 40)),
    "images": (F.convolution, pointwise, (5, 40, 49), (19, 40, 1), (19,)),
    "few positions": (F.convolution, pointwise, (9, 40, 7), (30, 40, 1), (30,)),
}


@configs
@pytest.mark.parametrize("name", CASES)
def test_sums_are_of_float32_rounded_once(config, name):
    function, reference, *shapes = CASES[name]
    arrays = drawn(config, *shapes)
    expected, magnitude = reference(*(array.astype("d") for array in arrays))
    before, results = pool.thread_count(), []
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
                results.append(function(*map(nn.NdArray.from_numpy_array, arrays)).data)
    finally:
        pool.set_thread_count(before)
    assert results[0].dtype == DTYPES[config]
    np.testing.assert_array_equal(results[0], results[1])
    # Rounding the result, and each of k sums in float32.
    bound = HALF_OF_LAST_DIGIT[config] * abs(expected) + shapes[0][1] * 2.0**-23 * (magnitude + abs(expected)) + 1e-7
    assert (abs(results[0].astype("d") - expected) <= bound).all()


@configs
def test_numbers_that_are_no_finite_ones_or_denormal_come_through(config):
    info = ml_dtypes.finfo(DTYPES[config])
    special = np.array([np.nan, np.inf, -np.inf, info.smallest_subnormal, info.max, -0.0], DTYPES[config])
    x = np.zeros((16, 16), DTYPES[config])
    np.fill_diagonal(x, 1.0)
    w = np.zeros((16, 38), DTYPES[config])
    w[0, : len(special)], w[0, -len(special) :] = special, special
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")), np.errstate(invalid="ignore"):
        y = F.affine(*map(nn.NdArray.from_numpy_array, (x, w))).data.astype("d")
    expected = w[0].astype("d")
    if config == "bf16" and matrix_unit.multiplies_bf16():
        expected[np.abs(expected) < float(info.smallest_normal)] = 0  # denormals are zeros to it
    np.testing.assert_array_equal(y[0], expected)


def prepared(dtype, m, k, n):
    descs = [ArrayDesc(shape, dtype) for shape in ((m, k), (k, n), (m, n))]
    return narrow_products.prepare(Call(op_spec("Affine"), tuple(descs[:2]), (descs[2],), {"base_axis": 1}))


def test_the_note_says_that_panels_are_widened():
    assert prepared("bfloat16", 64, 64, 64).note.startswith("widened in panels")


@pytest.mark.parametrize(
    "sizes", [("float32", 64, 64, 64), ("bfloat16", 1, 64, 64), ("bfloat16", 64, 2000, 64), ("bfloat16", 64, 64, 2)]
)
def test_few_rows_and_columns_and_long_sums_are_left_to_casts(sizes):
    assert prepared(*sizes) is None


def test_half_without_its_instructions_is_left_to_casts(monkeypatch):
    monkeypatch.setattr(processor, "has_half_instructions", lambda: False)
    assert prepared("float16", 64, 64, 64) is None
