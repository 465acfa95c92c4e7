"""`function`: NumPy values in, NumPy arrays out, and variables updated."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.compiling.specialization import NeedsValueError, Specialization
from atled.keras_backend.expressions.expression import Expression, advances_of, in_order
from atled.keras_backend.expressions.leaves import Variable
from atled.keyed import NdArray


def function(
    inputs: Sequence[Expression],
    outputs: Any,
    updates: Any = (),
    name: str | None = None,
    **kwargs: Any,
) -> Function:
    """A callable that computes expressions and updates variables; see Function."""
    pairs = list(updates.items()) if isinstance(updates, Mapping) else list(updates)
    return Function(list(inputs), outputs, pairs, name)


class Function:
    """Computes outputs from inputs, then assigns all updates at once."""

    def __init__(
        self,
        inputs: list[Expression],
        outputs: Any,
        updates: list[tuple[Variable, Expression]],
        name: str | None,
    ) -> None:
        self.name = name
        self._inputs = inputs
        self._is_single = isinstance(outputs, Expression)
        self._outputs: list[Expression] = [outputs] if self._is_single else list(outputs or [])
        self._updates = dict(updates)
        self._reached = in_order([*self._outputs, *self._updates.values()], set(inputs))
        self._updates = {**advances_of(self._reached), **self._updates}
        self._known: OrderedDict[Any, Any] = OrderedDict()

    def __call__(self, *args: Any) -> Any:
        if len(args) != len(self._inputs):
            asked = f"a call of {self.name or 'a function'} with {len(args)} values"
            raise TypeError(four_parts(asked, f"it has {len(self._inputs)} inputs", "", "give one value for each"))
        arrays = [np.asarray(value, dtype=each.type) for value, each in zip(args, self._inputs, strict=True)]
        key = tuple(array.shape for array in arrays)
        run = self._known.get(key)
        if run is None:
            run = self._known[key] = self._specialized(arrays)
        results = run(arrays)
        return results[0] if self._is_single else results

    def _specialized(self, arrays: Sequence[np.ndarray]) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
        known: dict[Expression, np.ndarray] = {}
        while True:
            try:
                return self._described(arrays, known)
            except NeedsValueError as error:
                stage = Specialization(known, self._reached)
                for each, array in zip(self._inputs, arrays, strict=True):
                    stage.input(each, NdArray.from_numpy_array(array))
                stage.add([error.expression])
                stage.description.result(stage.number(error.expression))
                known[error.expression] = stage.description.run()[0].data

    def _described(
        self, arrays: Sequence[np.ndarray], known: Mapping[Expression, np.ndarray]
    ) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
        made = Specialization(known, self._reached)
        d = made.description
        leaves = [
            made.input(each, NdArray.from_numpy_array(array)) for each, array in zip(self._inputs, arrays, strict=True)
        ]
        made.add([*self._outputs, *self._updates.values(), *self._updates])
        for each in self._outputs:
            d.result(made.number(each))
        for variable, new in self._updates.items():
            d.assign(made.number(variable), made.number(new))

        def run(values: Sequence[np.ndarray]) -> list[np.ndarray]:
            for leaf, value in zip(leaves, values, strict=True):
                d.put(leaf, NdArray.from_numpy_array(value))
            return [result.data for result in d.run()]

        return run
