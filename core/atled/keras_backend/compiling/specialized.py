"""What functions run: a program for inputs and variables of some shapes, or a value first on which sizes depend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.keras_backend.compiling.arguments import Wanted
from atled.keras_backend.compiling.specialization import Specialization
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Variable
from atled.keras_backend.expressions.needs import NeedsValueError
from atled.keyed import Description, NdArray, Runner
from atled.named_tuple import NamedTuple
from atled_contexts import lock_across_forks

VALUES_LIMIT = 64


class Given(NamedTuple):
    """What a specialization begins with.

    inputs: expressions whose values are arrays at each run: the inputs of the function, and what stages kept.
    known: values of expressions that sizes depend on.  known_first: the same, for what replaces expressions.
    """

    wanted: Wanted
    inputs: Sequence[Expression]
    known: Mapping[Expression, np.ndarray]
    known_first: Mapping[Expression, np.ndarray]

    def specialized(self, arrays: Sequence[NdArray]) -> Specialized:
        """What computes all, for inputs like these."""
        try:
            return Final(self, arrays)
        except NeedsValueError as error:
            assert error.expression not in (self.known_first if error.is_replacing else self.known), "it is known"
            return Stage(self, arrays, error)

    def begun(self, arrays: Sequence[NdArray], *, is_replacing: bool = False) -> Specialization:
        """A specialization that has the inputs, and what stands for others unless that is to be computed."""
        made = Specialization(self.wanted.reached, self.wanted.constants)
        for each, array in zip(self.inputs, arrays, strict=True):
            made.input(each, array)
        if is_replacing:
            made.know(self.known_first)
            return made
        if self.wanted.replaced:
            made.replace(self.wanted.replaced, self.known_first)
        made.know(self.known)
        return made

    def following(self, need: NeedsValueError, value: np.ndarray) -> Given:
        """The same with one value more, and with what was kept."""
        inputs = [*self.inputs, *need.kept]
        if need.is_replacing:
            return self._replace(inputs=inputs, known_first={**self.known_first, need.expression: value})
        return self._replace(inputs=inputs, known={**self.known, need.expression: value})


class Specialized(ABC):
    """Runs for inputs of some shapes, on variables of some shapes."""

    @abstractmethod
    def run(self, arrays: Sequence[NdArray]) -> list[np.ndarray]:
        """Compute outputs, in new arrays, and update variables. Where it fails, every variable is as it was."""

    def kept(self) -> Callable[[], list[np.ndarray] | None] | None:
        """`run` without inputs, behind such a run, as `Runner.kept` has it."""
        return None

    @abstractmethod
    def on(self, arrays: Sequence[NdArray]) -> Description:
        """The description that computes the outputs; what has to be computed first is."""


class _Bound:
    """A description whose leaves are inputs, variables and constants."""

    def __init__(self, given: Given, made: Specialization, arrays: Sequence[NdArray]) -> None:
        d = made.description
        self._runner = Runner(d)
        self._cells = list(d.said.cells)
        numbers = {cell: number for number, cell in enumerate(self._cells)}
        self._inputs = [numbers[array.cell] for array in arrays]
        variables = [each for each in given.wanted.reached if isinstance(each, Variable)]
        variables = list(dict.fromkeys([*variables, *given.wanted.updates]))
        self._variables = [(numbers[each.array.cell], each) for each in variables if each.array.cell in numbers]
        for number in (*self._inputs, *(number for number, _ in self._variables)):
            self._cells[number] = NdArray(()).cell  # keep none of them alive

    def _on(self, arrays: Sequence[NdArray]) -> list[Any]:
        cells = self._cells.copy()
        for number, array in zip(self._inputs, arrays, strict=True):
            cells[number] = array.cell
        for number, variable in self._variables:
            cells[number] = variable.array.cell
        return cells

    def run(
        self, arrays: Sequence[NdArray], reader: Callable[[Sequence[NdArray]], object] | None = None
    ) -> list[NdArray]:
        """The results; reader: reads them before anything is assigned."""
        return self._runner.run(self._on(arrays), reader)

    def run_out(self, arrays: Sequence[NdArray]) -> list[np.ndarray]:
        """The results, in NumPy arrays."""
        return self._runner.run_out(self._on(arrays))

    def kept(self) -> Callable[[], list[np.ndarray] | None] | None:
        """`run_out` for no inputs, quicker where there is a way; see `Runner.kept`."""
        found = None if self._inputs else self._runner.kept(self._on(()))
        if found is None:
            return None
        run, held = found, [(variable, variable.array) for _, variable in self._variables]

        def run_kept() -> list[np.ndarray] | None:
            for variable, array in held:
                if variable.array is not array:
                    return None
            return run()

        return run_kept

    def on(self, arrays: Sequence[NdArray]) -> Description:
        """The description, on these inputs and on the variables as they are."""
        return self._runner.on(self._on(arrays))


class Final(Specialized):
    """Computes outputs and new values."""

    def __init__(self, given: Given, arrays: Sequence[NdArray]) -> None:
        wanted = given.wanted
        made = given.begun(arrays)
        made.add([*wanted.outputs, *wanted.updates.values()])
        d = made.description
        # What is known is given without a run; the others by their place among the results.
        self._outputs: list[tuple[int, np.ndarray | None]] = []
        count = 0
        for each in wanted.outputs:
            known = made.value(each).known
            self._outputs.append((count, known))
            if known is None:
                d.result(made.number(each), is_read_first=True)
                count += 1
        self._count = count
        self._reshaped: list[tuple[int, Variable]] = []
        is_updating = False
        for variable, new in wanted.updates.items():
            if made.value(new).desc.shape == variable.array.shape:
                d.assign(made.array(variable.array).number, made.number(new))
                is_updating = True
            else:
                d.result(made.number(new))
                self._reshaped.append((count, variable))
                count += 1
        self._bound = _Bound(given, made, arrays) if count or is_updating else None

    def run(self, arrays: Sequence[NdArray]) -> list[np.ndarray]:
        """See Specialized."""
        if self._bound is None:
            return self._outputs_of(())
        if not self._reshaped:
            return self._outputs_of(self._bound.run_out(arrays))
        found: list[np.ndarray] = []
        results = self._bound.run(arrays, lambda made: found.extend([each.data for each in made[: self._count]]))
        for number, variable in self._reshaped:
            variable.array = results[number]
        return self._outputs_of(found)

    def _outputs_of(self, results: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, of which some are known."""
        return [results[number] if known is None else known.copy() for number, known in self._outputs]

    def kept(self) -> Callable[[], list[np.ndarray] | None] | None:
        """See Specialized."""
        is_plain = all(known is None for _, known in self._outputs) and not self._reshaped
        return self._bound.kept() if self._bound is not None and is_plain else None

    def on(self, arrays: Sequence[NdArray]) -> Description:
        """See Specialized."""
        return Description() if self._bound is None else self._bound.on(arrays)


