"""What puts a kernel into the queue: its arguments packed into one block, given to the driver in one call."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.plugin import Call, Prepared, four_parts
from atled_cuda_cupy import compiling, faults
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy.devices import Device, device

_LARGEST_GRID = 2**31 - 1, 65535, 65535
_BUFFER_POINTER, _BUFFER_SIZE, _END = 1, 2, 0  # CU_LAUNCH_PARAM_...
_HEAD = 6  # words of a block in front of the arguments: five for the driver, then the size
_AHEAD = 8 * _HEAD
_NARROW = 2**30  # so that a stride of the grid can be added in 32 bits


Pack = Callable[..., None]  # pack(memory, given, table, first, numbers)


class Block:
    """The memory of a launch's arguments, and in front of them what `cuLaunchKernel` wants to know of it.

    address: of what the driver is given as `extra`.  memory: all of it.  launch: puts the kernel into the current
        stream of the current device.
    """

    __slots__ = ("address", "launch", "memory")
    launch: Callable[[], None]

    def __init__(self, size: int) -> None:
        words = np.zeros(_HEAD + -(-size // 8), np.int64)
        self.memory = words.data
        self.address: int = words.ctypes.data
        ahead = self.address + _AHEAD
        words[:_HEAD] = _BUFFER_POINTER, ahead, _BUFFER_SIZE, ahead - 8, _END, size


class Launch:
    """A kernel with its grid and sizes, ready to be bound to arrays; compiling has begun.

    where: the device.
    source, name: of the kernel, whose parameters are pointers and long longs, then `const Floats floats, const Words
        words`. The prelude is put before it, and the defines before that.
    grid, block: counts, up to three each; a grid with a 0 launches nothing.
    words: whole numbers for `words.w[i]`.
    shared: bytes of dynamic shared memory.
    floats: words that the kernel reads by `number` and `word`.
    wide: whether index_t is long long; None: if one of the words is 2^30 or more.
    """

    __slots__ = (
        "_dimensions",
        "_floats",
        "_free",
        "_function",
        "_is_empty",
        "_pack",
        "_pack_into",
        "_size",
        "_tail",
        "_where",
    )

    def __init__(
        self,
        where: Device,
        source: str,
        name: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        words: Sequence[int] = (),
        defines: Mapping[str, object] | None = None,
        shared: int = 0,
        floats: int = 0,
        wide: bool | None = None,
    ) -> None:
        grid, block = _three(grid), _three(block)
        assert all(size <= most for size, most in zip(grid, _LARGEST_GRID, strict=True)), f"{name}: grid {grid}"
        if wide is None:
            wide = any(abs(word) >= _NARROW for word in words)
        given = {"FLOATS": floats, "WORDS": len(words), "WIDE": int(wide), **(defines or {})}
        self._where = where
        self._function = compiling.function(where, compiling.kernel_text(source, given), name, shared)
        self._dimensions = (*grid, *block, shared)
        self._is_empty = 0 in grid
        self._floats = 8 * max(floats, 1)
        tail = struct.pack(f"{max(len(words), 1)}{'q' if wide else 'i'}", *(words or (0,)))
        self._tail = tail + bytes(-len(tail) % 8)
        self._size = 0  # bytes of the arguments, and what packs them: how many there are, the first use says
        self._pack_into: Callable[..., None]
        self._pack: Pack | None = None  # packs them as they come
        self._free: list[Block] = []  # blocks for `run`, each of which one thread has at a time

    def bind(self, given: Sequence[Any], table: int, first: int) -> Callable[[], object]:
        """What puts it into the queue and returns at once.

        given: arrays, None, whole numbers.  table, first: address of the words that change, and which is its first.
        """
        if self._is_empty:
            return _nothing
        pack = self._pack or self._plain(len(given))
        block = self._block()
        if not self._where.is_alone:
            self._check_devices(given)
        pack(block.memory, given, table, first, b"")
        launch, where = block.launch, self._where

        def launch_among_several() -> None:
            with where:
                launch()

        return launch if where.is_alone else launch_among_several

    def run(self, given: Sequence[Any], numbers: bytes, pack: Pack | None = None) -> None:
        """Put it into the queue of the device, which is the current one.

        given: as above.  numbers: its words.  pack: by `packing`, where its arguments are not what is given as it is.
        """
        if pack is None:
            pack = self._pack or self._plain(len(given))
        try:
            block = self._free.pop()
        except IndexError:
            if self._is_empty:
                return
            with self._where:
                block = self._block()
        if not self._where.is_alone:
            self._check_devices(given)
        pack(block.memory, given, 0, 0, numbers)
        block.launch()
        self._free.append(block)  # the driver has copied it

    def packing(self, count: int, arguments: Sequence[int | None], constants: Sequence[int] = ()) -> Pack:
        """What packs its arguments: each one of so many that are given, by its number, or None: the next constant."""
        if not self._size:
            packing = struct.Struct(f"{len(arguments)}qqq{self._floats}s{len(self._tail)}s")
            self._pack_into, self._size = packing.pack_into, packing.size
        return _packer(count, tuple(arguments), tuple(constants))(self._pack_into, cp.ndarray, self._tail)

    def runner(self, run: Callable[..., None], arrays: int, floats: int) -> Callable[..., None]:
        """The same as `run`, on a device that is alone and so many arrays and floats, in half the time.

        run: is called where there is no block for it, such as the first time, when the kernel may not be compiled yet.
        """
        self._plain(arrays)
        pack_floats = struct.Struct(f"{floats}d").pack
        make = _runner(arrays, floats)
        packing = self._pack_into, cp.ndarray, self._tail, pack_floats
        return make(run, *packing, self._free, faults.errors, self._where.loss.tell)

    def _plain(self, count: int) -> Pack:
        pack = self._pack = self.packing(count, range(count))
        return pack

    def _block(self) -> Block:
        block = Block(self._size)
        block.launch = self._launching(block.address, block.memory)
        return block

    def _check_devices(self, given: Sequence[Any]) -> None:
        for one in given:
            if type(one) is cp.ndarray and one.size and one.data.device_id != self._where.number:
                raise ValueError(
                    four_parts(
                        f"an array on device {one.data.device_id} for a launch on device {self._where.number}",
                        "kernels reach the memory of their own device only",
                        "",
                        "compute under one Context, which moves arrays to its device, or cast(dtype, ctx=...) it there",
                    )
                )

    def _launching(self, extra: int, memory: object) -> Callable[[], None]:
        launch_kernel, current_stream, where = cp.launch_kernel, cp.current_stream, self._where
        function = self._function.ptr
        x, y, z, block_x, block_y, block_z, shared = self._dimensions  # each by itself: quicker than all in a tuple
        known = faults.errors()

        def launch(alive: object = (memory, self._function)) -> None:  # they live as long
            try:
                stream = current_stream().ptr
                launch_kernel(function, x, y, z, block_x, block_y, block_z, shared, stream, 0, extra)
            except known as error:
                if not where.is_first_in_thread():
                    where.loss.tell(error)
                with where:  # the driver knows no context in a thread that did nothing yet
                    stream = current_stream().ptr
                    launch_kernel(function, x, y, z, block_x, block_y, block_z, shared, stream, 0, extra)

        return launch


# With each argument named it takes half the time.
_TEXT = """
def make(pack_into, array, tail):
    def pack(memory, given, table, first, numbers):
        [{names}] = given
        pack_into(memory, {ahead}, {values} table, first, numbers, tail)
    return pack
