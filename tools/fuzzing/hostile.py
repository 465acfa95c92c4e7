"""Values that no call should get: numbers at the edges of the machine's types, and things of another type."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np

from atled.ops.spec import REQUIRED, Attribute

INTS = (
    *(0, -1, 1, 2, 3, 7, 63, 1000, 10**5, 10**9),
    *(2**31 - 1, 2**31, 2**32, 2**40, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, 10**30),
    *(-2, -(2**31), -(2**62), -(2**63), -(2**63) - 1, -(10**30)),
)
FLOATS = (
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 0.5, 1.0, 2.0, 1e-45, 5e-324, 1e-300),
    *(65504.0, 1e38, 3.5e38, -3.5e38, 1e300, 2.0**31, -(2.0**63), 2.0**63, 10**400),
)
SIZES = (0, 1, 2, 5, 17, 1000, 10**6, 2**31, 2**40, 2**61, 2**62, 2**63, 10**30, -1)
DTYPES = ("float16", "float64", "int8", "uint8", "int32", "int64", "uint64", "bool")
STRANGE: tuple[Any, ...] = (
    *(None, "", "x", "3", b"x", [], {}, (), object(), 1.5, True, 1j, len, int, np.float32),
    *(np.int64(3), np.uint64(2**64 - 1), np.float32(2.0), np.float64(math.nan), np.array([1, 2]), np.array(1.5)),
    *([1, [2]], (None,), ("a",), (1.5, 2), {1: 2}, range(3), "\0", "a" * 1000, slice(1)),
)


def shape(rng: Random, given: tuple[int, ...]) -> tuple[Any, ...]:
    """A shape like the given one with another size, one axis more, one axis fewer, or none."""
    sizes: list[Any] = list(given)
    kind = rng.randrange(6)
    if kind == 0 and sizes:
        del sizes[rng.randrange(len(sizes))]
    elif kind == 1:
        sizes.insert(rng.randint(0, len(sizes)), rng.choice((0, 1, 2, 3)))
    elif kind == 2 and sizes:
        sizes[rng.randrange(len(sizes))] = rng.choice(SIZES)
    elif kind == 3:
        sizes = [rng.choice(SIZES) for _ in range(rng.randrange(5))]
    elif kind == 4:
        sizes = [1] * rng.choice((0, 1, 6, 33, 65, 200))
    elif sizes:
        sizes[rng.randrange(len(sizes))] += rng.choice((-1, 1))
    return tuple(sizes)


def whole_numbers(rng: Random, given: Any) -> Any:
    """A tuple like the given one, with hostile entries or of another length."""
    items = list(given) if isinstance(given, tuple | list | range) else [1] * rng.randrange(4)
    kind = rng.randrange(6)
    if kind < 3 and items:
        items[rng.randrange(len(items))] = rng.choice(INTS)
    elif kind == 3:
        items = [rng.choice(INTS) for _ in range(max(1, len(items)))]
    elif kind == 4:
        items = (items * 3)[: rng.randrange(2 * len(items) + 2)]
    else:
        items = [rng.choice(INTS)] * rng.choice((0, 1, 2, 3, 64, 10**5))
    return rng.choice((tuple, list))(items)


def value(rng: Random, attribute: Attribute, given: Any) -> Any:
    """A hostile value of an attribute in the place of a given one."""
    if rng.random() < 0.1:
        return rng.choice(STRANGE)
    if attribute.kind == "int":
        return rng.choice(INTS)
    if attribute.kind == "float":
        return rng.choice(FLOATS)
    if attribute.kind in ("ints", "axes"):
        if attribute.kind == "axes" and rng.random() < 0.3:
            return rng.choice(INTS)
        return whole_numbers(rng, attribute.default if given is REQUIRED else given)
    if attribute.kind == "bool":
        return rng.choice((0, 1, 2, -1, True, False, np.True_, "True"))
    if attribute.kind == "str":
        return rng.choice((*attribute.choices, "", "Max", "\0", "x" * 1000))
    return rng.choice(STRANGE)


def data(rng: Random, array: np.ndarray) -> np.ndarray:
    """The array with hostile elements, or of another dtype."""
    if rng.random() < 0.3:
        with np.errstate(all="ignore"):
            return array.astype(rng.choice(DTYPES))
    if not array.size:
        return array
    array = array.copy()
    for _ in range(rng.choice((1, 1, array.size))):
        place = rng.randrange(array.size)
        whole = np.array(min(max(rng.choice(INTS), -(2**63)), 2**63 - 1))
        with np.errstate(all="ignore"):
            number = np.array(rng.choice(FLOATS[:-1])) if array.dtype.kind == "f" else whole
            array.reshape(-1)[place] = number.astype(array.dtype)
    return array


def short(item: Any, most: int = 200) -> str:
    """The item for a report, cut where it is long."""
    text = repr(item)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
