"""Runs random descriptions of programs, on windows of arrays of all dtypes, and compares them with NumPy.

`python tools/fuzz_descriptions.py` draws from a seed: arrays, views of views, ops whose operands have mixed dtypes and
Python numbers, results, and assignments to views that overlap what is read. NumPy computes the same beside it, call by
call. Others are of float64 throughout, and compared by their gradients of both orders. What disagrees in shape, dtype
or value is shown with its number; `--number N` draws that one alone. The exit status is 1 unless all agree.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.keyed import Description
from atled_contexts import Context

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32)
# Values stay within some tens: a result may be off by what its dtype has for such, times a handful of ops.
ERROR = {"float16": 0.15, "float32": 3e-4, "float64": 1e-9}

Compute = Callable[..., Any]


class Term(NamedTuple):
    """A value of a description beside NumPy's.

    number: of the value.  array: what NumPy has.  error: how far the value may be off.
    """

    number: int
    array: np.ndarray
    error: float = 0


class Op(NamedTuple):
    """An op and how NumPy computes it.

    accepts: of the operands, whether they are fit for it.  rounds: whether the result is exact of exact floats, too.
    """

    name: str
    compute: Compute
    arity: int
    accepts: Callable[..., bool] = lambda *terms: True
    rounds: bool = True


def _floats(*terms: Term) -> bool:
    return all(term.array.dtype.kind == "f" for term in terms)


def _exact(*terms: Term) -> bool:
    return all(term.error == 0 for term in terms)


def _no_truth(*terms: Term) -> bool:
    return all(term.array.dtype.kind != "b" for term in terms)


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide = np.float32 if x.dtype == y.dtype == np.float16 else np.result_type(x, y)
    return np.dot(x.astype(wide), y.astype(wide)).astype(np.result_type(x, y))


def _matrices(x: Term, y: Term) -> bool:
    return _floats(x, y) and x.array.ndim == y.array.ndim == 2 and x.array.shape[1] == y.array.shape[0]


OPS = (
    Op("Tanh", np.tanh, 1, _floats),
    Op("Sin", np.sin, 1, _floats),
    Op("Sigmoid", lambda x: (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype), 1, _floats),
    Op("Abs", np.abs, 1, rounds=False),
    Op("Add2", np.add, 2),
    Op("Sub2", np.subtract, 2, _no_truth),
    Op("Mul2", np.multiply, 2),
    Op("Maximum2", np.maximum, 2, rounds=False),
    Op("Minimum2", np.minimum, 2, rounds=False),
    Op("Less", np.less, 2, _exact),
    Op("GreaterEqual", np.greater_equal, 2, _exact),
    Op("Equal", np.equal, 2, _exact),
    Op("Where", np.where, 3, lambda condition, x, y: condition.error == 0),
    Op("Dot", _dot, 2, _matrices),
)


class Shaped(NamedTuple):
    """An op of one operand with attributes that follow from its shape.

    draw: of the random numbers and the array, the attributes and what NumPy makes of it.
    """

    name: str
    draw: Callable[[np.random.Generator, np.ndarray], tuple[dict[str, Any], np.ndarray]]
    rounds: bool = False


def _axis(rng: np.random.Generator, x: np.ndarray) -> int:
    return int(rng.integers(x.ndim))


def _sum(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    axis, keep = _axis(rng, x), bool(rng.integers(2))
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    made = np.sum(wide, axis=axis, keepdims=keep)
    return {"axes": axis, "keep_dims": keep}, np.asarray(made, x.dtype if x.dtype.kind == "f" else made.dtype)


def _max(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    axis = _axis(rng, x)
    return {"axes": axis}, np.max(x, axis=axis)


def _transpose(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    axes = tuple(int(axis) for axis in rng.permutation(x.ndim))
    return {"axes": axes}, x.transpose(axes)


def _slice(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    starts = tuple(int(rng.integers(size)) for size in x.shape)
    steps = tuple(int(rng.integers(1, 3)) for _ in x.shape)
    keys = tuple(slice(start, size, step) for start, size, step in zip(starts, x.shape, steps, strict=True))
    return {"start": starts, "stop": x.shape, "step": steps}, x[keys]


def _reshape(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    shape = (x.size,) if rng.integers(2) else (1, *x.shape)
    return {"shape": shape}, x.reshape(shape)


def _cum_sum(rng: np.random.Generator, x: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    axis = _axis(rng, x)
    made = np.cumsum(x.astype(np.float32) if x.dtype == np.float16 else x, axis=axis)
    return {"axis": axis}, made.astype(x.dtype) if x.dtype.kind == "f" else made


SHAPED = (
    Shaped("Sum", _sum, rounds=True),
    Shaped("Max", _max),
    Shaped("Transpose", _transpose),
    Shaped("Slice", _slice),
    Shaped("Reshape", _reshape),
    Shaped("CumSum", _cum_sum, rounds=True),
)


class Drawing:
    """One random description, with what NumPy makes of it.

    arrays: all outside ones.  mirrors: the same for NumPy.  steps: what was drawn, in words.
    """

    def __init__(self, seed: int, number: int, context: Context) -> None:
        self._rng = np.random.default_rng([seed, number])
        self.description = Description(context)
        self.steps: list[str] = []
        self.arrays: list[NdArray] = []
        self.mirrors: list[np.ndarray] = []
        self._terms: list[Term] = []
        self._wanted: list[Term] = []
        self._assigned: list[tuple[int, np.ndarray, Term]] = []
        self.errors: dict[int, float] = {}  # per array how far it may be off
        with np.errstate(all="ignore"):
            self._draw()

    # --- drawing ---

    def _chance(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def _one(self, items: Sequence[Any]) -> Any:
        return items[int(self._rng.integers(len(items)))]

    def _draw(self) -> None:
        shape = tuple(int(n) for n in self._rng.integers(1, 6, size=self._rng.integers(1, 4)))
        for _ in range(self._rng.integers(1, 4)):
            self._array(shape if self._chance(0.8) else shape[::-1])
        for _ in range(self._rng.integers(2, 5)):
            self._leaf(int(self._rng.integers(len(self.arrays))))
        for _ in range(self._rng.integers(1, 9)):
            self._call()
        for term in self._rng.permutation(len(self._terms))[: self._rng.integers(1, 3)]:
            self._result(self._terms[term])
        for number in self._rng.permutation(len(self.arrays))[: self._rng.integers(0, 3)]:
            self._assign(int(number))

    def _array(self, shape: tuple[int, ...]) -> None:
        kind = self._rng.random()
        dtype = np.dtype(self._one(FLOATS) if kind < 0.6 else self._one(INTEGERS) if kind < 0.9 else np.bool_)
        values = self._rng.normal(size=shape) * 2 if dtype.kind == "f" else self._rng.integers(0, 12, size=shape)
        mirror = (values % 2 if dtype.kind == "b" else values).astype(dtype)
        self.arrays.append(NdArray.from_numpy_array(mirror))
        self.mirrors.append(mirror.copy())
        self.steps.append(f"array {len(self.arrays) - 1}: {dtype}{list(shape)}")

    def _window(self, number: int) -> tuple[View, np.ndarray]:
        """A view of an array, of up to three views of views, and NumPy's."""
        view, mirror = View(self.arrays[number]), self.mirrors[number]
        for _ in range(self._rng.integers(0, 4)):
            if self._chance(0.3):
                view, mirror = view.T, mirror.T
            elif self._chance(0.2):
                flat = view.reshape((-1,))
                if flat is not None and np.shares_memory(mirror, mirror.reshape(-1)):
                    view, mirror = flat, mirror.reshape(-1)
            else:
                key = tuple(self._slice(size) for size in mirror.shape)
                view, mirror = view[key], mirror[key]
        return view, mirror

    def _slice(self, size: int) -> slice:
        if self._chance(0.5) or size < 2:
            return slice(None)
        key = slice(
            self._one([None, int(self._rng.integers(0, size))]),
            self._one([None, int(self._rng.integers(1, size + 1))]),
            self._one([None, 1, 2, -1, -2]),
        )
        return key if len(range(*key.indices(size))) else slice(None)

    def _leaf(self, number: int) -> None:
        view, mirror = self._window(number)
        self._terms.append(Term(self.description.leaf(view), mirror.copy()))
        self.steps.append(f"value {self._terms[-1].number}: array {number} {mirror.shape} strides {view.strides}")

    def _number(self, beside: np.dtype) -> Term:
        """A Python number, beside an array of a dtype."""
        value = int(self._rng.integers(0, 5)) if beside.kind in "iub" else round(float(self._rng.normal()), 3)
        return Term(self.description.number(value), np.array(value))

    def _call(self) -> None:
        if self._chance(0.3):
            self._call_shaped()
        else:
            self._call_elementwise()

    def _call_shaped(self) -> None:
        op, term = self._one(SHAPED), self._one(self._terms)
        if not term.array.ndim:
            return
        attributes, made = op.draw(self._rng, term.array)
        if made.size:
            number = self.description.call(op.name, term.number, **attributes)
            self._add(number, op.name, made, [term], op.rounds)

    def _call_elementwise(self) -> None:
        op: Op = self._one(OPS)
        operands = [self._one(self._terms) for _ in range(op.arity)]
        if op.arity == 2 and self._chance(0.2) and operands[0].array.dtype.kind != "b":
            operands[1] = self._number(operands[0].array.dtype)
            arrays: list[Any] = [operands[0].array, operands[1].array.item()]
        else:
            arrays = [term.array for term in operands]
        if not op.accepts(*operands) or (op.name != "Dot" and not _broadcast(arrays)):
            return
        made = np.asarray(op.compute(*arrays))
        if made.dtype.kind == "f" and not (np.isfinite(made).all() and np.abs(made).max(initial=0) < 40):
            return
        number = self.description.call(op.name, *(term.number for term in operands))
        self._add(number, op.name, made, operands, op.rounds)

    def _add(self, number: int, name: str, made: np.ndarray, operands: Sequence[Term], rounds: bool) -> None:
        # What is cast to a wider dtype is as far off as before.
        error = max(allowed(made.dtype) if rounds else 0, *(term.error for term in operands), 0)
        self._terms.append(Term(number, np.array(made), error))
        self.steps.append(f"value {number}: {name} of {[term.number for term in operands]} {made.dtype}{made.shape}")

    def _result(self, term: Term) -> None:
        self.description.result(term.number)
        self._wanted.append(term)
        self.steps.append(f"result {term.number}")

    def _assign(self, number: int) -> None:
        view, mirror = self._window(number)
        fits = [term for term in self._terms if self._may_hold(mirror, term.array)]
        if fits:
            term = self._one(fits)
            self.description.assign(view, term.number)
            self._assigned.append((number, mirror, term))
            self.steps.append(f"array {number} {mirror.shape} strides {view.strides} becomes value {term.number}")

    @staticmethod
    def _may_hold(target: np.ndarray, value: np.ndarray) -> bool:
        """Whether an assignment is defined: it broadcasts, and what it casts is in range."""
        if not _broadcast([target, value]) or np.broadcast_shapes(target.shape, value.shape) != target.shape:
            return False
        return value.dtype.kind in "biu" or target.dtype.kind in "fb" or np.can_cast(value.dtype, target.dtype)

    # --- checking ---

    def check(self) -> None:
        """AssertionError where a run gives other results than NumPy, or leaves other arrays."""
        found = self.description.run()
        for term, array in zip(self._wanted, found, strict=True):
            compare(f"result {term.number}", array.data, term.array, term.error)
        with np.errstate(all="ignore"):
            for number, mirror, term in self._assigned:
                mirror[...] = term.array.astype(mirror.dtype)
                if term.error or term.array.dtype.kind == "f":
                    self.errors[number] = max(self.errors.get(number, 0), term.error, allowed(mirror.dtype))
        for number, (array, mirror) in enumerate(zip(self.arrays, self.mirrors, strict=True)):
            compare(f"array {number}", array.data, mirror, self.errors.get(number, 0))


