"""Normal numbers: those of the reference, whatever words they are made of."""

import numpy as np
import pytest

from atled.ops import philox
from atled.ops.spec import SPECS
from atled_cpu_numba.kernels.random import normal as kernels
from atled_cpu_numba.kernels.shared.launch import float_bits
from atled_cpu_numba.kernels.shared.layout import filled

RANDN = SPECS["Randn"]
# Up to a few pieces of the kernel, of whole blocks of words and with any rest.
COUNTS = [(0,), (1,), (2,), (3,), (4,), (5, 7), (3, 1, 67), (1023,), (1024,), (1025,), (1027,), (2, 5000)]
RANDOM_STATES = [(0, 0), (7, 3), (-2, 1 << 40), (np.iinfo(np.int64).min, -1)]
all_counts = pytest.mark.parametrize("shape", COUNTS, ids=str)
both_dtypes = pytest.mark.parametrize("dtype", ["float32", "float64"])


@pytest.mark.parametrize("random_state", RANDOM_STATES, ids=str)
@all_counts
@both_dtypes
def test_numbers_are_those_of_the_reference(run, parts, shape, random_state, dtype):
    random_state, moments = np.array(random_state), {"mu": 0.5, "sigma": 2.0}
    found = np.full(shape, 77, dtype)
    assert run(kernels, "Randn", [random_state], [found], parts=parts, floats=moments, shape=shape) == 0
    expected = RANDN.reference(random_state, **moments, shape=shape, seed=0, dtype=np.dtype(dtype))
    # Logarithm, sine and cosine differ in the last place of float64 between libraries.
    np.testing.assert_allclose(found, expected, rtol=np.finfo(dtype).eps, atol=1e-14)


@both_dtypes
def test_rare_words_make_the_numbers_that_they_should(monkeypatch, dtype):
    """Both ends of the logarithm, and angles of whole eighths of a turn and beside them."""
    from numba import njit, uint64

    def words(block):
        angle = (block * uint64(1 << 21) + block // uint64(8) + uint64(0xFFFFFF)) & uint64(0xFFFFFF)
        size = (block // uint64(24) * uint64(0x555555)) & uint64(0xFFFFFF)
        return size << uint64(8), angle << uint64(8), uint64(255), (angle << uint64(8)) + uint64(77)

    blocks = 96  # the sizes 0, a third, two thirds and 2**24 - 1, each with all eighths
    drawn = np.array([words(np.uint64(block)) for block in range(blocks)]).reshape(-1)
    inner = njit(words)
    monkeypatch.setattr(philox, "words", lambda random_state, count: drawn[:count])
    monkeypatch.setattr(kernels, "philox", lambda: njit(lambda block, call, key: inner(block)))
    made = kernels._build(dtype)
    random_state, found, workspace = np.array([7, 3]), np.empty(4 * blocks, dtype), np.empty(kernels._PIECE_BYTES, "b")
    addresses = {"random_state": random_state, "y": found, "workspace": workspace}
    block = np.array(
        filled(
            kernels.Block,
            count=found.size,
            mu=float_bits(0.0),
            sigma=float_bits(2.0),
            **{name: array.ctypes.data for name, array in addresses.items()},
        )
    )
    assert njit(**made.jit_options)(made)(block.ctypes.data, 0, 1) == 0
    expected = RANDN.reference(random_state, mu=0.0, sigma=2.0, shape=found.shape, seed=0, dtype=np.dtype(dtype))
    # Of a quarter of a turn, rounded, the cosine is not quite 0.
    np.testing.assert_allclose(found, expected, rtol=np.finfo(dtype).eps, atol=1e-14)
    np.testing.assert_array_equal(found.reshape(-1, 4)[:, 2:], 0)
