"""Products with a matrix of weights."""

import numpy as np
import pytest
from tests.core.neon.layers.running import check_gradients, drawn, ready

import atled as nn
from atled.neon.layers import BinaryLinear, Linear

WEIGHTS = np.random.default_rng(7).normal(size=(3, 5))


@pytest.mark.parametrize("steps", [1, 2])
def test_columns_are_multiplied(be, steps):
    layer = ready(Linear(3, WEIGHTS, bsum=True), (5, steps))
    x = drawn(be, (5, 4 * steps))
    y = layer.fprop(x)
    assert y is layer.outputs
    assert layer.out_shape == (3, steps)
    np.testing.assert_allclose(y.get(), WEIGHTS @ x.get(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.batch_sum.get(), (WEIGHTS @ x.get()).sum(axis=1, keepdims=True), rtol=1e-4)
    before = y.get()
    np.testing.assert_allclose(layer.fprop(x, beta=0.5).get(), 1.5 * before, rtol=1e-5, atol=1e-6)


def test_images_are_columns(be):
    assert ready(Linear(3, np.ones((3, 30))), (2, 3, 5)).fprop(be.ones((30, 4))).get()[0, 0] == 30


def test_gradients_are_those_of_differences(exact):
    check_gradients(ready(Linear(3, WEIGHTS), (5, 2)), drawn(exact, (5, 8)).get())


def test_deltas_are_scaled_and_added(be):
    layer, error = ready(Linear(3, WEIGHTS), 5), drawn(be, (3, 4))
    layer.fprop(drawn(be, (5, 4)))
    layer.deltas[:] = 1
    deltas = layer.bprop(error, alpha=2.0, beta=0.5)
    assert deltas is layer.deltas
    np.testing.assert_allclose(deltas.get(), 2 * WEIGHTS.T @ error.get() + 0.5, rtol=1e-5, atol=1e-5)


def test_the_first_layer_gives_no_deltas(be):
    layer = ready(Linear(3, WEIGHTS), 5)
    layer.deltas = None
    layer.fprop(be.ones((5, 4)))
    assert layer.bprop(be.ones((3, 4))) is None
    np.testing.assert_allclose(layer.dW.get(), 4)


def test_columns_beyond_the_set_sizes_are_left_alone(be):
    layer = ready(Linear(3, WEIGHTS), (5, 2))
    x, error = drawn(be, (5, 8)), drawn(be, (3, 8), seed=1)
    layer.set_batch_size(3)
    layer.set_seq_len(1)
    layer.outputs[:] = 7
    layer.deltas[:] = 7
    np.testing.assert_allclose(layer.fprop(x).get()[:, :3], WEIGHTS @ x.get()[:, :3], rtol=1e-5, atol=1e-6)
    layer.bprop(error)
    assert (layer.outputs.get()[:, 3:] == 7).all()
    assert (layer.deltas.get()[:, 3:] == 7).all()
    np.testing.assert_allclose(layer.dW.get(), error.get()[:, :3] @ x.get()[:, :3].T, rtol=1e-5, atol=1e-5)


def test_gradients_add_up(be):
    layer = ready(Linear(3, WEIGHTS), 5, accumulate_updates=True)
    layer.set_acc_on(True)
    layer.fprop(be.ones((5, 4)))
    for count in (1, 2):
        layer.bprop(be.ones((3, 4)))
        np.testing.assert_allclose(layer.dW.get(), 4 * count)


def test_binary_weights_are_signs(be):
    layer, x = ready(BinaryLinear(3, WEIGHTS, bsum=True), 5), drawn(be, (5, 4))
    signs = np.where(WEIGHTS >= 0, 1, -1)
    np.testing.assert_allclose(layer.fprop(x).get(), signs @ x.get(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer.batch_sum.get(), (signs @ x.get()).sum(axis=1, keepdims=True), rtol=1e-4)
    error = drawn(be, (3, 4), seed=1)
    np.testing.assert_allclose(layer.bprop(error).get(), signs.T @ error.get(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer.dW.get(), error.get() @ x.get().T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(layer.W.get(), WEIGHTS, rtol=1e-6)


def test_all_is_computed_by_the_backend(cpu):
    before = nn.fallback_counts()
    for kind in (Linear, BinaryLinear):
        layer = ready(kind(3, WEIGHTS), 5)
        layer.fprop(cpu.ones((5, 4)))
        layer.bprop(cpu.ones((3, 4)))
    assert nn.fallback_counts() == before


def test_a_tensor_of_another_size_is_refused(cpu):
    layer = ready(Linear(3, WEIGHTS, name="top"), 5)
    with pytest.raises(ValueError, match=r"(?s)Linear 'top'\.fprop: inputs have shape \[4, 4\].*give \[5, 4\]"):
        layer.fprop(cpu.ones((4, 4)))
    layer.fprop(cpu.ones((5, 4)))
    with pytest.raises(ValueError, match=r"(?s)Linear 'top'\.bprop: errors have shape"):
        layer.bprop(cpu.ones((5, 4)))
    with pytest.raises(RuntimeError, match=r"(?s)Linear 'new'\.fprop.*no memory"):
        Linear(3, WEIGHTS, name="new").configure(5).fprop(cpu.ones((5, 4)))
