"""Descriptions in float64, with loops and branches, whose gradients are compared with steps in complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.keyed import Description
from atled_contexts import Context
from fuzzing_descriptions.ops import SHAPED, Compute, broadcast


class SmoothDrawing:
    """A random description in float64 of ops that complex numbers can be put into, and its gradients.

    steps: what was drawn, in words.
    """

    def __init__(self, seed: int, number: int, context: Context) -> None:
        rng = self._rng = np.random.default_rng([seed, number, 1])
        self.steps: list[str] = []
        self.description = Description(context)
        shape = tuple(int(n) for n in rng.integers(1, 4, size=2))
        self._leaves = [rng.normal(size=rng.permutation(shape)) for _ in range(2)]
        self._arrays = [NdArray.from_numpy_array(leaf) for leaf in self._leaves]
        self._numbers = [self.description.leaf(array) for array in self._arrays]
        self._shapes = [leaf.shape for leaf in self._leaves]
        self._computes: list[Callable[[list[np.ndarray]], np.ndarray]] = []
        for _ in range(rng.integers(1, 7)):
            draw = (
                self._draw_loop
                if rng.random() < 0.25
                else self._draw_branch
                if rng.random() < 0.15
                else self._draw_call
            )
            draw()

    def _add(self, number: int, words: str, shape: tuple[int, ...], compute: Compute) -> None:
        self.steps.append(f"value {number}: {words} {shape}")
        self._numbers.append(number)
        self._shapes.append(shape)
        self._computes.append(compute)

    def _draw_branch(self) -> None:
        """One of two functions of a value, as its sum says."""
        d, chosen = self.description, int(self._rng.integers(len(self._shapes)))
        number, shape = self._numbers[chosen], self._shapes[chosen]
        condition = d.call("Greater", d.call("Sum", number), d.number(0.1))
        (made,) = d.branch(condition, lambda: [d.call("Sin", number)], lambda: [d.call("Mul2", number, number)])
        self._add(
            made,
            f"a branch on the sum of {number}",
            shape,
            lambda values: (np.sin if values[chosen].sum().real > 0.1 else np.square)(values[chosen]),
        )

    def _draw_loop(self) -> None:
        """A loop over the rows of a value, whose state begins with the sum of them; one of its outputs."""
        rng, d = self._rng, self.description
        chosen, other = (int(n) for n in rng.integers(len(self._shapes), size=2))
        shape, beside = self._shapes[chosen], self._shapes[other]
        if len(shape) < 2 or not broadcast([np.empty(shape[1:]), np.empty(beside)]):
            return
        if np.broadcast_shapes(shape[1:], beside) != shape[1:]:
            return
        ends, backwards, wanted = rng.random() < 0.3, bool(rng.integers(2)), int(rng.integers(2))
        number, constant = self._numbers[chosen], self._numbers[other]

        def step(row: int, state: int) -> list[Any]:
            new = d.call("Sin", d.call("Add2", d.call("Mul2", state, constant), row))
            is_last = [d.call("Greater", d.call("Sum", new), d.number(0.3))] if ends else []
            return [[new], [d.call("Mul2", new, state)], *is_last]

        first = d.call("Sum", number, axes=0)
        loop = d.loop(step, [number], [first], backwards=backwards and not ends)

        def compute(values: list[np.ndarray]) -> np.ndarray:
            rows, state = values[chosen], values[chosen].sum(axis=0)
            outputs = np.zeros(rows.shape, rows.dtype)
            order = range(len(rows))
            for n in reversed(order) if backwards and not ends else order:
                before, state = state, np.sin(state * values[other] + rows[n])
                outputs[n] = state * before
                if ends and state.sum().real > 0.3:
                    break
            return state if wanted else outputs

        words = f"{'state' if wanted else 'rows'} of a loop over {number} with {constant}{', backwards' * backwards}"
        made = loop.states[0] if wanted else loop.rows[0]
        self._add(made, words + ", which may end early" * ends, shape[1:] if wanted else shape, compute)

    def _draw_call(self) -> None:
        rng, name = self._rng, str(self._rng.choice(list(SMOOTH)))
        compute, arity = SMOOTH[name]
        operands = [int(n) for n in rng.integers(len(self._shapes), size=arity)]
        attributes: dict[str, Any] = {}
        if name in DRAWN:
            attributes, _ = DRAWN[name](rng, np.empty(self._shapes[operands[0]]))
        try:
            made = compute(*(np.ones(self._shapes[n]) for n in operands), **attributes)
        except ValueError:
            return  # the shapes do not fit
        if not made.ndim:
            return
        number = self.description.call(name, *(self._numbers[n] for n in operands), **attributes)
        words = f"{name} of {[self._numbers[n] for n in operands]} {attributes}"
        self._add(number, words, made.shape, lambda values: compute(*(values[n] for n in operands), **attributes))

    def _sum(self, leaves: Sequence[np.ndarray]) -> Any:
        """The sum of the last value."""
        values = list(leaves)
        for compute in self._computes:
            values.append(compute(values))
        return values[-1].sum()

    def _slopes(self, loss: Callable[[list[np.ndarray]], Any]) -> list[np.ndarray]:
        """Derivatives of an analytic function by steps along the imaginary axis, which cancel nothing."""
        # Squire and Trapp, Using complex variables to estimate derivatives of real functions, 1998.
        found = []
        for position, leaf in enumerate(self._leaves):
            slope = np.zeros(leaf.shape)
            for index in np.ndindex(leaf.shape):
                moved = [each.astype(np.complex128) for each in self._leaves]
                moved[position][index] += 1e-30j
                slope[index] = loss(moved).imag / 1e-30
            found.append(slope)
        return found

    def check(self) -> None:
        """AssertionError where first or second gradients are others than those of NumPy's functions."""
        d = self.description
        first = d.gradients(self._numbers[-1], self._numbers[:2])
        weights = [self._rng.normal(size=leaf.shape) for leaf in self._leaves]
        products = [d.call("Mul2", g, d.leaf(NdArray.from_numpy_array(w))) for g, w in zip(first, weights, strict=True)]
        both = d.call("Add2", *(d.call("Reshape", d.call("Sum", product), shape=(1,)) for product in products))
        for number in (*first, *d.gradients(both, self._numbers[:2])):
            d.result(number)
        found = [array.data for array in d.run()]
        for position, (gradient, wanted) in enumerate(zip(found[:2], self._slopes(self._sum), strict=True)):
            np.testing.assert_allclose(gradient, wanted, rtol=1e-9, atol=1e-9, err_msg=f"gradient {position}")
        for position, (gradient, wanted) in enumerate(zip(found[2:], self._second(weights), strict=True)):
            np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-5, err_msg=f"second gradient {position}")

    def _second(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Derivatives of the slopes along `weights`: of differences in that direction."""
        step, ends = 1e-5, []
        for sign in (1, -1):
            leaves = self._leaves
            self._leaves = [leaf + sign * step * weight for leaf, weight in zip(leaves, weights, strict=True)]
            ends.append(self._slopes(self._sum))
            self._leaves = leaves
        return [(high - low) / (2 * step) for high, low in zip(*ends, strict=True)]


def _sliced(x: np.ndarray, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> np.ndarray:
    return x[tuple(map(slice, start, stop, step))]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


SMOOTH: dict[str, tuple[Compute, int]] = {
    "Tanh": (np.tanh, 1),
    "Sin": (np.sin, 1),
    "Sigmoid": (_sigmoid, 1),
    "Add2": (np.add, 2),
    "Sub2": (np.subtract, 2),
    "Mul2": (np.multiply, 2),
    "Dot": (np.dot, 2),
    "Sum": (lambda x, axes, keep_dims: x.sum(axis=axes, keepdims=keep_dims), 1),
    "Transpose": (lambda x, axes: x.transpose(axes), 1),
    "Slice": (_sliced, 1),
    "Reshape": (lambda x, shape: x.reshape(shape), 1),
    "CumSum": (lambda x, axis: x.cumsum(axis=axis), 1),
}
DRAWN = {op.name: op.draw for op in SHAPED}
