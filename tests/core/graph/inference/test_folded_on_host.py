"""What goes into weights and biases is computed by NumPy where the parameters are in host memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.place import HOST
from atled.graph.inference import compiling
from atled.graph.inference.folded_on_host import Looks
from atled.graph.nodes.dispatch import home_of
from atled_contexts import Context

RNG = np.random.default_rng(0)
CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "sim": Context(["sim:float"], fallback="quiet"),
    "double": Context(["cpu:double", "reference:double"]),
}


def parameter(*shape, least=-1.0):
    return nn.Variable.from_numpy_array(RNG.uniform(least, 1.0, shape).astype(np.float32))


def statistics(maps):
    return [parameter(1, maps, 1, 1, least=0.5 if kind == "variance" else -1.0) for kind in ("b", "g", "m", "variance")]


def normalized(h, maps):
    return F.batch_normalization(h, *statistics(maps), batch_stat=False)


def convolved(x):
    return normalized(F.convolution(x, parameter(6, 4, 3, 3), pad=(1, 1)), 6)


def convolved_with_bias(x):
    return normalized(F.convolution(x, parameter(6, 4, 3, 3), parameter(6), pad=(1, 1)), 6)


def in_groups(x):
    return normalized(F.convolution(x, parameter(4, 1, 3, 3), pad=(1, 1), group=4), 4)


def shifted(x):
    return F.convolution(x, parameter(6, 4, 3, 3)) + parameter(1, 6, 1, 1)


def shifted_with_bias(x):
    return F.convolution(x, parameter(6, 4, 3, 3), parameter(6)) + parameter(1, 6, 1, 1)


def alone(x):
    return normalized(x, 4)


NETWORKS = [convolved, convolved_with_bias, in_groups, shifted, shifted_with_bias, alone]


@pytest.fixture
def lowered(monkeypatch):
    """How many plans were made."""
    plans = []
    lower = compiling.lower
    monkeypatch.setattr(compiling, "lower", lambda *given: plans.append(given) or lower(*given))
    return plans


@pytest.mark.parametrize("network", NETWORKS)
def test_one_plan_is_made_and_gives_what_forward_gives(network, lowered):
    x = nn.Variable((2, 4, 8, 8))
    y = network(x)
    infer = nn.inference(y, x)
    for _ in range(2):
        x.d = values = RNG.uniform(-1, 1, x.shape).astype(np.float32)
        y.forward()
        np.testing.assert_allclose(infer(values), y.d, rtol=1e-4, atol=1e-4)
        y.parent.inputs[1].d = y.parent.inputs[1].d * 2  # what is computed of a parameter follows it
    assert len(lowered) == 1


@pytest.mark.parametrize("context", CONTEXTS)
def test_parameters_of_a_device_or_of_another_dtype_are_read_by_plans(context, lowered):
    given = CONTEXTS[context]
    with nn.context_scope(given), nn.auto_forward(False):
        x = nn.Variable((2, 4, 8, 8))
        y = convolved(x)
        if context == "sim":
            for leaf in (*y.parent.inputs[1:], y.parent.inputs[0].parent.inputs[1]):
                leaf.data.cell.move(home_of(given), np.dtype(np.float32))
                assert leaf.data.cell.place is not HOST
        infer = nn.inference(y, x)
        x.d = values = RNG.uniform(-1, 1, x.shape).astype(np.float32)
        y.forward()
        np.testing.assert_allclose(infer(values), y.d, rtol=1e-4, atol=1e-4)
    assert len(lowered) == (1 if context == "cpu" else 2)


def test_a_variance_below_zero_gives_nan_without_a_warning():
    x = nn.Variable((2, 4, 8, 8))
    y = convolved(x)
    y.parent.inputs[4].d = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(nn.inference(y, x)(np.ones(x.shape, np.float32))).all()


def test_what_is_computed_of_parameters_is_folded_by_a_plan(lowered):
    x = nn.Variable((2, 4, 8, 8))
    y = normalized(F.convolution(x, F.tanh(parameter(6, 4, 3, 3)), pad=(1, 1)), 6)
    infer = nn.inference(y, x)
    x.d = values = RNG.uniform(-1, 1, x.shape).astype(np.float32)
    y.forward()
    np.testing.assert_allclose(infer(values), y.d, rtol=1e-4, atol=1e-4)
    assert len(lowered) == 2


def test_blocks_that_are_alike_are_looked_at_once_for_inputs_of_all_shapes(monkeypatch):
    looked = []
    folded = Looks.folded

    def counted(self, *given):
        if type(self) is Looks:
            looked.append(given)
        return folded(self, *given)

    monkeypatch.setattr(Looks, "folded", counted)
    blocks = [(parameter(4, 4, 3, 3), None, *statistics(4)) for _ in range(2)]
    blocks.append((parameter(6, 4, 3, 3), parameter(6), *statistics(6)))

    def network(x):
        for weight, bias, *rest in blocks:
            x = F.batch_normalization(F.convolution(x, weight, bias, pad=(1, 1)), *rest, batch_stat=False)
        return x

    with nn.context_scope(CONTEXTS["cpu"]), nn.auto_forward(False):
        x = nn.Variable((2, 4, 9, 8))
        infer = nn.inference(network(x), x)
        for shape in ((2, 4, 9, 8), (1, 4, 9, 8), (3, 4, 7, 5), (0, 4, 7, 5)):
            given = nn.Variable(shape)
            given.d = values = RNG.uniform(-1, 1, shape).astype(np.float32)
            y = network(given)
            y.forward()
            np.testing.assert_allclose(infer(values), y.d, rtol=1e-4, atol=1e-4)
    assert len(looked) == 2
