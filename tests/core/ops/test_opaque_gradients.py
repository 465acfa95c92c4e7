"""Ops whose backward writes: what it writes where, and what it leaves alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F

pytestmark = pytest.mark.usefixtures("backend")

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def leaf(values, need_grad=True):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def test_noise_of_each_sample_has_the_length_eps():
    x = leaf(X)
    for base_axis, axes in ((0, None), (1, 1)):
        y = F.vat_noise(x, leaf(np.zeros((2, 3))), base_axis=base_axis, eps=0.5)
        y.forward()
        assert_allclose(np.sqrt(np.square(y.d).sum(axis=axes)), 0.5, rtol=1e-5)


def test_backward_writes_into_the_data_of_w():
    x, w = leaf(X), leaf(np.full((2, 3), 7))
    y = F.vat_noise(x, w, eps=0.5)
    y.forward()
    assert_array_equal(w.d, 7)
    x.g, w.g = 3, 4
    for factor in (1, 2):
        y.backward(factor * np.arange(6).reshape(2, 3))
        assert_array_equal(w.d, factor * 0.5 * np.arange(6).reshape(2, 3))
        assert_array_equal(x.g, 3)
        assert_array_equal(w.g, 4)


def test_it_writes_what_arrives_through_the_graph_behind():
    w = leaf(np.zeros((2, 3)))
    loss = F.sum(F.vat_noise(leaf(X), w, eps=0.5) * 3)
    loss.forward()
    loss.backward()
    assert_array_equal(w.d, 1.5)


@pytest.mark.parametrize(("x_needs", "w_needs", "written"), [(1, 0, 1), (0, 1, 1), (0, 0, 0)])
def test_it_writes_if_any_input_needs_a_gradient(x_needs, w_needs, written):
    x, w = leaf(X, bool(x_needs)), leaf(np.full((2, 3), 7), bool(w_needs))
    y = F.vat_noise(x, w)
    y.forward()
    y.backward(1)
    assert_array_equal(w.d, 1 if written else 7)


def test_one_array_may_be_noise_and_target():
    r = leaf(X)
    loss = F.sum(F.vat_noise(r, r))
    loss.forward()
    loss.backward()
    assert_array_equal(r.d, 1)
    loss.forward()
    assert_allclose(loss.d, 2 * 3**0.5, rtol=1e-6)


def test_it_writes_into_w_itself_under_half_and_while_traced(backend):
    w = leaf(np.full((2, 3), 7))
    with nn.context_scope(nn.Context([f"{backend}:half"], fallback="raise")), nn.trace():
        y = F.vat_noise(leaf(X), w, eps=0.5)
        y.forward()
        y.backward(3)
    assert w.d.dtype == np.float32
    assert_array_equal(w.d, 1.5)


def test_sink_computes_all_its_inputs_and_is_0():
    a = leaf([1, 2])
    b, c = a * 2, a + 1
    s = F.sink(b, c)
    s.forward()
    assert (s.shape, float(s.d)) == ((), 0.0)
    assert b.d.tolist() == [2, 4]
    assert c.d.tolist() == [2, 3]


@pytest.mark.parametrize("gradient", [1, 5])
def test_sink_sends_1_up_each_input_whatever_arrives(gradient):
    a, b = leaf([1, 2]), leaf([[3]])
    s = F.sink(a * 2, b, a * 3)
    s.forward()
    s.backward(gradient)
    assert a.g.tolist() == [5, 5]
    assert b.g.tolist() == [[1]]


def test_sinks_of_sinks_reach_everything():
    a, b = leaf([1, 2]), leaf([[3]])
    s = F.sink(F.sink(a * 2), b)
    s.forward()
    s.backward()
    assert a.g.tolist() == [2, 2]
    assert b.g.tolist() == [[1]]


def test_sink_without_gradients_leaves_leaves_alone():
    a = leaf([1, 2])
    a.g = 3
    s = F.sink(a, one_input_grad=False)
    s.forward()
    s.backward()
    assert_array_equal(a.g, 3)


def test_sink_without_gradients_goes_on_from_those_that_its_inputs_hold():
    x = leaf([1, 2])
    a, b = x * 3, F.exp(x)
    s = F.sink(a, b, one_input_grad=False)
    s.forward()
    a.g, b.g = [1, 2], [0.5, 0.25]
    once = [3 + 0.5 * np.exp(1), 6 + 0.25 * np.exp(2)]
    for times in (1, 2):
        s.backward()
        assert_allclose(x.g, times * np.array(once), rtol=1e-6)
    assert a.g.tolist() == [1, 2] and b.g.tolist() == [0.5, 0.25]
    x.grad.zero()
    b.grad.zero()
    s.backward()
    assert x.g.tolist() == [3, 6]


def test_sink_without_gradients_adds_what_arrives_elsewhere_to_what_an_input_holds():
    x = leaf([1, 2])
    a = x * 3
    b = a * 2
    s = F.sink(a, b, one_input_grad=False) * 2
    s.forward()
    a.g, b.g = [1, 2], [10, 20]
    s.backward()
    assert x.g.tolist() == [63, 126]
    assert a.g.tolist() == [21, 42]


def test_sink_without_gradients_stops_where_need_grad_is_off():
    x = leaf([1, 2])
    a, b = x * 3, x * 5
    a.need_grad = False
    s = F.sink(a, b, one_input_grad=False)
    s.forward()
    a.g, b.g = 1, 1
    s.backward()
    assert x.g.tolist() == [5, 5]


def test_grad_through_sink_without_gradients_says_that_there_is_none():
    x = leaf([1, 2])
    with pytest.raises(RuntimeError, match=r"call backward\(\) instead"):
        nn.grad(F.sink(x * 2, one_input_grad=False), x)
