"""`make_rng`, and functions that draw by a generator, or by a new one each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.random.streams import RandomStreams
from atled.keras_backend.settings import floatx


def make_rng(seed: int | Sequence[int] | None = None) -> RandomStreams:
    """A generator.  seed: None for one that NumPy's global generator draws, from 1 to 9999999."""
    return RandomStreams(np.random.randint(1, 10_000_000) if seed is None else seed)


def random_uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, rng: RandomStreams | None = None
) -> Expression:
    """Uniform numbers between two bounds, both excluded.

    shape: a tuple or list of ints and integer expressions, or a vector of sizes.
    minval, maxval: numbers or expressions.  dtype: None for `floatx()`.  rng: None for a new generator.
    """
    return _rng(rng).uniform(shape, low=minval, high=maxval, dtype=_dtype(dtype))


def random_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, rng: RandomStreams | None = None
) -> Expression:
    """Normal numbers.  mean, stddev: numbers or expressions. The other arguments are those of `random_uniform`."""
    return _rng(rng).normal(shape, avg=mean, std=stddev, dtype=_dtype(dtype))


def random_binomial(shape: Any, p: Any = 0.0, dtype: Any = None, rng: RandomStreams | None = None) -> Expression:
    """1 with a probability p, else 0.  p: a number, or an expression. Others as those of `random_uniform`."""
    return _rng(rng).binomial(shape, p=p, dtype=_dtype(dtype))


def _rng(given: RandomStreams | None) -> RandomStreams:
    return make_rng() if given is None else given


def _dtype(given: Any) -> Any:
    return floatx() if given is None else given
