"""How plans run: handles and streams, in threads and on devices, in programs, on memory that is watched."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.ext_utils import get_extension_context, import_extension_module
from atled_cudnn import cupy_names as cp
from atled_cudnn import handles
from atled_cudnn.library import CudnnError


def context(device_id="0", type_config="float", **options):
    return get_extension_context("cudnn", type_config=type_config, device_id=device_id, fallback="quiet", **options)


def leaf(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return nn.Variable.from_numpy_array(values, need_grad=True)


def device_ids():
    return import_extension_module("cudnn").get_devices()


def convolved(device_id="0"):
    with nn.context_scope(context(device_id)):
        y = F.convolution(leaf(2, 3, 6, 6), leaf(4, 3, 3, 3, seed=1), leaf(4, seed=2))
        y.forward()
        return y.d.copy()


def test_a_thread_has_one_handle_for_each_device(fake):
    for _ in range(2):
        for device_id in device_ids():
            convolved(device_id)
    assert sorted(str(handle.device) for handle in fake.handles.values()) == device_ids()


def test_a_handle_is_destroyed_when_its_thread_ends(fake):
    seen = []

    def work():
        convolved()
        seen.append(len(fake.handles))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert seen == [1] and not fake.handles


def test_threads_at_once_give_what_one_gives(cudnn):
    expected, found = convolved(), []
    threads = [threading.Thread(target=lambda: found.append(convolved())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for values in found:
        np.testing.assert_array_equal(values, expected)


def test_the_stream_is_set_only_where_it_changed(fake):
    for _ in range(3):
        convolved()
    once = fake.calls["cudnnSetStream"]
    assert once <= 2  # for the thread's stream, and perhaps for one that captures
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as stream:
        convolved()
        (handle,) = fake.handles.values()
        assert handle.stream == stream.ptr
    convolved()
    assert fake.calls["cudnnSetStream"] == once + 2


def test_a_child_process_destroys_no_handle_of_its_parent(fake, monkeypatch):
    convolved()
    handle = handles._thread.handles[0]
    monkeypatch.setattr(handles.os, "getpid", lambda: -1)
    handle.__del__()
    assert len(fake.handles) == 1
    assert handles.handle(0) != handle.address  # it makes its own


def test_another_device_is_left_as_it_was():
    before = cp.runtime.getDevice()
    convolved(device_ids()[-1])
    assert cp.runtime.getDevice() == before


def test_programs_give_what_single_steps_give(cudnn):
    with nn.context_scope(context()):
        x, w, b = leaf(2, 4, 8, 8), leaf(8, 4, 3, 3, seed=1), leaf(8, seed=2)
        h = F.tanh(F.convolution(x, w, b, pad=(1, 1)))
        y = F.average_pooling(h, (2, 2))
        loss = F.sum(y * y)
        results = []
        for seed in (3, 3, 4, 3):
            x.d = np.random.default_rng(seed).standard_normal(x.shape)
            for one in (x, w, b):
                one.grad.zero()
            loss.forward()
            loss.backward()
            results.append([loss.d.copy(), x.g.copy(), w.g.copy(), b.g.copy()])
    for position, first in enumerate(results[0]):
        np.testing.assert_array_equal(results[1][position], first)
        np.testing.assert_array_equal(results[3][position], first)
        assert not np.array_equal(results[2][position], first)


def test_convolution_is_part_of_a_program_of_the_device(cudnn):
    with nn.context_scope(context()):
        y = F.tanh(F.convolution(leaf(2, 4, 8, 8), leaf(8, 4, 3, 3, seed=1)))
        for _ in range(3):
            y.forward()
    shown = str(y.plan)
    assert "device program of" in shown, shown


def test_a_failed_execution_says_what_cudnn_said(fake):
    with fake.failing("cudnnBackendExecute", 5000), pytest.raises(CudnnError, match="was made to fail") as raised:
        convolved()
    assert "executing cuDNN engine" in str(raised.value) and "new process" in str(raised.value)


def test_without_cudnn_convolution_is_cudas_and_says_why(fake):
    from atled.plugin import reload_plugins
    from atled_cudnn import library

    fake.version = 90700
    reload_plugins()
    try:
        with nn.context_scope(nn.Context(["cudnn", "cuda", "cpu"], fallback="quiet")), nn.trace() as trace:
            y = F.convolution(leaf(2, 3, 6, 6), leaf(4, 3, 3, 3, seed=1))
            y.forward()
            reason = str(nn.explain(F.convolution, y.parent.inputs[0], y.parent.inputs[1]))
    finally:
        library.use(fake)
        fake.version = 92800
        reload_plugins()
    assert {row.op: row.backend for row in trace.rows()}["Convolution"] == "cuda"
    assert "cuDNN 9.7.0 is too old" in reason
