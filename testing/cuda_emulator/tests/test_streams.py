"""Streams, events, graphs; work that is done as late as it may."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from atled_cuda_emulator import DeviceFault, deferred, fault

ADD = 'extern "C" __global__ void add(float *x, float v) { x[threadIdx.x] += v; }'


@pytest.fixture
def late(cupy: Any) -> Iterator[None]:
    """Streams do their work when something waits for them."""
    with deferred():
        yield


def add(cupy: Any, x: Any, value: float) -> None:
    cupy.RawKernel(ADD, "add")((1,), (x.size,), (x, np.float32(value)))


# --- waits ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("late")
def test_work_runs_when_something_waits(cupy: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.zeros(4, np.float32)
        add(cupy, x, 1)
        event = stream.record()
    assert not stream.done
    assert not event.done
    event.synchronize()
    assert event.done
    assert stream.done


@pytest.mark.usefixtures("late")
def test_a_missing_wait_between_streams_is_seen(cupy: Any) -> None:
    one, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with one:
        x = cupy.zeros(4, np.float32)
    with other:
        add(cupy, x, 1)
        assert np.isnan(x.get()).all()
    with one:
        y = cupy.zeros(4, np.float32)
        event = one.record()
    with other:
        other.wait_event(event)
        add(cupy, y, 1)
        assert (y.get() == 1).all()


@pytest.mark.usefixtures("late")
def test_blocking_streams_are_in_order_with_the_null_stream(cupy: Any) -> None:
    x = cupy.zeros(4, np.float32)
    with cupy.cuda.Stream() as stream:
        add(cupy, x, 1)
    add(cupy, x, 1)
    with stream:
        assert (x.get() == 2).all()


@pytest.mark.usefixtures("late")
def test_staging_memory_that_is_used_again_too_early_is_seen(cupy: Any) -> None:
    pinned = cupy.cuda.alloc_pinned_memory(16)
    host = np.asarray(pinned)[:16].view(np.float32)
    x = cupy.empty(4, np.float32)
    host[...] = 1
    x.data.copy_from_host_async(pinned.ptr, 16)
    host[...] = 2  # nothing has waited for the copy
    assert (x.get() == 2).all()
    pageable = np.ones(4, np.float32)
    x.data.copy_from_host_async(pageable.ctypes.data, 16)
    pageable[...] = 5
    assert (x.get() == 1).all()


@pytest.mark.usefixtures("late")
def test_memory_is_freed_in_order_of_its_stream(cupy: Any) -> None:
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.zeros(4, np.float32)
        y = cupy.empty(4, np.float32)
        y.data.copy_from_device_async(x.data, 16)
        del x
        assert (y.get() == 0).all()
        stream.synchronize()


@pytest.mark.usefixtures("late")
def test_memory_that_another_stream_still_uses_is_poisoned_when_it_is_freed(cupy: Any) -> None:
    with cupy.cuda.Stream(non_blocking=True) as one:
        x = cupy.zeros(4, np.float32)
        one.synchronize()
    with cupy.cuda.Stream(non_blocking=True):
        y = cupy.empty(4, np.float32)
        y.data.copy_from_device_async(x.data, 16)
        del x
        one.synchronize()
        assert np.isnan(y.get()).all()


@pytest.mark.usefixtures("late")
def test_events_measure(cupy: Any) -> None:
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    end.record()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="NotReady"):
        cupy.cuda.get_elapsed_time(start, end)
    end.synchronize()
    assert cupy.cuda.get_elapsed_time(start, end) >= 0


def test_events_without_times_do_not_measure(cupy: Any) -> None:
    events = [cupy.cuda.Event(disable_timing=True) for _ in range(2)]
    for event in events:
        event.record()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="InvalidResourceHandle"):
        cupy.cuda.get_elapsed_time(*events)


def test_a_stream_of_another_device_is_refused(cupy: Any) -> None:
    with cupy.cuda.Device(1):
        stream = cupy.cuda.Stream()
    x = cupy.zeros(4, np.float32)
    kernel = cupy.RawKernel(ADD, "add")
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="INVALID_HANDLE"):
        kernel((1,), (4,), (x, np.float32(1)), stream=stream)


def test_the_driver_knows_no_context_in_a_thread_that_did_nothing_yet(cupy: Any) -> None:
    x = cupy.zeros(4, np.float32)
    function = cupy.RawKernel('extern "C" __global__ void one(float *x) { x[threadIdx.x] = 1; }', "one").kernel.ptr
    address = np.array([x.data.ptr])
    params = np.array([address.ctypes.data])
    said = []

    def launch() -> None:
        cupy.cuda.driver.launchKernel(function, 1, 1, 1, 4, 1, 1, 0, 0, params.ctypes.data, 0)

    def work() -> None:
        with pytest.raises(cupy.cuda.driver.CUDADriverError, match="INVALID_CONTEXT"):
            launch()
        cupy.cuda.runtime.setDevice(0)
        launch()
        said.append(x.get().tolist())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == [[1] * 4]


# --- graphs -----------------------------------------------------------------------------------------------


def captured(cupy: Any, x: Any) -> tuple[Any, Any]:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        add(cupy, x, 2)
        add(cupy, x, 3)
        return stream.end_capture(), stream


@pytest.mark.parametrize("late", [False, True])
def test_a_graph_does_what_was_recorded_at_each_launch(cupy: Any, late: bool) -> None:
    x = cupy.zeros(4, np.float32)
    graph, stream = captured(cupy, x)
    assert (x.get() == 0).all()
    with deferred() if late else fault("malloc", nth=10**6):
        graph.launch(stream)
        graph.launch(stream)
        stream.synchronize()
    assert (x.get() == 10).all()


def test_a_graph_that_uses_freed_memory_is_caught(cupy: Any) -> None:
    x = cupy.zeros(4, np.float32)
    graph, stream = captured(cupy, x)
    del x
    with pytest.raises(DeviceFault, match=r"a graph's add uses memory .* freed after the capture"):
        graph.launch(stream)


def test_other_streams_take_part_in_a_capture_by_events(cupy: Any) -> None:
    one, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x, y = cupy.zeros(4, np.float32), cupy.zeros(4, np.float32)
    with one:
        one.begin_capture()
        other.wait_event(one.record())
        with other:
            add(cupy, y, 1)
        one.wait_event(other.record())
        add(cupy, x, 1)
        graph = one.end_capture()
    graph.launch(one)
    assert (x.get() == 1).all()
    assert (y.get() == 1).all()


def test_a_stream_that_is_not_joined_again_is_refused(cupy: Any) -> None:
    one, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    one.begin_capture()
    other.wait_event(one.record())
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="Unjoined"):
        one.end_capture()


def _synchronize(cupy: Any, stream: Any) -> None:
    stream.synchronize()


def _wait_for_device(cupy: Any, stream: Any) -> None:
    cupy.cuda.Device().synchronize()


def _query(cupy: Any, stream: Any) -> None:
    assert stream.done


def _read(cupy: Any, stream: Any) -> None:
    with stream:
        x = cupy.empty(3)
        x.get()


@pytest.mark.parametrize("forbidden", [_synchronize, _wait_for_device, _query, _read])
def test_what_a_capture_forbids_raises_and_breaks_it(cupy: Any, forbidden: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnsupported"):
        forbidden(cupy, stream)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="Invalidated"):
        stream.end_capture()
    with stream:
        assert (cupy.zeros(3).get() == 0).all()


def test_the_null_stream_breaks_the_capture_of_a_blocking_stream(cupy: Any) -> None:
    x = cupy.zeros(4, np.float32)
    stream = cupy.cuda.Stream()
    stream.begin_capture()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="Implicit"):
        add(cupy, x, 1)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="Invalidated"):
        stream.end_capture()


def test_the_null_stream_cannot_capture(cupy: Any) -> None:
    with pytest.raises(RuntimeError, match="legacy"):
        cupy.cuda.Stream.null.begin_capture()


def test_an_event_of_a_capture_cannot_be_waited_for(cupy: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.begin_capture()
    event = stream.record()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="CapturedEvent"):
        event.synchronize()


# --- faults that tests plan ------------------------------------------------------------------------------------


def test_the_nth_launch_fails(cupy: Any) -> None:
    x = cupy.zeros(4, np.float32)
    with fault("launchKernel", nth=2):
        add(cupy, x, 1)
        with pytest.raises(cupy.cuda.driver.CUDADriverError, match="LAUNCH_FAILED"):
            add(cupy, x, 1)
        add(cupy, x, 1)
    assert (x.get() == 2).all()


def test_a_lost_device_stays_lost(cupy: Any) -> None:
    x = cupy.zeros(4, np.float32)
    with fault("synchronize", status=700, device_lost=True):
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="IllegalAddress"):
            cupy.cuda.Device().synchronize()
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="IllegalAddress"):
            add(cupy, x, 1)
    add(cupy, x, 1)


CALLS: dict[str, Any] = {
    "malloc": lambda cupy, stream: cupy.cuda.runtime.malloc(8),
    "hostAlloc": lambda cupy, stream: cupy.cuda.alloc_pinned_memory(8),
    "memcpy": lambda cupy, stream: cupy.zeros(3).get(),
    "memset": lambda cupy, stream: cupy.zeros(3),
    "synchronize": lambda cupy, stream: stream.synchronize(),
    "streamCreate": lambda cupy, stream: cupy.cuda.Stream(),
    "streamBeginCapture": lambda cupy, stream: stream.begin_capture(),
    "eventCreate": lambda cupy, stream: cupy.cuda.Event(),
    "eventRecord": lambda cupy, stream: stream.record(),
    "streamWaitEvent": lambda cupy, stream: stream.wait_event(stream.record()),
    "setDevice": lambda cupy, stream: cupy.cuda.Device(0).use(),
    "getDeviceCount": lambda cupy, stream: cupy.cuda.runtime.getDeviceCount(),
    "moduleLoad": lambda cupy, stream: cupy.RawModule(code=ADD).get_function("add"),
    "cublasCreate": lambda cupy, stream: cupy.cuda.cublas.create(),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_driver_call_can_fail(cupy: Any, call: str) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with fault(call), pytest.raises(RuntimeError):
        CALLS[call](cupy, stream)


@pytest.mark.parametrize("call", ["streamEndCapture", "graphInstantiate", "graphLaunch"])
def test_every_step_of_a_capture_can_fail(cupy: Any, call: str) -> None:
    x = cupy.zeros(4, np.float32)
    with fault(call), pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        graph, stream = captured(cupy, x)
        graph.launch(stream)
    graph, stream = captured(cupy, x)
    graph.launch(stream)
    assert (x.get() == 5).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork in a process with threads
def test_the_device_is_of_no_use_in_a_forked_child(cupy: Any) -> None:
    x = cupy.zeros(3)
    child = os.fork()
    if not child:
        try:
            x.get()
        except cupy.cuda.runtime.CUDARuntimeError as e:
            os._exit(3 if e.status == 3 else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
