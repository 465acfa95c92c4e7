"""Streams, events and graphs: what is queued where, and in which order it may run."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from atled_cuda_emulator.errors import CUDADriverError, CUDARuntimeError, DeviceFault
from atled_cuda_emulator.memory import Allocation

_handles = itertools.count(0x5000_0000_0000, 64)
LONGEST_QUEUE = 1000  # a device begins with the first work when the queue of a stream is full


@dataclass(eq=False)
class Work:
    """Something a device does: a launch, a copy, a record."""

    name: str
    run: Callable[[], object]
    needs: tuple[Allocation, ...] = ()  # kept until it has run
    after: list[Work] = field(default_factory=list)
    queue: Queue | None = None
    done: bool = False


@dataclass(eq=False)
class Capture:
    """What `begin_capture` began."""

    origin: Queue
    joined: set[Queue] = field(default_factory=set)  # queues that took part and were not waited for since
    works: list[Work] = field(default_factory=list)
    broken: bool = False


class Queue:
    """A stream: work of it runs in order."""

    def __init__(self, machine: Machine, device: int, handle: int, blocking: bool, legacy: bool = False) -> None:
        self.machine, self.device, self.handle = machine, device, handle
        self.blocking, self.legacy = blocking, legacy
        self.waiting: deque[Work] = deque()
        self.last: Work | None = None
        self.after: list[Work] = []  # of other queues, that the next work waits for
        self.capture: Capture | None = None

    def put(self, work: Work) -> None:
        """Run it, queue it, or make it part of the graph that is captured."""
        machine = self.machine
        machine.refuse_implicit(self)
        if self.capture is not None:
            if self.capture.broken:
                raise CUDADriverError(901)
            self.capture.works.append(work)
            return
        if not machine.deferred:
            work.run()
            return
        work.queue = self
        work.after = [*self.after, *machine.implied(self)]
        self.after = []
        with machine.lock:
            self.waiting.append(work)
            self.last = work
        if len(self.waiting) > LONGEST_QUEUE:
            machine.run_until(self.waiting[0])

    def drain(self) -> None:
        """Run all that is queued, and what it waits for."""
        while self.waiting:
            self.machine.run_until(self.waiting[-1])


class EventState:
    """An event: the last work it was recorded behind."""

    def __init__(self, timing: bool) -> None:
        self.timing = timing
        self.work: Work | None = None
        self.capture: Capture | None = None
        self.queue: Queue | None = None
        self.time: float | None = None


@dataclass(eq=False)
class GraphState:
    """A captured graph, ready to launch."""

    works: list[Work]

    @staticmethod
    def check(name: str, allocation: Allocation) -> None:
        """Raise DeviceFault for memory that was freed since the capture."""
        if not allocation.alive:
            size = allocation.size
            raise DeviceFault(f"a graph's {name} uses memory of {size} bytes that was freed after the capture")

    def replay(self) -> None:
        """Do all of it again."""
        for work in self.works:
            work.run()


class Machine:
    """All queues of all devices."""

    def __init__(self, devices: int) -> None:
        self.deferred = False
        self.lock = threading.RLock()
        self.legacy = [Queue(self, device, 0, blocking=True, legacy=True) for device in range(devices)]
        self.queues: dict[int, Queue] = {}
        self.events: dict[int, EventState] = {}
        self.graphs: dict[int, GraphState] = {}

    def new_handle(self) -> int:
        """As unique as an address, also among machines."""
        return next(_handles)

    def all_queues(self, device: int) -> list[Queue]:
        """Those of one device."""
        return [self.legacy[device], *(queue for queue in list(self.queues.values()) if queue.device == device)]

    def queue(self, handle: int, device: int) -> Queue:
        """The stream with this handle, seen from a thread whose current device is `device`."""
        if handle in (0, 1):
            return self.legacy[device]
        if handle not in self.queues:
            raise CUDARuntimeError(400)
        return self.queues[handle]

    def implied(self, queue: Queue) -> Iterable[Work]:
        """What the legacy default stream's order adds: blocking streams wait for it, and it for them."""
        if not queue.blocking:
            return ()
        others = self.all_queues(queue.device)[1:] if queue.legacy else [self.legacy[queue.device]]
        return [other.last for other in others if other.blocking and other.last is not None and not other.last.done]

    def refuse_implicit(self, queue: Queue) -> None:
        """The legacy stream would depend on a blocking stream that captures."""
        if queue.legacy:
            for other in self.all_queues(queue.device)[1:]:
                if other.capture is not None and other.blocking:
                    other.capture.broken = True
                    raise CUDARuntimeError(906)

    def refuse_while_capturing(self, queues: Iterable[Queue]) -> None:
        """Waiting for a stream that captures is an error, which also breaks the capture."""
        for queue in queues:
            if queue.capture is not None:
                queue.capture.broken = True
                raise CUDARuntimeError(900)

    def run_until(self, work: Work) -> None:
        """Run this work, and only what must run before it."""
        with self.lock:
            queue = work.queue
            assert queue is not None
            while not work.done:
                first = queue.waiting[0]
                for earlier in first.after:
                    if not earlier.done:
                        self.run_until(earlier)
                queue.waiting.popleft()
                first.done = True
                first.after = []
                try:
                    first.run()
                finally:
                    first.needs = ()

    def drain_all(self, device: int) -> None:
        """Run all that is queued on a device."""
        for queue in self.all_queues(device):
            queue.drain()

    # --- events ---------------------------------------------------------------------------------------------

    def record(self, event: EventState, queue: Queue) -> None:
        """The event stands behind all that is in the queue."""
        event.queue = queue
        event.capture = queue.capture
        event.time = None

        def stamp() -> None:
            event.time = time.perf_counter()

        event.work = Work("eventRecord", stamp)
        queue.put(event.work)
        if queue.capture is None and not self.deferred:
            event.work.done = True

    def wait_for(self, event: EventState, queue: Queue) -> None:
        """What comes into the queue next waits for the event."""
        if event.capture is not None:
            if queue.capture is None:
                queue.capture = event.capture
            elif queue.capture is not event.capture:
                raise CUDARuntimeError(905)
            event.capture.joined.add(queue)
            if event.queue is not None and event.queue is not queue:
                event.capture.joined.discard(event.queue)
            return
        if queue.capture is not None and event.work is not None and not event.work.done:
            queue.capture.broken = True
            raise CUDARuntimeError(905)
        if event.work is not None and not event.work.done:
            queue.after.append(event.work)

    # --- graphs ---------------------------------------------------------------------------------------------

    def begin_capture(self, queue: Queue) -> None:
        """What is put into the queue from here on becomes a graph."""
        if queue.legacy or queue.capture is not None:
            raise CUDARuntimeError(900)
        queue.capture = Capture(queue)

    def end_capture(self, queue: Queue) -> list[Work]:
        """The graph's works."""
        capture = queue.capture
        if capture is None or capture.origin is not queue:
            raise CUDARuntimeError(1)
        for other in (*self.queues.values(), *self.legacy):
            if other.capture is capture:
                other.capture = None
        if capture.broken:
            raise CUDARuntimeError(901)
        if capture.joined - {queue}:
            raise CUDARuntimeError(904)
        return capture.works
