"""What plans of an inference compute from parameters alone, kept until one of these is written."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

from atled.arrays.cell import ArrayCell
from atled.arrays.constants import CONSTANTS
from atled.arrays.epoch import WRITES
from atled.graph.inference.compiling import Compiled, FixedPlan
from atled.graph.inference.folded_on_host import FoldedOnHost
from atled.graph.inference.restlessness import Restlessness
from atled.limits.caches import register_cache
from atled_contexts import lock_across_forks

_ALL: WeakSet[FixedValues] = WeakSet()


class Reader(Protocol):
    """What keeps values for its next run."""

    def let_go(self) -> None:
        """Keep no values any more."""


class Generation:
    """Values as of some state of the parameters; nobody writes them: what is computed later is in other arrays.

    Each is computed when it is asked for, and lives as long as somebody has it.

    number: of `WRITES`, since when no parameter was written.  runs: that read it, about: threads count without a lock.
    is_used: whether something was computed, or is to be packed.
    """

    __slots__ = ("_known", "_lock", "_recent", "_tokens", "is_used", "number", "runs")

    def __init__(self, number: int) -> None:
        self.number = number
        self.runs = 0
        self.is_used = False
        self._known: WeakValueDictionary[Hashable, ArrayCell] = WeakValueDictionary()
        self._recent: dict[Hashable, ArrayCell] = {}  # what was computed together last
        self._tokens: dict[Hashable, ArrayCell] = {}
        self._lock = lock_across_forks()

    def held_bytes(self) -> int:
        """The bytes of the values that are there."""
        return sum(cell.size * cell.dtype.itemsize for cell in list(self._known.values()) if cell.dtype is not None)

    def token(self, key: Hashable) -> ArrayCell:
        """An array of one element that stands for a value, also while that is not there."""
        with self._lock:
            found = self._tokens.get(key)
            if found is None:
                found = self._tokens[key] = ArrayCell(1)
                found.settle()
            return found

    def value(self, key: Hashable, compiled: Compiled, cells: Sequence[ArrayCell]) -> ArrayCell:
        """A value; cells: outside arrays of what is compiled, those of the inputs left empty."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                self.is_used = True
                fixed = compiled.fixed[key]
                self._recent = {}  # where nobody has those any more, their memory is that of the next ones
                self._recent = dict(zip(fixed.keys, _computed(fixed, cells), strict=True))
                self._known.update({key: cell for key, cell in self._recent.items() if key not in self._known})
                found = self._known[key]
            return found

    def let_go(self) -> None:
        """Keep no value alive: who needs one has it now."""
        with self._lock:
            self._recent = {}


class FixedValues:
    """The values of all plans of an inference, for inputs of any shapes.

    parameters: the arrays that they are computed from.
    restlessness: whether these are written so often that runs compute everything themselves.
    """

    def __init__(self, parameters: Sequence[ArrayCell]) -> None:
        self.parameters = tuple(parameters)
        for cell in self.parameters:
            cell.note_runs()
        self._generation = Generation(-1)
        self._readers: WeakSet[Reader] = WeakSet()
        self._lock = lock_across_forks()
        self._is_told = False
        self.restlessness = Restlessness()
        self._looked_at = 0
        _ALL.add(self)

    def note_reader(self, reader: Reader) -> None:
        """One more keeps values from now on: it is told when they are old, since it may not run for long."""
        with self._lock:
            self._readers.add(reader)

    def held_bytes(self) -> int:
        """The bytes of the values that are there."""
        return self._generation.held_bytes()

    def forget(self) -> None:
        """Have all values be computed again when they are next wanted."""
        with self._lock:
            self._begin(Generation(-1))
            next(WRITES)  # who sees that nothing was written need not look at the generation

    def is_current(self, generation: Generation) -> bool:
        """Whether no parameter was written since, as far as can be told."""
        if generation is not self._generation:
            return False
        return self.are_unchanged_since(generation.number)

    def are_unchanged_since(self, number: int) -> bool:
        """Whether no parameter was written since a number of `WRITES`, as far as can be told."""
        for cell in self.parameters:  # noqa: SIM110  a generator takes twice as long, at each run
            if not cell.is_unchanged_since(number):
                return False
        return True

    def current(self) -> Generation:
        """The values of the parameters as they are."""
        with self._lock:
            number = next(WRITES)
            last = self._generation
            if last.number < 0 or not self.is_current(last):
                if last.is_used:
                    self.restlessness.note_end(last.runs)
                self._begin(Generation(number))
                self._tell()
            return self._generation

    def stay_restless(self) -> bool:
        """Whether a run is to compute everything itself once more; asked at each run that may have to."""
        with self._lock:
            if self._generation.number >= 0:
                self._begin(Generation(-1))  # its memory serves nobody for some time
            return self.restlessness.lasts(self._is_quiet)

    def _is_quiet(self) -> bool:
        number, self._looked_at = self._looked_at, next(WRITES)
        return self.are_unchanged_since(number)

    def _begin(self, generation: Generation) -> None:
        self._generation = generation
        self.let_go()

    def let_go(self) -> None:
        """Have all readers keep nothing that they have read."""
        for reader in list(self._readers):
            reader.let_go()

    def fits(self) -> bool:
        """Whether the values that are there may stay, by the limit of constants; said once where they may not."""
        if self.held_bytes() <= CONSTANTS.limit_bytes:
            return True
        CONSTANTS.tell(self.held_bytes())
        return False

    def _tell(self) -> None:
        """Say once where values have to be computed at each run."""
        if not self._is_told and any(cell.has_live_view for cell in self.parameters):
            self._is_told = True
            from atled.logger import logger  # lazy: what it is made of takes 5 ms to import

            logger.warning(
                "Somebody holds a view of a parameter's memory, through which it may be written unseen: what an "
                "inference computes of parameters alone, such as folded normalization and packed weights, is computed "
                "at each call. Drop the array that `.d` or `.data` gave, or keep a copy of it instead."
            )


def _computed(fixed: FixedPlan | FoldedOnHost, cells: Sequence[ArrayCell]) -> list[ArrayCell]:
    """The results of a plan or of NumPy, in new arrays; cells: all that an inference has."""
    if isinstance(fixed, FoldedOnHost):
        return fixed.computed(cells)
    from atled.graph.run.binding import Binding  # lazy: NumPy computes all of most inferences

    plan = fixed.plan
    made = [ArrayCell(plan.slots[slot].desc.size) for slot in plan.targets]
    Binding(plan, fixed.arrays(cells), made, [value for _, value in plan.floats]).run()
    return made


def _forget_all() -> None:
    for values in list(_ALL):
        values.forget()


register_cache("bytes of values of inferences", lambda: sum(values.held_bytes() for values in list(_ALL)), _forget_all)
