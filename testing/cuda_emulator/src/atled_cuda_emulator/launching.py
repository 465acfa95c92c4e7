"""Kernels as functions of a device: their arguments checked, launched in any order of threads."""

from __future__ import annotations

import ctypes
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from atled_cuda_emulator import compiling
from atled_cuda_emulator.errors import CUDADriverError, DeviceFault
from atled_cuda_emulator.faults import driver_call
from atled_cuda_emulator.memory import Allocation, Memory
from atled_cuda_emulator.queues import Queue, Work

THREAD_ORDERS = {"forward": 0, "reverse": 1, "random": 2}
_MOST_SHARED = 48 * 1024
_MOST_PARAMETERS = 4096  # bytes; only drivers from CUDA 12.1 on take more
MOST_SHARED_OPT_IN = 227 * 1024


@dataclass
class Order:
    """In which order threads and blocks run. Results that depend on it show a race."""

    threads: str = "forward"
    shuffle_blocks: bool = False
    seed: int = 0
    compared: int = 0  # so many launches of each kernel with barriers are run in all orders, and must agree


order = Order()
asked: dict[tuple[str, str], compiling.Text] = {}  # kernels that were loaded, by the key of the text and their name
launched: Counter[tuple[str, str]] = Counter()  # and those that ran
_compared: Counter[tuple[str, str]] = Counter()


class _Record(ctypes.Structure):
    _fields_ = [
        ("call", ctypes.c_void_p),
        ("count", ctypes.c_int),
        ("total", ctypes.c_uint),
        ("offsets", ctypes.POINTER(ctypes.c_uint)),
        ("sizes", ctypes.POINTER(ctypes.c_uint)),
        ("pointers", ctypes.POINTER(ctypes.c_ubyte)),
        ("shared", ctypes.c_void_p),
        ("shared_end", ctypes.c_void_p),
    ]


class Function:
    """A kernel loaded on one device."""

    def __init__(self, text: compiling.Text, name: str, device: int) -> None:
        records = compiling.kernel_records(text)
        if name not in records:
            raise CUDADriverError(500)
        self.text, self.name, self.device = text, name, device
        self._address = records[name]
        record = _Record.from_address(self._address)
        self.offsets = record.offsets[: record.count]
        self.sizes = record.sizes[: record.count]
        self.total = record.total
        if self.total > _MOST_PARAMETERS:
            raise DeviceFault(f"{name}: parameters of {self.total} bytes, where every driver takes {_MOST_PARAMETERS}")
        self._pointers = [
            offset for offset, one in zip(self.offsets, record.pointers[: record.count], strict=True) if one
        ]
        self.static_shared = record.shared_end - record.shared
        self.most_dynamic_shared = _MOST_SHARED - self.static_shared
        asked[text.key, name] = text
        self.most_threads = text.bounds.get(name, 1024)

    def check(self, grid: Sequence[int], block: Sequence[int], shared: int) -> None:
        """What the driver refuses."""
        threads = block[0] * block[1] * block[2]
        if (
            min(grid) < 1
            or min(block) < 1
            or grid[0] >= 2**31
            or max(grid[1:]) > 65535
            or threads > 1024
            or block[2] > 64
        ):
            raise CUDADriverError(1)
        if shared > self.most_dynamic_shared or shared + self.static_shared > MOST_SHARED_OPT_IN:
            raise CUDADriverError(1)
        if threads > self.most_threads:
            raise CUDADriverError(701)

    def packed(self, params: int, extra: int) -> bytes:
        """The arguments as one buffer, from either form of cuLaunchKernel."""
        if bool(params) == bool(extra) and self.total:
            raise CUDADriverError(1)
        if params:
            pointers = (ctypes.c_void_p * len(self.sizes)).from_address(params)
            buffer = bytearray(self.total)
            for pointer, offset, size in zip(pointers, self.offsets, self.sizes, strict=True):
                buffer[offset : offset + size] = ctypes.string_at(pointer, size)
            return bytes(buffer)
        if not extra:
            return b""
        return self._from_extra(extra)

    def _from_extra(self, extra: int) -> bytes:
        found = {}
        words = (ctypes.c_size_t * 5).from_address(extra)
        for place in (0, 2, 4):
            if words[place] == 0:  # CU_LAUNCH_PARAM_END
                break
            found[words[place]] = words[place + 1]
        else:
            raise DeviceFault(f"{self.name}: `extra` has no CU_LAUNCH_PARAM_END")
        if set(found) != {1, 2}:  # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE
            raise DeviceFault(f"{self.name}: `extra` must name a buffer and its size")
        size = ctypes.c_size_t.from_address(found[2]).value
        if size != self.total:
            raise DeviceFault(
                f"{self.name}: the arguments have {size} bytes, the parameters {self.total}: "
                f"sizes {self.sizes} at offsets {self.offsets}"
            )
        return ctypes.string_at(found[1], size)

    def needs(self, memory: Memory, packed: bytes) -> tuple[Allocation, ...]:
        """The allocations that pointers among the arguments point into."""
        addresses = (struct.unpack_from("Q", packed, offset)[0] for offset in self._pointers)
        return tuple(memory.at(address, 0, self.name, self.device) for address in addresses if address)

    def launch(
        self, memory: Memory, queue: Queue, grid: Sequence[int], block: Sequence[int], shared: int, packed: bytes
    ) -> None:
        """Put it into the queue."""
        needs = self.needs(memory, packed)
        sizes = (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block)

        def run_once(threads: str) -> None:
            buffer = ctypes.create_string_buffer(packed, len(packed) or 1)
            library = compiling.runtime()
            how = THREAD_ORDERS[threads], int(order.shuffle_blocks), order.seed
            if compiling.checked:
                ranges = memory.ranges()
                library.cu_allocations(ctypes.c_void_p(ranges.ctypes.data), len(ranges))
            if library.cu_launch(ctypes.c_void_p(self._address), *sizes, shared, buffer, *how):
                raise DeviceFault(f"{self.name}: {library.cu_message().decode()}")
            for allocation in needs:
                allocation.check(self.name)

        def run() -> None:
            key = self.text.key, self.name
            launched[key] += 1
            if self.text.waits and _compared[key] < order.compared:
                _compared[key] += 1
                self._run_in_all_orders(run_once, dict.fromkeys(needs))
            else:
                run_once(order.threads)

        queue.put(Work(self.name, run, needs))

    def _run_in_all_orders(self, run_once: Callable[[str], None], needs: Iterable[Allocation]) -> None:
        """DeviceFault if they do not all leave the same in memory."""
        before = [(one, one.content()) for one in needs]
        results = []
        for threads in THREAD_ORDERS:
            for one, content in before:
                one.restore(content)
            run_once(threads)
            results.append([one.content() for one, _ in before])
        for threads, result in zip(THREAD_ORDERS, results, strict=True):
            if result != results[0]:
                raise DeviceFault(
                    f"{self.name}: threads in {threads} order give something else than forward: is a barrier missing?"
                )


def launch_kernel(
    memory: Memory, queue: Queue, function: Function, shape: Sequence[int], params: int, extra: int
) -> None:
    """cuLaunchKernel; shape: grid, block, shared memory."""
    driver_call("launchKernel")
    if function.device != queue.device:
        raise CUDADriverError(400)
    grid, block, shared = shape[:3], shape[3:6], shape[6]
    function.check(grid, block, shared)
    function.launch(memory, queue, grid, block, shared, function.packed(params, extra))
