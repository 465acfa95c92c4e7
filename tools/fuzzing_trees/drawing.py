"""A random program of neon's API: tensors, windows on them, trees that are assigned, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.neon.backends import Autodiff
from atled.neon.backends.backend import Backend, Tensor
from fuzzing_trees.ops import BINARY, REDUCTIONS, STEPS, UNARY, Op

_STEP = 1e-6  # of finite differences, in float64


class Drawing:
    """Draws a program from a seed and a number; `check` runs it on the backend and in NumPy.

    steps: what it did, in words.
    """

    def __init__(self, seed: int, number: int, be: Backend) -> None:
        self.rng = np.random.default_rng((seed, number))
        self.be = be
        self.steps: list[str] = []
        self.leaves: list[tuple[Tensor, np.ndarray, str]] = []  # tensors, and windows of NumPy's on the same values
        self.rank = int(self.rng.choice([2, 2, 2, 3, 4, 5]))
        self.shape = tuple(int(size) for size in self.rng.integers(1, 5, self.rank))
        self.dtype = np.dtype(self.be.default_dtype)

    def check(self) -> None:
        """Assign some trees one after the other, then compare gradients where the numbers are fine enough."""
        for _ in range(3):
            self._add_leaf()
        for _ in range(int(self.rng.integers(1, 4))):
            self._assign()
        if self.dtype == np.float64:
            self._differentiate()

    def _values(self, shape: tuple[int, ...]) -> np.ndarray:
        # On a grid without 0, so that comparisons and extrema of leaves have ties, but no step lies at 0.
        return ((self.rng.integers(-8, 8, shape) + 0.5) / 4).astype(self.dtype)

    def _add_leaf(self) -> None:
        """A tensor, or a window on one, of sizes that broadcast to those of the program."""
        shape = tuple(1 if self.rng.random() < 0.2 else size for size in self.shape)
        kind = str(self.rng.choice(["whole", "part", "turned", "again"]))
        name = f"x{len(self.leaves)}"
        if kind == "part":
            starts, steps = self.rng.integers(0, 2, self.rank), self.rng.choice([1, 2, -1, -2], self.rank)
            sizes = [int(s + (n - 1) * abs(t) + 1) for s, n, t in zip(starts, shape, steps, strict=True)]
            values = self._values(tuple(sizes))
            key = tuple(_cut(*each) for each in zip(starts, shape, steps, strict=True))
            tensor, window = self.be.array(values, name=name)[key], values[key]
            self.steps.append(f"{name} = array of {values.shape}[{key}]")
        elif kind == "turned" and self.rank == 2:
            values = self._values(shape[::-1])
            tensor, window = self.be.array(values, name=name).T, values.T
            self.steps.append(f"{name} = array of {values.shape}, transposed")
        elif kind == "again" and self.leaves:
            tensor, window, first = self.leaves[0]
            self.steps.append(f"{name} = {first}")
        else:
            window = self._values(shape)
            tensor = self.be.array(window, name=name)
            self.steps.append(f"{name} = array of {shape}")
        self.leaves.append((tensor, window, name))

    def _leaf(self) -> tuple[Any, Any, str]:
        """A leaf; now and then a number."""
        if self.rng.random() < 0.15:
            number = float(self.rng.integers(-6, 7)) / 4 + 0.125
            return number, np.asarray(number, self.dtype), str(number)
        return self.leaves[self.rng.integers(len(self.leaves))]

    def _tree(self, depth: int, *, is_smooth: bool) -> tuple[Any, Any, str]:
        """A tree with what it is in NumPy and in words; no number."""
        choice = self.rng.random()
        if depth == 0 or choice < 0.1:
            return self.leaves[self.rng.integers(len(self.leaves))]
        if choice < 0.4:
            return self._applied(self._any(UNARY), self._tree(depth - 1, is_smooth=is_smooth))
        if choice < 0.5 and not is_smooth:
            return self._applied(self._any(STEPS), self.leaves[self.rng.integers(len(self.leaves))], self._leaf())
        if choice < 0.65:
            return self._reduced(self._any(REDUCTIONS), self._tree(depth - 1, is_smooth=is_smooth))
        if choice < 0.75 and self.rank == 2:
            return self._product(self._tree(depth - 1, is_smooth=is_smooth), self._tree(depth - 1, is_smooth=is_smooth))
        operands = [self._tree(depth - 1, is_smooth=is_smooth), self._leaf()]
        if self.rng.random() < 0.5:
            operands[1] = self._tree(depth - 1, is_smooth=is_smooth)
        if self.rng.random() < 0.5:
            operands.reverse()
        return self._applied(self._any(BINARY), *operands)

    def _any(self, ops: tuple[Op, ...]) -> Op:
        return ops[self.rng.integers(len(ops))]

    def _applied(self, op: Op, *operands: tuple[Any, Any, str]) -> tuple[Any, Any, str]:
        trees, values, words = zip(*operands, strict=True)
        value = np.asarray(op.formula(*values)).astype(self.dtype)
        return op.call(self.be, *trees), value, f"{op.name}({', '.join(words)})"

    def _reduced(self, op: Op, operand: tuple[Any, Any, str]) -> tuple[Any, Any, str]:
        """Over an axis; the first of more than two, which is dropped: what is left broadcasts to the others."""
        tree, value, words = operand
        axis = 0 if value.ndim > 2 else None if self.rng.random() < 0.2 else int(self.rng.integers(2))
        reduced = np.asarray(op.formula(value, axis=axis, keepdims=value.ndim == 2)).astype(self.dtype)
        return op.call(self.be, tree, axis=axis), reduced, f"{op.name}({words}, axis={axis})"

    def _product(self, a: tuple[Any, Any, str], b: tuple[Any, Any, str]) -> tuple[Any, Any, str]:
        """a (b.T a), whatever their sizes are: sums first where they do not match."""
        if a[1].shape != b[1].shape:
            return self._applied(BINARY[0], a, b)
        trees, values = (a[0], b[0]), (a[1], b[1])
        product = self.be.dot(trees[0], self.be.dot(trees[1].T, trees[0])) / values[0].size
        value = (values[0] @ (values[1].T @ values[0]) / values[0].size).astype(self.dtype)
        return product, value, f"dot({a[2]}, dot({b[2]}.T, {a[2]}))"

    def _assign(self) -> None:
        """A tree to a new tensor, or to a window that it may read."""
        tree, value, words = self._tree(4, is_smooth=False)
        fitting = [leaf for leaf in self.leaves if leaf[1].shape == value.shape]
        if fitting and self.rng.random() < 0.4:
            target, window, name = fitting[self.rng.integers(len(fitting))]
        else:
            target, window, name = self.be.empty(value.shape), np.empty(value.shape, self.dtype), "new"
        self.steps.append(f"{name}[:] = {words}")
        target[:] = tree
        window[...] = value
        tolerance = {"float16": 3e-2, "float32": 2e-4, "float64": 1e-10}[self.dtype.name]
        scale = max(1.0, float(np.max(np.abs(window), initial=0)))
        found = target.get()
        np.testing.assert_allclose(found, window, rtol=tolerance, atol=tolerance * scale)

    def _differentiate(self) -> None:
        """The gradients of a smooth tree, against differences of the tree itself."""
        self.leaves = []  # others: those that were written are where trees have kinks
        self.steps.append("gradients, of other leaves")
        for number in range(3):
            shape = tuple(1 if self.rng.random() < 0.2 else size for size in self.shape)
            values = self.rng.normal(size=shape)
            self.leaves.append((self.be.array(values), values, f"x{number}"))
        tree, value, words = self._tree(3, is_smooth=True)
        if tree in [leaf[0] for leaf in self.leaves] or not hasattr(tree, "pp"):
            return
        self.steps.append(f"Autodiff({words})")
        out = self.be.empty(value.shape)
        gradients = Autodiff(tree, self.be).get_grad_asnumpyarray([leaf[0] for leaf in self.leaves])
        for (tensor, values, name), gradient in zip(self.leaves, gradients, strict=True):
            direction = self.rng.normal(size=values.shape)
            sums = []
            for sign in (1, -1):
                tensor[:] = values + sign * _STEP * direction
                out[:] = tree
                sums.append(float(out.get().sum()))
            tensor[:] = values
            difference = (sums[0] - sums[1]) / (2 * _STEP)
            expected = float((gradient * direction).sum())
            np.testing.assert_allclose(expected, difference, rtol=1e-4, atol=1e-5, err_msg=f"by {name}")


def _cut(start: int, size: int, step: int) -> slice:
    """The slice of so many elements, from one end or from the other."""
    last = int(start + (size - 1) * abs(step))
    if step > 0:
        return slice(int(start), last + 1, int(step))
    return slice(last, int(start) - 1 if start else None, int(step))
