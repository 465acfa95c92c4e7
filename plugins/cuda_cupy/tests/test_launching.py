"""Launches: packed arguments, run-time words, streams, compiling ahead."""

import contextlib
import errno
import gc
import os
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, DeviceLostError, op_spec
from atled_contexts import watch_preparation
from atled_cuda_cupy import compiling, kernel_files
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy.faults import Loss
from atled_cuda_cupy.launching import Launch, call_step, queued

SCALE = """
extern "C" __global__ void scale(const float *x, float *y, long long shift, const Floats floats, const Words words) {
    EACH(i, words.w[0]) y[i] = x[i] * (float)number(floats, 0) + shift + words.w[1] + word(floats, 1);
}
"""

DOUBLE = """
extern "C" __global__ void twice(const float *x, float *y, const Floats floats, const Words words) {
    EACH(i, words.w[0]) y[i] = x[i] * 2;
}
"""


def scale(where, size, extra=0, **facts):
    return Launch(where, SCALE, "scale", where.blocks(size), 256, (size, extra), floats=2, **facts)


def pair(arrays, size, device_id="0"):
    x, y = (arrays.allocate(ArrayDesc((size,)), device_id) for _ in range(2))
    arrays.upload(np.arange(size, dtype="f"), x)
    return x, y


def values_of(arrays, array):
    values = np.empty(array.shape, array.dtype)
    arrays.download(array, values)
    return values


def words_of(*numbers):
    return b"".join(np.array(number).tobytes() for number in numbers)


@pytest.mark.parametrize("size", [1, 255, 70001])
def test_run_gives_numbers_with_the_launch(arrays, where, size):
    x, y = pair(arrays, size)
    launch = scale(where, size)
    for factor in (2.0, 3.5):
        launch.run((x, y, 4), words_of(factor, 5))
        np.testing.assert_array_equal(values_of(arrays, y), np.arange(size, dtype="f") * np.float32(factor) + 9)


def test_what_is_bound_reads_its_numbers_when_its_turn_comes(arrays, where):
    x, y = pair(arrays, 300)
    table = arrays.allocate(ArrayDesc((4,), np.int64), "0")
    launch = scale(where, 300).bind((x, y, 1), table.data.ptr, 1)
    for factor in (2.0, -1.0):
        arrays.put_words(np.array([7, np.float64(factor).view(np.int64), 10, 7]), table)
        launch()
        np.testing.assert_array_equal(values_of(arrays, y), np.arange(300, dtype="f") * np.float32(factor) + 11)


def several(arrays, counts):
    return [arrays.allocate(ArrayDesc((count,), np.int64), "0") for count in counts]


@pytest.mark.parametrize("is_own", [True, False])
def test_words_are_copied_before_others_take_their_place(arrays, where, emulated, is_own):
    """The device begins only when the host waits for it: for room in the ring, or at the end."""
    counts = [*range(1, 60), *[700] * 30, 5000, 2048]
    targets = several(arrays, counts)
    with emulated.deferred(), contextlib.nullcontext() if is_own else cp.Stream(non_blocking=True):
        for number, target in enumerate(targets):
            words = np.arange(number, number + counts[number])
            arrays.put_words(words, target)
            words[:] = -1
        arrays.synchronize("0")
    for number, target in enumerate(targets):
        np.testing.assert_array_equal(values_of(arrays, target), np.arange(number, number + counts[number]))


def test_threads_put_words_at_once_while_memory_is_given_back(arrays, where):
    wrong = []

    def work(number):
        (target,) = several(arrays, [500])
        for time in range(40):
            arrays.put_words(np.full(500, 1000 * number + time), target)
            if not (values_of(arrays, target) == 1000 * number + time).all():
                wrong.append((number, time))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        where.staging.clear()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("extra", [5, 1 << 33])
def test_large_words_make_indices_wide(arrays, where, extra):
    x, y = pair(arrays, 3)
    scale(where, 3, extra).run((x, y, 0), words_of(1.0, 0))
    np.testing.assert_array_equal(values_of(arrays, y), np.arange(3, dtype="f") + np.float32(extra))


def test_a_grid_of_no_blocks_launches_nothing(where):
    launch = Launch(where, SCALE, "scale", 0, 256, (0, 0), floats=2)
    launch.run((None, None, 0), b"")
    launch.bind((None, None, 0), 0, 0)()


def test_a_launch_outlives_what_made_it(arrays, where):
    x, y = pair(arrays, 10)
    bound = scale(where, 10, 1).bind((x, y, 0), 0, 0)
    nn.clear_memory_cache()
    gc.collect()
    bound()
    np.testing.assert_array_equal(values_of(arrays, y), np.ones(10))  # words that are not given are 0


