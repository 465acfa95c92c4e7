"""Errors of native steps name the index that is wrong and what it may be, whichever way the call runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.keyed import Description

Way = Callable[[np.ndarray], object]


def _table() -> nn.Variable:
    return nn.Variable.from_numpy_array(np.ones((5, 4), np.float32), need_grad=True)


def _at_once(index: np.ndarray) -> object:
    return F.embed(nn.NdArray.from_numpy_array(index), _table().data).data


def _into(index: np.ndarray) -> object:
    y = nn.NdArray((len(index), 4))
    return F.embed(nn.NdArray.from_numpy_array(index), _table().data, outputs=[y])


def _dynamically(index: np.ndarray) -> object:
    with nn.auto_forward():
        return F.embed(nn.Variable.from_numpy_array(index), _table()).d


def _graph(index: np.ndarray) -> nn.Variable:
    return F.mean(F.exp(F.embed(nn.Variable.from_numpy_array(index), _table()) * 2))


def _forward(index: np.ndarray) -> object:
    return _graph(index).forward()


def _inference(index: np.ndarray) -> object:
    x0 = nn.Variable.from_numpy_array(np.zeros(index.shape, index.dtype))
    return nn.inference(F.exp(F.embed(x0, _table()) * 2), [x0])(index)


def _step(index: np.ndarray) -> object:
    loss = _graph(index)
    solver = S.Sgd()
    solver.set_parameters({"w": loss.parent.inputs[0].parent.inputs[0].parent.inputs[0].parent.inputs[1]})
    return nn.compile_step(loss, solver)()


def _keyed(index: np.ndarray) -> object:
    d = Description()
    d.result(d.call("Embed", d.leaf(nn.NdArray.from_numpy_array(index)), d.leaf(_table().data)))
    return d.run()


_WAYS = (_at_once, _into, _dynamically, _forward, _inference, _step, _keyed)


@pytest.mark.parametrize("bad", [5, -1, 1 << 40])
@pytest.mark.parametrize("way", _WAYS, ids=lambda way: way.__name__)
def test_an_index_out_of_range_is_named_with_its_limits(way: Way, bad: int) -> None:
    with (
        nn.context_scope(nn.Context(["cpu:float"])),
        pytest.raises(IndexError, match=rf"Embed\(int64\[3\].*x0\[2\] is {bad}, out of range\nWhat to do: use 0 to 4"),
    ):
        way(np.array([0, 4, bad]))


def test_a_label_out_of_range_is_named_with_its_limits() -> None:
    x, labels = (nn.Variable.from_numpy_array(values) for values in (np.ones((2, 4)), np.array([[1], [4]])))
    with (
        nn.context_scope(nn.Context(["cpu:float"])),
        pytest.raises(IndexError, match=r"target\[1, 0\] is 4, out of range\nWhat to do: use 0 to 3"),
    ):
        F.mean(F.softmax_cross_entropy(x, labels)).forward()
