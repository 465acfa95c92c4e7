"""`seed`: one number that decides what initializers, random functions and shuffled data draw."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from atled.errors import RefusedError, four_parts, shortened
from atled.limits.whole_numbers import whole

__all__ = ["seed"]

DEFAULT_DATA_SEED = 313
"""Seed of the generator of a data source or an iterator that was given none; NNabla's."""

_LIMIT = 2**31


class _Seeds:
    """What `seed` has set; one for the process, as the random states that it starts are.

    prng: the generator of initial values; None: the `numpy.random` module.
    function: (seed, numbers of the functions made since); None: fresh entropy for each.
    data: seed of sources of data that are given no generator.
    """

    def __init__(self) -> None:
        self.prng: np.random.RandomState | None = None
        self.function: tuple[int, Iterator[int]] | None = None
        self.data = DEFAULT_DATA_SEED


_SEEDS = _Seeds()


def seed(
    seed_value: int, set_function_seed: bool = True, set_parameter_seed: bool = True, set_data_seed: bool = True
) -> None:
    """Make what is drawn by chance from now on follow from one number.

    Args:
        seed_value: 0 to 2**31 - 1.
        set_function_seed: random functions that are given no seed (or -1): each that is made takes the next of a
            series of random states. Those made before keep theirs.
        set_parameter_seed: initializers that are given no rng draw from `numpy.random.RandomState(seed_value)`, as in
            NNabla; before the first call of this kind they draw from the `numpy.random` module.
        set_data_seed: data sources and iterators that are made from now on without rng draw their orders from
            `numpy.random.RandomState(seed_value)`. Before, that seed is 313, as always in NNabla.

    TypeError: no whole number.  ValueError: out of range.
    """
    asked = f"seed({shortened(seed_value)})"
    remedy = f"use a whole number from 0 to {_LIMIT - 1}"
    try:
        number = whole(seed_value)
    except TypeError as error:
        raise TypeError(four_parts(asked, str(error), "", remedy)) from error
    if not 0 <= number < _LIMIT:
        raise RefusedError(four_parts(asked, "out of range", "", remedy))
    if set_function_seed:
        _SEEDS.function = number, itertools.count()
    if set_parameter_seed:
        _SEEDS.prng = np.random.RandomState(number)
    if set_data_seed:
        _SEEDS.data = number


def parameter_generator() -> Any:
    """What initializers without rng draw from: a RandomState, or the `numpy.random` module, which has its methods."""
    return np.random if _SEEDS.prng is None else _SEEDS.prng


def data_generator() -> np.random.RandomState:
    """A new generator for a source of data that was given none."""
    return np.random.RandomState(_SEEDS.data)


def random_key(function_seed: int) -> int:
    """The key of the random state of a function that is being made; 63 bits. -1: as `seed` says."""
    if function_seed != -1:
        return function_seed & 0x7FFF_FFFF_FFFF_FFFF
    if _SEEDS.function is None:
        return int.from_bytes(os.urandom(8), "little") >> 1
    number, functions = _SEEDS.function
    return _mixed(number << 32 | next(functions)) >> 1


def _mixed(word: int) -> int:
    """64 bits of which each depends on all 64 of the argument: the finalizer of splitmix64 (Steele et al. 2014).

    Without it keys of neighbouring seeds would be small numbers, which users also give as seeds.
    """
    word = (word + 0x9E37_79B9_7F4A_7C15) & 0xFFFF_FFFF_FFFF_FFFF
    word = ((word ^ word >> 30) * 0xBF58_476D_1CE4_E5B9) & 0xFFFF_FFFF_FFFF_FFFF
    word = ((word ^ word >> 27) * 0x94D0_49BB_1331_11EB) & 0xFFFF_FFFF_FFFF_FFFF
    return word ^ word >> 31


def __getattr__(name: str) -> Any:
    if name == "prng":  # NNabla's name; another object after each seed
        return parameter_generator()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