def _broadcast(arrays: Sequence[Any]) -> bool:
    try:
        np.broadcast_shapes(*(np.shape(array) for array in arrays))
    except ValueError:
        return False
    return True


def allowed(dtype: np.dtype) -> float:
    """How far a value of a dtype may be off; whole numbers are exact."""
    return ERROR[dtype.name] if dtype.kind == "f" else 0


def compare(words: str, found: np.ndarray, wanted: np.ndarray, error: float) -> None:
    """AssertionError unless shape and dtype are equal, and values but for an error."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), f"{words}: {found.dtype}{found.shape}"
    if error:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=error, err_msg=words)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=words)


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
            self._call()

    def _call(self) -> None:
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
        self.steps.append(f"value {number}: {name} of {[self._numbers[n] for n in operands]} {attributes} {made.shape}")
        self._numbers.append(number)
        self._shapes.append(made.shape)
        self._computes.append(lambda values: compute(*(values[n] for n in operands), **attributes))

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


def check(seed: int, number: int, context: Context) -> None:
    """Draw one and check it; AssertionError with all of it in words."""
    for kind in (Drawing, SmoothDrawing):
        drawing = kind(seed, number, context)
        try:
            drawing.check()
        except Exception as error:
            text = "\n".join(drawing.steps)
            raise AssertionError(f"--seed {seed} --number {number} in {context}\n{text}\n{error!r}") from error


def main() -> int:
    """Draw, check and count; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--descriptions", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, help="this one alone")
    parser.add_argument("--backend", default="cpu", help="cpu (default), sim, reference, ...")
    given = parser.parse_args()
    context = Context([f"{given.backend}:float"])
    numbers = range(given.descriptions) if given.number is None else [given.number]
    wrong = 0
    for number in numbers:
        try:
            check(given.seed, number, context)
        except AssertionError:
            wrong += 1
            traceback.print_exc()
    print(f"{len(numbers)} descriptions on {given.backend}, {wrong} disagree with NumPy")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
