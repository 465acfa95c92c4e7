"""Normalization by running statistics in the product before it, once forward finds that nobody writes what it reads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.constants import CONSTANTS
from ways_of_writing import all_ways

RNG = np.random.default_rng(7)
EPS = 1e-3


@pytest.fixture(autouse=True)
def empty():
    nn.clear_memory_cache()
    yield
    CONSTANTS.set_limit(1 << 30)


def leaf(values, need_grad=None):
    return nn.Variable.from_numpy_array(np.array(values), need_grad=need_grad)


def drawn(*shape, dtype=np.float32):
    return leaf(RNG.standard_normal(shape).astype(dtype))


def statistics_of(shape, dtype=np.float32):
    """beta, gamma, mean, variance."""
    return [*(drawn(*shape, dtype=dtype) for _ in range(3)), leaf(RNG.uniform(0.5, 2, shape).astype(dtype))]


def normalized(h, statistics, **attributes):
    return F.batch_normalization(h, *statistics, batch_stat=False, eps=EPS, **attributes)


def expected(h, statistics, axis=1):
    beta, gamma, mean, variance = (np.float64(each.d) for each in statistics)
    return (h - mean) / np.sqrt(variance + EPS) * gamma + beta


def names(y):
    return [step.name for step in y.plan.steps]


def run(x, y, times=3):
    """Forward on other values each time; the last of them."""
    for _ in range(times):
        values = RNG.standard_normal(x.shape).astype(x.d.dtype)
        x.d = values
        y.forward()
    return np.float64(values)


class Layers:
    """A product, and its normalization of which nobody holds the input."""

    def __init__(self, kind, has_bias=True, dtype=np.float32):
        self.kind = kind
        if kind == "affine":
            self.x, shape, count = drawn(3, 5, dtype=dtype), (5, 4), 4
        elif kind == "depthwise":
            self.x, shape, count = drawn(2, 3, 6, 5, dtype=dtype), (3, 3, 3), 3
        else:
            self.x, shape, count = drawn(2, 3, 6, 5, dtype=dtype), (4, 3, 3, 2), 4
        self.w = drawn(*shape, dtype=dtype)
        self.b = drawn(count, dtype=dtype) if has_bias else None
        ones = (1,) * (self.x.ndim - 2)
        self.statistics = statistics_of((1, count, *ones), dtype=dtype)
        self.y = normalized(self.product(self.x), self.statistics)

    def product(self, x):
        function = {"affine": F.affine, "depthwise": F.depthwise_convolution}.get(self.kind, F.convolution)
        return function(x, self.w, self.b)

    @property
    def leaves(self):
        return [self.w, *([] if self.b is None else [self.b]), *self.statistics]

    def check(self, rtol=2e-4):
        run(self.x, self.y, 1)
        h = self.product(leaf(self.x.d))
        h.forward()
        assert_allclose(self.y.d, expected(np.float64(h.d), self.statistics), rtol=rtol, atol=rtol)

    @property
    def is_folded(self):
        return "BatchNormalization" not in names(self.y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("kind", ["affine", "depthwise", "convolution"])
def test_results_are_right_with_and_without(kind, has_bias, dtype):
    with nn.context_scope(nn.get_extension_context("cpu", type_config="double" if dtype is np.float64 else "float")):
        layers = Layers(kind, has_bias, dtype)
        layers.check()
        assert not layers.is_folded
        run(layers.x, layers.y)
        assert layers.is_folded
        layers.check()
        assert nn.memory_statistics()["caches"]["constants"] >= 2


@pytest.mark.parametrize("number", range(6))
@all_ways
def test_no_way_of_writing_leaves_an_old_value(number, write):
    layers = Layers("convolution")
    run(layers.x, layers.y)
    assert layers.is_folded
    of = layers.leaves[number]
    write(of, np.float32(RNG.uniform(0.5, 2, of.shape)))
    layers.check()
    run(layers.x, layers.y, 5)
    layers.check()


def test_a_product_that_is_held_or_read_twice_stays():
    layers = Layers("convolution")
    held = layers.product(layers.x)
    for y in (normalized(held, layers.statistics), F.add2(normalized(held, layers.statistics), held)):
        values = run(layers.x, y, 4)
        assert "BatchNormalization" in "+".join(names(y))
        assert_array_equal(layers.x.d, np.float32(values))
    h = layers.product(layers.x)
    twice = normalized(h, layers.statistics) + F.tanh(h)
    del h
    run(layers.x, twice, 4)
    assert "BatchNormalization" in "+".join(names(twice))


def test_equal_inputs_give_equal_bits_where_the_context_says_so():
    context = nn.Context(["cpu:float"], deterministic=True)
    with nn.context_scope(context):
        layers = Layers("convolution")
        values, found = np.float32(RNG.standard_normal(layers.x.shape)), []
        for _ in range(5):
            layers.x.d = values
            layers.y.forward()
            found.append(layers.y.d.copy())
    assert not layers.is_folded
    for each in found[1:]:
        assert_array_equal(each, found[0])


def test_statistics_that_the_graph_moves_are_read_as_they_are():
    x, w = drawn(4, 3, 2, 2), drawn(3, 3, 1, 1)
    statistics = statistics_of((1, 3, 1, 1))
    moved = F.batch_normalization(F.tanh(x), *statistics, decay_rate=0.5)
    y = normalized(F.convolution(x, w), statistics)
    both = F.sum(moved) + F.sum(y)
    y.persistent = True
    for _ in range(4):
        values = run(x, both, 1)
        h = np.einsum("oi,nihw->nohw", np.float64(w.d[:, :, 0, 0]), values)
        assert_allclose(y.d, expected(h, statistics), rtol=1e-4, atol=1e-4)


def test_an_evaluation_behind_each_training_step_gives_up():
    layers = Layers("convolution")
    layers.w.need_grad = True
    trained = F.sum(layers.product(layers.x) ** 2)
    solver = S.Sgd(1e-4)
    solver.set_parameters({"w": layers.w})
    made = 0
    for _ in range(60):
        trained.forward()
        solver.zero_grad()
        trained.backward()
        solver.update()
        run(layers.x, layers.y, 1)
        made += layers.is_folded
    assert made <= 4
    layers.check()


def test_a_head_may_be_trained_behind():
    layers = Layers("convolution")
    head = leaf(np.float32(RNG.standard_normal((1, 4, 1, 1))), True)
    loss = F.sum(layers.y * F.broadcast(head, layers.y.shape))
    layers.y = None
    for _ in range(4):
        values = run(layers.x, loss, 1)
        head.grad.zero()
        loss.backward()
        h = layers.product(leaf(np.float32(values)))
        h.forward()
        wanted = expected(np.float64(h.d), layers.statistics).sum((0, 2, 3), keepdims=True)
        assert_allclose(head.g, wanted, rtol=1e-3, atol=1e-3)


def test_without_room_everything_is_computed():
    nn.set_constants_limit(0)
    layers = Layers("convolution")
    run(layers.x, layers.y, 4)
    assert not layers.is_folded
    layers.check()


def test_half_keeps_its_own_digits():
    with nn.context_scope(nn.get_extension_context("cpu", type_config="half")):
        layers = Layers("convolution")
        run(layers.x, layers.y, 4)
        assert not layers.is_folded
        layers.check(rtol=3e-2)


def test_a_variance_below_zero_gives_nan_and_infinite_weights_stay_infinite():
    layers = Layers("convolution")
    layers.statistics[3].d = np.float32([-1, 1, 1, 1]).reshape(1, 4, 1, 1)
    layers.w.d[1, 0, 0, 0] = np.inf
    values = np.abs(layers.x.d) + 1
    for number in range(3):
        layers.x.d = values
        layers.y.forward()
        assert layers.is_folded == (number > 0)
        assert np.isnan(layers.y.d[:, 0]).all()
        assert np.isinf(layers.y.d[:, 1]).all()
        assert np.isfinite(layers.y.d[:, 2:]).all()


def test_an_empty_batch_stays_empty():
    w, statistics = drawn(4, 3, 1, 1), statistics_of((1, 4, 1, 1))
    x = drawn(0, 3, 2, 2)
    y = normalized(F.convolution(x, w), statistics)
    for _ in range(4):
        x.d = np.zeros(x.shape)
        y.forward()
        assert y.d.shape == (0, 4, 2, 2)


def test_on_a_device_normalization_stays():
    with nn.context_scope(nn.Context(["sim:float", "cpu:float"])):
        layers = Layers("convolution")
        run(layers.x, layers.y, 4)
        assert not layers.is_folded
        layers.check()
