"""`cupy.cuda.runtime`: the functions of CUDA's runtime by their names without `cuda`."""

from __future__ import annotations

import ctypes
from typing import Any

from atled_cuda_emulator.errors import CUDARuntimeError
from atled_cuda_emulator.faults import driver_call
from atled_cuda_emulator.memory import Allocation
from atled_cuda_emulator.queues import EventState, GraphState, Queue, Work
from atled_cuda_emulator.stand_in.world import check_device, queue, thread, world

__all__ = ["CUDARuntimeError"]

is_hip = False
memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice, memcpyDefault = range(5)
memoryTypeUnregistered, memoryTypeHost, memoryTypeDevice, memoryTypeManaged = range(4)
streamDefault, streamNonBlocking = 0, 1
streamLegacy, streamPerThread = 1, 2
streamCaptureModeGlobal, streamCaptureModeThreadLocal, streamCaptureModeRelaxed = range(3)
eventDefault, eventBlockingSync, eventDisableTiming, eventInterprocess = 0, 1, 2, 4
hostAllocDefault, hostAllocPortable, hostAllocMapped, hostAllocWriteCombined = 0, 1, 2, 4

# The numbers of an H100, so that kernels are launched here as they are there.
_ATTRIBUTES = {
    "MaxThreadsPerBlock": 1024,
    "MaxBlockDimX": 1024,
    "MaxBlockDimY": 1024,
    "MaxBlockDimZ": 64,
    "MaxGridDimX": 2147483647,
    "MaxGridDimY": 65535,
    "MaxGridDimZ": 65535,
    "MaxSharedMemoryPerBlock": 49152,
    "MaxSharedMemoryPerBlockOptin": 232448,
    "MaxSharedMemoryPerMultiprocessor": 233472,
    "MaxRegistersPerBlock": 65536,
    "MaxRegistersPerMultiprocessor": 65536,
    "MaxThreadsPerMultiProcessor": 2048,
    "MaxBlocksPerMultiprocessor": 32,
    "MultiProcessorCount": 132,
    "WarpSize": 32,
    "L2CacheSize": 52428800,
    "ComputeCapabilityMajor": 9,
    "ComputeCapabilityMinor": 0,
    "ClockRate": 1980000,
    "MemoryClockRate": 2619000,
    "GlobalMemoryBusWidth": 5120,
    "UnifiedAddressing": 1,
    "ConcurrentKernels": 1,
    "CanMapHostMemory": 1,
    "AsyncEngineCount": 3,
    "CooperativeLaunch": 0,
    "MemoryPoolsSupported": 0,
}
_ATTRIBUTE_NUMBERS = {1: "MaxThreadsPerBlock", 8: "MaxSharedMemoryPerBlock", 10: "WarpSize", 16: "MultiProcessorCount"}
_ATTRIBUTE_NUMBERS |= {38: "L2CacheSize", 39: "MaxThreadsPerMultiProcessor", 75: "ComputeCapabilityMajor"}
_ATTRIBUTE_NUMBERS |= {76: "ComputeCapabilityMinor", 81: "MaxSharedMemoryPerMultiprocessor"}
_ATTRIBUTE_NUMBERS |= {82: "MaxRegistersPerMultiprocessor", 97: "MaxSharedMemoryPerBlockOptin"}
for _number, _name in _ATTRIBUTE_NUMBERS.items():
    globals()[f"cudaDevAttr{_name}"] = _number


# --- devices ----------------------------------------------------------------------------------------------


def driverGetVersion() -> int:
    """13.0."""
    return 13000


def runtimeGetVersion() -> int:
    """12.9."""
    return 12090


def getDeviceCount() -> int:
    """How many there are."""
    driver_call("getDeviceCount")
    return world().devices


def getDevice() -> int:
    """The thread's current one."""
    return thread.device


def setDevice(device: int) -> None:
    """Make it the thread's current one."""
    driver_call("setDevice")
    thread.device = check_device(device)


def deviceGetAttribute(attrib: int, device: int) -> int:
    """One of those that CuPy has names for."""
    check_device(device)
    if attrib not in _ATTRIBUTE_NUMBERS:
        raise CUDARuntimeError(1)
    return _ATTRIBUTES[_ATTRIBUTE_NUMBERS[attrib]]


