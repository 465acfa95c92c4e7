"""What plans of an inference compute from parameters alone, each kept until one of those it depends on is written."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from atled.arrays.cell import ArrayCell
from atled.arrays.constants import CONSTANTS
from atled.arrays.epoch import WRITES
from atled.graph.inference.compiling import Compiled, FixedPlan
from atled.graph.inference.folded_on_host import FoldedOnHost
from atled.graph.inference.restlessness import Restlessness
from atled.limits.alive import WeakRegister, alive
from atled.limits.caches import register_cache
from atled_contexts import lock_across_forks

_ALL: WeakRegister[FixedValues] = WeakRegister()
_SMALL_BYTES = 1 << 14


class Reader(Protocol):
    """What keeps values for its next run."""

    def let_go(self) -> None:
        """Keep no values any more."""

    def renew(self) -> None:
        """Keep nothing that is old: some parameters were written."""


class Generation:
    """Values as of some state of the parameters; nobody writes them: what is computed later is in other arrays.

    Each is computed when it is asked for, and lives as long as it is referred to.

    last: the values before a write: what does not depend on what was written is taken over.
    number: of `WRITES`, since when no parameter was written.  runs: that read it, about: threads count without a lock.
    is_used: whether something was computed, or is to be packed.
    """

    __slots__ = ("_known", "_lock", "_reads", "_recent", "_tokens", "is_used", "number", "runs")

    def __init__(self, number: int, last: Generation | None = None) -> None:
        self.number = number
        self.runs = 0
        self.is_used = False
        self._known: WeakValueDictionary[Hashable, ArrayCell] = WeakValueDictionary()
        self._recent: dict[Hashable, ArrayCell] = {}  # what was computed together last, or taken over
        self._tokens: dict[Hashable, ArrayCell] = {}
        self._reads: dict[Hashable, Sequence[ArrayCell]] = {}  # the parameters that a value was computed from
        self._lock = lock_across_forks()
        if last is not None:
            self._take_over(last)

    def _take_over(self, last: Generation) -> None:
        with last._lock:
            known = dict(last._known.items())  # `dict` of it itself would ask for keys that may be gone by then
            since = last.number
            self._reads = {
                key: read for key, read in last._reads.items() if all(cell.is_unchanged_since(since) for cell in read)
            }
            self._recent = {key: cell for key, cell in known.items() if key in self._reads}
            self._known.update(self._recent)
            self._tokens = {key: token for key, token in last._tokens.items() if key in self._reads}
            last._tokens = {}  # what is packed of the others goes with what stands for them
            if 2 * len(self._reads) > len(last._reads):
                self.is_used, self.runs = last.is_used, last.runs

    def held_bytes(self) -> int:
        """The bytes of the values that are there."""
        return sum(map(_nbytes, alive(self._known)))

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
                # Where nobody has a large one any more, its memory is that of the next ones. A bias is there until it
                # is read: weights come first, to be packed, and both are made at once.
                self._recent = {key: cell for key, cell in self._recent.items() if _nbytes(cell) <= _SMALL_BYTES}
                made, read = _computed(fixed, cells)
                self._recent.update(zip(fixed.keys, made, strict=True))
                self._reads.update(dict.fromkeys(fixed.keys, read))
                found = self._recent[key]
                self._known.update({key: cell for key, cell in self._recent.items() if key not in self._known})
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
        self._readers: WeakRegister[Reader] = WeakRegister()
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
            if last.number < 0:
                self._begin(Generation(number))
                self._tell()
            elif not self.is_current(last):
                renewed = Generation(number, last)
                if last.is_used and not renewed.is_used:  # most of it is old
                    self.restlessness.note_end(last.runs)
                self._generation = renewed
                for reader in self._readers.alive():
                    reader.renew()
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
        for reader in self._readers.alive():
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


def _computed(
    fixed: FixedPlan | FoldedOnHost, cells: Sequence[ArrayCell]
) -> tuple[list[ArrayCell], Sequence[ArrayCell]]:
    """The results of a plan or of NumPy, in new arrays, and those that were read; cells: all that an inference has."""
    if isinstance(fixed, FoldedOnHost):
        return fixed.computed(cells)
    from atled.graph.run.binding import Binding  # lazy: NumPy computes all of most inferences

    plan, arrays = fixed.plan, fixed.arrays(cells)
    made = [ArrayCell(plan.slots[slot].desc.size) for slot in plan.targets]
    Binding(plan, arrays, made, [value for _, value in plan.floats]).run()
    return made, [arrays[number] for number in dict.fromkeys(number for number, *_ in plan.requests)]


def _nbytes(cell: ArrayCell) -> int:
    return 0 if cell.dtype is None else cell.size * cell.dtype.itemsize


def _forget_all() -> None:
    for values in _ALL.alive():
        values.forget()


register_cache(
    "bytes of values of inferences", lambda: sum(values.held_bytes() for values in _ALL.alive()), _forget_all
)
