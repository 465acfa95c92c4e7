"""MRG31k3p: streams of random numbers whose states are rows of an array, how they advance, and how they are jumped.

Source: L'Ecuyer and Touzin, "Fast combined multiple recursive generators with multipliers of the form a = +-2^q +-2^r",
Winter Simulation Conference 2000. Two recurrences and their difference:

    x1[n] = (2^22 x1[n-2] + (2^7 + 1) x1[n-3]) mod M1
    x2[n] = (2^15 x2[n-1] + (2^15 + 1) x2[n-3]) mod M2
    z[n]  = x1[n] - x2[n], and M1 more where that is not positive: 1 <= z <= M1

A row, newest value first, is (x1[n-1], x1[n-2], x1[n-3], x2[n-1], x2[n-2], x2[n-3]): the first three below M1 and not
all 0, the others below M2 and not all 0. Element i of an array, in C order, takes the next value of stream i mod n of
n rows.

    float64   z 2**-31                                    exact
    float32   float32(z) float32(4.6566126e-10)           both rounded to nearest; the factor is the float32 below
                                                          2**-31, which keeps the largest product below 1
"""

from __future__ import annotations

import functools

import numpy as np

M1 = 2147483647
M2 = 2147462579
SINGLE_SCALE = np.float32(4.6566126e-10)
DOUBLE_SCALE = 2.0**-31
SUBSTREAM, STREAM = 72, 134
"""The rows of one node are 2**72 values apart, the first rows of two nodes 2**134."""

_A1 = ((0, 2**22, 2**7 + 1), (1, 0, 0), (0, 1, 0))
_A2 = ((2**15, 0, 2**15 + 1), (1, 0, 0), (0, 1, 0))


def draw(rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The next values of streams, and the rows behind them.

    rows: (n, 6) int32; n is 1 or more unless count is 0.  Returns (count,) int64 and (n, 6) int32.
    """
    after, z = rows.astype(np.int64), np.empty(count, np.int64)
    for first in range(0, count, max(len(rows), 1)):
        x = after[: count - first]
        x1 = (2**22 * x[:, 1] + (2**7 + 1) * x[:, 2]) % M1
        x2 = (2**15 * x[:, 3] + (2**15 + 1) * x[:, 5]) % M2
        x[:, [1, 2, 4, 5]] = x[:, [0, 1, 3, 4]]
        x[:, 0], x[:, 3] = x1, x2
        z[first : first + len(x)] = np.where(x1 > x2, x1 - x2, x1 - x2 + M1)
    return z, after.astype(np.int32)


def uniform(z: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values as floats in (0, 1); dtype: float32 or float64."""
    if dtype == np.float32:
        return np.asarray(z.astype(np.float32) * SINGLE_SCALE)
    return np.asarray(z * DOUBLE_SCALE)


def jumped(rows: np.ndarray, power: int) -> np.ndarray:
    """Rows, (..., 6) int32, moved on by 2**power values."""
    return _moved(rows, *_jump(power))


def substreams(row: np.ndarray, count: int) -> np.ndarray:
    """Rows that begin with a given one, each 2**72 values behind the one before: (count, 6) int32.

    row: (6,) int32.
    """
    rows, first, second = row[np.newaxis], *_jump(SUBSTREAM)
    while len(rows) < count:
        rows = np.concatenate([rows, _moved(rows[: count - len(rows)], first, second)])
        first, second = _product(first, first, M1), _product(second, second, M2)
    return rows[:count].astype(np.int32)


def _moved(rows: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    x, moved = rows.astype(np.uint64), np.empty(rows.shape, np.int32)
    moved[..., :3] = _product(x[..., :3], first.T, M1)
    moved[..., 3:] = _product(x[..., 3:], second.T, M2)
    return moved


@functools.cache
def _jump(power: int) -> tuple[np.ndarray, np.ndarray]:
    """The matrices that move both halves of a row by 2**power values."""
    first, second = np.array(_A1, np.uint64), np.array(_A2, np.uint64)
    for _ in range(power):
        first, second = _product(first, first, M1), _product(second, second, M2)
    return first, second


def _product(a: np.ndarray, b: np.ndarray, modulus: int) -> np.ndarray:
    """(..., 3) times (3, 3), exact: three products of numbers below 2**31 fit 64 bits without a sign."""
    return np.asarray((a @ b) % np.uint64(modulus))
