"""Auxiliary outputs, which gradients alone read: made only where one is asked for, and to be had later all the same."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF


@pytest.fixture(autouse=True, params=["reference", "cpu"])
def _context(request):
    with nn.context_scope(nn.Context([f"{request.param}:float"], fallback="raise")):
        yield


def leaf(shape, need_grad=None, seed=0):
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return nn.Variable.from_numpy_array(values, need_grad=need_grad)


def pooled(x):
    return F.max_pooling(F.reshape(x, (2, 3, 4, 4)), (2, 2))


def longest(x):
    return F.max(x * 2, axis=0)


def sequence(x):
    h, c = F.constant(0, (1, 1, 8, 4)), F.constant(0, (1, 1, 8, 4))
    return F.lstm(F.reshape(x, (3, 8, 4)), h, c, leaf((1, 4, 4, 8), seed=1))[0]


def gated(x):
    return F.gru(F.reshape(x, (3, 8, 4)), F.constant(0, (1, 1, 8, 4)), leaf((1, 3, 4, 8), seed=1))[0]


def losses(x):
    return F.softmax_cross_entropy(x, nn.Variable.from_numpy_array(np.arange(8)[:, None] % 12))


def normalized(x):
    beta, gamma, mean, variance = (leaf((1, 12), seed=seed) for seed in range(4))
    return F.batch_normalization(x, beta, gamma, mean, variance)


OPS = (pooled, longest, sequence, gated, losses, normalized)


def graph(op, x):
    """A number of what an op makes of x, (8, 12), computed on the way: nobody holds what is in the middle."""
    return F.sum(op(F.tanh(x)) * 3)


def stored_count(y):
    return len(y.plan.targets)


@pytest.mark.parametrize("op", [pooled, longest, losses])
def test_the_result_alone_is_stored_where_no_gradient_is_asked_for(op):
    assert stored_count(graph(op, leaf((8, 12)))) == 1


@pytest.mark.parametrize(("op", "others"), [(sequence, 3), (gated, 2), (normalized, 1)])
def test_what_may_be_stored_beside_it_is_no_auxiliary_output(op, others):
    """Of several results all are, and what is read by a call that changes some of its inputs."""
    assert stored_count(graph(op, leaf((8, 12)))) == 1 + others


@pytest.mark.parametrize("op", OPS)
def test_a_gradient_that_is_asked_for_later_is_that_of_the_forward(op):
    x = leaf((8, 12))
    y = graph(op, x)
    y.forward()
    x.need_grad = True
    x.grad.zero()
    y.backward()
    late = x.g.copy()
    assert late.any()
    y.forward()
    x.grad.zero()
    y.backward()
    assert_array_equal(late, x.g)


@pytest.mark.parametrize("op", OPS)
def test_a_gradient_that_is_asked_for_from_the_start_finds_what_it_reads(op):
    x = leaf((8, 12), need_grad=True)
    y, again = graph(op, x), graph(op, leaf((8, 12)))
    y.forward()
    again.forward()
    assert_array_equal(y.d, again.d)
    y.backward()
    assert x.g.any()


@pytest.mark.parametrize("op", OPS)
def test_after_a_write_to_an_input_there_is_no_such_gradient(op):
    x = leaf((8, 12))
    y = graph(op, x)
    y.forward()
    x.d = 1
    x.need_grad = True
    with pytest.raises(RuntimeError, match=r"(?s)not stored.*written since.*compute the graph again.*set need_grad"):
        y.backward()


def test_results_that_were_written_stay_when_what_is_beside_them_is_computed():
    x = leaf((3, 8, 4))
    states = [F.constant(0, (1, 1, 8, 4)) for _ in range(2)]
    y, h, c = F.lstm(x, *states, leaf((1, 4, 4, 8), seed=1))
    total = F.sum(y) + F.sum(h) + F.sum(c)
    total.forward()
    h.d = 7
    x.need_grad = True
    total.backward()
    assert x.g.any()
    assert_array_equal(h.d, np.full(h.shape, 7, np.float32))


def test_draws_are_kept():
    x = leaf((8, 12))
    y = F.sum(F.dropout(x, 0.5))
    y.forward()
    x.need_grad = True
    y.backward()
    assert set(np.unique(x.g)) == {0, 2}


def test_a_gradient_that_is_asked_for_no_more():
    x = leaf((8, 12), need_grad=True)
    y = graph(pooled, x)
    y.forward()
    y.backward()
    expected = y.d.copy()
    x.need_grad = False
    y.forward()
    assert_array_equal(y.d, expected)
    x.need_grad = True
    x.grad.zero()
    y.forward()
    y.backward()
    assert x.g.any()


@pytest.mark.parametrize("way", ["flag", "call"])
@pytest.mark.parametrize("op", [pooled, longest, losses])
def test_calls_that_no_gradient_passes_keep_nothing_in_a_graph_that_has_some(op, way):
    x, w = leaf((8, 12), need_grad=True), leaf((1,), need_grad=True, seed=3)
    middle = F.sum(op(F.tanh(x)) * 3)
    if way == "flag":
        middle.need_grad = False
    else:
        middle = F.unlink(middle)
    y = F.reshape(middle, (1,)) * w
    assert stored_count(y) == 2
    y.forward()
    x.grad.zero()
    w.grad.zero()
    y.backward()
    assert_array_equal(w.g, middle.d.reshape(1))
    assert not x.g.any()
    if way == "flag":
        middle.need_grad = None
        w.grad.zero()
        y.backward()
        assert x.g.any()


def test_layers_of_fixed_parameters():
    x = leaf((2, 3, 8, 8))
    with nn.parameter_scope("of fixed parameters"):
        y = PF.convolution(x, 4, (3, 3), pad=(1, 1), fix_parameters=True)
        y = F.max(PF.affine(F.max_pooling(y, (2, 2)), 5, fix_parameters=True), axis=1)
    assert stored_count(y) == 1
    y.forward()
    assert y.d.shape == (2,)
    nn.clear_parameters()
