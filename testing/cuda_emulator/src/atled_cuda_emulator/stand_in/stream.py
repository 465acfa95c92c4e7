"""`cupy.cuda.stream` and `cupy.cuda.graph`."""

from __future__ import annotations

from typing import Any

from atled_cuda_emulator.errors import CUDARuntimeError
from atled_cuda_emulator.stand_in import runtime
from atled_cuda_emulator.stand_in.world import check_device, thread, world


class Event:
    """`cupy.cuda.Event`."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        flags = (block and runtime.eventBlockingSync) | (disable_timing and runtime.eventDisableTiming)
        self.ptr = runtime.eventCreateWithFlags(flags)

    def __del__(self) -> None:
        if hasattr(self, "ptr") and runtime is not None:  # at the end of the process modules are gone
            runtime.eventDestroy(self.ptr)

    @property
    def done(self) -> bool:
        """Whether it was reached."""
        try:
            runtime.eventQuery(self.ptr)
        except CUDARuntimeError as e:
            if e.status != 600:
                raise
            return False
        return True

    def record(self, stream: Any = None) -> None:
        """Set it behind what is queued."""
        runtime.eventRecord(self.ptr, (get_current_stream() if stream is None else stream).ptr)

    def synchronize(self) -> None:
        """Wait for it."""
        runtime.eventSynchronize(self.ptr)


def get_elapsed_time(start_event: Event, end_event: Event) -> float:
    """Milliseconds."""
    return runtime.eventElapsedTime(start_event.ptr, end_event.ptr)


class Graph:
    """`cupy.cuda.Graph`; made by `end_capture`."""

    graph: int
    graphExec: int

    def __init__(self, *arguments: Any, **named: Any) -> None:
        raise RuntimeError("currently this class cannot be initiated by user code")

    @classmethod
    def _of(cls, graph: int) -> Graph:
        self = cls.__new__(cls)
        self.graph = graph
        self.graphExec = runtime.graphInstantiate(graph)
        return self

    def __del__(self) -> None:
        for name, destroy in (("graphExec", runtime.graphExecDestroy), ("graph", runtime.graphDestroy)):
            if hasattr(self, name):
                destroy(getattr(self, name))

    def launch(self, stream: Any = None) -> None:
        """In order of a stream."""
        runtime.graphLaunch(self.graphExec, (get_current_stream() if stream is None else stream).ptr)

    def upload(self, stream: Any = None) -> None:
        """Nothing to do."""
        runtime.graphUpload(self.graphExec, (get_current_stream() if stream is None else stream).ptr)


class _BaseStream:
    ptr: int
    device_id: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BaseStream) and (self.ptr, self.device_id) == (other.ptr, other.device_id)

    def __hash__(self) -> int:
        return hash((self.ptr, self.device_id))

    def __enter__(self) -> _BaseStream:
        self._check()
        before = vars(thread).setdefault("stack", [])
        before.append((thread.device, thread.streams.get(thread.device)))
        thread.streams[thread.device] = self
        return self

    def __exit__(self, *error: object) -> None:
        device, before = vars(thread)["stack"].pop()
        if before is None:
            thread.streams.pop(device, None)
        else:
            thread.streams[device] = before

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def _check(self) -> None:
        if self.device_id not in (-1, thread.device):
            raise RuntimeError("Stream was created on a different device; make the device current to use the stream")

    def use(self) -> _BaseStream:
        """Make it the thread's current one."""
        self._check()
        thread.streams[thread.device] = self
        return self

    @property
    def done(self) -> bool:
        """Whether nothing is queued."""
        try:
            runtime.streamQuery(self.ptr)
        except CUDARuntimeError as e:
            if e.status != 600:
                raise
            return False
        return True

    @property
    def is_non_blocking(self) -> bool:
        """Whether it ignores the null stream."""
        return runtime.streamGetFlags(self.ptr) == runtime.streamNonBlocking

    priority = 0

    def synchronize(self) -> None:
        """Wait for all that is queued."""
        runtime.streamSynchronize(self.ptr)

    def record(self, event: Event | None = None) -> Event:
        """An event behind what is queued."""
        event = Event() if event is None else event
        runtime.eventRecord(event.ptr, self.ptr)
        return event

    def wait_event(self, event: Event) -> None:
        """What comes next waits for it."""
        runtime.streamWaitEvent(self.ptr, event.ptr)

    def begin_capture(self, mode: int | None = None) -> None:
        """Record what comes next."""
        if self.ptr == 0:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        runtime.streamBeginCapture(self.ptr, runtime.streamCaptureModeRelaxed if mode is None else mode)

    def end_capture(self) -> Graph:
        """What was recorded."""
        return Graph._of(runtime.streamEndCapture(self.ptr))

    def is_capturing(self) -> bool:
        """Whether it records."""
        return runtime.streamIsCapturing(self.ptr)


class Stream(_BaseStream):
    """`cupy.cuda.Stream`."""

    null: Stream

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        if ptds:
            raise NotImplementedError("the emulator has no per-thread default streams")
        self._machine = None
        if null:
            self.ptr, self.device_id = 0, -1
        else:
            self.device_id = thread.device
            self.ptr = runtime.streamCreateWithFlags(
                runtime.streamNonBlocking if non_blocking else runtime.streamDefault
            )

    def __del__(self) -> None:
        if getattr(self, "ptr", 0) and runtime is not None:  # as above
            runtime.streamDestroy(self.ptr)


class ExternalStream(_BaseStream):
    """`cupy.cuda.ExternalStream`: a stream of somebody else."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        self.ptr, self.device_id = ptr, device_id


Stream.null = Stream(null=True)


def get_current_stream(device_id: int = -1) -> Any:
    """The thread's current stream of a device."""
    device = thread.device if device_id < 0 else check_device(device_id)
    world()
    return thread.streams.get(device, Stream.null)