"""
_VALUE = "a{0}.data.ptr if type(a{0}) is array else 0 if a{0} is None else int(a{0}),"


@functools.lru_cache(1024)
def _packer(count: int, arguments: tuple[int | None, ...], constants: tuple[int, ...]) -> Callable[..., Pack]:
    """What makes a function that packs: each argument is one of those given, or None for the next of the constants."""
    own = iter(constants)
    values = [f"{next(own)}," if number is None else _VALUE.format(number) for number in arguments]
    names = ", ".join(f"a{number}" for number in range(count))
    text = _TEXT.format(names=names, ahead=_AHEAD, values=" ".join(values))
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<{__name__}>", "exec"), namespace)  # text made just here
    make: Callable[..., Pack] = namespace["make"]
    return make


# What `queued` and `Launch.run` do, in one function.
_RUNNER_TEXT = """
def make(run, pack_into, array, tail, pack_floats, free, errors, tell):
    def launched({given}):
        try:
            block = free.pop()
        except IndexError:
            block = None
        if block is None:
            run({given})
            return
        try:
            pack_into(block.memory, {ahead}, {values} 0, 0, {numbers}, tail)
            block.launch()
        except errors() as error:
            tell(error)
        free.append(block)
    return launched
"""


@functools.lru_cache(256)
def _runner(arrays: int, floats: int) -> Callable[..., Callable[..., None]]:
    """What makes the function of `Launch.runner`."""
    reals = ", ".join(f"f{number}" for number in range(floats))
    given = [*(f"a{number}" for number in range(arrays)), *([reals] if floats else [])]
    values = " ".join(_VALUE.format(number) for number in range(arrays))
    numbers = f"pack_floats({reals})" if floats else 'b""'
    text = _RUNNER_TEXT.format(given=", ".join(given), ahead=_AHEAD, values=values, numbers=numbers)
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<{__name__}, alone>", "exec"), namespace)  # text made just here
    make: Callable[..., Callable[..., None]] = namespace["make"]
    return make


class CallStep:
    """A step that is no kernel of ours: `function(stream)` puts its work into the stream of that address."""

    __slots__ = ("_function", "_where")

    def __init__(self, where: Device, function: Callable[[int], object]) -> None:
        self._where = where
        self._function = function

    def __call__(self) -> None:
        """Put it into the current stream."""
        if self._where.must_be_entered():
            with self._where:
                self._function(cp.current_stream().ptr)
            return
        try:
            self._function(cp.current_stream().ptr)
        except faults.errors() as error:
            self._where.loss.tell(error)


def call_step(where: Device, function: Callable[[int], object]) -> CallStep:
    """A step for `queued`, such as a product by cuBLAS, for the arrays that `function` refers to."""
    return CallStep(where, function)


Step = tuple[Launch, Sequence[Any], int] | CallStep


def queued(
    call: Call, steps: Launch | Callable[..., Sequence[Step]], floats: int | None = None, **facts: Any
) -> Prepared:
    """A call as launches in a row.

    steps: `steps(*arrays)` gives, for the arrays of one run, each step: a launch with what it is given and the first
        word that it reads, or a CallStep. Words are the floats of the call, then key and count of its random state.
        A launch itself is given the arrays as they come, and all words.
    floats: count of floats, where it is not the call's.
    facts: workspace, note, may_fail, heeds_failure, as for Prepared.
    """
    where = device(call.device_id)
    count = call.float_count if floats is None else floats
    state = len(call.inputs) - 1 if call.spec.random else -1
    packing = struct.Struct(f"{count}d")

    steps_of = _alone(steps) if isinstance(steps, Launch) else steps

    def bind(arrays: Sequence[Any], table: Any, start: int) -> Callable[[], object]:  # Any: arrays of this device
        address = 0 if table is None else table.data.ptr
        with where:
            launches = [
                step if isinstance(step, CallStep) else step[0].bind(step[1], address, start + step[2])
                for step in steps_of(*arrays)
            ]
        if len(launches) == 1:
            return launches[0]

        def launch() -> None:
            for one in launches:
                one()

        return launch

    def run(*arguments: Any) -> None:  # Any: as above, then floats
        arrays, numbers = arguments, b""
        if count:
            arrays, numbers = arguments[:-count], packing.pack(*arguments[-count:])
        if state >= 0:
            numbers += arrays[state].tobytes()
            arrays = (*arrays[:state], None, *arrays[state + 1 :])
        if not where.is_alone:
            with where:
                put(arrays, numbers)
            return
        try:
            put(arrays, numbers)
        except faults.errors() as error:
            where.loss.tell(error)

    known: list[tuple[Launch, Pack, int]] | None = None

    def put_steps(arrays: Sequence[Any], numbers: bytes) -> None:
        nonlocal known
        if known is None:
            known = _arranged(steps_of, arrays)
        for launch, pack, begin in known:
            launch.run(arrays, numbers[begin:] if begin else numbers, pack)
        if known:
            return
        for step in steps_of(*arrays):
            if isinstance(step, CallStep):
                step()
            else:
                launch, given, first = step
                launch.run(given, numbers[8 * first :] if first else numbers)

    put = steps.run if isinstance(steps, Launch) else put_steps
    is_watched = facts.get("may_fail") or facts.get("heeds_failure")  # and is given more than arrays and floats
    if isinstance(steps, Launch) and where.is_alone and state < 0 and not is_watched:
        arrays = len(call.inputs) + len(call.outputs) + bool(facts.get("workspace"))
        return Prepared(steps.runner(run, arrays, count), queued=True, bind=bind, **facts)
    return Prepared(run, queued=True, bind=bind, **facts)


def _arranged(steps: Callable[..., Sequence[Step]], arrays: Sequence[Any]) -> list[tuple[Launch, Pack, int]]:
    """The launches of a call, what packs the arguments of each, and the byte of the words that it begins with.

    Empty where there are other steps, or arguments are not just some of the call's: those are made at each run.
    """
    marks = [None if one is None else object() for one in arrays]
    numbers = {id(mark): number for number, mark in enumerate(marks) if mark is not None}
    try:
        found = steps(*marks)
    except (AttributeError, TypeError):  # it looks into its arrays
        return []
    result = []
    for step in found:
        if isinstance(step, CallStep):
            return []
        launch, given, first = step
        arguments = [numbers.get(id(one)) for one in given]
        constants = [0 if one is None else one for one, n in zip(given, arguments, strict=True) if n is None]
        if not all(isinstance(one, int | np.integer) for one in constants):
            return []
        result.append((launch, launch.packing(len(arrays), arguments, list(map(int, constants))), 8 * first))
    return result


def _alone(launch: Launch) -> Callable[..., Sequence[Step]]:
    """The steps of a call whose only one is a launch on all its arrays."""
    return lambda *arrays: [(launch, arrays, 0)]


def _three(sizes: int | Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*([sizes] if isinstance(sizes, int) else sizes), 1, 1)[:3]
    return int(x), int(y), int(z)


def _nothing() -> None:
    """Stands for a launch of no blocks."""