def getDeviceProperties(device: int) -> dict[str, Any]:
    """Those that programs read most."""
    check_device(device)
    return {
        "name": b"CUDA emulator",
        "totalGlobalMem": world().memory_limit,
        "sharedMemPerBlock": 49152,
        "sharedMemPerBlockOptin": 232448,
        "sharedMemPerMultiprocessor": 233472,
        "regsPerBlock": 65536,
        "regsPerMultiprocessor": 65536,
        "warpSize": 32,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiProcessor": 2048,
        "maxThreadsDim": (1024, 1024, 64),
        "maxGridSize": (2147483647, 65535, 65535),
        "clockRate": 1980000,
        "memoryClockRate": 2619000,
        "memoryBusWidth": 5120,
        "totalConstMem": 65536,
        "major": 9,
        "minor": 0,
        "multiProcessorCount": 132,
        "l2CacheSize": 52428800,
        "pciBusID": device + 1,
        "pciDeviceID": 0,
        "pciDomainID": 0,
        "integrated": 0,
        "canMapHostMemory": 1,
        "concurrentKernels": 1,
        "ECCEnabled": 0,
        "unifiedAddressing": 1,
        "managedMemory": 0,
        "cooperativeLaunch": 0,
    }


def deviceGetPCIBusId(device: int) -> str:
    """Made up."""
    return f"0000:{check_device(device) + 1:02X}:00.0"


def deviceSynchronize() -> None:
    """Wait for all streams of the current device."""
    driver_call("synchronize")
    machine = world().machine
    machine.refuse_while_capturing(machine.all_queues(thread.device))
    machine.drain_all(thread.device)


def deviceCanAccessPeer(device: int, peerDevice: int) -> int:
    """Any two different ones."""
    return int(check_device(device) != check_device(peerDevice))


def deviceEnablePeerAccess(peerDevice: int) -> None:
    """The current device may use memory of that one."""
    pair = (thread.device, check_device(peerDevice))
    if pair in world().peers:
        raise CUDARuntimeError(704)
    world().peers.add(pair)


# --- memory ------------------------------------------------------------------------------------------------


def allocate(size: int) -> Allocation:
    """cudaMalloc, as an object."""
    return world().memory.allocate(size, thread.device, world().memory_limit)


def malloc(size: int) -> int:
    """Device memory."""
    return allocate(size).address


def free(ptr: int) -> None:
    """Give it back; cudaFree waits for the device."""
    driver_call("free")
    if ptr:
        allocation = world().memory.at(ptr, 0, "free")
        world().machine.drain_all(thread.device)
        allocation.free()


def hostAlloc(size: int, flags: int) -> int:
    """Pinned memory."""
    return world().memory.allocate(size, None).address


def freeHost(ptr: int) -> None:
    """Give pinned memory back."""
    world().memory.at(ptr, 0, "freeHost").free()


def memGetInfo() -> tuple[int, int]:
    """Bytes free, bytes of the device."""
    limit = world().memory_limit
    return limit - world().memory.used.get(thread.device, 0), limit


class PointerAttributes:
    """Where a pointer points to."""

    def __init__(self, ptr: int) -> None:
        found = world().memory.find(ptr)
        alive = found is not None and found.alive
        self.device = -2 if found is None or found.device is None else found.device
        self.type = memoryTypeUnregistered
        if alive and found is not None:
            self.type = memoryTypeHost if found.device is None else memoryTypeDevice
        self.devicePointer = ptr if alive else 0
        self.hostPointer = ptr if self.type == memoryTypeHost else 0


def pointerGetAttributes(ptr: int) -> PointerAttributes:
    """Kind of memory, device."""
    return PointerAttributes(ptr)


_SIDES = {0: (False, False), 1: (True, False), 2: (False, True), 3: (True, True)}  # is (target, source) a device's?


