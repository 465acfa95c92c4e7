"""`function`: NumPy values in, NumPy arrays out, and variables updated."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.compiling.arguments import wanted
from atled.keras_backend.compiling.specialized import Given, Specialized
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Variable
from atled.keyed import NdArray
from atled.limits.caches import register_cache

_LIMIT = 64  # specializations of one function


def function(inputs: Any, outputs: Any, updates: Any = (), name: str | None = None, **kwargs: Any) -> Function:
    """A callable that computes expressions from values of its inputs, and then updates variables.

    inputs: list of placeholders, or of other expressions whose values calls bring; none needs to be used.
    outputs: one expression, which a call gives as an array; a list, which it gives as a list; None for an empty list.
    updates: pairs of variables and new values, or a dictionary; all are computed from the values before the call.
    name: for messages.
    givens: a dictionary or pairs: what stands for placeholders, variables or other expressions, wherever they are.
    on_unused_input, allow_input_downcast, mode, profile: as the original has them; nothing depends on them.

    Compiled at the first call with inputs of some shapes; see `Function`.

    TypeError: what is no expression, an update of what is no variable; new values of a wider dtype or another count of
    axes.  ValueError: a placeholder that is needed and not listed, an input or an update that is there twice.
    """
    return Function(inputs, outputs, updates, name, kwargs)


class Function:
    """Computes outputs from inputs, then assigns all updates at once; where a call fails, nothing is assigned.

    A call takes arrays, lists or numbers, which are cast to the dtypes of the inputs, and gives new NumPy arrays. For
    each tuple of shapes of inputs and variables there is a program, found again as long as it is used.
    """

    def __init__(self, inputs: Any, outputs: Any, updates: Any, name: str | None, options: dict[str, Any]) -> None:
        self.name = name
        self._is_single = isinstance(outputs, Expression)
        listed = [outputs] if self._is_single else [] if outputs is None else outputs
        self._wanted = wanted(inputs, listed, updates, options)
        self._inputs = self._wanted.inputs
        variables = [each for each in self._wanted.reached if isinstance(each, Variable)]
        self._variables = list(dict.fromkeys([*variables, *self._wanted.updates]))
        self._known: OrderedDict[Any, Specialized] = OrderedDict()
        self._lock = threading.Lock()
        # The last run without inputs, where that can be repeated.
        self._kept: Callable[[], list[np.ndarray] | None] | None = None
        _FUNCTIONS.add(self)

    def __call__(self, *args: Any) -> Any:
        kept = self._kept
        if kept is not None and not args:
            results = kept()
            if results is not None:
                return results[0] if self._is_single else results
        arrays = [NdArray.from_numpy_array(each) for each in self._cast(args)]
        specialized = self._specialized(arrays)
        results = specialized.run(arrays)
        if not args:
            self._kept = specialized.kept()
        return results[0] if self._is_single else results

    def _cast(self, args: Sequence[Any]) -> list[np.ndarray]:
        if len(args) != len(self._inputs):
            wrong = f"it has {len(self._inputs)} inputs"
            asked = f"a call of {self!r} with {len(args)} values"
            raise TypeError(four_parts(asked, wrong, "", "give one value for each"))
        return [_cast(value, each) for value, each in zip(args, self._inputs, strict=True)]

    def _specialized(self, arrays: Sequence[NdArray]) -> Specialized:
        """The program for inputs like these, and variables as they are."""
        key = tuple(each.shape for each in arrays), tuple(each.array.shape for each in self._variables)
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                return found
        found = Given(self._wanted, self._inputs, {}, {}).specialized(arrays)
        with self._lock:
            self._known[key] = found
            while len(self._known) > _LIMIT:
                self._known.popitem(last=False)
        return found

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        inputs = ", ".join(each.name or f"{each.ndim} axes of {each.dtype}" for each in self._inputs)
        return f"<function{name} of ({inputs})>"


def _cast(value: Any, to: Expression) -> np.ndarray:
    """A value that a call is given, as an array of the dtype of its input."""
    found = np.asarray(value)
    if found.ndim != to.ndim:
        asked = f"a value of shape {found.shape} for the input {to!r}"
        wrong = f"it has {found.ndim} axes, the input {to.ndim}"
        raise TypeError(four_parts(asked, wrong, "", "give a value with as many axes, by reshape() or indexing"))
    if found.dtype.kind not in "biuf":
        asked = f"a value of type {type(value).__name__} for the input {to!r}"
        wrong = f"NumPy makes an array of {found.dtype} of it"
        raise TypeError(four_parts(asked, wrong, "", "give an array, a list of numbers, or a number"))
    return found.astype(to.type, copy=False)


_FUNCTIONS: weakref.WeakSet[Function] = weakref.WeakSet()


def _forget() -> None:
    for each in list(_FUNCTIONS):
        each._known.clear()


register_cache("specializations of functions", lambda: sum(len(each._known) for each in list(_FUNCTIONS)), _forget)
