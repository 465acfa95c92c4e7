"""Functions of the Keras-style backend that update variables on the device, as in host memory."""

import numpy as np

import atled as nn
import atled.keras_backend as B
from atled.arrays.place import HOST
from atled_contexts import Context, context_scope, get_extension_context


def contrastive_divergence():
    """A step that learns from rows of the data, by their numbers; and its variables."""
    values = np.random.default_rng(0)
    data = B.variable(values.random((8, 20)) < 0.5)
    w, b, c = parameters = [B.variable(values.normal(size=shape) / 10) for shape in ((20, 12), (20,), (12,))]
    momenta = [B.zeros_like(each) for each in parameters]
    rng, x, index = B.make_rng(3), B.placeholder(ndim=2), B.placeholder(ndim=1, dtype="int32")

    def energy(v):
        return -v.dot(b) - B.sum(B.log(1.0 + B.exp(v.dot(w) + c)), axis=1)

    p = B.sigmoid(x.dot(w) + c)
    q = B.sigmoid(B.random_binomial(p.shape, p=p, rng=rng).dot(w.T) + b)
    loss = B.mean(energy(x)) - B.mean(energy(B.stop_gradient(B.random_binomial(q.shape, p=q, rng=rng))))
    updates = []
    for parameter, momentum, gradient in zip(parameters, momenta, B.gradients(loss, parameters), strict=True):
        moved = momentum * 0.9 - gradient * 0.5
        updates += [(momentum, moved), (parameter, parameter + moved)]
    return B.function([index], loss, updates=updates, givens={x: data[index]}), [*parameters, *momenta]


def test_a_step_updates_variables_on_the_device_as_in_host_memory(cuda):
    made = []
    for context in (Context(["cpu"]), get_extension_context("cuda", fallback="quiet")):
        with context_scope(context):
            step, variables = contrastive_divergence()
            losses = [step(rows) for rows in ([0, 1, 2, 3], [4, 5, 6, 7], [0, 2])]
            if made:
                assert nn.fallback_counts() == {}
                assert all(each.array.cell.place is not HOST for each in variables)
            made.append([*losses, *(each.get_value() for each in variables)])
    for one, other in zip(*made, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_branch_and_an_update_of_another_shape(cuda):
    with context_scope(get_extension_context("cuda", fallback="quiet")):
        x, chosen = B.variable([1.0, 2.0]), B.placeholder(ndim=0, dtype="int32")
        f = B.function([chosen], B.ifelse(chosen, B.exp(x), x), updates=[(x, B.concatenate([x, x], axis=0))])
        np.testing.assert_allclose(f(1), np.exp([1, 2]), rtol=1e-5)
        assert f(0).tolist() == [1, 2, 1, 2]
        assert B.get_value(x).tolist() == [1, 2] * 4
