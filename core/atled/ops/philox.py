"""The random state: Philox 4x32-10, and how its words become uniform, normal and whole numbers.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A counter-based
generator: any block is computed from its number alone, so every backend draws the same numbers in any order.

A random state is (2,) int64: (key, call count). The words of one call are numbered from 0 and come in blocks of four:
word n is lane n % 4 of block n // 4, which is Philox applied to

    counter  (block low, block high, call count low, call count high)
    key      (key low, key high)

where low and high are the 32-bit halves of the two's complement 64-bit number.

From words to numbers, element n of an array in C order:

    bits24    word[n] >> 8                                    the top 24 bits
    uniform   bits24 * 2**-24                                 in [0, 1), exact in float32
    normal    elements 2j and 2j + 1 are a Box-Muller pair made of the uniforms u1 = uniform[2j], u2 = uniform[2j + 1]:
              r = sqrt(-2 log(1 - u1)), t = 2 pi u2;  normal[2j] = r cos t, normal[2j + 1] = r sin t.
              1 - u1 is in (0, 1] and exact, so the logarithm is finite. An odd count draws the second word of
              its last pair and drops the second number.
    below     (word[n] * bound) >> 32                         whole, in [0, bound), 1 <= bound <= 2**32

Everything after the words is computed here in float64 and rounded once by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
# The golden ratio and sqrt(3) - 1, as 32-bit fractions: the paper's Weyl sequence for the round keys.
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox4x32(counter: Sequence[np.ndarray], key: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Philox 4x32-10 of many counters under one key.

    Args:
        counter: four arrays of one shape, unsigned, below 2**32: the counter words, lowest first.
        key: two int below 2**32, lowest first.

    Returns:
        Four uint64 arrays of that shape, below 2**32.
    """
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0 = c0 * _MULTIPLIERS[0]
        product1 = c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (product1 >> _HALF) ^ c1 ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> _HALF) ^ c3 ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0 = (k0 + _KEY_STEPS[0]) & 0xFFFFFFFF
        k1 = (k1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def words(random_state: np.ndarray, count: int) -> np.ndarray:
    """The first `count` words of the call that the random state stands at: (count,) uint64, below 2**32.

    random_state: (2,) int64, (key, call count); not advanced here.
    """
    key, call = (int(value) & 0xFFFFFFFFFFFFFFFF for value in random_state)
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    counter = (
        block & _LOW,
        block >> _HALF,
        np.full_like(block, call & 0xFFFFFFFF),
        np.full_like(block, call >> 32),
    )
    lanes = philox4x32(counter, (key & 0xFFFFFFFF, key >> 32))
    return np.stack(lanes, axis=-1).reshape(-1)[:count]


def bits24(random_state: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Uniform whole numbers in [0, 2**24), uint64, of the given shape."""
    return (words(random_state, math.prod(shape)) >> np.uint64(8)).reshape(shape)


def uniform(random_state: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Uniform numbers in [0, 1), multiples of 2**-24, float64, of the given shape."""
    return np.asarray(bits24(random_state, shape) * 2.0**-24)


def normal(random_state: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Standard normal numbers by Box-Muller, float64, of the given shape."""
    count = math.prod(shape)
    u1, u2 = uniform(random_state, ((count + 1) // 2, 2)).T
    radius = np.sqrt(-2.0 * np.log(1.0 - u1))
    angle = 2.0 * math.pi * u2
    pairs = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
    return pairs.reshape(-1)[:count].reshape(shape)


def below(random_state: np.ndarray, shape: Sequence[int], bound: int) -> np.ndarray:
    """Whole numbers in [0, bound), uint64, of the given shape; 1 <= bound <= 2**32."""
    return ((words(random_state, math.prod(shape)) * np.uint64(bound)) >> _HALF).reshape(shape)
