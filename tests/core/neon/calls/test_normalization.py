"""Batch normalization: values, running statistics, gradients."""

import numpy as np
import pytest

ROWS, BATCH, EPS, RHO = 3, 8, 1e-3, 0.9


def shifted(x, y):
    return x * np.sign(y) * 2 ** np.rint(np.log2(np.maximum(abs(y), np.exp(-50))))


class Layer:
    """Tensors of a layer, and what NumPy computes of them."""

    def __init__(self, be, dtype=np.float32):
        rng = np.random.default_rng(5)
        self.be = be
        self.x = be.array(2 * rng.standard_normal((ROWS, BATCH)) + 1, dtype=dtype)
        self.gamma, self.beta = (be.array(rng.uniform(0.5, 2, (ROWS, 1)), dtype=dtype) for _ in range(2))
        self.gmean, self.gvar = (be.array(rng.uniform(0.5, 2, (ROWS, 1)), dtype=dtype) for _ in range(2))
        self.xsum, self.xvar = be.zeros((ROWS, 1), dtype=dtype), be.zeros((ROWS, 1), dtype=dtype)
        self.y = be.array(rng.standard_normal((ROWS, BATCH)), dtype=dtype)

    def fprop(self, x=None, y=None, compute_batch_sum=True, **how):
        self.be.compound_fprop_bn(
            self.x if x is None else x,
            self.xsum,
            self.xvar,
            self.gmean,
            self.gvar,
            self.gamma,
            self.beta,
            self.y if y is None else y,
            EPS,
            RHO,
            compute_batch_sum,
            **how,
        )

    def expected(self, binary=False, inference=False, accumbeta=0.0, relu=False):
        times = shifted if binary else np.multiply
        x, y, mean, var = (each.get() for each in (self.x, self.y, self.gmean, self.gvar))
        if not inference:
            mean = x.mean(1, keepdims=True)
            var = times(x - mean, x - mean).mean(1, keepdims=True)
        value = times(times(x - mean, 1 / np.sqrt(var + EPS)), self.gamma.get()) + self.beta.get()
        return mean, var, (np.maximum(value, 0) if relu else value) + accumbeta * y


WAYS = [{}, {"accumbeta": 0.5}, {"relu": True, "accumbeta": 1.0}, {"binary": True}]


@pytest.mark.parametrize("how", WAYS)
def test_rows_are_normalized_and_statistics_kept(be, how):
    layer = Layer(be)
    mean, var, y = layer.expected(**how)
    gmean, gvar = layer.gmean.get(), layer.gvar.get()
    layer.fprop(**how)
    for tensor, wanted in (
        (layer.xsum, mean),
        (layer.xvar, var),
        (layer.y, y),
        (layer.gmean, RHO * gmean + (1 - RHO) * mean),
        (layer.gvar, RHO * gvar + (1 - RHO) * var),
    ):
        np.testing.assert_allclose(tensor.get(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", WAYS)
def test_running_statistics_are_taken_for_inference(be, how):
    layer = Layer(be)
    before = [each.get() for each in (layer.xsum, layer.xvar, layer.gmean, layer.gvar)]
    *_, y = layer.expected(inference=True, **how)
    layer.fprop(inference=True, **how)
    np.testing.assert_allclose(layer.y.get(), y, rtol=1e-4, atol=1e-5)
    for tensor, wanted in zip((layer.xsum, layer.xvar, layer.gmean, layer.gvar), before, strict=True):
        np.testing.assert_array_equal(tensor.get(), wanted)


def test_sums_may_be_given(be):
    layer = Layer(be)
    *_, y = layer.expected()
    layer.xsum[:] = layer.x.get().sum(1, keepdims=True)
    layer.fprop(compute_batch_sum=False)
    np.testing.assert_allclose(layer.y.get(), y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.xsum.get(), layer.x.get().mean(1, keepdims=True), rtol=1e-5)


def test_it_may_be_done_in_place_and_in_views(be):
    layer = Layer(be)
    *_, y = layer.expected()
    wide = be.zeros((ROWS, 2 * BATCH))
    wide[:, ::2] = layer.x
    layer.fprop(x=wide[:, ::2], y=wide[:, ::2])
    np.testing.assert_allclose(wide.get()[:, ::2], y, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(wide.get()[:, 1::2], 0)


@pytest.mark.parametrize("is_in_place", [False, True])
def test_gradients_are_those_of_finite_differences(be, is_in_place):
    layer = Layer(be, np.float64)
    error = be.array(np.random.default_rng(1).standard_normal((ROWS, BATCH)), dtype=np.float64)

    def value():
        return float((layer.expected()[2] * weights).sum())

    weights = error.get()
    wanted = {}
    for name in ("x", "gamma", "beta"):
        tensor = getattr(layer, name)
        values, found = tensor.get(), np.zeros(tensor.shape)
        for place in np.ndindex(*tensor.shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = values.copy()
                moved[place] += step
                tensor[:] = moved
                sides.append(value())
            found[place] = (sides[0] - sides[1]) / 2e-6
        tensor[:] = values
        wanted[name] = found
    layer.fprop()
    delta = error if is_in_place else be.zeros((ROWS, BATCH), dtype=np.float64)
    grad_gamma, grad_beta = be.zeros((ROWS, 1), dtype=np.float64), be.zeros((ROWS, 1), dtype=np.float64)
    be.compound_bprop_bn(delta, grad_gamma, grad_beta, error, layer.x, layer.xsum, layer.xvar, layer.gamma, EPS)
    for tensor, name in ((delta, "x"), (grad_gamma, "gamma"), (grad_beta, "beta")):
        np.testing.assert_allclose(tensor.get(), wanted[name], rtol=1e-5, atol=1e-6)


def test_binary_gradients_are_products_by_shift(be):
    layer = Layer(be)
    layer.fprop(binary=True)
    error = be.array(np.random.default_rng(1).standard_normal((ROWS, BATCH)))
    delta, grad_gamma, grad_beta = be.zeros((ROWS, BATCH)), be.zeros((ROWS, 1)), be.zeros((ROWS, 1))
    arguments = layer.x, layer.xsum, layer.xvar, layer.gamma
    be.compound_bprop_bn(delta, grad_gamma, grad_beta, error, *arguments, EPS, binary=True)
    x, mean, var, gamma = (each.get() for each in arguments)
    e, inverse = error.get(), 1 / np.sqrt(var + EPS)
    normal = shifted(x - mean, inverse)
    of_gamma, of_beta = (normal * e).sum(1, keepdims=True), e.sum(1, keepdims=True)
    own = e - (shifted(normal, of_gamma) + of_beta) / BATCH
    for tensor, wanted in (
        (grad_gamma, of_gamma),
        (grad_beta, of_beta),
        (delta, shifted(shifted(own, gamma), inverse)),
    ):
        np.testing.assert_allclose(tensor.get(), wanted, rtol=1e-4, atol=1e-5)


def test_other_shapes_are_refused_and_nothing_is_written(cpu):
    layer = Layer(cpu)
    layer.gvar = cpu.zeros((1, ROWS))
    before = layer.y.get()
    with pytest.raises(ValueError, match=r"gvar has shape \[1, 3\]"):
        layer.fprop()
    np.testing.assert_array_equal(layer.y.get(), before)
    with pytest.raises(ValueError, match="no columns"):
        Layer(cpu).fprop(x=cpu.zeros((ROWS, 0)), y=cpu.zeros((ROWS, 0)))
