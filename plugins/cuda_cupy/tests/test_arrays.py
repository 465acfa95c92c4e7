"""Arrays: made, moved, filled, seen otherwise, shared with others, counted."""

import gc
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy.devices import device, device_ids

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "bfloat16"]
two_devices = pytest.mark.skipif("len(device_ids()) < 2", reason="needs two devices")


def made(arrays, values, device_id="0"):
    values = np.asarray(values, order="C")
    array = arrays.allocate(ArrayDesc(values.shape, values.dtype), device_id)
    arrays.upload(values, array)
    return array


def values_of(arrays, array):
    values = np.empty(array.shape, array.dtype)
    arrays.download(array, values)
    return values


def dtype_of(name):
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    return ArrayDesc((), name).dtype


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (70001,)])
def test_what_is_uploaded_comes_back(arrays, name, shape):
    values = (np.random.default_rng(0).standard_normal(shape) * 10).astype(dtype_of(name))
    array = made(arrays, values)
    assert array.dtype == values.dtype and array.shape == shape
    np.testing.assert_array_equal(values_of(arrays, array), values)


def test_large_arrays_go_in_pieces_through_pinned_memory(arrays):
    values = np.random.default_rng(0).integers(0, 255, (25 << 20) + 3, np.uint8)
    np.testing.assert_array_equal(values_of(arrays, made(arrays, values)), values)


def test_what_was_uploaded_may_change_at_once(arrays, emulated):
    values = np.arange(100.0)
    with emulated.deferred():
        array = made(arrays, values)
        wanted = values.copy()
        values[:] = -1
        np.testing.assert_array_equal(values_of(arrays, array), wanted)


def test_words_are_put_in_the_order_of_the_queue(arrays, emulated):
    table, kept = made(arrays, np.zeros(4, np.int64)), made(arrays, np.zeros(4, np.int64))
    words = np.arange(4)
    with emulated.deferred():
        for _ in range(100):  # more than there are buffers
            words += 1
            arrays.put_words(words, table)
        arrays.copy(table, kept)
        words[:] = -1
        arrays.put_words(words, table)
        np.testing.assert_array_equal(values_of(arrays, kept), np.arange(4) + 100)
    np.testing.assert_array_equal(values_of(arrays, table), [-1] * 4)


def test_threads_upload_and_download_at_once(arrays):
    wrong = []

    def work(seed):
        values = np.random.default_rng(seed).standard_normal(300_000)
        for _ in range(5):
            if not np.array_equal(values_of(arrays, made(arrays, values)), values):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("value", [0, 1, 3.0])
def test_fill_sets_every_element(arrays, name, value):
    array = arrays.allocate(ArrayDesc((1000,), dtype_of(name)), "0")
    arrays.fill(array, value)
    np.testing.assert_array_equal(values_of(arrays, array), np.full(1000, value).astype(array.dtype))


def test_views_and_parts_share_memory_and_keep_it(arrays, where):
    whole = made(arrays, np.arange(1024, dtype=np.uint8))
    part = arrays.part(whole, 256, ArrayDesc((2, 3), np.int32))
    view = arrays.view(part, (3, 2))
    assert whole.data.ptr % arrays.alignment == 0 and part.data.ptr == whole.data.ptr + 256
    expected = np.arange(1024, dtype=np.uint8)[256:280].view(np.int32).reshape(3, 2)
    del whole, part
    np.testing.assert_array_equal(values_of(arrays, view), expected)


@two_devices
def test_copies_between_devices_keep_the_order_of_both(arrays, emulated):
    values = np.arange(1000.0)
    with emulated.deferred():
        source = made(arrays, values)
        target = arrays.allocate(ArrayDesc((1000,), np.float64), "1")
        arrays.fill(target, 7)
        assert arrays.copy_across(source, target)
        arrays.fill(source, 5)
        np.testing.assert_array_equal(values_of(arrays, target), values)
    assert (target.data.device_id, source.data.device_id) == (1, 0)


@two_devices
def test_what_a_thread_had_made_current_stays_so(arrays):
    with cp.Device(1):
        made(arrays, np.zeros(3), "0")
        assert cp.runtime.getDevice() == 1


def test_a_stream_of_the_user_is_heeded_and_none_is_replaced_by_the_device_s(arrays, where):
    found = []

    def work():
        made(arrays, np.zeros(3))
        found.append(cp.current_stream(where.number).ptr)
        own = cp.Stream(non_blocking=True)
        with cp.Device(where.number), own:
            made(arrays, np.zeros(3))
            found.append(cp.current_stream().ptr == own.ptr)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [where.stream.ptr, True]


