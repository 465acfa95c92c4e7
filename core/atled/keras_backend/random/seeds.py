"""Seeds of generators, as rows of MRG31k3p, and how many streams a size is drawn by."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.ops.mrg31k3p import M1, M2

MOST_STREAMS = 60 * 256
"""Of one node; also of those whose sizes are not known when they are written."""
_REMEDY = "give one int from 1 to 2147462578, or six, of which the first three are below 2147483647"


def row_of(seed: Any) -> np.ndarray:
    """The row of a generator, (6,) int32.

    seed: an int, which is all six numbers, or six of them.
    ValueError: 0 or too large; six of which the first or the last three are 0.  TypeError: neither one int nor six.
    """
    numbers = _whole(seed)
    is_one = len(numbers) == 1
    if len(numbers) not in (1, 6):
        raise TypeError(four_parts(f"the seed {seed!r}", f"it has {len(numbers)} numbers", "", _REMEDY))
    if is_one:
        numbers *= 6
    limits = [M2] * 6 if is_one else [M1] * 3 + [M2] * 3
    if any(not 0 <= number < limit for number, limit in zip(numbers, limits, strict=True)):
        raise ValueError(four_parts(f"the seed {seed!r}", "a number of it is negative or too large", "", _REMEDY))
    if not any(numbers[:3]) or not any(numbers[3:]):
        wrong = "it is 0" if is_one else "its first or its last three numbers are all 0"
        raise ValueError(
            four_parts(f"the seed {seed!r}", wrong, "such a stream would give one number for ever", _REMEDY)
        )
    return np.array(numbers, np.int32)


def _whole(seed: Any) -> list[int]:
    try:
        return [operator.index(each) for each in (seed if np.ndim(seed) else [seed])]
    except TypeError as error:
        wrong = f"it is of type {type(seed).__name__}"
        raise TypeError(four_parts(f"the seed {seed!r}", wrong, "", _REMEDY)) from error


def stream_count(size: Any) -> int:
    """How many streams a node of a size draws by: a sixth of its elements, at most 15360.

    15360 where the size is anything but Python ints, such as expressions or NumPy's numbers.
    """
    if not isinstance(size, Sequence) or not all(isinstance(each, int) for each in size):
        return MOST_STREAMS
    count = math.prod(size)
    return min(count // 6 if count > 6 else count, MOST_STREAMS)
