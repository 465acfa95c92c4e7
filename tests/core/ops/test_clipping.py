"""Clipping in the front end: of gradients, and the composites that clip values."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
from atled.conformance.running import evaluate
from atled.graph.nodes.gradient import backpropagate

pytestmark = pytest.mark.usefixtures("backend")

GY = np.array([[1, 2, -2], [0.3, 0, -0.4]], np.float32)


def leaf(values: Any, need_grad: bool = True) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def gradients(y: nn.Variable, *leaves: nn.Variable, gy: Any = GY) -> list[np.ndarray]:
    y.forward()
    for variable in leaves:
        variable.grad.zero()
    y.backward(gy)
    return [variable.g.copy() for variable in leaves]


# Gradients.


def test_clip_grad_by_value_clips_each_element():
    x, low, high = leaf(np.ones((2, 3))), leaf(np.full((2, 3), -0.5)), leaf([[0.2], [1.5]])
    y = F.clip_grad_by_value(x, low, high)
    gx, glow, ghigh = gradients(y, x, low, high)
    assert_array_equal(y.d, x.d)
    assert_allclose(gx, [[0.2, 0.2, -0.5], [0.3, 0, -0.4]], rtol=1e-6)
    assert not glow.any() and not ghigh.any()


def test_clip_grad_by_norm_gives_every_gradient_that_norm():
    x = leaf(np.ones((2, 3)))
    (whole,) = gradients(F.clip_grad_by_norm(x, clip_norm=2.0), x)
    assert_allclose(whole, 2 * GY / np.linalg.norm(GY), rtol=1e-6)
    (rows,) = gradients(F.clip_grad_by_norm(x, 2.0, [1]), x)
    assert_allclose(rows, 2 * GY / np.linalg.norm(GY, axis=1, keepdims=True), rtol=1e-6)


def test_clip_grad_by_norm_of_a_zero_gradient_is_nan():
    x = leaf(np.ones((2, 3)))
    (gx,) = gradients(F.clip_grad_by_norm(x, axes=1), x, gy=np.float32([[0, 0, 0], [3, 4, 0]]))
    assert_array_equal(gx, np.float32([[np.nan] * 3, [0.6, 0.8, 0]]))


@pytest.mark.parametrize("scale", [1e-4, 1e3])
def test_clip_grad_by_norm_bears_gradients_whose_squares_are_out_of_range_in_half(scale, backend):
    with nn.context_scope(nn.Context([f"{backend}:half"], fallback="raise")):
        x = leaf(np.ones((2, 3)))
        (gx,) = gradients(F.clip_grad_by_norm(x), x, gy=GY * scale)
    assert_allclose(gx, GY / np.linalg.norm(GY), rtol=1e-2)


@pytest.mark.parametrize("op", ["ClipGradByNorm", "ClipGradByValue"])
def test_clipped_gradients_have_gradients(op):
    """What comes back through the op for the cotangent 3 x^2 is a function of x, with the gradient of that function."""
    rng = np.random.default_rng(0)
    x, v = rng.uniform(0.5, 1.5, (3, 4)), rng.standard_normal((3, 4))
    low, high = np.full((3, 4), -2.0), np.full((3, 4), 3.1)

    def clip(graph: Any, x: Any, low: Any, high: Any) -> Any:
        if op == "ClipGradByNorm":
            return graph.op(op, x, clip_norm=0.7, axes=1)
        return graph.op(op, x, low, high)

    def build(graph: Any, values: Any) -> Any:
        x, v, low, high = values
        y = clip(graph, x, low, high)
        gy = x * x * 3.0  # not of y, through which the second gradient would be clipped as well
        first = backpropagate(graph, list(graph.nodes), {y: gy}, [x])[x]
        second = backpropagate(graph, list(graph.nodes), {first: v}, [x])[x]
        return first, second

    def run(x: np.ndarray) -> list[np.ndarray]:
        return evaluate(build, [x, v, low, high], nn.Context(["reference:double"], fallback="raise")).results

    first, second = run(x)
    gy = 3 * x**2
    by_norm = 0.7 * gy / np.linalg.norm(gy, axis=1, keepdims=True)
    assert_allclose(first, by_norm if op == "ClipGradByNorm" else np.clip(gy, low, high))
    direction = rng.choice([-1.0, 1.0], x.shape)
    slope = ((run(x + 1e-6 * direction)[0] - run(x - 1e-6 * direction)[0]) * v).sum() / 2e-6
    assert_allclose((second * direction).sum(), slope, rtol=1e-6)


# Values.


def test_clip_by_value_takes_arrays_or_numbers():
    x, low, high = leaf(GY), leaf(np.full((2, 3), -0.5)), leaf(np.full((1, 3), 0.8))
    expected = np.clip(GY, np.float32(-0.5), np.float32(0.8))
    for y in (F.clip_by_value(x, low, high), F.clip_by_value(x, -0.5, np.float32(0.8)), F.clip_by_value(x, low, 0.8)):
        y.forward()
        assert_array_equal(y.d, expected)
    at_once = F.clip_by_value(x.data, -0.5, 0.8)
    assert_array_equal(at_once.data, expected)


def test_clip_by_value_sends_the_gradient_to_what_was_chosen():
    x, low, high = leaf([[-2, 0, 2]]), leaf([[-1, -1, -1]]), leaf([[1, 1, 1]])
    found = gradients(F.clip_by_value(x, low, high), x, low, high, gy=np.float32([[1, 2, 3]]))
    assert_array_equal(found, [[[0, 2, 0]], [[1, 0, 0]], [[0, 0, 3]]])


@pytest.mark.parametrize("axis", [None, 0, -1, [1], (0, 1)])
def test_clip_by_norm_scales_to_the_norm(axis):
    x = leaf(GY)
    y = F.clip_by_norm(x, 2.0, axis)
    y.forward()
    axes = tuple(axis) if isinstance(axis, list) else axis
    assert_allclose(y.d, 2 * GY / np.sqrt(np.square(GY).sum(axis=axes, keepdims=True)), rtol=1e-6)


def test_clip_by_norm_takes_an_array_as_norm():
    x, norm = leaf(GY), leaf([[2.0], [0.5]])
    y = F.clip_by_norm(x, norm, axis=1)
    gx, gnorm = gradients(y, x, norm, gy=np.ones((2, 3)))
    lengths = np.linalg.norm(GY, axis=1, keepdims=True)
    direction = GY / lengths
    assert_allclose(y.d, norm.d * direction, rtol=1e-6)
    assert_allclose(gnorm, direction.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)
    along = direction.sum(axis=1, keepdims=True)
    assert_allclose(gx, norm.d * (1 - direction * along) / lengths, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip_norm", [0, -1.0, float("nan")])
def test_clip_by_norm_refuses_a_norm_that_is_not_positive(clip_norm):
    with pytest.raises(ValueError, match="clip_norm is not positive"):
        F.clip_by_norm(leaf(GY), clip_norm)


def test_composites_refuse_what_is_no_array():
    with pytest.raises(TypeError, match="got str"):
        F.clip_by_value(leaf(GY), "low", 1.0)
    with pytest.raises(TypeError, match="got list"):
        F.clip_by_norm(leaf(GY), [1.0])


def test_composites_are_functions_like_the_others():
    assert {"clip_by_norm", "clip_by_value"} <= set(dir(F))
    assert str(inspect.signature(F.clip_by_norm)).startswith("(x")
    assert list(inspect.signature(F.clip_by_value).parameters) == ["x", "min", "max", "using"]
    with pytest.raises(AttributeError, match="did you mean 'clip_by_norm'"):
        _ = F.clip_by_nrom


def test_where_min_exceeds_max_gradients_above_max_become_max_and_others_min():
    x, low, high = leaf(np.ones(5)), leaf(np.full(5, 1.0)), leaf(np.full(5, -1.0))
    y = F.clip_grad_by_value(x, low, high)
    (gx,) = gradients(y, x, gy=np.float32([-2, -1, 0, 2, np.inf]))
    assert_array_equal(gx, [1, 1, -1, -1, -1])