def test_threads_run_one_launch_at_once(arrays, where):
    launch, wrong = scale(where, 1000), []

    def work(number):
        x, y = pair(arrays, 1000)
        for _ in range(20):
            launch.run((x, y, number), words_of(1.0, 0))
            if not np.array_equal(values_of(arrays, y), np.arange(1000, dtype="f") + number):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_work_goes_to_the_current_stream(arrays, where, emulated):
    x, y = pair(arrays, 8)
    launch = scale(where, 8)
    launch.run((x, y, 0), words_of(1.0, 0))
    arrays.synchronize("0")
    stream = cp.Stream(non_blocking=True)
    with emulated.deferred():
        with stream:
            launch.run((x, y, 0), words_of(2.0, 0))
        assert not stream.done and where.stream.done


def test_identical_texts_are_compiled_once(where, monkeypatch):
    monkeypatch.setattr(compiling, "_modules", {})
    monkeypatch.setattr(compiling, "_progress", compiling._Progress())
    texts = []
    monkeypatch.setattr(compiling, "_compile", lambda where, text, name: texts.append(text))
    for _ in range(3):
        compiling.function(where, "a text", "f")
    compiling.function(where, "another", "f")
    compiling._threads().submit(int).result()
    assert sorted(texts) == ["a text", "another"]


def test_preparation_is_reported_and_what_the_compiler_says_reaches_who_waits(where):
    reports = []
    with watch_preparation(reports.append):
        text = compiling.kernel_text("this is no CUDA", {"FLOATS": 0, "WORDS": 0, "WIDE": 0})
        function = compiling.function(where, text, "f")
        with pytest.raises(Exception, match="this"):
            _ = function.ptr
    assert [(report.plugin, report.name) for report in reports][:1] == [("cuda-cupy", "f")]
    assert reports[-1].is_finished


def test_subnormal_numbers_are_kept(arrays, where):
    x, y = pair(arrays, 1)
    arrays.upload(np.array([1e-40], "f"), x)
    scale(where, 1).run((x, y, 0), words_of(0.5, 0))
    np.testing.assert_array_equal(values_of(arrays, y), np.array([1e-40], "f") * np.float32(0.5))


def test_kernels_on_disk_are_read_unless_they_are_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)
    assert kernel_files.load("key") is None and not kernel_files.has("key")
    kernel_files.save("key", b"code")
    assert kernel_files.load("key") == b"code" and kernel_files.has("key")
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert kernel_files.load("key") is None


@pytest.fixture
def untold(monkeypatch):
    """It was not said yet that kernels are not kept."""
    monkeypatch.setattr(kernel_files, "_warned", False)


@pytest.mark.usefixtures("untold")
@pytest.mark.parametrize("folder", ["a file", "/proc/nowhere"])
def test_where_nothing_can_be_written_kernels_are_compiled_again_and_that_is_said_once(tmp_path, monkeypatch, folder):
    (tmp_path / "a file").touch()
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / folder))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)
    with pytest.warns(RuntimeWarning, match=r"cannot keep compiled cuda kernels[\s\S]*CUPY_CACHE_DIR"):
        kernel_files.save("key", b"code")
    kernel_files.save("other", b"code")
    assert kernel_files.load("key") is None