def _copy(dst: int, src: int, size: int, kind: int, stream: Queue, name: str) -> Work | None:
    """The work of a copy; None where there is nothing to copy. Pageable sources are read now, as CUDA does."""
    memory = world().memory
    if not size:
        return None
    ends = []
    for place, address in enumerate((dst, src)):
        found = memory.find(address)
        on_device = found is not None and found.device is not None
        if kind != memcpyDefault and _SIDES[kind][place] != on_device and not (found and _SIDES[kind][place]):
            raise CUDARuntimeError(1)
        ends.append(memory.at(address, size, name) if found is not None else None)
    if None in ends and stream.capture is not None:
        stream.capture.broken = True
        raise CUDARuntimeError(900)  # stricter than CUDA, which would read that memory at each replay
    needs = tuple(end for end in ends if end is not None)
    if ends[1] is None:
        taken = ctypes.create_string_buffer(ctypes.string_at(src, size), size)
        return Work(name, lambda: ctypes.memmove(dst, taken, size), needs)
    return Work(name, lambda: ctypes.memmove(dst, src, size), needs)


def _put_copy(dst: int, src: int, size: int, kind: int, stream: Queue, name: str, wait: bool) -> None:
    driver_call("memcpy")
    work = _copy(dst, src, size, kind, stream, name)
    if work is None:
        return
    stream.put(work)
    if wait or world().memory.find(dst) is None:  # to pageable memory: CUDA waits
        stream.drain()


def memcpy(dst: int, src: int, size: int, kind: int) -> None:
    """A copy that waits, on the null stream."""
    stream = queue(0)
    world().machine.refuse_implicit(stream)
    _put_copy(dst, src, size, kind, stream, "memcpy", wait=kind != memcpyDeviceToDevice)


