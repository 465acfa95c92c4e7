"""The constants of a forward: made when its leaves turn out to stay as they are, until one of these is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from weakref import WeakValueDictionary

from atled.arrays.cell import ArrayCell
from atled.arrays.constants import CONSTANTS, Constant
from atled.arrays.epoch import EPOCH, WRITES
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.graph.compile.plan import Plan
from atled.graph.compile.plans import PLANNING
from atled.graph.constants.cut import Imported
from atled.graph.constants.expression import Expression
from atled.graph.constants.history import History
from atled.graph.run.binding import Binding
from atled.named_tuple import NamedTuple

_CELLS: WeakValueDictionary[int, ArrayCell] = WeakValueDictionary()
"""By address of the memory of a constant: plans of several shapes that read it share its packs, too."""


class CutPlan(NamedTuple):
    """A plan that reads some values as outside arrays, behind all others; and these values."""

    plan: Plan
    imported: tuple[Imported, ...]


class _Value(NamedTuple):
    """A value that is kept: in `storage`, as long as that is what the constant has."""

    constant: Constant
    storage: HostStorage


class _Split(NamedTuple):
    """A plan that reads constants, bound to them."""

    binding: Binding
    values: Sequence[_Value]
    cells: Sequence[ArrayCell]


class HeldConstants:
    """Of one forward: whether it runs with constants, and on which.

    cells: the outside arrays of its plan.
    compile: makes the plan that reads what depends on some leaves alone as outside arrays; of that only the given
        values where these are not None.
    bind: binds that plan to outside arrays, as of an epoch that does not count need_grad.
    """

    __slots__ = ("__weakref__", "_bind", "_cells", "_compile", "_history", "_last", "_runs", "_spared", "_split")

    def __init__(
        self,
        history: History,
        cells: Sequence[ArrayCell],
        compile: Callable[[frozenset[int], Collection[Imported] | None], CutPlan],
        bind: Callable[[Plan, Sequence[ArrayCell]], Binding],
    ) -> None:
        self._history = history
        self._cells = cells
        self._compile = compile
        self._bind = bind
        self._split: _Split | None = None
        self._spared: Sequence[Constant] = ()  # so that those which hold are found again
        self._runs = 0
        self._last = 0

    @property
    def binding(self) -> Binding | None:
        """What the last run used instead of the binding without constants; None if it used that."""
        split = self._split
        return None if split is None else split.binding

    def let_go(self) -> None:
        """The store drops one of the constants: keep no memory of it."""
        self._split = None
        self._spared = ()
        self._history.ended(self._runs)

    def for_run(self) -> Binding | None:
        """What is to run now; None for the binding without constants."""
        split = self._split
        if split is None:
            leaves = self._history.unchanging()
            if not leaves:
                return None
            split = self._made(leaves)
            if split is None:
                return None
        now = next(WRITES)
        if not self._holds(split, now):
            self._split = None
            self._spared = [value.constant for value in split.values if value.constant.get(now) is not None]
            self._history.ended(self._runs)
            return None
        self._runs += 1
        self._last = now
        return split.binding

    @staticmethod
    def _holds(split: _Split, now: int) -> bool:
        for value in split.values:  # asked at each run, and a generator takes twice as long
            if value.constant.get(now) is not value.storage:
                return False
        epoch = EPOCH.but_need_grad
        return split.binding.epoch == epoch or split.binding.holds(None, split.cells, epoch)

    def _made(self, leaves: frozenset[int]) -> _Split | None:
        with PLANNING:
            now = next(WRITES)
            cut = self._compile(leaves, None)
            if not cut.imported:
                self._history.refuse(leaves)
                return None
            found = self._values(cut, now)
            if len(found) < len(cut.imported):
                if found:
                    cut = self._compile(leaves, frozenset(found))
                if not found or not cut.imported:
                    self._history.put_off()
                    return None
            values = [found[each] for each in cut.imported]
            made = (_cell_of(found[each].storage, each.expression) for each in cut.imported)
            cells = [*self._cells, *made]
            split = _Split(self._bind(cut.plan, cells), values, cells)
            for value in values:
                value.constant.held_by(self)
            self._split, self._spared, self._runs = split, (), 0
            return split

    def _values(self, cut: CutPlan, now: int) -> dict[Imported, _Value]:
        """Those that there is room for."""
        found = {}
        for imported in cut.imported:
            value = self._value(imported.expression, [self._cells[number] for number in imported.arrays], now)
            if value is not None:
                found[imported] = value
        return found

    def _value(self, expression: Expression, cells: Sequence[ArrayCell], now: int) -> _Value | None:
        constant = CONSTANTS.find(expression.key, cells)
        storage = constant.get(now)
        if storage is None:
            before = self._last or now
            if not CONSTANTS.offers(expression.desc.nbytes, before):
                return None
            number = next(WRITES)
            storage = _computed(expression, cells)
            if not CONSTANTS.take(constant, storage, number, before):
                return None
        return _Value(constant, storage)


def _computed(expression: Expression, cells: Sequence[ArrayCell]) -> HostStorage:
    plan = expression.plan
    made = ArrayCell(expression.desc.size)
    Binding(plan, cells, [made], [value for _, value in plan.floats]).run()
    assert isinstance(made.storage, HostStorage), "of places on the host"
    return made.storage


def _cell_of(storage: HostStorage, expression: Expression) -> ArrayCell:
    """The array that a constant is."""
    cell = _CELLS.get(storage.address)
    if cell is None:
        cell = ArrayCell(expression.desc.size)
        cell.adopt(HOST, expression.desc.dtype, storage)
        cell.note_runs()
        _CELLS[storage.address] = cell
    return cell