class Stage(Specialized):
    """Computes a value on which sizes depend, and goes on with what is specialized for it."""

    def __init__(self, given: Given, arrays: Sequence[NdArray], need: NeedsValueError) -> None:
        self._given = given
        self._need = need
        made = given.begun(arrays, is_replacing=need.is_replacing)
        computed = [need.expression, *need.kept]
        made.add(computed)
        for each in computed:
            made.description.result(made.number(each))
        self._bound = _Bound(given, made, arrays)
        self._found: OrderedDict[bytes, Specialized] = OrderedDict()
        self._lock = lock_across_forks()

    def run(self, arrays: Sequence[NdArray]) -> list[np.ndarray]:
        """See Specialized."""
        following, given = self._following(arrays)
        return following.run(given)

    def on(self, arrays: Sequence[NdArray]) -> Description:
        """See Specialized."""
        following, given = self._following(arrays)
        return following.on(given)

    def _following(self, arrays: Sequence[NdArray]) -> tuple[Specialized, list[NdArray]]:
        value, *kept = self._bound.run(arrays)
        array, given = value.data, [*arrays, *kept]
        key = array.tobytes()
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
                return found, given
        made = self._given.following(self._need, array.copy()).specialized(given)
        with self._lock:
            self._found[key] = made
            while len(self._found) > VALUES_LIMIT:
                self._found.popitem(last=False)
        return made, given
