"""Running a native plan on addresses, without a binding: for arrays that are others at every run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from atled.arrays.place import HOST
from atled.arrays.spares import SpareWorkspaces, spare_workspaces_of
from atled.arrays.storage import ALIGNMENT, HostStorage
from atled.call import RowWord, call_form
from atled.graph.compile.native_errors import native_error
from atled.graph.compile.plan import Plan
from atled.graph.compile.segments import NativeSegment
from atled.graph.compile.step import Step
from atled.named_tuple import NamedTuple

_BLOCK_LIMIT = 2048  # words of a form, which are copied onto the stack
_SMALL = 4096  # elements: some microseconds, for which the interpreter lock is not worth giving away (parts = 0)
_FEW_WORDS = 48  # so many are written quicker one by one than by NumPy
_KEPT_ARENA_BYTES = 1 << 16


class ByAddress(ABC):
    """A plan without a binding, whose runs are given addresses.

    given: the memories whose addresses these are, in that order; packs may be among them (`PackedInput.memory`), whose
        address is 0 where they are not kept.
    """

    __slots__ = ("given", "plan")

    def __init__(self, plan: Plan, given: Sequence[int]) -> None:
        self.plan = plan
        self.given = list(given)

    @staticmethod
    def runs(plan: Plan) -> bool:
        """Whether a plan is native throughout, in host memory, and no part of it is a fallback."""
        is_native = all(isinstance(segment, NativeSegment) for segment in plan.segments)
        return plan.is_on_host and is_native and not plan.fallbacks

    @staticmethod
    def fits(plan: Plan) -> bool:
        """Whether it runs one, and each result has memory of its own."""
        return ByAddress.runs(plan) and all(
            slot >= 0 and plan.slots[slot].source[0] == "target" for slot in plan.targets
        )

    @abstractmethod
    def run(self, addresses: Sequence[int], floats: Sequence[float] = ()) -> None:
        """Run all steps.

        addresses: of the memories in `given`, whose storages the caller keeps alive.
        floats: the value of each float of the plan.
        """

    def at(self, addresses: Sequence[int], floats: Sequence[float]) -> Callable[[Sequence[int]], None]:
        """A run again and again on the same floats and first addresses; it is called with the other addresses."""
        first, values = list(addresses), list(floats)

        def run(others: Sequence[int]) -> None:
            self.run([*first, *others], values)

        return run


def by_address(plan: Plan, given: Sequence[int]) -> ByAddress:
    """What runs a plan on the addresses of some memories: the only ones, but for what is needed during a run alone."""
    outside = set(given)
    is_packed = any(packed.memory in outside for packed in plan.packs)
    is_one_call = len(plan.steps) == 1 and has_form(plan.steps[0]) and not is_packed
    if is_one_call and {slot.memory for slot in plan.slots} <= outside:
        return CallByAddress(plan, given)
    return ProgramByAddress(plan, given)


def has_form(step: Step) -> bool:
    """Whether a step can be run by `run_call`; other native ones run as programs."""
    native = step.native
    return native is not None and len(native.block) <= _BLOCK_LIMIT and hasattr(step.executor, "run_call")


def form_of(plan: Plan, step: Step) -> np.ndarray:
    """What `run_call` makes a call of a native step from; its values are the addresses as they come, then the floats.

    Short formulas of small arrays keep the interpreter lock, as do kernels that say that they are brief.
    """
    from atled.graph.compile.fusion import FusedOp  # lowering has imported it by now, `import atled` need not

    native, spec = step.native, step.node.spec
    assert native is not None and spec is not None
    elements = plan.slots[step.written[0]].desc.size * (len(spec.names) if isinstance(spec, FusedOp) else 1)
    is_brief = native.is_brief or (spec.program is not None and elements <= _SMALL)
    float_words = [native.attributes.get(name, -1) for name in spec.float_names]
    return call_form(native.address, 0 if is_brief else native.parts, native.block, native.arguments, float_words)


class CallByAddress(ByAddress):
    """A plan of one step: a call of its kernel."""

    __slots__ = ("_address", "_executor", "_floats", "_form", "_in_order", "_sources", "_step", "_workspaces")

    def __init__(self, plan: Plan, given: Sequence[int]) -> None:
        super().__init__(plan, given)
        (step,) = plan.steps
        self._step = step
        self._executor = step.executor
        self._form = form_of(plan, step)
        self._address: int = self._form.ctypes.data
        self._workspaces = spare_workspaces_of(step.workspace) if step.workspace else None
        numbers = {memory: number for number, memory in enumerate(given)}
        # Per argument the number of its address, and what is added: behind the last one comes 0, for what is absent.
        self._sources = [
            (len(given), 0) if memory < 0 else (numbers[memory], begin) for memory, begin in _places(step, plan)
        ]
        self._in_order = self._sources == [(number, 0) for number in range(len(given))]
        self._floats = list(step.floats)

    @property
    def is_plain(self) -> bool:
        """Whether `run` is a call of the kernel with the addresses as they come."""
        return self._in_order and self._workspaces is None and not self._floats

    def run_plain(self, addresses: Sequence[int]) -> None:
        """`run` where that is so."""
        status = self._executor.run_call(self._address, *addresses)
        if status:
            raise native_error(self._step, status, addresses)

    def run(self, addresses: Sequence[int], floats: Sequence[float] = ()) -> None:
        """See ByAddress."""
        if not self._in_order:
            found = [*addresses, 0]
            addresses = [found[number] + begin for number, begin in self._sources]
        if self._floats:
            floats = [floats[number] for number in self._floats]
        else:
            floats = ()
        if self._workspaces is None:
            status = self._executor.run_call(self._address, *addresses, *floats)
        else:
            memory = self._workspaces.take()
            status = self._executor.run_call(self._address, *addresses, memory.address, *floats)
            self._workspaces.put(memory)
        if status:
            raise native_error(self._step, status, addresses)

    def at(self, addresses: Sequence[int], floats: Sequence[float]) -> Callable[[Sequence[int]], None]:
        """See ByAddress."""
        workspaces = self._workspaces
        if workspaces is not None and len(addresses) < len(self.given):
            return super().at(addresses, floats)
        first, sources, numbers = list(addresses), self._sources, [floats[number] for number in self._floats]
        call = partial(self._executor.run_call, self._address)
        is_complete = len(first) == len(self.given)
        if is_complete:
            found = [*first, 0]
            call = partial(call, *[found[number] + begin for number, begin in sources])
            if workspaces is not None:
                return self._run_beside(call, workspaces, numbers)
            call = partial(call, *numbers)

        def run(others: Sequence[int]) -> None:
            if is_complete:
                status = call()
            else:
                found = [*first, *others, 0]
                status = call(*[found[number] + begin for number, begin in sources], *numbers)
            if status:
                found = [*first, *others, 0]
                raise native_error(self._step, status, [found[number] + begin for number, begin in sources])

        return run

    def _run_beside(
        self, call: partial[int], workspaces: SpareWorkspaces, numbers: Sequence[float]
    ) -> Callable[[Sequence[int]], None]:
        """Runs of a call that has all but its workspace and its floats."""
        free, take, most = workspaces.free, workspaces.take, workspaces.most

        def run(others: Sequence[int]) -> None:
            try:
                memory = free.pop()
            except IndexError:
                memory = take()
            status = call(memory.address, *numbers) if numbers else call(memory.address)  # which takes less time
            if len(free) < most:
                free.append(memory)
            if status:
                raise native_error(self._step, status, call.args[1:])

        return run


def _places(step: Step, plan: Plan) -> list[tuple[int, int]]:
    """Per argument of a step its memory, and the bytes of that in front of it; -1 for an absent one."""
    slots = [None if number < 0 else plan.slots[number] for number in step.arguments]
    return [(-1, 0) if slot is None else (slot.memory, slot.offset * slot.desc.dtype.itemsize) for slot in slots]


class _Block(NamedTuple):
    """Argument blocks for one run at a time, and the program that points at them.

    words, numbers: single words of the blocks, as int64 and as float64.  arena: where it stays from run to run.
    """

    block: np.ndarray
    words: memoryview
    numbers: memoryview
    rows: np.ndarray
    rows_address: int
    arena: HostStorage | None


class ProgramByAddress(ByAddress):
    """A plan of any native steps: each run puts addresses into a spare copy of the argument blocks.

    offsets: where the memories that are not given begin in the arena, the one storage that a run has for all of them.
    """

    __slots__ = (
        "_arena_bytes",
        "_arena_memories",
        "_arena_offsets",
        "_float_writes",
        "_pack_writes",
        "_segments",
        "_spares",
        "_writes",
        "offsets",
    )

    def __init__(self, plan: Plan, given: Sequence[int]) -> None:
        super().__init__(plan, given)
        sizes: dict[int, int] = {}
        outside = set(given)
        for slot in plan.slots:
            if slot.memory not in outside:
                sizes[slot.memory] = max(sizes.get(slot.memory, 0), slot.nbytes)
        if HOST in plan.workspaces:
            sizes[plan.memory_count] = plan.workspaces[HOST]
        self.offsets: dict[int, int] = {}
        self._arena_bytes = 0
        for memory, nbytes in sizes.items():
            self.offsets[memory] = self._arena_bytes
            self._arena_bytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        self._arena_memories = np.array(list(self.offsets), np.intp)
        self._arena_offsets = np.array(list(self.offsets.values()), np.int64)
        self._segments = [
            (segment.steps[0].executor, *segment.rows, segment)
            for segment in plan.segments
            if isinstance(segment, NativeSegment)
        ]
        self._spares: list[_Block] = []
        self._writes = self._few_writes()
        numbers = {memory: number for number, memory in enumerate(self.given)}
        self._pack_writes = [(packed.word, numbers[packed.memory]) for packed in plan.packs if packed.memory in numbers]
        self._float_writes = list(zip(plan.float_words.tolist(), plan.float_numbers.tolist(), strict=True))

    def _few_writes(self) -> list[tuple[int, int, int]] | None:
        """Per word that a run writes: which, the number of the address, and what is added to that; None if NumPy does.

        Only where the arena stays, so that its addresses are in the blocks already.
        """
        plan = self.plan
        numbers = {memory: number for number, memory in enumerate(self.given)}
        begins = [0] * len(plan.address_words) if plan.address_offsets is None else plan.address_offsets.tolist()
        words = zip(plan.address_words.tolist(), plan.address_memories.tolist(), begins, strict=True)
        writes = [(word, numbers[memory], begin) for word, memory, begin in words if memory in numbers]
        is_few = len(writes) + len(plan.float_words) <= _FEW_WORDS
        return writes if is_few and self._arena_bytes <= _KEPT_ARENA_BYTES else None

    def run(self, addresses: Sequence[int], floats: Sequence[float] = ()) -> None:
        """See ByAddress."""
        try:
            spare = self._spares.pop()  # atomic: each thread takes one of its own
        except IndexError:
            spare = self._new_block()
        if self._writes is None:
            arena = HostStorage(self._arena_bytes)
            self._write_all(spare.block, addresses, arena, floats)
        else:
            words, numbers = spare.words, spare.numbers
            for word, number, begin in self._writes:
                words[word] = addresses[number] + begin
            for word, number in self._float_writes:
                numbers[word] = floats[number]
        for word, number in self._pack_writes:
            spare.words[word] = addresses[number]
        for executor, first, end, segment in self._segments:
            status = executor.run_program(spare.rows_address, first, end)
            if status:
                raise segment.error_of(status, spare.rows_address)
        self._spares.append(spare)

    def _write_all(
        self, block: np.ndarray, addresses: Sequence[int], arena: HostStorage, floats: Sequence[float]
    ) -> None:
        plan = self.plan
        memories = np.empty(plan.memory_count + 1 + len(plan.packs), np.int64)
        memories[self.given] = addresses
        memories[self._arena_memories] = self._arena_offsets + arena.address
        block[plan.address_words] = memories[plan.address_memories]
        if plan.address_offsets is not None:
            block[plan.address_words] += plan.address_offsets
        if len(plan.float_words):
            block.view(np.float64)[plan.float_words] = np.array(floats)[plan.float_numbers]

    def _new_block(self) -> _Block:
        plan = self.plan
        block, rows = plan.block.copy(), plan.rows.copy()
        rows[:, RowWord.BLOCK] += block.ctypes.data
        block[plan.link_words] = block.ctypes.data + plan.link_offsets
        arena = None
        if self._writes is not None:
            arena = HostStorage(self._arena_bytes)
            # What is given is written by each run.
            self._write_all(block, [0] * len(self.given), arena, [0.0] * len(plan.floats))
        return _Block(block, block.data, block.view(np.float64).data, rows, rows.ctypes.data, arena)
