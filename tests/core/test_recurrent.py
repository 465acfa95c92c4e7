"""Recurrent layers of described programs compute what the formulas say, with any activations, and so do gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled import recurrent
from atled.keyed import Description

T, B, WIDTH, H = 4, 2, 3, 5


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"Tanh": np.tanh, "Sigmoid": sigmoid, "ReLU": relu}


class Layer:
    """Arrays as leaves of a description, and what it gives."""

    def __init__(self, gates: int, states: int) -> None:
        self.d = Description(nn.Context(["cpu"]))
        self.arrays = [normal(T, B, WIDTH), *(normal(B, H) for _ in range(states))]
        self.arrays += [normal(WIDTH, gates * H), normal(H, gates * H), normal(gates * H), normal(gates * H) / 2]
        self.leaves = [self.d.leaf(nn.NdArray.from_numpy_array(array)) for array in self.arrays]

    def run(self, *values: int) -> list[np.ndarray]:
        for value in values:
            self.d.result(value)
        return [result.data for result in self.d.run()]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("activation", ["Tanh", "ReLU"])
def test_plain(activation: str, backwards: bool) -> None:
    layer = Layer(1, 1)
    x, h, w, u, b, _ = layer.arrays
    made = recurrent.plain(layer.d, *layer.leaves[:5], activation=activation, backwards=backwards)
    last, rows = layer.run(made.states[0], made.rows[0])
    for number in range(T)[::-1] if backwards else range(T):
        h = ACTIVATIONS[activation](x[number] @ w + h @ u + b)
        np.testing.assert_allclose(rows[number], h, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(last, rows[0 if backwards else -1])


@pytest.mark.parametrize(("order", "gate", "content"), [("ifgo", "Sigmoid", "Tanh"), ("gofi", "Tanh", "ReLU")])
def test_lstm(order: str, gate: str, content: str) -> None:
    layer = Layer(4, 2)
    x, h, c, w, u, b, _ = layer.arrays
    made = recurrent.lstm(
        layer.d, *layer.leaves[:6], shape=(B, H), activation=content, gate_activation=gate, order=order
    )
    last_h, last_c, rows = layer.run(*made.states, made.rows[0])
    for number in range(T):
        total = x[number] @ w + h @ u + b
        cut = {name: total[:, n * H : (n + 1) * H] for n, name in enumerate(order)}
        i, f, o = (ACTIVATIONS[gate](cut[name]) for name in "ifo")
        c = f * c + i * ACTIVATIONS[content](cut["g"])
        h = o * ACTIVATIONS[content](c)
        np.testing.assert_allclose(rows[number], h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last_h, h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last_c, c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reset_after", [False, True])
@pytest.mark.parametrize("order", ["zrn", "nrz"])
def test_gru(order: str, reset_after: bool) -> None:
    layer = Layer(3, 1)
    x, h, w, u, b, inner_b = layer.arrays
    made = recurrent.gru(layer.d, *layer.leaves, shape=(B, H), order=order, reset_after=reset_after)
    last, rows = layer.run(made.states[0], made.rows[0])
    place = {name: slice(n * H, (n + 1) * H) for n, name in enumerate(order)}
    for number in range(T):
        of_x = {name: x[number] @ w[:, part] + b[part] for name, part in place.items()}
        z, r = (sigmoid(of_x[name] + h @ u[:, place[name]] + inner_b[place[name]]) for name in "zr")
        un, bn = u[:, place["n"]], inner_b[place["n"]]
        n = np.tanh(of_x["n"] + (r * (h @ un + bn) if reset_after else (r * h) @ un + bn))
        h = z * h + (1 - z) * n
        np.testing.assert_allclose(rows[number], h, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, h, rtol=1e-4, atol=1e-5)


def test_an_activation_may_be_a_function_that_describes_it() -> None:
    layer = Layer(1, 1)
    x, h, w, u, b, _ = layer.arrays
    d = layer.d
    made = recurrent.plain(d, *layer.leaves[:5], activation=lambda value: d.call("MulScalar", value, val=0.5))
    (last,) = layer.run(made.states[0])
    for row in x:
        h = (row @ w + h @ u + b) * 0.5
    np.testing.assert_allclose(last, h, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_the_layer_that_has_kernels() -> None:
    layer = Layer(4, 2)
    x, h, c, w, u, b, _ = layer.leaves
    made = recurrent.lstm(layer.d, x, h, c, w, u, b, shape=(B, H))
    found = layer.run(*layer.d.gradients(made.rows[0], [x, h, c, w, u, b]))
    variables = [nn.Variable.from_numpy_array(array, need_grad=True) for array in layer.arrays[:6]]
    x_v, h_v, c_v, w_v, u_v, b_v = variables
    weight = F.transpose(F.reshape(F.concatenate(w_v, u_v, axis=0), (1, WIDTH + H, 4, H)), (0, 2, 3, 1))
    first_h, first_c = (F.reshape(value, (1, 1, B, H)) for value in (h_v, c_v))
    y, _, _ = F.lstm(x_v, first_h, first_c, weight, bias=F.reshape(b_v, (1, 1, 4, H)))
    y.forward()
    for variable in variables:
        variable.grad.zero()
    y.backward(1)
    for gradient, variable in zip(found, variables, strict=True):
        np.testing.assert_allclose(gradient, variable.g, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_another_order_of_gates_is_refused(name: str) -> None:
    layer = Layer(4, 2)
    with pytest.raises(ValueError, match="these are not its gates"):
        getattr(recurrent, name)(layer.d, *layer.leaves[:6], shape=(B, H), order="abc")
