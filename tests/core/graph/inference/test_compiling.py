"""Plans of what depends on parameters alone, where NumPy does not compute it: blocks that are alike have one."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.graph.inference import compiling

RNG = np.random.default_rng(0)


def parameter(*shape, least=-1.0):
    return nn.Variable.from_numpy_array(RNG.uniform(least, 1.0, shape).astype(np.float32))


def block(x, weight, statistics, **attributes):
    """A convolution, and normalization by running statistics, which goes into its weight and a bias."""
    return F.batch_normalization(F.convolution(x, weight, pad=(1, 1), **attributes), *statistics, batch_stat=False)


def statistics(maps):
    return [parameter(1, maps, 1, 1, least=0.5 if kind == "variance" else -1.0) for kind in ("b", "g", "m", "variance")]


@pytest.fixture(autouse=True)
def by_plans(monkeypatch):
    """As where parameters are on a device."""
    monkeypatch.setattr(compiling, "fits", lambda *_: False)


@pytest.fixture
def lowered(monkeypatch):
    """How many plans were made."""
    plans = []
    lower = compiling.lower
    monkeypatch.setattr(compiling, "lower", lambda *given: plans.append(given) or lower(*given))
    return plans


@pytest.mark.parametrize("last", ["alike", "another stride", "other maps", "one weight twice"])
def test_blocks_that_are_alike_have_one_plan_and_values_of_their_own(lowered, last):
    x = nn.Variable((2, 4, 8, 8))
    maps = 6 if last == "other maps" else 4
    weights = [parameter(4, 4, 3, 3), parameter(4, 4, 3, 3), parameter(maps, 4, 3, 3)]
    if last == "one weight twice":
        weights[2] = weights[1]
    y = x
    for weight in weights:
        stride = (2, 2) if last == "another stride" and weight is weights[2] else (1, 1)
        y = block(y, weight, statistics(weight.shape[0]), stride=stride)
    infer = nn.inference(y, [x])
    for _ in range(2):
        values = RNG.uniform(-1, 1, x.shape).astype(np.float32)
        x.d = values
        y.forward()
        np.testing.assert_allclose(infer(values), y.d, rtol=1e-4, atol=1e-4)
        weights[0].d = weights[0].d * 2  # what is computed of a parameter follows it
    assert len(lowered) == (3 if last == "other maps" else 2)


def test_inputs_of_another_shape_have_the_plans_of_what_is_folded(lowered):
    x = nn.Variable((2, 4, 8, 8))
    infer = nn.inference(block(x, parameter(4, 4, 3, 3), statistics(4)), [x])
    both = infer(values := RNG.uniform(-1, 1, (2, 4, 10, 10)).astype(np.float32))
    assert len(lowered) == 2
    np.testing.assert_allclose(infer(values[:1]), both[:1], rtol=1e-5, atol=1e-5)
    assert len(lowered) == 3


def test_what_is_folded_is_planned_anew_where_that_failed(monkeypatch):
    x = nn.Variable((2, 4, 8, 8))
    infer = nn.inference(y := block(x, parameter(4, 4, 3, 3), statistics(4)), [x])
    _ = infer.plan

    def fails_half_way(graph, values):
        graph.op("Add2", values[1], values[1])
        raise RuntimeError("no kernel")

    with monkeypatch.context() as failing:
        failing.setattr(compiling, "lower", fails_half_way)
        with pytest.raises(RuntimeError, match="no kernel"):
            infer(np.ones(x.shape, np.float32))
    x.d = 1
    y.forward()
    np.testing.assert_allclose(infer(np.ones(x.shape, np.float32)), y.d, rtol=1e-4, atol=1e-4)


def test_two_parameters_that_are_one_array_are_no_two(lowered):
    x = nn.Variable((2, 4, 8, 8))
    beta, gamma, mean, variance = (parameter(1, 4, 1, 1, least=0.5) for _ in range(4))
    y = block(x, parameter(4, 4, 3, 3), (beta, gamma, mean, variance))
    y = block(y, parameter(4, 4, 3, 3), (beta, beta, mean, variance))
    values = x.d = RNG.uniform(-1, 1, x.shape).astype(np.float32)
    y.forward()
    np.testing.assert_allclose(nn.inference(y, [x])(values), y.d, rtol=1e-4, atol=1e-4)
    assert len(lowered) == 3


def test_what_is_added_may_come_of_a_function_without_inputs():
    x = nn.Variable((2, 4))
    infer = nn.inference(F.relu(x) + F.constant(1, x.shape), x)
    np.testing.assert_array_equal(infer(np.float32([[-1, 0, 1, 2]] * 2)), [[1, 1, 2, 3]] * 2)
