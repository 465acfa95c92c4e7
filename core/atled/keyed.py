"""Programs by key: what a front end describes anew at each call is compiled once, and found again by what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell
from atled.arrays.copies import Copies
from atled.arrays.views import View
from atled.arrays.watches import WATCHES
from atled.calling.call_tables import in_force, keep, table_of
from atled.errors import four_parts
from atled.explanation import CallExplanation, Explanation
from atled.graph.compile.plan import Plan
from atled.graph.keyed.calls import CallMade, Calls, calls_of
from atled.graph.keyed.entries import (
    ASSIGN,
    BRANCH,
    END_BRANCH,
    END_LOOP,
    GRADIENTS,
    LOOP,
    NUMBER,
    OTHERWISE,
    OUTPUT,
    RESULT,
    VIEW,
    Entry,
    checked,
    float_count,
    is_held,
    number_entry,
    spec_of,
)
from atled.graph.keyed.outcomes import outcome
from atled.graph.keyed.programs import Program, described, leaves_of, program_of
from atled.graph.keyed.sequences import RECORDERS, Said
from atled.graph.nodes.dispatch import BetweenTransposes
from atled.graph.nodes.ir import IRNode
from atled.limits.alive import WeakRegister
from atled.limits.caches import Generations, register_cache
from atled.named_tuple import NamedTuple
from atled.ops.own import OWN
from atled.ops.spec import OpSpec
from atled.type_configs import compute_dtype
from atled.variable import Variable
from atled_contexts import Context, is_observed
from atled_contexts.surroundings import here

__all__ = [
    "CallMade",
    "Calls",
    "Copies",
    "Description",
    "Generations",
    "LoopValues",
    "NdArray",
    "Pattern",
    "Runner",
    "View",
    "WeakRegister",
    "outcome",
    "register_cache",
]

_INTS = frozenset((int,))
_BOUND_TIMES = 4
"""So many times a description is bound to memory: arrays that get other memory at each run are not worth it."""


class LoopValues(NamedTuple):
    """What a loop gives: last states, count of steps (None without a condition), and what is kept of each step."""

    states: list[int]
    steps: int | None
    rows: list[int]


class Description:
    """A program: ops on arrays, results and assignments, described call by call and then run.

    To describe it costs little: the calls are noted, and their list is the key under which the compiled program is
    found, together with the shapes, dtypes and places of the arrays, which of them are the same one, and the Context.
    Nothing is checked before a program is compiled; then errors come from `run`, with nothing computed. Equal calls of
    equal values are computed once, unless they draw random numbers.

    A value is an int, which each method gives for what it describes and which means nothing in other descriptions;
    Python numbers that are computed with go through `number`. A description may be kept and run again: it reads its
    arrays as they are then.

    context: who computes; None for the Context in force when it runs.
    """

    __slots__ = (
        "_again",
        "_again_left",
        "_begins",
        "_cells",
        "_codes",
        "_context",
        "_count",
        "_entries",
        "_floats",
        "_leaves",
        "_program",
        "_table",
    )

    def __init__(self, context: Context | None = None) -> None:
        self._context = None if context is None else context.frozen
        self._entries: list[Entry] = []
        self._leaves: dict[ArrayCell, int] = {}  # the outside arrays, each with the entry that first names it
        self._floats: list[float] = []
        # Per array the elements in front of its first leaf; none before there is a view.
        self._begins: list[int] = []
        self._program: Program | None = None  # the last, with what it was found for
        self._table: object = None
        self._codes: list[int] = []
        self._count = -1  # of entries: a description may go on behind a run
        self._cells: Sequence[ArrayCell] = ()  # of the leaves among so many entries
        # The program, bound to the memory that the arrays had, for a description that is kept; how often that may be.
        self._again: Callable[[], bool] | None = None
        self._again_left = _BOUND_TIMES

    def leaf(self, array: NdArray | View | Variable) -> int:
        """The values that an array has when the program runs; one value however often it is given.

        Views of one array are one array: what is assigned to one of them is seen by the others.
        """
        if type(array) is NdArray:
            cell, shape = array.cell, array.shape
        else:
            view = array if type(array) is View else View(_array(array))
            cell, desc = view.cell, view.desc
            if cell.dtype is not desc.dtype:
                _check_dtype(cell, desc)
            shape = desc.shape
            if not view.is_whole:
                return self._view(cell, shape, desc.strides or (), view.offset)
        entries = self._entries
        number = len(entries)
        first = self._leaves.setdefault(cell, number)
        if first == number:
            entries.append(shape)
            return number
        if entries[first] == shape:
            return first
        return self._further(first, shape, None, 0)

    def _view(self, cell: ArrayCell, shape: tuple[int, ...], strides: tuple[int, ...], begin: int) -> int:
        """A leaf that is a part of an array."""
        entries, leaves, begins = self._entries, self._leaves, self._begins
        number = len(entries)
        first = leaves.setdefault(cell, number)
        if first != number:
            return self._further(first, shape, strides, begin)
        entries.append((VIEW, None, shape, strides, 0))
        while len(begins) < len(leaves) - 1:
            begins.append(0)
        begins.append(begin)
        return number

    def _further(self, first: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, begin: int) -> int:
        """One more leaf with the array of another."""
        entries = self._entries
        if self._begins:
            number = list(self._leaves.values()).index(first)
            begin -= self._begins[number] if number < len(self._begins) else 0
        if begin == 0 and entries[first][2:4] == (shape, strides):
            return first  # a view itself
        entry = VIEW, first, shape, strides, begin
        if entry in entries:
            return entries.index(entry)
        entries.append(entry)
        return len(entries) - 1

    def number(self, value: float) -> int:
        """A Python number: a run-time value, beside which arrays keep their dtypes, as in NumPy.

        It may stand for an array among the inputs of elementwise ops, and be assigned. OverflowError, when the program
        is compiled: beside arrays of integers that do not include it.
        """
        entries, kind = self._entries, type(value)
        if kind is float or kind is bool:
            entries.append((NUMBER, kind))
        elif not isinstance(value, int):
            # NumPy's numbers have a dtype, as arrays have.
            return self.leaf(NdArray.from_numpy_array(value))
        elif is_held(value):
            entries.append(number_entry(value))
        else:
            wide = np.uint64 if value >= 2**63 else np.int64
            exact = self.leaf(NdArray.from_numpy_array(np.array(value, wide)))
            entries.append((NUMBER, int, value, exact))
        self._floats.append(float(value))
        return len(entries) - 1

    def call(self, op: str | OpSpec, *inputs: int | None, **attributes: Any) -> int:
        """The result of an op, of several its first: `output` gives the others.

        op: its name, or its spec.  inputs: values, None for an absent one.
        attributes: those of kind float are run-time values, with which nothing is compiled anew.
        """
        entries = self._entries
        if OWN:
            op = OWN.get(op, op)  # type: ignore[arg-type]  # a spec is no name
        if attributes:
            entries.append((op, inputs, self._noted(op, attributes)))
        else:
            entries.append((op, inputs))
        return len(entries) - 1

    def apart(self, call: int) -> int:
        """Have the result of a call that was just described be a value of its own, also where an equal call is there.

        For gradients with respect to one of two values that are equal.
        """
        op, operands, *attributes = self._entries[call]
        self._entries[call] = (op, operands, *(attributes or [()]), True)
        return call

    @property
    def entries(self) -> list[Any]:
        """What is described so far, each value by its number, for front ends that describe many calls.

        A call is `(name of the op, operands)`, by the numbers of their values, or `(name, operands, attributes)` with
        what `attributes_of` gives; appended, it is the value of the number at which it stands then.
        """
        return self._entries

    def _noted(self, op: str | OpSpec, attributes: dict[str, Any]) -> tuple[tuple[Any, ...], ...]:
        """The attributes as an entry has them; values of floats are put aside."""
        spec = spec_of(op)
        noted: list[tuple[Any, ...]] = []
        for name, value in attributes.items():
            if name in spec.float_names:
                number = value if type(value) is float else checked(spec, name, value)
                self._floats.append(number)
                # Refused values are not to be found again as accepted ones.
                noted.append((name, number) if spec.checks_values else (name,))
            else:
                kind = type(value)
                is_plain = kind is int or kind is str or (kind is tuple and _INTS.issuperset(map(type, value)))
                # What is only equal to these, as True is to 1, is checked now: found by its key it would not be.
                noted.append((name, value if is_plain else checked(spec, name, value)))
        return tuple(noted)

    def output(self, call: int, position: int) -> int:
        """The result of an op at a position, auxiliary ones included."""
        self._entries.append((OUTPUT, call, position))
        return len(self._entries) - 1

    def gradients(self, value: int, wanted: Sequence[int], error: int | None = None) -> list[int]:
        """The gradients of the sum of a value with respect to others; zeros where it does not depend on one.

        error: a value of the same shape, by which the elements are multiplied before they are summed; a constant, also
            where it depends on what is wanted.
        """
        self._entries.append((GRADIENTS, value, tuple(wanted), error))
        return self._outputs(len(self._entries) - 1, len(wanted))

    def loop(
        self,
        step: Callable[..., Sequence[Any]],
        sequences: Sequence[int] = (),
        states: Sequence[int] = (),
        *,
        count: int | None = None,
        length: int | None = None,
        backwards: bool = False,
    ) -> LoopValues:
        """Describe a loop: `step(*rows of sequences, *states)` is called once, with values, and describes what is done.

        It returns the new states and a list of values that are kept of each step, and maybe a condition, which ends the
        loop with the step in which it is true. It may use all values from around it; what it describes, only it may.

        sequences: values whose rows are taken, all of one length.  states: their first values, of the shapes and dtypes
        that the step returns.
        count: how many steps, a whole number without axes, or a Python number by `number`.
        length: how many, or with a count how many at most; None for that of the sequences.
        backwards: whether the first step has the last row.

        What is kept has a row for each step, zeros where none was. Random ops draw anew in each step.
        """
        first = len(self._entries)
        with self._undone_on_error():
            self._entries.append((LOOP, tuple(sequences), tuple(states), count, length, backwards))
            inside = self._outputs(first, len(sequences) + len(states))
            new_states, rows, *until = _of_step(step(*inside), len(states))
        end = len(self._entries)
        self._entries.append((END_LOOP, tuple(new_states), tuple(rows), *(until or [None])))
        values = self._outputs(end, len(new_states) + len(until) + len(rows))
        kept = len(new_states) + len(until)
        return LoopValues(values[: len(new_states)], values[kept - 1] if until else None, values[kept:])

    def branch(
        self, condition: int, if_true: Callable[[], Sequence[int]], if_false: Callable[[], Sequence[int]]
    ) -> list[int]:
        """What one of two functions describes, of which only that side is computed which the condition says.

        Each is called once, and returns values, the one as many as the other and of the same shapes and dtypes.
        condition: a value without axes; 0 is false.
        """
        entries = self._entries
        with self._undone_on_error():
            entries.append((BRANCH, condition))
            entries.append((OTHERWISE, tuple(if_true())))
            results = tuple(if_false())
        end = len(entries)
        entries.append((END_BRANCH, results))
        return self._outputs(end, len(results))

    @contextlib.contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        """Where a step or a side raises an error, the description is as if it had not been begun."""
        entries, floats = len(self._entries), len(self._floats)
        try:
            yield
        except BaseException:
            del self._entries[entries:], self._floats[floats:]
            self._leaves = {cell: number for cell, number in self._leaves.items() if number < entries}
            del self._begins[len(self._leaves) :]
            raise

    def _outputs(self, of: int, count: int) -> list[int]:
        """The values that one entry gives."""
        first = len(self._entries)
        self._entries.extend((OUTPUT, of, position) for position in range(count))
        return list(range(first, first + count))

    def result(self, value: int, *, is_read_first: bool = False) -> None:
        """Have `run` give a value, in a new array.

        is_read_first: whether `run` is given a reader, which fetches it before anything is assigned.
        """
        self._entries.append((RESULT, value, True) if is_read_first else (RESULT, value))

    def assign(self, target: int | NdArray | View | Variable, value: int) -> None:
        """Have an array hold a value behind the run, broadcast and cast to what it holds.

        All new values are computed from those before; then they are assigned at once.
        target: an array or a view of one, or the value that `leaf` gave for it.  ValueError: a read-only view.
        """
        if type(target) is View and target.read_only:
            target.refuse()
        leaf = target if type(target) is int else self.leaf(target)  # type: ignore[arg-type]
        self._entries.append((ASSIGN, leaf, value))

    def put(self, leaf: int, array: NdArray | Variable) -> None:
        """Have a leaf of a description that is kept be another array: whole, and none of the other leaves."""
        array = _array(array)
        cells = {number: cell for cell, number in self._leaves.items()}
        if cells.get(leaf) is array.cell and self._entries[leaf] == array.shape:
            return
        has_views = any(entry[:2] == (VIEW, leaf) for entry in self._entries)
        if leaf not in cells or self._entries[leaf][:1] == (VIEW,) or has_views or array.cell in self._leaves:
            raise ValueError(
                four_parts(
                    f"another array in the place of value {leaf!r}",
                    "which of the arrays are the same one would change, or it is no array of its own",
                    "",
                    "describe the program anew: that costs little",
                )
            )
        if self._entries[leaf] != array.shape:
            self._entries[leaf] = array.shape
            self._program = None
        cells[leaf] = array.cell
        self._leaves = {cell: number for number, cell in cells.items()}
        self._cells = list(self._leaves)
        self._again = None

    def set_number(self, number: int, value: float) -> None:
        """Have a number of a description that is kept be another one."""
        entries, kind = self._entries, type(value)
        entry: Entry = (NUMBER, kind) if kind is float or kind is bool else ()
        if isinstance(value, int) and kind is not bool and is_held(value):
            entry = number_entry(value)
        if not entry or entries[number][:1] != (NUMBER,) or len(entries[number]) > len(number_entry(0)):
            raise ValueError(
                four_parts(
                    f"{value!r} in the place of value {number!r}",
                    "only a Python number that a float64 holds takes the place of one",
                    "",
                    "describe the program anew: that costs little",
                )
            )
        if entries[number] != entry:
            entries[number] = entry
            self._program = None
        self._floats[sum(map(float_count, entries[:number]))] = float(value)
        self._again = None

    def desc(self, value: int) -> ArrayDesc:
        """Shape and dtype of a value, for the arrays as they are; raises what `run` would."""
        cells = list(self._leaves)
        return described(self._entries, cells, self._settled(cells)).value(value).desc

    def explain(self) -> Explanation:
        """Who would compute each call, and why, for the arrays as they are; nothing is computed."""
        return Explanation([_explained(node) for node in self._compiled(list(self._leaves)).nodes()])

    def run(self, reader: Callable[[Sequence[NdArray]], object] | None = None) -> list[NdArray]:
        """Compute and assign; the results, in the order in which they were asked for.

        reader: is called with these before anything is assigned, where they are `is_read_first`.

        Where it or the reader fails, every array is as it was. Raises what the calls themselves would for shapes and
        attributes that do not fit, TypeError or ValueError for a description that makes no sense.
        """
        again, count = self._again, len(self._entries)
        if (
            again is not None
            and reader is None
            and here().arrays is self._table
            and count == self._count
            and not RECORDERS
            and again()
        ):
            return []
        begins = self._begins
        cells = self._cells if count == self._count else list(self._leaves)
        if begins:
            while len(begins) < len(cells):
                begins.append(0)
        codes = [cell.code if cell.pending is None else -1 for cell in cells]
        surroundings = here()
        table, program = surroundings.arrays, self._program
        if program is None or table is not self._table or codes != self._codes or count != self._count:
            program = None
            if table is not None:
                context, known = self._context, table
                if context is not None and context is not surroundings.context and type(table) is dict:
                    known = _table_beside(table, context)
                # Nothing is in there for arrays without values, nor where calls are observed.
                program = known.get((*self._entries, *codes))
            if program is None:
                return self._run_first(cells, reader)
            self._program, self._table, self._codes = program, table, codes
            self._cells, self._count = cells, count
            self._again = None
        elif reader is None and not (RECORDERS or WATCHES) and (again is not None or self._again_left):
            self._bind(program, cells)
        found: list[NdArray] = program.run(cells, begins, self._floats, reader)
        if RECORDERS:
            self._note(found)
        return found

    def _bind(self, program: Program, cells: Sequence[ArrayCell]) -> None:
        """Have the next runs take the memory that the arrays have now, as long as they have it."""
        left = self._again_left
        self._again = program.assigning(cells, self._begins, self._floats) if left else None
        self._again_left = 0 if self._again is None else left - 1

    def _run_first(
        self, cells: Sequence[ArrayCell], reader: Callable[[Sequence[NdArray]], object] | None
    ) -> list[NdArray]:
        """Run what is not known, on arrays without values, or while something observes calls."""
        program = self._compiled(cells)
        begins = self._begins
        found = (program.run_bound if is_observed() else program.run)(cells, begins, self._floats, reader)
        if RECORDERS:
            self._note(found)
        return found

    def _note(self, results: Sequence[NdArray]) -> None:
        """Tell who records what this thread runs that this has run."""
        for each in tuple(RECORDERS):
            each.note(self, results)

    @property
    def said(self) -> Said:
        """What it says, on which arrays, for who joins descriptions; without the arrays that a run gives."""
        return Said(self._entries, list(self._leaves), self._begins, ())

    @property
    def floats(self) -> list[float]:
        """The run-time numbers of its entries, in their order; others may be put there in front of a run."""
        if self._floats:
            self._again = None
        return self._floats

    @property
    def context(self) -> Context | None:
        """Who computes; None for the Context in force."""
        return self._context

    def _compiled(self, cells: Sequence[ArrayCell]) -> Program:
        """The program, found or compiled."""
        context = self._settled(cells)
        key = (*self._entries, *[cell.code for cell in cells])
        table = table_of(context)
        program: Program | None = table.get(key)
        if program is None:
            program = program_of(key, self._entries, cells, context)
            keep(table, key, program)
        return program

    def _settled(self, cells: Sequence[ArrayCell]) -> Context:
        """The Context that counts; all arrays have values then."""
        if here().arrays is None:
            in_force()
        context = here().context if self._context is None else self._context
        for cell in cells:
            if cell.pending is not None or cell.storage is None:
                cell.settle(compute_dtype(context.backends[0][1]))
        return context

    def calls(self, values: Sequence[int], given: Sequence[int]) -> Calls:
        """How values, such as gradients, are computed from others: the calls that make them, for who reads on."""
        cells = list(self._leaves)
        context = self._settled(cells)
        return calls_of(self._entries, leaves_of(cells), context, self._floats, values, given)

    def pattern(self, views: Sequence[View]) -> Pattern | None:
        """All but the arrays, for descriptions that say the same of others; None where an array is of none of these.

        views: leaves of it, and maybe others.
        """
        entries, places = self._entries.copy(), []
        for cell, number in list(self._leaves.items()):
            found = [n for n, view in enumerate(views) if view.cell is cell and self.leaf(view) == number]
            if not found:
                break
            places.append(found[0])
        self._entries[:] = entries  # some may have been no leaves
        return Pattern(self, places) if len(places) == len(self._leaves) else None

    @property
    def plan(self) -> Plan:
        """What it is compiled to, for the arrays as they are; `print` shows the steps and who runs them."""
        return self._compiled(list(self._leaves)).plan

    def __repr__(self) -> str:
        return f"<Description of {len(self._entries)} entries on {len(self._leaves)} arrays>"


def attributes_of(op: str, **attributes: Any) -> tuple[tuple[str, Any], ...]:
    """Attributes as an entry has them, for an op all of whose attributes are known when it is compiled."""
    spec = spec_of(op)
    assert not set(attributes) & set(spec.float_names), "run-time floats are put aside by `call`"
    return tuple((name, checked(spec, name, value)) for name, value in attributes.items())


_BESIDE: list[tuple[object, Context | None, dict[Any, Any]]] = [(None, None, {})]
"""A table that was in force, another Context, and the table of that: mostly they are the same ones the next time."""


def _table_beside(table: object, context: Context) -> dict[Any, Any]:
    """The table of another Context than the one that is in force."""
    in_force_then, context_then, found = _BESIDE[0]
    if table is not in_force_then or context is not context_then:
        found = table_of(context)
        _BESIDE[0] = table, context, found
    return found


class Pattern:
    """A description without its arrays: it keeps none of them alive."""

    __slots__ = ("_begins", "_context", "_entries", "_floats", "_found", "_leaves")

    def __init__(self, of: Description, places: Sequence[int]) -> None:
        """places: for each array of it, in their order, which of the views is its first leaf."""
        self._context = of._context
        self._entries = of._entries.copy()
        self._floats = of._floats.copy()
        self._begins = bool(of._begins)
        # The program, and what it was found for; in one, as threads may run it at the same time.
        self._found = of._program, of._table, of._codes, of._count
        self._leaves = list(zip(places, of._leaves.values(), strict=True))

    def run(self, views: Sequence[View]) -> Description | None:
        """Run what it describes on other arrays: that description; None where two are the same one, with nothing run.

        views: in the order of those that it was made with, of the same shapes, strides and dtypes; those of one array
            as far from each other as before, and whole where it was whole. Nothing of that is checked.
        """
        made = Description.__new__(Description)
        leaves = made._leaves = {views[place].cell: number for place, number in self._leaves}
        if len(leaves) < len(self._leaves):
            return None
        made._cells = list(leaves)
        made._context = self._context
        made._entries, made._floats = self._entries.copy(), self._floats.copy()
        made._begins = [views[place].offset for place, _ in self._leaves] if self._begins else []
        program, made._table, made._codes, made._count = self._found
        made._program = program
        made._again = None
        made._again_left = 0  # it may be run but once
        made.run()
        made._again_left = _BOUND_TIMES
        if made._program is not program:
            self._found = made._program, made._table, made._codes, made._count
        return made


class Runner:
    """A description without its arrays, to be run on others like these; several threads may run it at once.

    of: without views. It is not kept, nor are its arrays.
    """

    __slots__ = ("_context", "_entries", "_floats", "_found", "_leaves")

    def __init__(self, of: Description) -> None:
        assert not of._begins, "whole arrays only"
        self._context = of._context
        self._entries = of._entries.copy()
        self._floats = of._floats.copy()
        self._leaves = list(of._leaves.values())
        # The program, the table and the codes for which it was found; in one, as threads read it at the same time.
        self._found: tuple[Program | None, object, list[int]] = None, None, []

    def run(
        self, cells: Sequence[ArrayCell], reader: Callable[[Sequence[NdArray]], object] | None = None
    ) -> list[NdArray]:
        """Run it, see `Description.run`.

        cells: of arrays with the shapes of its own, in the order in which it named these first; no two the same one.
        """
        program = self._program(cells)
        if program is None:
            return self._run_anew(cells, reader)
        found: list[NdArray] = program.run(cells, (), self._floats, reader)
        return found

    def run_out(self, cells: Sequence[ArrayCell]) -> list[np.ndarray]:
        """The same, with results in new NumPy arrays; where one cannot be fetched, every array is as it was."""
        program = self._program(cells)
        if program is None:
            made: list[np.ndarray] = []
            self._run_anew(cells, lambda results: made.extend([each.data for each in results]))
            return made
        found: list[np.ndarray] = program.run_out(cells, self._floats)
        return found

    def kept(self, cells: Sequence[ArrayCell]) -> Callable[[], list[np.ndarray] | None] | None:
        """`run_out` on the same arrays again and again; None: there is no quicker one, or it has not run on them.

        It gives None, with nothing run, where `run_out` has to look for a program again.
        """
        table, program = self._found[1], self._program(cells)
        run = None if program is None else program.kept(cells, self._floats)
        if run is None:
            return None

        def run_kept() -> list[np.ndarray] | None:
            return None if here().arrays is not table or RECORDERS else run()

        return run_kept

    def _program(self, cells: Sequence[ArrayCell]) -> Program | None:
        """The program that ran last, if it is the one for these arrays here and now."""
        program, table, codes = self._found
        if (
            program is None
            or here().arrays is not table
            or RECORDERS
            or codes != [cell.code if cell.pending is None else -1 for cell in cells]
        ):
            return None
        return program

    def _run_anew(
        self, cells: Sequence[ArrayCell], reader: Callable[[Sequence[NdArray]], object] | None
    ) -> list[NdArray]:
        made = self.on(cells)
        results = made.run(reader)
        self._found = made._program, made._table, made._codes
        return results

    def on(self, cells: Sequence[ArrayCell]) -> Description:
        """The description, on these arrays."""
        made = Description(self._context)
        made._leaves = dict(zip(cells, self._leaves, strict=True))
        made._entries, made._floats = self._entries.copy(), self._floats.copy()
        return made


def _of_step(described: Any, states: int) -> Sequence[Any]:  # Any: whatever a function of the user returns
    """What the step of a loop returns; TypeError where it is not new states, rows and maybe a condition."""
    parts = described if isinstance(described, tuple | list) else ()
    if len(parts) not in (2, 3) or not all(isinstance(each, tuple | list) for each in parts[:2]):
        wrong = f"it returns {described!r}"
    elif len(parts[0]) != states:
        wrong = f"it returns {len(parts[0])} new states, of {states}"
    else:
        return parts
    remedy = "return a list of the new states, a list of what is kept of each step, and maybe a condition"
    raise TypeError(four_parts("the step of a loop", wrong, "", remedy))


def _explained(node: IRNode) -> CallExplanation:
    spec, decision = node.spec, node.decision
    assert spec is not None and decision is not None
    is_transposed = isinstance(decision.implementation, BetweenTransposes)
    call = decision.call
    made = (lambda *_: call) if not is_transposed else None
    return CallExplanation(spec, decision.context, repr(call), decision.candidates, made, is_transposed)


def _check_dtype(cell: ArrayCell, desc: ArrayDesc) -> None:
    """Refuse a view of an array that was cast; one without memory gets it."""
    if cell.dtype is None:
        cell.settle(desc.dtype)
    if cell.dtype != desc.dtype:
        raise TypeError(
            four_parts(
                f"a leaf {desc}", f"its array is {cell.dtype} by now", "", "make a new view of the array as it is"
            )
        )


def _array(given: Any) -> NdArray:
    """The array that a Variable has; TypeError for what has none."""
    if isinstance(given, Variable):
        return given.data
    if isinstance(given, NdArray):
        return given
    raise TypeError(
        four_parts(
            f"a leaf of type {type(given).__name__}",
            "it is no array of the library",
            "",
            "make one of it, by NdArray.from_numpy_array",
        )
    )