def memcpyAsync(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """A copy in order of a stream."""
    _put_copy(dst, src, size, kind, queue(stream), "memcpyAsync", wait=False)


def memcpyPeer(dst: int, dstDevice: int, src: int, srcDevice: int, size: int) -> None:
    """A copy from one device to another that waits."""
    memcpyPeerAsync(dst, dstDevice, src, srcDevice, size, 0)
    world().machine.drain_all(thread.device)


def memcpyPeerAsync(dst: int, dstDevice: int, src: int, srcDevice: int, size: int, stream: int) -> None:
    """A copy from one device to another."""
    if size:
        world().memory.at(dst, size, "memcpyPeerAsync", check_device(dstDevice))
        world().memory.at(src, size, "memcpyPeerAsync", check_device(srcDevice))
    _put_copy(dst, src, size, memcpyDeviceToDevice, queue(stream), "memcpyPeerAsync", wait=False)


def memsetAsync(ptr: int, value: int, size: int, stream: int) -> None:
    """Set bytes in order of a stream."""
    driver_call("memset")
    if size:
        needs = (world().memory.at(ptr, size, "memsetAsync", thread.device),)
        queue(stream).put(Work("memsetAsync", lambda: ctypes.memset(ptr, value, size), needs))


def memset(ptr: int, value: int, size: int) -> None:
    """Set bytes on the null stream."""
    memsetAsync(ptr, value, size, 0)


# --- streams, events, graphs ---------------------------------------------------------------------------------


def streamCreate() -> int:
    """A blocking stream."""
    return streamCreateWithFlags(streamDefault)


def streamCreateWithFlags(flags: int) -> int:
    """A stream; `streamNonBlocking` is not in order with the null stream."""
    driver_call("streamCreate")
    machine = world().machine
    handle = machine.new_handle()
    machine.queues[handle] = Queue(machine, thread.device, handle, blocking=not flags & streamNonBlocking)
    return handle


def streamCreateWithPriority(flags: int, priority: int) -> int:
    """Priorities change nothing here."""
    return streamCreateWithFlags(flags)


def streamDestroy(stream: int) -> None:
    """What is queued is done before."""
    machine = world().machine
    if stream in machine.queues:  # not of a machine before this one
        machine.queues[stream].drain()
        del machine.queues[stream]


def streamGetFlags(stream: int) -> int:
    """Whether it is a blocking one."""
    return streamDefault if queue(stream).blocking else streamNonBlocking


def streamSynchronize(stream: int) -> None:
    """Wait for all that is queued."""
    driver_call("synchronize")
    one = queue(stream)
    world().machine.refuse_implicit(one)
    world().machine.refuse_while_capturing([one])
    one.drain()
    if one.legacy:
        for other in world().machine.all_queues(one.device):
            if other.blocking:
                other.drain()


def streamQuery(stream: int) -> None:
    """Raise `cudaErrorNotReady` while something is queued."""
    one = queue(stream)
    world().machine.refuse_while_capturing([one])
    if one.waiting:
        raise CUDARuntimeError(600)


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:
    """What comes next waits for the event."""
    driver_call("streamWaitEvent")
    world().machine.wait_for(_event(event), queue(stream))


def streamBeginCapture(stream: int, mode: int = streamCaptureModeRelaxed) -> None:
    """What comes next is recorded, not done."""
    driver_call("streamBeginCapture")
    world().machine.begin_capture(queue(stream))


def streamEndCapture(stream: int) -> int:
    """The graph of what was recorded."""
    machine = world().machine
    works = machine.end_capture(queue(stream))
    driver_call("streamEndCapture")
    handle = machine.new_handle()
    machine.graphs[handle] = GraphState(works)
    return handle


def streamIsCapturing(stream: int) -> bool:
    """Whether work of it is recorded; an error behind one that broke the capture."""
    one = queue(stream)
    if one.capture is not None and one.capture.broken:
        raise CUDARuntimeError(901)
    return one.capture is not None


def _event(handle: int) -> EventState:
    events = world().machine.events
    if handle not in events:
        raise CUDARuntimeError(400)
    return events[handle]


def eventCreate() -> int:
    """An event that can measure."""
    return eventCreateWithFlags(eventDefault)


def eventCreateWithFlags(flags: int) -> int:
    """An event."""
    driver_call("eventCreate")
    machine = world().machine
    handle = machine.new_handle()
    machine.events[handle] = EventState(timing=not flags & eventDisableTiming)
    return handle


def eventDestroy(event: int) -> None:
    """Forget it."""
    world().machine.events.pop(event, None)


def eventRecord(event: int, stream: int) -> None:
    """Set it behind all that is queued."""
    driver_call("eventRecord")
    world().machine.record(_event(event), queue(stream))


def eventQuery(event: int) -> None:
    """Raise `cudaErrorNotReady` before it is reached."""
    driver_call("eventQuery")
    state = _event(event)
    if state.capture is not None:
        raise CUDARuntimeError(907)
    if state.work is not None and not state.work.done:
        raise CUDARuntimeError(600)


def eventSynchronize(event: int) -> None:
    """Wait for it."""
    driver_call("synchronize")
    state = _event(event)
    if state.capture is not None:
        raise CUDARuntimeError(907)
    if state.work is not None and not state.work.done:
        world().machine.run_until(state.work)


def eventElapsedTime(start: int, end: int) -> float:
    """Milliseconds between two events."""
    states = _event(start), _event(end)
    if not all(state.timing and state.work is not None for state in states):
        raise CUDARuntimeError(400)
    times = [state.time for state in states]
    if times[0] is None or times[1] is None:
        raise CUDARuntimeError(600)
    return (times[1] - times[0]) * 1e3


def graphInstantiate(graph: int) -> int:
    """Ready to launch."""
    driver_call("graphInstantiate")
    machine = world().machine
    handle = machine.new_handle()
    machine.graphs[handle] = machine.graphs[graph]
    return handle


def graphLaunch(graphExec: int, stream: int) -> None:
    """Do all of it, in order of a stream."""
    driver_call("graphLaunch")
    state = world().machine.graphs[graphExec]
    for work in state.works:
        for allocation in work.needs:
            state.check(work.name, allocation)
    queue(stream).put(Work("graph", state.replay, tuple(one for work in state.works for one in work.needs)))


def graphUpload(graphExec: int, stream: int) -> None:
    """Nothing to do."""


def graphDestroy(graph: int) -> None:
    """Forget it."""
    world().machine.graphs.pop(graph, None)


def graphExecDestroy(graphExec: int) -> None:
    """Forget it."""
    world().machine.graphs.pop(graphExec, None)
