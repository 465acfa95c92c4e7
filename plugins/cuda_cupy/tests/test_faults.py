"""What goes wrong: want of memory, a device that is lost, processes that were forked, arrays of another device."""

import gc
import multiprocessing
import os

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, DeviceLostError, OutOfMemoryError
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy.devices import device, device_ids
from atled_cuda_cupy.launching import Launch

two_devices = pytest.mark.skipif("len(device_ids()) < 2", reason="needs two devices")
ADD = """
extern "C" __global__ void add(float *x, const Floats floats, const Words words) {
    EACH(i, words.w[0]) x[i] += 1;
}
"""


def values_of(arrays, array):
    values = np.empty(array.shape, array.dtype)
    arrays.download(array, values)
    return values


@pytest.fixture
def limited(where):
    """Sets the limit of CuPy's pool to so many bytes more than are in use."""
    pool = cp.memory_pool()

    def limit(nbytes):
        gc.collect()
        pool.free_all_blocks()
        with where.handle:
            pool.set_limit(size=pool.used_bytes() + nbytes)

    with where.handle:
        before = pool.get_limit()
    yield limit
    with where.handle:
        pool.set_limit(size=before)


@pytest.fixture
def mended(where):
    """The device, which is taken for whole again after the test."""
    yield where
    where.loss.refusal = None


def test_want_of_memory_says_what_was_asked_what_is_free_and_what_holds_it(arrays, limited):
    limited(1 << 20)
    kept = arrays.allocate(ArrayDesc((1 << 17,)), "0")
    arrays.fill(kept, 3)
    with pytest.raises(OutOfMemoryError) as caught:
        arrays.allocate(ArrayDesc((1 << 18,)), "0")
    text = str(caught.value)
    for words in (
        "float32[262144] on <cuda device 0",
        "no memory for 1.0 MiB",
        "are free",
        "CuPy's pool may have",
        "in arrays of this process",
        "smaller batches",
    ):
        assert words in text
    np.testing.assert_array_equal(values_of(arrays, kept), np.full(1 << 17, 3))


def test_what_is_only_kept_is_given_back_before_memory_is_out(arrays, limited):
    limited(1 << 20)
    garbage = arrays.allocate(ArrayDesc((1 << 17,)), "0")
    circle = [garbage]
    circle.append(circle)
    del garbage, circle
    arrays.allocate(ArrayDesc((1 << 18,)), "0")


def test_a_plan_that_has_no_memory_leaves_its_arrays_and_runs_when_there_is_some(cuda, limited):
    with nn.context_scope(cuda):
        x = nn.Variable.from_numpy_array(np.ones(1 << 17, "f"))
        y = F.tanh(x * 2)
        limited(1 << 16)
        with pytest.raises(RuntimeError) as caught:
            y.forward()
        assert "there is no memory for" in str(caught.value)
        limited(1 << 24)
        y.forward()
        np.testing.assert_allclose(y.d, np.tanh(x.d * 2), rtol=1e-6)


def launched(arrays, where):
    x = arrays.allocate(ArrayDesc((10,)), "0")
    arrays.fill(x, 0)
    launch = Launch(where, ADD, "add", 1, 32, (10,))
    bound = launch.bind((x,), 0, 0)
    bound()
    return {
        "bound": bound,
        "run": lambda: launch.run((x,), b""),
        "program": arrays.program([bound, bound], "0"),
        "fill": lambda: arrays.fill(x, 0),
        "upload": lambda: arrays.upload(np.zeros(10, "f"), x),
        "download": lambda: values_of(arrays, x),
        "copy": lambda: arrays.copy(x, x),
        "synchronize": lambda: arrays.synchronize("0"),
        "timestamp": lambda: arrays.timestamp("0"),
    }


USES = ["bound", "run", "program", "fill", "upload", "download", "copy", "synchronize", "timestamp"]


@pytest.mark.parametrize(
    ("use", "call"),
    [
        ("bound", "launchKernel"),
        ("run", "launchKernel"),
        ("program", "graphLaunch"),
        ("fill", "memset"),
        ("upload", "memcpy"),
        ("download", "memcpy"),
        ("synchronize", "synchronize"),
        ("timestamp", "eventRecord"),
    ],
)
def test_a_kernel_s_fault_loses_the_device_for_good_and_is_told(arrays, mended, emulated, use, call):
    uses = launched(arrays, mended)
    with (
        emulated.fault(call, status=700, device_lost=True),
        pytest.raises(
            DeviceLostError, match=r"CudaCachedArray:0: it was lost: a kernel reached for an address"
        ) as told,
    ):
        uses[use]()
    assert isinstance(told.value.__cause__, (cp.RuntimeError, cp.DriverError))
    assert "bytes_in_use" not in nn.memory_statistics()["CudaCachedArray:0"]
    for later in set(USES) - {"bound", "run", "program"}:  # those ask the driver, which answers with the same error
        with pytest.raises(DeviceLostError, match="CUDA has given up this process"):
            uses[later]()


@pytest.mark.parametrize("use", ["bound", "run", "program"])
def test_what_is_launched_behind_a_loss_is_told_the_same(arrays, mended, emulated, use):
    uses = launched(arrays, mended)
    with emulated.fault("memset", status=719, device_lost=True):
        with pytest.raises(DeviceLostError, match="a kernel failed"):
            uses["fill"]()
        with pytest.raises(DeviceLostError, match="a kernel failed"):
            uses[use]()


def test_an_error_that_spares_the_device_is_told_as_it_is(arrays, mended, emulated):
    uses = launched(arrays, mended)
    with emulated.fault("launchKernel", status=1), pytest.raises(cp.DriverError):
        uses["bound"]()
    uses["bound"]()


def test_a_plan_tells_of_a_lost_device_with_what_ran(cuda, mended, emulated):
    with nn.context_scope(cuda):
        x = nn.Variable.from_numpy_array(np.ones(4, "f"))
        y = F.tanh(x)
        y.forward()
        with emulated.fault("launchKernel", status=719, device_lost=True), pytest.raises(DeviceLostError) as caught:
            y.forward()
    assert "a kernel failed" in str(caught.value) and "Tanh" in "".join(caught.value.__notes__)


@two_devices
def test_arrays_of_another_device_are_refused(arrays):
    x = arrays.allocate(ArrayDesc((10,)), "1")
    with pytest.raises(ValueError, match=r"an array on device 1 .* launch on device 0"):
        Launch(device("0"), ADD, "add", 1, 32, (10,)).run((x,), b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # that threads are there is the point
def test_a_child_of_a_process_that_uses_cuda_says_so(arrays, where):
    x = arrays.allocate(ArrayDesc((10,)), "0")

    def child(found):
        nn.memory_statistics()
        nn.clear_memory_cache()
        others = lambda: arrays.allocate(ArrayDesc((3,)), device_ids()[-1])  # noqa: E731 - one of three
        for use in (lambda: arrays.fill(x, 1), lambda: arrays.synchronize("0"), others):
            try:
                use()
            except RuntimeError as error:
                found.put(str(error))
            else:
                found.put("nothing")

    context = multiprocessing.get_context("fork")
    found = context.SimpleQueue()
    process = context.Process(target=child, args=(found,))
    process.start()
    texts = [found.get() for _ in range(3)]
    process.join()
    for text in texts:
        assert f"was forked from process {os.getpid()}, which uses CUDA" in text and "spawn" in text
    arrays.fill(x, 1)
    np.testing.assert_array_equal(values_of(arrays, x), np.ones(10))