@pytest.mark.usefixtures("untold")
def test_a_full_disk_leaves_no_part_of_a_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)

    def refuse(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.warns(RuntimeWarning, match=os.strerror(errno.ENOSPC)):
        kernel_files.save("key", b"code")
    assert list(tmp_path.iterdir()) == []


def test_a_chain_is_one_launch_in_a_program(cuda):
    x = nn.Variable.from_numpy_array(np.linspace(-2, 2, 9, dtype=np.float32))
    with nn.context_scope(cuda):
        y = F.tanh(x * 2.0) + F.sigmoid(x)
        with nn.trace() as trace:
            y.forward()
    (row,) = (row for row in trace.rows() if row.backend == "cuda")
    assert row.calls == 1


def test_a_thread_that_never_touched_the_device_launches_what_others_bound(arrays, where, monkeypatch):
    monkeypatch.setattr(where, "is_alone", True)  # else every launch makes its device current
    x, y = pair(arrays, 8)
    bound = scale(where, 8, 3).bind((x, y, 0), 0, 0)
    thread = threading.Thread(target=bound)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(values_of(arrays, y), np.full(8, 3))


@pytest.mark.parametrize("way", ["bound", "run"])
def test_a_launch_is_one_call_of_the_driver(arrays, where, emulated, monkeypatch, way):
    monkeypatch.setattr(where, "is_alone", True)  # else the device is made current, too
    x, y = pair(arrays, 8)
    launch = scale(where, 8)
    bound = launch.bind((x, y, 0), 0, 0)
    ways = {"bound": bound, "run": lambda: launch.run((x, y, 0), words_of(2.0, 0))}
    ways[way]()
    before = emulated.counts()
    ways[way]()
    assert {name: count - before[name] for name, count in emulated.counts().items() if count != before[name]} == {
        "launchKernel": 1
    }


def doubling(where, size, steps=1):
    """A call's implementation, of one launch or of several steps."""
    desc = ArrayDesc((size,))
    call = Call(op_spec("Identity"), (desc,), (desc,), {}, device_id="0")
    launch = Launch(where, DOUBLE, "twice", 1, 32, (size,))
    if steps == 1:
        return queued(call, launch)
    other = call_step(where, lambda stream: None)
    return queued(call, lambda x, y: [(launch, (x, y), 0), other, *[(launch, (y, y), 0)] * (steps - 1)])


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("steps", [1, 2])
def test_threads_that_did_nothing_yet_run_calls(arrays, where, monkeypatch, is_alone, steps):
    monkeypatch.setattr(where, "is_alone", is_alone)
    x, y = pair(arrays, 9)
    run = doubling(where, 9, steps).run
    for _ in range(2):  # the first one makes what later ones find
        thread = threading.Thread(target=run, args=(x, y))
        thread.start()
        thread.join()
        np.testing.assert_array_equal(values_of(arrays, y), np.arange(9) * 2.0**steps)
        arrays.fill(y, 0)


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_call_tells_that_the_device_is_lost(arrays, where, emulated, monkeypatch, is_alone, steps):
    monkeypatch.setattr(where, "is_alone", is_alone)
    monkeypatch.setattr(where, "loss", Loss(0))
    x, y = pair(arrays, 9)
    run = doubling(where, 9, steps).run
    run(x, y)
    with emulated.fault("launchKernel", status=700), pytest.raises(DeviceLostError, match="that is no memory"):
        run(x, y)


SUM = """
extern "C" __global__ void sum(const float *x, const float *b, float *y, const Floats floats, const Words words) {
    EACH(i, words.w[0]) y[i] = x[i] * (float)number(floats, 0) + (b ? b[i] : 0) + (float)number(floats, 1);
}
"""


@pytest.mark.parametrize("is_alone", [True, False])
def test_each_run_of_a_launch_has_its_own_arrays_and_floats(arrays, where, monkeypatch, is_alone):
    monkeypatch.setattr(where, "is_alone", is_alone)
    desc = ArrayDesc((300,))
    call = Call(op_spec("Add2"), (desc, desc), (desc,), {}, device_id="0")
    run = queued(call, Launch(where, SUM, "sum", 2, 32, (300,), floats=2), floats=2).run
    first, found = np.arange(300, dtype="f"), {}

    def runs(number):
        (x, y), (b, _) = pair(arrays, 300), pair(arrays, 300)
        for turn in range(20):
            given = b if turn % 2 else None
            run(x, given, y, number, 0.5)
            expected = first * np.float32(number) + (first if turn % 2 else 0) + np.float32(0.5)
            found[number, turn] = np.array_equal(values_of(arrays, y), expected)

    threads = [threading.Thread(target=runs, args=(number,)) for number in (2, 3.25, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 60 and all(found.values())


def test_a_launch_that_the_driver_refuses_is_told_and_the_next_one_runs(arrays, where, emulated, monkeypatch):
    monkeypatch.setattr(where, "is_alone", True)
    x, y = pair(arrays, 9)
    run = doubling(where, 9).run
    run(x, y)
    arrays.fill(y, 0)
    with emulated.fault("launchKernel", status=701), pytest.raises(Exception, match=r"701|RESOURCES|resources"):
        run(x, y)
    run(x, y)
    np.testing.assert_array_equal(values_of(arrays, y), np.arange(9) * 2.0)


@pytest.mark.parametrize("looks", [False, True])
def test_steps_are_asked_once_unless_they_look_into_arrays(arrays, where, looks):
    """Each step with the arguments that it names, in every run; also where two are the same array."""
    desc, asked = ArrayDesc((5,)), []
    call = Call(op_spec("Add2"), (desc, desc), (desc,), {}, device_id="0")
    launch = Launch(where, SCALE, "scale", 1, 32, (5, 0), floats=3)

    def steps(factor, x, y, absent):
        asked.append(x)
        assert absent is None and (not looks or x.shape)
        return [(launch, (x, y, 7), 1), (launch, (y, y, factor), 0)]

    run = queued(call, steps, floats=3).run
    for number in range(3):
        (x, y), first = pair(arrays, 5), np.arange(5)
        y = x if number == 1 else y
        run(2 + number, x, y, None, 3.0, 4.0, 0.0)
        # `word` reads bits: of 4.0 by the second step, 0 of 0.0 by the first one
        expected = ((first * np.float32(4) + 7) * np.float32(3) + (2 + number)) + np.float32(np.float64(4).view("i8"))
        np.testing.assert_array_equal(values_of(arrays, y), expected.astype("f"))
    assert len(asked) == (4 if looks else 1)
