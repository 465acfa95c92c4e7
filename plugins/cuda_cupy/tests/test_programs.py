"""Programs: launches captured as a graph, and replayed."""

import threading
import warnings

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc
from atled_cuda_cupy import cupy_names as cp


def chain(size=8):
    """A plan of several launches that are no one formula."""
    x = nn.Variable.from_numpy_array(np.linspace(-1, 1, size, dtype="f"))
    y = F.tanh(x * 2)
    y.persistent = True
    return x, F.exp(F.broadcast(F.reshape(y, (1, size)), (3, size))) + 1


def wanted(x, size=8):
    return np.broadcast_to(np.exp(np.tanh(x.d * 2)) + 1, (3, size))


def launches_of(arrays, count):
    array = arrays.allocate(ArrayDesc((count,)), "0")
    parts = [cp.ndarray((1,), np.float32, array.data + 4 * number) for number in range(count)]
    return array, [
        lambda part=part, number=number: arrays.fill(part, number + 0.5) for number, part in enumerate(parts)
    ]


def values_of(arrays, array):
    values = np.empty(array.shape, array.dtype)
    arrays.download(array, values)
    return values


@pytest.mark.parametrize("count", [1, 2, 20])
def test_a_program_does_what_its_launches_do(arrays, count):
    array, launches = launches_of(arrays, count)
    for launch in launches:
        launch()
    arrays.fill(array, 0)
    program = arrays.program(launches, "0")
    np.testing.assert_array_equal(values_of(arrays, array), np.zeros(count))
    for _ in range(2):
        arrays.fill(array, 0)
        program()
        np.testing.assert_array_equal(values_of(arrays, array), np.arange(count) + 0.5)


def test_a_replay_is_one_call_of_the_driver(arrays, emulated):
    _, launches = launches_of(arrays, 20)
    for launch in launches:
        launch()
    program = arrays.program(launches, "0")
    before = emulated.counts()
    program()
    after = emulated.counts()
    assert {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)} == {
        "graphLaunch": 1
    } | {name: n - before.get(name, 0) for name, n in after.items() if name == "setDevice" and n != before.get(name, 0)}


def test_a_replay_follows_the_current_stream(arrays, where, emulated):
    _, launches = launches_of(arrays, 3)
    for launch in launches:
        launch()
    program = arrays.program(launches, "0")
    arrays.synchronize("0")
    stream = cp.Stream(non_blocking=True)
    with emulated.deferred():
        with stream:
            program()
        assert not stream.done and where.stream.done


def test_plans_run_as_programs_and_see_changed_inputs(cuda):
    with nn.context_scope(cuda.replace(fallback="quiet")):
        x, y = chain()
        for number in range(5):
            x.d = x.d + 0.1 * number
            y.forward()
            np.testing.assert_allclose(y.d, wanted(x), rtol=1e-5)
        assert "device program" in str(y.plan)


@pytest.mark.parametrize("call", ["streamBeginCapture", "streamEndCapture", "graphInstantiate"])
def test_a_capture_that_fails_is_told_and_launches_go_one_by_one(cuda, emulated, monkeypatch, call):
    monkeypatch.setattr("atled.graph.run.programs._told", set())
    with nn.context_scope(cuda.replace(fallback="quiet")):
        x, y = chain()
        y.forward()
        with warnings.catch_warnings(record=True) as told, emulated.fault(call):
            warnings.simplefilter("always")
            for _ in range(3):
                y.forward()
        np.testing.assert_allclose(y.d, wanted(x), rtol=1e-5)
        assert "CudaCachedArray.program failed" in str(y.plan)
    (warning,) = told
    assert "its steps are launched one by one" in str(warning.message)


def test_a_launch_that_cannot_be_captured_leaves_no_capture_behind(arrays, where):
    def wrong():
        raise LookupError("not now")

    array, launches = launches_of(arrays, 2)
    for launch in launches:
        launch()
    with pytest.raises(LookupError, match="not now"):
        arrays.program([*launches, wrong], "0")
    assert not where.stream.is_capturing()
    arrays.program(launches, "0")()
    np.testing.assert_array_equal(values_of(arrays, array), [0.5, 1.5])


def test_what_waits_within_a_capture_is_refused(arrays):
    array, launches = launches_of(arrays, 2)
    for launch in launches:
        launch()
    with pytest.raises(Exception, match="captur"):
        arrays.program([*launches, lambda: arrays.synchronize("0")], "0")
    np.testing.assert_array_equal(values_of(arrays, array), [0.5, 1.5])


def test_who_waits_for_the_device_lets_the_captures_of_others_end(arrays):
    array, launches = launches_of(arrays, 2)
    for launch in launches:
        launch()
    waited, wrong = threading.Event(), []

    def wait():
        try:
            arrays.synchronize("0")
            arrays.clear_memory_cache("0")
        except Exception as error:
            wrong.append(error)
        waited.set()

    thread = threading.Thread(target=wait)

    def meanwhile():
        if thread.ident is None:
            thread.start()
            assert not waited.wait(0.2)

    program = arrays.program([launches[0], meanwhile, launches[1]], "0")
    thread.join()
    assert waited.is_set() and not wrong
    program()
    np.testing.assert_array_equal(values_of(arrays, array), [0.5, 1.5])
