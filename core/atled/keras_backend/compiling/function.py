"""`function`: NumPy values in, NumPy arrays out, and variables updated."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.compiling.arguments import wanted
from atled.keras_backend.compiling.failures import located
from atled.keras_backend.compiling.given import NO_LIST, as_values
from atled.keras_backend.compiling.specialized import Given, Specialized
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Variable
from atled.keras_backend.expressions.messages import counted
from atled.keyed import Copies, Description, NdArray, WeakRegister, register_cache
from atled_contexts import lock_across_forks

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
    each tuple of shapes of inputs and variables there is a program, which is found again unless many others were used
    since. Several threads may call it; two that update one variable at the same time may lose one update.

    Errors of a call name the expression and the line where it was written: TypeError for a count or a rank of values
    that is not that of the inputs, ValueError for sizes that do not fit and singular systems, IndexError for an index
    that is out of range.
    """

    def __init__(self, inputs: Any, outputs: Any, updates: Any, name: str | None, options: dict[str, Any]) -> None:
        self.name = name
        self._is_single = isinstance(outputs, Expression)
        listed = [outputs] if self._is_single else [] if outputs is None else _list_of(outputs)
        self._wanted = wanted(inputs, listed, updates, options)
        self._inputs = self._wanted.inputs
        variables = [each for each in self._wanted.reached if isinstance(each, Variable)]
        self._variables = list(dict.fromkeys([*variables, *self._wanted.updates]))
        self._known: OrderedDict[Any, Specialized] = OrderedDict()
        self._lock = lock_across_forks()
        # The shapes of inputs and variables of the last call, and what was found; in one, for threads.
        self._last: tuple[Any, Specialized | None, list[Copies]] = None, None, []
        # The last run without inputs, where that can be repeated.
        self._kept: Callable[[], list[np.ndarray] | None] | None = None
        _FUNCTIONS.add(self)

    def __call__(self, *args: Any) -> Any:
        kept = self._kept
        try:
            results = None if kept is None or args else kept()
            if results is None:
                results = self._run(args)
        except (ArithmeticError, LookupError, ValueError, RuntimeError) as error:
            told = located(error, self._wanted.reached)
            if told is None:
                raise
            raise told from error
        return results[0] if self._is_single else results

    def _run(self, args: Sequence[Any]) -> list[np.ndarray]:
        """The results, by a program that is found or compiled."""
        specialized, arrays = self._found(self._values(args))
        results = specialized.run(arrays)
        if not args:
            self._kept = specialized.kept()
        return results

    def _values(self, args: Sequence[Any]) -> list[np.ndarray]:
        """The values of a call, of any dtypes."""
        if len(args) != len(self._inputs):
            wrong = f"it has {counted(len(self._inputs), 'input')}"
            asked = f"a call of {self!r} with {counted(len(args), 'value')}"
            is_list = len(args) == 1 and isinstance(args[0], list | tuple) and len(args[0]) == len(self._inputs)
            remedy = NO_LIST if is_list else "give one value for each"
            raise TypeError(four_parts(asked, wrong, "", remedy))
        return [as_values(value, each) for value, each in zip(args, self._inputs, strict=True)]

    def _found(self, values: Sequence[np.ndarray]) -> tuple[Specialized, list[NdArray]]:
        """The program for inputs like these, and variables as they are; the inputs as arrays of their dtypes."""
        key = tuple([each.shape for each in values]), tuple([each.array.shape for each in self._variables])
        last, specialized, copies = self._last
        if last == key and specialized is not None:
            return specialized, [each.of(value) for each, value in zip(copies, values, strict=True)]
        copies = [Copies(value.shape, each.type) for value, each in zip(values, self._inputs, strict=True)]
        arrays = [each.of(value) for each, value in zip(copies, values, strict=True)]
        with self._lock:
            specialized = self._known.get(key)
            if specialized is not None:
                self._known.move_to_end(key)
        if specialized is None:
            specialized = Given(self._wanted, self._inputs, {}, {}).specialized(arrays)
            with self._lock:
                self._known[key] = specialized
                while len(self._known) > _LIMIT:
                    self._known.popitem(last=False)
        self._last = key, specialized, copies
        return specialized, arrays

    def _described(self) -> Description:
        """What the last call described, for inputs of its shapes."""
        key, *_ = self._last
        if key is None:
            wrong = "the sizes of its inputs are not known"
            raise RuntimeError(four_parts(f"the plan of {self!r}", wrong, "", "call it once"))
        specialized, arrays = self._found([np.zeros(shape) for shape in key[0]])
        return specialized.on(arrays)

    @property
    def plan(self) -> Any:  # Any: a plan of the engine, which front ends pass on
        """What the last call was compiled to; `print` shows the steps and who runs them.

        Sizes that depend on values are those for inputs of zeros.  RuntimeError: before the first call.
        """
        return self._described().plan

    def explain(self) -> Any:
        """Who would compute each op, and why, for inputs as in the last call; see `nn.explain`."""
        return self._described().explain()

    @property
    def program_count(self) -> int:
        """For how many tuples of shapes it has programs."""
        return len(self._known)

    def forget(self) -> None:
        """Drop all programs; the next call compiles anew."""
        with self._lock:
            self._known = OrderedDict()  # a new one: see PlanCache.clear
        self._last = self._last[0], None, []
        self._kept = None

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        inputs = ", ".join(each.name or f"{counted(each.ndim)} of {each.dtype}" for each in self._inputs)
        return f"<function{name} of ({inputs})>"


def _list_of(outputs: Any) -> list[Any]:
    if isinstance(outputs, list | tuple):
        return list(outputs)
    asked = f"a function with outputs of type {type(outputs).__name__}"
    raise TypeError(four_parts(asked, "they are no list", "", "give an expression, a list of them, or None"))


_FUNCTIONS: WeakRegister[Function] = WeakRegister()


def _count() -> int:
    return sum(each.program_count for each in _FUNCTIONS.alive())


def _forget() -> None:
    for each in _FUNCTIONS.alive():
        each.forget()


register_cache("specializations of functions", _count, _forget)
