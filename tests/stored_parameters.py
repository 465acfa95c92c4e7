"""Parameters for the tests of files: how to make some, a network of them, and all that a file must keep of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.parameter import get_parameter_or_create, get_parameters
from atled.variable import Variable


def make(key: str, values: Any, need_grad: bool = True) -> Variable:
    """A parameter with these values, float32."""
    return get_parameter_or_create(key, initializer=np.asarray(values, np.float32), need_grad=need_grad)


def network() -> None:
    """Parameters in scopes, not in alphabetical order; one without gradient, a single number, one without elements."""
    rng = np.random.RandomState(0)
    make("z/conv/W", rng.randn(4, 3, 2, 2))
    make("z/conv/b", rng.randn(4))
    make("a/bn/mean", rng.randn(1, 4, 1, 1), need_grad=False)
    make("scalar", 2.5)
    make("empty", np.zeros((0, 3)))


def state() -> list[tuple[str, bool, tuple[int, ...], bytes]]:
    """Key, need_grad, shape and the bytes of each parameter, in their order."""
    found = get_parameters(grad_only=False)
    return [(key, param.need_grad, param.shape, param.d.tobytes()) for key, param in found.items()]
