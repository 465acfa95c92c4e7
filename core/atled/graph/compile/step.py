"""Steps: the op calls of a plan, and the slots for their arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.failures import Culprit
from atled.arrays.place import Place
from atled.call import Native, Prepared
from atled.graph.nodes.ir import IRNode
from atled.strides import Window, bounds
from atled_contexts import native_executor


class Slot:
    """One array of a plan.

    desc, place: what and where.  offset: elements of the memory in front of its first one.
    is_window: whether it is not all of its memory in C order, and steps ask for it by its strides.
    memory: number of the alias set it belongs to; slots of one set share storage: a value and what views of it show,
        all versions of an array.
    source: whose storage it is: ("external", number of the outside array), ("target", number) or ("internal",).
    range_bytes: of a value of which only ranges are ever in memory, how much they take; else 0.
    """

    __slots__ = ("desc", "is_window", "memory", "offset", "place", "range_bytes", "source")

    def __init__(
        self,
        desc: ArrayDesc,
        place: Place,
        memory: int,
        source: tuple[Any, ...],
        offset: int = 0,
        is_window: bool = False,
    ) -> None:
        self.desc = desc
        self.place = place
        self.memory = memory
        self.source = source
        self.offset = offset
        self.is_window = is_window
        self.range_bytes = 0

    @property
    def key(self) -> tuple[Any, ...]:
        """By what a storage on a device gives it: `DeviceStorage.address`."""
        return (self.desc, self.offset) if self.is_window else self.desc.shape

    def array_in(self, storage: Any) -> Any:  # Any: memory of any kind; NumPy's or the device's own array type
        """Its array in a memory."""
        if self.is_window:
            return storage.window(self.desc, self.offset)
        return storage.array(self.desc.shape, self.desc.dtype)

    def window_of(self, memory: np.ndarray) -> np.ndarray:
        """Its elements of the whole memory, in C order in host memory."""
        steps = tuple(step * memory.itemsize for step in self.desc.written_strides)
        return np.ndarray(self.desc.shape, memory.dtype, memory, self.offset * memory.itemsize, steps)

    @property
    def nbytes(self) -> int:
        """The bytes of its memory up to the last that it has."""
        if self.desc.strides is None:
            return self.range_bytes or self.desc.nbytes + self.offset * self.desc.dtype.itemsize
        return bounds(Window(self.desc.shape, self.desc.strides, self.offset))[1] * self.desc.dtype.itemsize


class Carried:
    """A step that another one computes, range by range.

    word: first of the two words, in the carrier's argument block, that say so.
    ranged: argument of the step of which only ranges are ever in memory, or -1; then two more words say so.
    bounds: first of the two words that say it instead, or -1; the plan finds that.
    """

    __slots__ = ("bounds", "ranged", "step", "word")

    def __init__(self, step: Step, word: int, ranged: int = -1) -> None:
        self.step = step
        self.word = word
        self.ranged = ranged
        self.bounds = -1


class Step:
    """One op call of a plan, fused ones counted once, or a copy between memories (`prepared` is None).

    arguments: slot per argument (inputs, outputs), -1 where an optional input is absent or nobody reads the output.
    floats: per float attribute, in the order of the spec, its number among the plan's floats.
    parts: largest useful number of shares, the carried steps included.
    random_slot: slot of the random state, or -1.
    carried: elementwise steps that this one computes on the way.  carrier: the step that computes this one so.
    queue: the device into whose queue it can be put without a number from the host, or None; the plan knows.
    culprit: what it is in an error that the device finds, or None.
    native_backend: of what the engine computes as a native program of bodies, whose they are; else "".
    """

    __slots__ = (
        "arguments",
        "carried",
        "carrier",
        "culprit",
        "executor",
        "floats",
        "input_count",
        "native",
        "native_backend",
        "node",
        "parts",
        "prepared",
        "queue",
        "random_slot",
    )

    def __init__(
        self, node: IRNode, prepared: Prepared | None, arguments: tuple[int, ...], floats: tuple[int, ...]
    ) -> None:
        self.node = node
        self.prepared = prepared
        self.arguments = arguments
        self.floats = floats
        self.input_count = len(node.inputs)
        spec = node.spec
        self.random_slot = arguments[self.input_count - 1] if spec is not None and spec.random else -1
        self.carried: list[Carried] = []
        self.carrier: Step | None = None
        self.executor: Any = None  # what the backend's plugin registered
        self.native: Native | None = None
        self.native_backend = ""
        self.queue: Place | None = None
        if prepared is not None and prepared.native is not None and node.decision is not None:
            self.executor = native_executor(node.decision.backend)
            if self.executor is not None:
                self.native = prepared.native
        self.parts = 1 if self.native is None else self.native.parts
        self.culprit: Culprit | None = None
        if prepared is not None and prepared.may_fail:
            self.culprit = Culprit(partial(in_words, node), prepared.may_fail)

    @property
    def has_flag(self) -> bool:
        """Whether it is given the flag of its device."""
        return self.prepared is not None and (bool(self.prepared.may_fail) or self.prepared.heeds_failure)

    @property
    def changes_arrays(self) -> bool:
        """Whether it changes arrays that were there before: inputs in place, or a target that it does not read."""
        spec = self.node.spec
        if spec is not None and (self.node.mutated or spec.inplace):
            return True
        return any(value.is_in_place for value in self.node.outputs)

    @property
    def is_update(self) -> bool:
        """Whether it moves a parameter, or assigns to an array."""
        return self.node.spec is not None and bool(self.node.spec.inplace)

    @property
    def waits_for_failures(self) -> bool:
        """Whether it changes arrays and would do so behind a failure on its device as well, so that the host looks."""
        return self.changes_arrays and self.prepared is not None and not self.prepared.heeds_failure

    @property
    def name(self) -> str:
        """The op's name."""
        return self.node.name

    @property
    def workspace(self) -> int:
        """Bytes of memory that it needs while it runs."""
        return 0 if self.prepared is None else self.prepared.workspace

    @property
    def written(self) -> list[int]:
        """The slots that it writes: outputs, and inputs that it changes."""
        spec = self.node.spec
        changed = () if spec is None else (*self.node.mutated, *spec.inplace.values())
        slots = [*self.arguments[self.input_count :], *(self.arguments[i] for i in changed)]
        return [slot for slot in slots if slot >= 0]

    @property
    def moved_states(self) -> list[int]:
        """The slots of inputs that it changes, but for those of which it only writes what others make again."""
        spec = self.node.spec
        if spec is None:
            return []
        moved = [position for position in self.node.mutated if spec.input_at(position).name not in spec.overwrites]
        return [self.arguments[position] for position in moved if self.arguments[position] >= 0]

    @property
    def may_fail(self) -> bool:
        """Whether it can refuse values: by an error of its kernel, or because it is Python."""
        return self.native is None or bool(self.native.errors)

    @property
    def draws(self) -> Sequence[int]:
        """The slots of random states from which it draws."""
        spec = self.node.spec
        if spec is None or not spec.by_engine:
            return () if self.random_slot < 0 else (self.random_slot,)
        inputs = enumerate(self.arguments[: self.input_count])
        return [slot for position, slot in inputs if spec.input_at(position).kind == "random_state"]

    @property
    def label(self) -> str:
        """The names of all ops that one launch computes, in order."""
        before: Collection[int] = () if self.native is None else self.native.before.values()
        early = [carried.step.name for carried in self.carried if carried.word in before]
        late = [carried.step.name for carried in self.carried if carried.word not in before]
        return "+".join([*early, self.name, *late])

    def carry(self, step: Step, word: int, ranged: int = -1) -> None:
        """Compute an elementwise step on the way: see `Carried`."""
        self.carried.append(Carried(step, word, ranged))
        step.carrier = self
        assert self.native is not None and step.native is not None
        self.parts = max(self.parts, min(step.native.parts, self.native.most_parts))

    @property
    def backend(self) -> str:
        """Who computes it."""
        if self.native_backend:
            return self.native_backend
        return self.node.decision.backend if self.node.decision is not None else "engine"

    @property
    def is_fallback(self) -> bool:
        """Whether it computes elsewhere than the Context asked for."""
        return self.node.decision is not None and self.node.decision.fallback

    @property
    def note(self) -> str:
        """What was chosen, in the implementation's words."""
        parts = []
        if self.node.decision is not None:
            parts.append(self.node.decision.implementation.note)
        if self.prepared is not None:
            parts.append(self.prepared.note)
        return "; ".join(part for part in parts if part)


def in_words(node: IRNode) -> str:
    """Who computes what."""
    decision = node.decision
    assert decision is not None
    return f"{decision.call} by {decision.backend} of {decision.plugin}"