def test_memory_is_counted_and_given_back(arrays, where):
    before = arrays.statistics("0")["bytes_in_use"]
    array = arrays.allocate(ArrayDesc((1 << 20,), np.uint8), "0")
    assert arrays.statistics("0")["bytes_in_use"] == before + (1 << 20)
    del array
    gc.collect()
    counted = arrays.statistics("0")
    assert counted["bytes_in_use"] == before and counted["kept_bytes"] >= 1 << 20
    arrays.clear_memory_cache("0")
    assert arrays.statistics("0")["kept_bytes"] < 1 << 20


def test_time_goes_on_by_the_device_s_clock(arrays):
    first = arrays.timestamp("0")
    arrays.fill(arrays.allocate(ArrayDesc((1 << 16,)), "0"), 2.0)
    assert 0 <= arrays.seconds_between(first, arrays.timestamp("0")) < 60


def test_another_library_sees_the_same_memory_by_dlpack(cuda):
    with nn.context_scope(cuda):
        y = F.tanh(nn.Variable.from_numpy_array(np.linspace(-1, 1, 6).astype("f").reshape(2, 3)))
        y.forward()
        assert y.data.__dlpack_device__() == (2, 0)
        theirs = cp.from_dlpack(y.data)
        shared, copied = nn.NdArray.from_dlpack(theirs), nn.NdArray.from_dlpack(theirs, copy=True)
        theirs.fill(3)
        np.testing.assert_array_equal(shared.data, np.full((2, 3), 3, "f"))
        np.testing.assert_array_equal(copied.data, np.tanh(np.linspace(-1, 1, 6).astype("f")).reshape(2, 3))


def test_the_stream_of_the_other_library_waits_for_ours(arrays, emulated):
    array = made(arrays, np.zeros(4, "f"))
    other = cp.Stream(non_blocking=True)
    with emulated.deferred():
        arrays.upload(np.arange(4, dtype="f"), array)
        with cp.Device(0), other:
            theirs = cp.from_dlpack(Exported(arrays, array, other.ptr))
            np.testing.assert_array_equal(values_of(arrays, theirs), range(4))


class Exported:
    """An array of ours as another library asks for it, with its stream."""

    def __init__(self, arrays, array, stream):
        self.arrays, self.array, self.stream = arrays, array, stream

    def __dlpack_device__(self):
        return self.arrays.dlpack_device("0")

    def __dlpack__(self, stream=None, **options):
        return self.arrays.to_dlpack(self.array, stream=self.stream, **options)


def test_what_is_not_aligned_is_copied_or_refused(arrays):
    whole = made(arrays, np.arange(9, dtype="f"))
    shifted = cp.ndarray((8,), np.float32, whole.data + 4)
    with pytest.raises(BufferError, match="no multiple of 16 bytes"):
        nn.NdArray.from_dlpack(shifted)
    np.testing.assert_array_equal(nn.NdArray.from_dlpack(shifted, copy=True).data, np.arange(1, 9))


def test_what_is_not_c_contiguous_is_copied_or_refused(arrays):
    values = np.arange(24, dtype="f").reshape(2, 3, 4)
    transposed = made(arrays, values).transpose(2, 0, 1)
    with pytest.raises(BufferError, match=r"strides \(4, 48, 16\)"):
        nn.NdArray.from_dlpack(transposed)
    np.testing.assert_array_equal(nn.NdArray.from_dlpack(transposed, copy=True).data, values.transpose(2, 0, 1))


def test_the_interface_of_cuda_arrays_names_address_and_stream(cuda, where):
    with nn.context_scope(cuda):
        y = nn.Variable.from_numpy_array(np.ones((2, 3), "f")) + 1
        y.forward()
        found = y.data.__cuda_array_interface__
    assert found["shape"] == (2, 3) and found["typestr"] == "<f4" and found["stream"] == where.stream.ptr
    assert found["data"][0] % 16 == 0


@pytest.mark.parametrize("device_id", ["7", "-1", "first", ""])
def test_a_device_that_is_not_there_is_told_with_those_that_are(arrays, device_id):
    with pytest.raises(ValueError, match=rf"device '{device_id}' of backend cuda: there is no such device") as caught:
        arrays.allocate(ArrayDesc((3,)), device_id)
    assert ", ".join(device_ids()) in str(caught.value) and "CUDA_VISIBLE_DEVICES" in str(caught.value)


def test_both_of_nnabla_s_names_are_the_same_memory():
    for name in ("CudaArray", "CudaCachedArray"):
        context = nn.Context(["cuda:float"], name, "0", fallback="raise")
        with nn.context_scope(context):
            y = nn.Variable.from_numpy_array(np.ones(3, "f")) * 2
            y.forward()
            assert repr(y.data.cell.place) == "CudaCachedArray:0"


def test_devices_are_made_once(where):
    assert device("0") is where
