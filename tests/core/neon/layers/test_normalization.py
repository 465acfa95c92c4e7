"""Batch normalization."""

import numpy as np
import pytest
from tests.core.neon.layers.running import check_gradients, drawn, ready

import atled as nn
from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.layers import BatchNorm, BatchNormAutodiff

KINDS = [BatchNorm, BatchNormAutodiff]


def normalized(x, eps):
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + eps)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_normalized_in_training(be, kind):
    layer, x = ready(kind(rho=0.8, eps=1e-2), (3, 2)), drawn(be, (3, 8))
    values = x.get()
    np.testing.assert_allclose(layer.fprop(x).get(), normalized(values, 1e-2), rtol=1e-4, atol=1e-5)
    mean, var = values.mean(axis=1, keepdims=True), values.var(axis=1, keepdims=True)
    np.testing.assert_allclose(layer.gmean.get(), 0.2 * mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer.gvar.get(), 0.2 * var, rtol=1e-4, atol=1e-6)
    layer.fprop(x)
    np.testing.assert_allclose(layer.gmean.get(), 0.36 * mean, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_inference_takes_the_running_statistics(be, kind):
    layer, x = ready(kind(eps=1e-2), 3), drawn(be, (3, 4))
    for name, value in {"gmean": 0.5, "gvar": 2.0, "gamma": 3.0, "beta": 1.0}.items():
        getattr(layer, name)[:] = value
    y = layer.fprop(x, inference=True).get()
    np.testing.assert_allclose(y, 3 * (x.get() - 0.5) / np.sqrt(2.01) + 1, rtol=1e-4, atol=1e-5)
    assert (layer.gmean.get() == 0.5).all()


@pytest.mark.parametrize("kind", KINDS)
def test_maps_of_images_are_normalized_over_places_too(be, kind):
    layer, x = ready(kind(), (3, 2, 2)), drawn(be, (12, 4))
    assert layer.gamma.shape == (3, 1)
    expected = normalized(x.get().reshape(3, 16), layer.eps).reshape(12, 4)
    np.testing.assert_allclose(layer.fprop(x).get(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [3, (3, 2), (3, 2, 2)])
def test_gradients_are_those_of_differences(exact, kind, shape):
    layer = ready(kind(), shape)
    layer.gamma[:] = drawn(exact, (3, 1))
    check_gradients(layer, drawn(exact, layer.outputs.shape, seed=1).get())


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_added(be, kind):
    layer, x = ready(kind(), 3), drawn(be, (3, 4))
    y = layer.fprop(x).get()
    np.testing.assert_allclose(layer.fprop(x, beta=2.0).get(), 3 * y, rtol=1e-4, atol=1e-5)


def test_without_deltas_there_are_gradients_all_the_same(be):
    layer, error = ready(BatchNorm(), 3), drawn(be, (3, 4))
    layer.deltas, expected = None, error.get().sum(axis=1, keepdims=True)
    layer.fprop(drawn(be, (3, 4), seed=1))
    assert layer.bprop(error) is None
    np.testing.assert_allclose(layer.grad_beta.get(), expected, rtol=1e-4, atol=1e-5)


def test_gradients_add_up(be):
    layer = ready(BatchNorm(), 3, accumulate_updates=True)
    layer.set_acc_on(True)
    layer.fprop(drawn(be, (3, 4)))
    layer.bprop(be.ones((3, 4)))
    layer.bprop(be.ones((3, 4)))
    np.testing.assert_allclose(layer.grad_beta.get(), 8)


def test_parameters_are_beta_then_gamma_and_come_back(be):
    layer = ready(BatchNorm(), 3)
    (beta, _), (gamma, of_gamma) = layer.get_params()
    assert beta == (layer.beta, layer.grad_beta)
    assert gamma == (layer.gamma, layer.grad_gamma)
    of_gamma.append(be.ones((3, 1)))
    layer.gmean[:] = 0.5
    other = BatchNorm()
    other.load_weights(layer.get_params_serialize())
    ready(other, 3)
    assert (other.gmean.get() == 0.5).all()
    assert (other.gamma.get() == 1).all()
    assert [len(each) for each in other.states] == [0, 1]


def test_binary_products_are_shifts(be):
    layer, x = ready(BatchNorm(binary=True), 3), drawn(be, (3, 4))
    layer.gamma[:] = 3  # the nearest power of two is 4
    values, y = x.get(), layer.fprop(x).get()
    layer.gamma[:] = 4
    np.testing.assert_allclose(layer.fprop(x).get(), y, rtol=1e-5)
    assert not np.allclose(y, 4 * normalized(values, layer.eps))


def test_parameters_are_float32_at_least():
    be = gen_backend("cpu", datatype=np.float16, batch_size=4)
    layer, x = ready(BatchNorm(), 3), drawn(be, (3, 4))
    assert layer.gamma.dtype == layer.gmean.dtype == np.float32
    np.testing.assert_allclose(layer.fprop(x).get(), normalized(x.get().astype(float), 1e-3), rtol=1e-2, atol=1e-2)
    layer.bprop(drawn(be, (3, 4)))
    cleanup_backend()


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    for kind in KINDS:
        layer = ready(kind(), (3, 2, 2))
        layer.fprop(cpu.ones((12, 4)))
        layer.fprop(cpu.ones((12, 4)), inference=True)
        layer.bprop(cpu.ones((12, 4)))
    assert nn.fallback_counts() == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [{"rho": -0.1}, {"rho": 1.5}, {"eps": -1e-3}, {"eps": np.nan}])
def test_a_share_or_an_addend_out_of_range_is_refused(kind, given):
    with pytest.raises(ValueError, match=rf"(?s){kind.__name__} 'n'.*rho from 0 to 1"):
        kind(name="n", **given)


def test_what_does_not_fit_is_refused(cpu):
    layer = ready(BatchNorm(name="n"), 3)
    with pytest.raises(ValueError, match=r"(?s)BatchNorm 'n'\.fprop: inputs have shape \[2, 4\]"):
        layer.fprop(cpu.ones((2, 4)))
    layer.fprop(cpu.ones((3, 4)))
    with pytest.raises(ValueError, match=r"(?s)BatchNorm 'n'\.bprop: .*alpha=2.*SkipNode"):
        layer.bprop(cpu.ones((3, 4)), alpha=2.0)
    with pytest.raises(ValueError, match=r"(?s)BatchNorm 'n'.*values of gamma.*\[2, 1\]"):
        layer.set_params({"params": dict.fromkeys(layer.saved, np.ones((3, 1))) | {"gamma": np.ones((2, 1))}})
