"""One implementation run by itself, without the engine: on memory of our own, poisoned and watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.guarded import POISON, GuardedArray
from atled.arrays.place import ArrayClass
from atled.call import Call, Native, Prepared, RowWord
from atled.conformance.cases import Case
from atled.conformance.strided import StridedArray
from atled.preparing import prepare
from atled_contexts import Implementation, native_executor

NUMBER = 7  # of the step, for the flag
_NOTHING: Mapping[int, Any] = {}


class HostArray(GuardedArray):
    """Memory of the host."""

    def put(self, values: np.ndarray) -> None:
        """Fill it."""
        self.values[...] = values

    def get(self) -> np.ndarray:
        """A copy of what is in it."""
        return self.values.copy()

    @property
    def argument(self) -> Any:
        """What an implementation gets."""
        return self.values


class DeviceArray:
    """Memory of an array class, poisoned."""

    is_intact = True  # what lies beside it cannot be seen from here

    def __init__(self, desc: ArrayDesc, array_class: ArrayClass, device: str) -> None:
        self._desc = desc
        self._class = array_class
        self._buffer = array_class.allocate(ArrayDesc((desc.size,), desc.dtype), device)
        self.argument = array_class.view(self._buffer, desc.shape)
        poison = np.frombuffer(bytes([POISON]) * desc.nbytes, desc.dtype).reshape(desc.shape)
        self.put(poison)

    def put(self, values: np.ndarray) -> None:
        """Fill it."""
        self._class.upload(np.ascontiguousarray(values, self._desc.dtype).reshape(-1), self._buffer)

    def get(self) -> np.ndarray:
        """A copy of what is in it."""
        values = np.empty(self._desc.size, self._desc.dtype)
        self._class.download(self._buffer, values)
        return values.reshape(self._desc.shape)


Memory = HostArray | DeviceArray | StridedArray


class Launch:
    """A prepared call with arrays of its own: fill, run, look.

    case: what is called.  implementation: who computes it.  prepared: as `prepare` gave it.
    call: the case's, unless outputs are left out of it.
    skipped: what it takes with strides are parts, in C order, of larger memory, behind so many elements; None: whole.
    forms: names of the ways to run it: "run", "launch of bind", "native", "native in 3 parts", "native with packs".
    """

    def __init__(
        self,
        case: Case,
        implementation: Implementation,
        prepared: Prepared | None = None,
        call: Call | None = None,
        skipped: int | None = None,
    ) -> None:
        self._skipped = skipped
        self.case = case
        self.implementation = implementation
        self.call: Call = case.call if call is None else call
        self.prepared = prepare(implementation, self.call) if prepared is None else prepared
        self._array_class = case.subject.array_class_of(case.backend)
        self.inputs: list[Memory | None] = [self._input(number, desc) for number, desc in enumerate(self.call.reads)]
        self.outputs: list[Memory | None] = [
            None if desc is None else self._output(number, desc) for number, desc in enumerate(self.call.writes)
        ]
        self._workspace = self._workspaces()
        self._of_packs: list[Memory] = []
        has_flag = bool(self.prepared.may_fail) or self.prepared.heeds_failure
        self._flag = self.memory(ArrayDesc((1,), np.int64)) if has_flag else None
        self.bound: Callable[[], object] | None = None  # what `bind` gave, as a program; once that ran
        self.forms = dict(self._forms())
        self.fill()

    def _input(self, number: int, desc: ArrayDesc | None) -> Memory | None:
        if desc is None:
            return None
        if self._is_random_state(number):
            return HostArray(desc)
        return self._shown(desc, self.case.spec.input_at(number).name)

    def _output(self, number: int, desc: ArrayDesc) -> Memory:
        source = self.case.spec.inplace.get(number)
        if source is None:
            outputs = self.case.spec.outputs
            return self._shown(desc, outputs[min(number, len(outputs) - 1)])
        shared = self.inputs[source]
        assert shared is not None  # a spec updates nothing in place that may be absent
        return shared

    def _shown(self, desc: ArrayDesc, name: str) -> Memory:
        if self._skipped is None or not self.implementation.takes_strides((name,)):
            return self.memory(desc)
        return StridedArray(desc, self.memory, self._array_class, self._skipped)

    def memory(self, desc: ArrayDesc) -> Memory:
        """A new array where it computes."""
        if desc.strides is not None:
            return StridedArray(desc, self.memory, self._array_class)
        if self._array_class is None:
            return HostArray(desc)
        return DeviceArray(desc, self._array_class, self.call.device_id)

    def _workspaces(self) -> list[Memory]:
        size = self.prepared.workspace
        return [self.memory(ArrayDesc((size,), np.uint8))] if size else []

    def fill(self, seed: int = 0) -> None:
        """Put the inputs in."""
        for memory, values in zip(self.inputs, self.values(seed), strict=True):
            if memory is not None and values is not None:
                memory.put(values)
        self.set_failure(0)

    def values(self, seed: int) -> list[np.ndarray | None]:
        """What the inputs hold: what the case says."""
        return self.case.inputs(seed)

    @property
    def floats(self) -> list[float]:
        """The run-time floats."""
        return self.case.floats

    def set_failure(self, number: int) -> None:
        """Let the device have found a failure, or none (0)."""
        if self._flag is not None:
            self._flag.put(np.array([number]))

    @property
    def failure(self) -> int:
        """The number in the flag of the device."""
        return 0 if self._flag is None else int(self._flag.get()[0])

    def run(self, form: str) -> None:
        """Launch it once."""
        self.forms[form]()

    def wait(self) -> None:
        """Until the device has done what was launched."""
        if self._array_class is not None:
            self._array_class.synchronize(self.call.device_id)

    def results(self) -> list[np.ndarray]:
        """Copies of the outputs that are wanted."""
        return [memory.get() for memory in self.outputs if memory is not None]

    def inputs_now(self) -> list[np.ndarray | None]:
        """Copies of the inputs as they are."""
        return [None if memory is None else memory.get() for memory in self.inputs]

    @property
    def is_intact(self) -> bool:
        """Whether nothing was written beside the arrays, as far as that can be seen."""
        own = [*self._workspace, *self._of_packs]
        return all(memory is None or memory.is_intact for memory in [*self.inputs, *self.outputs, *own])

    def _forms(self) -> Iterator[tuple[str, Callable[[], None]]]:
        arguments = [None if memory is None else memory.argument for memory in [*self.inputs, *self.outputs]]
        arguments += [memory.argument for memory in self._workspace]
        arguments += [] if self._flag is None else [self._flag.argument]
        arguments += [NUMBER] if self.prepared.may_fail else []
        run, native = self.prepared.run, self.prepared.native
        if run is not None:
            yield "run", self._called(run, arguments)
        if self.prepared.bind is not None and self._array_class is not None:
            yield "launch of bind", self._bound(arguments, self._array_class)
        executor: Any = native_executor(self.case.backend)  # what it offers is looked at below
        if native is None or executor is None:
            assert run is not None, "machine code only, but the backend has no native executor"
            return
        for parts in sorted({1, native.parts}):
            yield (
                "native" if parts == 1 else f"native in {parts} parts",
                self._native(native, parts, executor, arguments),
            )
        if self.prepared.packs:
            yield "native with packs", self._packed(native, executor, arguments)

    def _packed(self, native: Native, executor: Any, arguments: Sequence[Any]) -> Callable[[], None]:
        """With the packs that it asks for, made of the inputs at the launch; in place of these it finds poison."""
        given, words, steps = list(arguments), {}, []
        for pack in self.prepared.packs:
            desc = self.call.inputs[pack.input]
            assert desc is not None, "a pack of an absent input"
            of_pack = [self.memory(ArrayDesc((count,), np.uint8)) for count in (pack.nbytes, pack.workspace)]
            poison = self.memory(desc)
            self._of_packs += [*of_pack, poison]
            target, workspace = (memory.argument for memory in of_pack)
            steps.append(self._native(pack.native, pack.native.parts, executor, (given[pack.input], target, workspace)))
            given[pack.input], words[pack.word] = poison.argument, target
        steps.append(self._native(native, native.parts, executor, given, words))

        def launch() -> None:
            for step in steps:
                step()

        return launch

    def _called(self, run: Callable[..., None], arguments: Sequence[Any]) -> Callable[[], None]:
        """Called, with a copy of the random state that changes behind: whoever waits in a queue has read it by then."""
        states = self._random_states if self.prepared.queued else []

        def launch() -> None:
            given = list(arguments)
            for position in states:
                given[position] = arguments[position].copy()
            run(*given, *self.floats)
            for position in states:
                arguments[position][...] = given[position]  # for who looks whether it was changed
                given[position].fill(0)

        return launch

    def _bound(self, arguments: Sequence[Any], array_class: ArrayClass) -> Callable[[], None]:
        """Bound once, with other words than those of a run, which begin at the second one of the table."""
        bind = self.prepared.bind
        assert bind is not None
        random_state = self._random_states
        count = 1 + len(self.floats) + 2 * len(random_state)
        table = DeviceArray(ArrayDesc((count,), np.int64), array_class, self.call.device_id)
        given = [None if n in random_state else argument for n, argument in enumerate(arguments)]

        def run() -> None:
            if self.bound is None:
                launch = bind(given, table.argument, 1)
                self.bound = array_class.program([launch], self.call.device_id) or launch
            words = np.zeros(count, np.int64)
            words[1 : 1 + len(self.floats)] = np.array(self.floats, np.float64).view(np.int64)
            for position in random_state:
                words[-2:] = arguments[position]
            array_class.put_words(words, table.argument)
            words.fill(-1)  # the class has a copy, or waited
            self.bound()

        return run

    @property
    def _random_states(self) -> list[int]:
        return [n for n, memory in enumerate(self.inputs) if self._is_random_state(n) and memory is not None]

    def _is_random_state(self, number: int) -> bool:
        return self.case.spec.input_at(number).kind == "random_state"

    def _native(
        self,
        native: Native,
        parts: int,
        executor: Any,
        arguments: Sequence[Any],
        packs: Mapping[int, Any] = _NOTHING,
    ) -> Callable[[], None]:
        block = native.block.copy()
        for word, pack in packs.items():
            block[word] = pack.ctypes.data
        for word, argument in zip(native.arguments, arguments, strict=True):
            if word >= 0 and argument is not None:
                block[word] = argument.ctypes.data
        for name, value in zip(self.case.spec.float_names, self.case.floats, strict=True):
            word = native.attributes.get(name, -1)
            if word >= 0:
                block.view(np.float64)[word] = value
        row = np.zeros((1, len(RowWord)), np.int64)
        row[0, [RowWord.KERNEL, RowWord.BLOCK, RowWord.PARTS]] = native.address, block.ctypes.data, parts

        def launch() -> None:
            # The row holds the block's address only: both must stay alive.
            status = executor.run_program(row.ctypes.data, 0, 1) if len(block) else 0
            code = status & 0xFFFF
            assert not code, f"the kernel returned {code}: {native.errors.get(code, 'not among its errors')}"

        return launch


def launches(case: Case) -> list[Launch]:
    """One launch per implementation that accepts the call."""
    return [Launch(case, implementation) for implementation in case.subject.accepting(case)]
