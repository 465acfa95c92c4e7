"""Recipes of the values and gradients that a plan does not store: they are computed again when they are read."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from atled.arrays.array import NdArray
from atled.arrays.cell import UNWRITTEN, ArrayCell, Filled, Use
from atled.arrays.epoch import EPOCH
from atled.errors import four_parts
from atled.graph.record.roots import Roots
from atled.graph.record.traversal import functions_before
from atled.graph.record.value import RecordedCall, Value
from atled.graph.run.binding import LastRun

_ROOT_IS_GONE = "a root is gone: a Variable on which its forward or backward was called, alone or with others"


class GraphRecipe(ABC):
    """The recipe of everything that the plans of some roots do not store.

    last_run: of these plans.  roots: referred to weakly, because arrays hold recipes.
    """

    __slots__ = ("_held", "last_run", "roots")

    def __init__(self, last_run: LastRun, roots: Roots) -> None:
        self.last_run = last_run
        self.roots = weakref.ref(roots)
        self._held: tuple[Value, ...] = ()

    def hold(self) -> None:
        """Keep the graph: a user has an array that may have to be computed from it."""
        roots = self.roots()
        self._held = () if roots is None else roots.values()

    def recover(self, cell: ArrayCell) -> None:
        """Compute the values into the cell; from the next run on they are stored.

        Raises RuntimeError if what it is computed from changed since the last run.
        """
        value = self._value_of(cell)
        if value is None:
            raise RuntimeError(
                four_parts(
                    f"an array of {cell.size} elements that a graph computed and did not store",
                    _ROOT_IS_GONE if self._root_is_gone else "the function that makes it is gone",
                    "",
                    "keep the whole graph, each root included, until it is read; or hold its Variable before the run",
                )
            )
        value.exposed = True
        EPOCH.bump()
        if self.last_run.number:
            self._compute(value, cell)
        else:
            cell.pending = UNWRITTEN  # nothing was computed yet: zeros, as in any array into which nothing was written

    @property
    def _root_is_gone(self) -> bool:
        roots = self.roots()
        return roots is None or not roots.values()

    @abstractmethod
    def _value_of(self, cell: ArrayCell) -> Value | None:
        """The value to which a cell belongs."""

    @abstractmethod
    def _compute(self, value: Value, cell: ArrayCell) -> None:
        """Compute the value into the cell."""

    def _check_inputs(self, what: str, functions: Sequence[RecordedCall], others: Iterable[ArrayCell] = ()) -> None:
        """Refuse to compute from arrays that others may have written since the last run."""
        cells = list(others)
        for function in functions:
            cells += [source.data.cell for source in function.inputs if source is not None]
            if function.random_state is not None:
                cells.append(function.random_state)
        for cell in cells:
            if not cell.is_unstored and cell.may_differ_since(self.last_run.number):
                raise RuntimeError(
                    four_parts(
                        f"{what}, which was computed and not stored, because nobody held its Variable",
                        "an array that it is computed from was written since, or a view of one was held through which "
                        "it may have been",
                        f"{_ROOT_IS_GONE}; with it went the watch that stores what backward reads before a write"
                        if self._root_is_gone
                        else "",
                        "compute the graph again, from then on it is stored; or, before that, hold the Variable, set "
                        "its persistent, or set need_grad of the leaves that are to have gradients",
                    )
                )


class ResultRecipe(GraphRecipe):
    """The recipe of results of calls that some plan does not store.

    values: those that are not stored.
    """

    __slots__ = ("_values",)

    def __init__(self, last_run: LastRun, roots: Roots, values: Sequence[weakref.ref[Value]]) -> None:
        super().__init__(last_run, roots)
        self._values = values

    def _value_of(self, cell: ArrayCell) -> Value | None:
        values = (reference() for reference in self._values)
        value = next((value for value in values if value is not None and value.data.cell is cell), None)
        return None if value is None else _as_made(value)


class ValueRecipe(ResultRecipe):
    """What a forward does not store: the calls are run again, one by one.

    calls: those of which auxiliary outputs are not stored.
    """

    __slots__ = ("_calls",)

    def __init__(
        self,
        last_run: LastRun,
        roots: Roots,
        values: Sequence[weakref.ref[Value]],
        calls: Sequence[weakref.ref[RecordedCall]],
    ) -> None:
        super().__init__(last_run, roots, values)
        self._calls = calls

    def _value_of(self, cell: ArrayCell) -> Value | None:
        return super()._value_of(cell) or self._auxiliary_of(cell)

    def _functions(self) -> Iterator[RecordedCall | None]:
        """The calls that still exist."""
        return (reference() for reference in self._calls)

    def _auxiliary_of(self, cell: ArrayCell) -> Value | None:
        for function in self._functions():
            if function is not None and cell in function.auxiliary:
                return function.output_value(function.auxiliary.index(cell))
        return None

    def _compute(self, value: Value, cell: ArrayCell) -> None:
        functions = functions_before(value)
        assert value.parent is not None
        self._check_inputs(f"result of {value.parent.spec.name}, shape {value.shape}", functions)
        self.restore(value)

    def restore(self, value: Value) -> None:
        """Compute a value from stored ones, which the caller knows to be those of the last run."""
        from atled.graph.run.one_call import call_function  # lazy: few programs read what was not stored

        cell = value.data.cell
        functions = functions_before(_as_made(value) or value)
        computed: list[tuple[Value | None, int | None]] = []
        for function in _leading_to(cell, functions):
            outputs = [_if_unstored(output) for output in function.live_outputs()]
            versions = [None if output is None else output.data.cell.last_write for output in outputs]
            call_function(function, _spared(function), outputs)
            computed += zip(outputs, versions, strict=True)
        for output, version in computed:
            if output is not None and version is not None:
                output.data.cell.use = Use.NONE  # the plans of the single calls are gone
                output.data.cell.last_write = version  # its values are those of that version


def _as_made(value: Value) -> Value | None:
    """The value of its array that a call makes, another one where `rewire_on` made it a leaf; None if that is gone."""
    if value.parent is not None or value.sharing is None:
        return value
    return next((other for other in value.sharing.values if other.parent is not None), None)


def _if_unstored(value: Value | None) -> Value | None:
    """A result that is to be computed; none that is stored, and may have been written since."""
    return value if value is not None and value.data.cell.is_unstored else None


def _spared(function: RecordedCall) -> list[Value | None]:
    """The inputs of a call, with copies in place of those that it changes, which must not be changed a second time."""
    inputs = list(function.inputs)
    for position in function.mutated:
        value = inputs[position]
        if value is not None:
            data = NdArray(value.shape)
            data.copy_from(value.data)
            inputs[position] = Value(value.shape, data=data)
    return inputs


def _leading_to(cell: ArrayCell, functions: Sequence[RecordedCall]) -> list[RecordedCall]:
    """The calls that make a value from stored ones, in order, of all calls before it."""
    wanted = {id(cell)}
    result: list[RecordedCall] = []
    for function in reversed(functions):
        if any(value is not None and id(value.data.cell) in wanted for value in function.live_outputs()):
            if not function.spec.views:
                result.append(function)
            sources = [value.data.cell for value in function.inputs if value is not None]
            wanted.update(id(source) for source in sources if source.is_unstored)
    return result[::-1]


class RebuiltValueRecipe(ValueRecipe):
    """What the forward of a graph that is built again at every step does not store: its calls are made when needed.

    Values have no cells before they are asked for; it is told of those then.

    makers: the results of those of which auxiliary outputs are not stored.
    """

    __slots__ = ("_makers", "_told")

    def __init__(self, last_run: LastRun, roots: Roots, makers: Sequence[weakref.ref[Value]]) -> None:
        self._told: list[weakref.ref[Value]] = []
        super().__init__(last_run, roots, self._told, ())
        self._makers = makers

    def of_value(self, value: Value) -> RebuiltValueRecipe:
        """The recipe for the cell of one of the values."""
        self._told.append(weakref.ref(value))
        return self

    def _functions(self) -> Iterator[RecordedCall | None]:
        values = (reference() for reference in self._makers)
        return (None if value is None else value.parent for value in values)


class GradientRecipe(GraphRecipe):
    """What a backward does not store: a backward is run that leaves this gradient and no other."""

    __slots__ = ()

    def _value_of(self, cell: ArrayCell) -> Value | None:
        roots = self.roots()
        if roots is None or roots.backward is None:
            return None
        structure = roots.backward.structure
        values = (structure.value(number) for number in roots.backward.middle)
        return next((value for value in values if value is not None and value.grad.cell is cell), None)

    def _compute(self, value: Value, cell: ArrayCell) -> None:
        roots = self.roots()
        assert roots is not None
        record = roots.backward
        functions = record.structure.functions
        # Auxiliary outputs, not visible ones: a user who looks at a result gets a view, which counts as a write.
        saved = [cell for function in functions for cell in function.auxiliary[function.visible :] if cell is not None]
        seeds = [seed for _, seed in record.seeds]
        self._check_inputs(f"gradient of a Variable of shape {value.shape}", functions, [*saved, *seeds])
        record.recompute(value)


class _Latest:
    """Several recipes for one cell, because the plans of several roots compute it: the one that ran last counts."""

    __slots__ = ("recipes",)

    def __init__(self, recipes: Sequence[GraphRecipe]) -> None:
        self.recipes = recipes

    def hold(self) -> None:
        """Keep the graphs of all."""
        for recipe in self.recipes:
            recipe.hold()

    def recover(self, cell: ArrayCell) -> None:
        """Follow the recipe of the plan that ran last."""
        max(self.recipes, key=lambda recipe: recipe.last_run.number).recover(cell)


def leave_unstored(cell: ArrayCell, recipe: GraphRecipe) -> None:
    """Give away the memory of a cell that a plan computes without storing it."""
    before = cell.pending
    if cell.storage is None and isinstance(before, Filled):
        cell.pending = recipe
        return
    known = before.recipes if isinstance(before, _Latest) else [before] if isinstance(before, GraphRecipe) else []
    others = [other for other in known if other.last_run is not recipe.last_run]
    # Of roots that are gone only the one that ran last can be the last of all.
    gone = sorted((item for item in others if item.roots() is None), key=lambda item: item.last_run.number)[-1:]
    others = [*gone, *(item for item in others if item.roots() is not None)]
    cell.release(_Latest([*others, recipe]) if others else recipe)


def leave_gradient_unstored(value: Value, recipe: GraphRecipe) -> None:
    """Give away the memory of a gradient that a backward computes without storing it."""
    if not value.leave_gradient_unstored(recipe):
        leave_unstored(value.grad.cell, recipe)
