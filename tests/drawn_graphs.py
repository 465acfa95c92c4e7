"""Random graphs over few leaves, of ops that plans store, fuse, compute again or leave out in different ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np

import atled.functions as F
from atled.variable import Variable
from atled_contexts import Context, context_scope

SHAPE = (3, 4)


def _labels(x: Variable) -> Variable:
    return Variable.from_numpy_array(np.arange(x.shape[0]).reshape(-1, 1) % 3)


_UNARY: list[Callable[[Variable], Variable]] = [
    F.tanh,
    F.relu,
    lambda x: x * 0.5,
    lambda x: F.add_scalar(x, -1.25),
    lambda x: F.softmax(x, axis=1),
    lambda x: F.transpose(x, (1, 0)),
    lambda x: F.dropout(x, 0.0),
    lambda x: F.reshape(x, SHAPE),
    lambda x: x - F.max(x, axis=1, keepdims=True),
    lambda x: x * F.softmax_cross_entropy(x, _labels(x)),
    lambda x: F.reshape(
        F.max_pooling(F.reshape(x, [1, 1, *x.shape]), (2, 2), (1, 1), pad=(1, 1))[:, :, 1:, 1:], x.shape
    ),
]
_BINARY: list[Callable[[Variable, Variable], Variable]] = [F.add2, F.sub2, F.mul2, lambda x, y: x / (y * y + 1.0)]


def leaf(*values: float, need_grad: bool | None = True) -> Variable:
    """A leaf of float32 with one axis."""
    return Variable.from_numpy_array(np.array(values, np.float32), need_grad=need_grad)


def drawn_leaves(seed: int, flags: Sequence[bool | None]) -> list[Variable]:
    """A leaf of random values per flag of need_grad."""
    draw = np.random.default_rng(seed)
    return [Variable.from_numpy_array(draw.standard_normal(SHAPE).astype(np.float32), need_grad=flag) for flag in flags]


def drawn_graph(
    seed: int,
    leaves: Sequence[Variable],
    further: Sequence[Callable[[Variable], Variable]] = (),
    statistics: Sequence[Variable] = (),
    contexts: Sequence[Context] = (),
) -> tuple[Variable, list[Variable]]:
    """A random graph over leaves: the root, and the results to whose Variables somebody holds on.

    further: functions beside those that all such graphs have.  statistics: running ones, into which batch
        normalizations write; without them there are none.
    contexts: each call is recorded under one of them; without them under the one in force.
    """
    choose = random.Random(seed)
    values, held = list(leaves), []
    for _ in range(choose.randint(1, 14)):
        x, y = choose.choice(values[-4:]), choose.choice(values)
        with context_scope(choose.choice(contexts)) if contexts else nullcontext():
            made = _drawn_call(choose, x, y, further, statistics)
        flag = choose.random()
        if flag < 0.05:
            made.need_grad = False
        elif flag < 0.1:
            made.persistent = True
        if choose.random() < 0.15:
            held.append(made)
        values.append(made)
    return values[-1], held


def _drawn_call(
    choose: random.Random,
    x: Variable,
    y: Variable,
    further: Sequence[Callable[[Variable], Variable]],
    statistics: Sequence[Variable],
) -> Variable:
    if statistics and choose.random() < 0.15 and x.shape == SHAPE:
        scale = [Variable.from_numpy_array(np.full((1, 4), number, np.float32)) for number in (0.1, 1.5)]
        return F.batch_normalization(x, *scale, *statistics, axes=[1])
    if choose.random() < 0.2 and x.shape == y.shape == SHAPE:
        return F.affine(F.affine(x, F.transpose(y, (1, 0))), x)
    if choose.random() < 0.4 or x.shape != y.shape:
        return choose.choice([*_UNARY, *further])(x)
    return choose.choice(_BINARY)(x, y)
