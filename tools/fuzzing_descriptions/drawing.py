"""Descriptions on windows of arrays of all dtypes, with assignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.keyed import Description
from atled_contexts import Context
from fuzzing_descriptions.comparing import allowed, compare
from fuzzing_descriptions.ops import OPS, SHAPED, Op, Term, broadcast

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32)


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
        if self._chance(0.15):
            self._loop()
        elif self._chance(0.3):
            self._call_shaped()
        else:
            self._call_elementwise()

    def _loop(self) -> None:
        """A loop over the rows of a value, with a state and a row that is kept of each step."""
        sequence, first, other = (self._one(self._terms) for _ in range(3))
        new, kept = (self._one([op for op in OPS if op.arity == 2 and op.name != "Dot"]) for _ in range(2))
        error = allowed(first.array.dtype) + sequence.error + first.error
        if not sequence.array.ndim or not (
            new.accepts(sequence, first._replace(error=error)) and kept.accepts(first._replace(error=error), other)
        ):
            return
        backwards, state, rows = self._chance(0.5), first.array, []
        for row in sequence.array[:: -1 if backwards else 1]:
            if not broadcast([row, state]) or not broadcast([state, other.array]):
                return
            state = np.asarray(new.compute(row, state))
            if (state.shape, state.dtype) != (first.array.shape, first.array.dtype):
                return
            rows.append(np.asarray(kept.compute(state, other.array)))
        stacked = np.stack(rows[::-1] if backwards else rows)
        if any(made.dtype.kind == "f" and not np.abs(made).max(initial=0) < 40 for made in (state, stacked)):
            return
        d = self.description

        def step(row: int, state: int) -> tuple[list[int], list[int]]:
            state = d.call(new.name, row, state)
            return [state], [d.call(kept.name, state, other.number)]

        made = d.loop(step, [sequence.number], [first.number], backwards=backwards)
        name = f"{'backwards ' if backwards else ''}loop of {new.name} and {kept.name}"
        operands = [term._replace(error=term.error * len(rows)) for term in (sequence, first, other)]
        self._add(made.states[0], name, state, operands[:2], new.rounds)
        self._add(made.rows[0], name, stacked, operands, kept.rounds)

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
        if not op.accepts(*operands) or (op.name != "Dot" and not broadcast(arrays)):
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
        if not broadcast([target, value]) or np.broadcast_shapes(target.shape, value.shape) != target.shape:
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
