"""DLPack: arrays go to and come from other libraries, on the host and on devices that offer it."""

import ml_dtypes
import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.array_desc import ArrayDesc
from atled.conformance.broken.shelf import ShelfArray, ShelfClass, ShelfPlugin
from atled_contexts import register_plugin, unregister_plugin

EXTENSION = 12  # device type of DLPack for devices without a number of their own


class _Shared(ShelfClass):
    """Capsules of this class are plain NumPy arrays: both sides of the exchange are ours."""

    def dlpack_device(self, device_id):
        return (EXTENSION, int(device_id))

    def to_dlpack(self, source, **options):
        return source.on_device()

    def from_dlpack(self, source, device_id):
        values = source.__dlpack__()
        if not values.flags.c_contiguous:
            raise BufferError("its rows lie apart")
        return ShelfArray(values.reshape(-1), values.shape), ArrayDesc(values.shape, values.dtype)

    def copy_dlpack(self, source, device_id):
        values = source.__dlpack__().copy("C")
        return ShelfArray(values.reshape(-1), values.shape), ArrayDesc(values.shape, values.dtype)

    def cuda_array_interface(self, source):
        values = source.on_device()
        return values.__array_interface__ if values.dtype == np.float32 else None


class _Elsewhere:
    """An array of another library on device 1."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values

    def __dlpack_device__(self):
        return (EXTENSION, 1)


@pytest.fixture
def device():
    """A Context on a device with DLPack."""
    register_plugin("shelf", ShelfPlugin(_Shared()))
    yield nn.Context("shelf:float", "ShelfArray", "1")
    unregister_plugin("shelf")


def test_numpy_sees_the_memory_itself():
    x = nn.NdArray.from_numpy_array(np.arange(6, dtype="f").reshape(2, 3))
    view = np.from_dlpack(x)
    np.testing.assert_array_equal(view, np.arange(6).reshape(2, 3))
    x.data[0, 0] = 7
    assert view[0, 0] == 7
    assert F.add_scalar(x, 1.0).data[0, 0] == 8


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int64", "uint8", "bool"])
def test_an_array_of_another_library_is_copied_with_its_dtype(dtype):
    source = np.array([[1, 0, 3]], dtype)
    x = nn.NdArray.from_dlpack(source)
    assert x.dtype == dtype
    source[...] = 0
    np.testing.assert_array_equal(x.data, np.array([[1, 0, 3]], dtype))


def test_an_empty_and_a_scalar_array_pass():
    assert nn.NdArray.from_dlpack(np.zeros((0, 3), "f")).shape == (0, 3)
    assert np.from_dlpack(nn.NdArray(())).shape == ()


def test_device_memory_is_handed_out_where_the_class_offers_it(device):
    with nn.context_scope(device):
        y = F.add_scalar(nn.NdArray.from_numpy_array(np.arange(4, dtype="f")), 1.0)
        assert y.__dlpack_device__() == (EXTENSION, 1)
        np.testing.assert_array_equal(y.__dlpack__(), [1, 2, 3, 4])
        back = nn.NdArray.from_dlpack(y)
        assert back.__dlpack_device__() == (EXTENSION, 1)
        np.testing.assert_array_equal(F.add_scalar(back, 1.0).data, [2, 3, 4, 5])


def test_an_array_on_a_device_comes_without_a_copy(device):
    values = np.arange(6, dtype="f").reshape(2, 3)
    x = nn.NdArray.from_dlpack(_Elsewhere(values))
    values[0, 0] = 7  # as the other library may
    with nn.context_scope(device):
        np.testing.assert_array_equal(F.add_scalar(x, 1.0).data, values + 1)
        F.add_scalar(x, 1.0, outputs=[x])
    np.testing.assert_array_equal(values, [[8, 2, 3], [4, 5, 6]])
    assert x.__dlpack_device__() == (EXTENSION, 1)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_a_strided_array_on_a_device_is_refused_but_as_a_copy(device, dtype):
    values = np.arange(6, dtype=dtype).reshape(2, 3)
    with pytest.raises(BufferError, match=r"its rows lie apart(.|\n)*copy=True"):
        nn.NdArray.from_dlpack(_Elsewhere(values.T))
    x = nn.NdArray.from_dlpack(_Elsewhere(values.T), copy=True)
    wanted = values.T.copy()
    values[...] = 0
    np.testing.assert_array_equal(x.data, wanted)


def test_a_class_that_only_shares_copies_on_its_device(device, monkeypatch):
    monkeypatch.delattr(_Shared, "copy_dlpack")
    values = np.arange(6, dtype="f")
    x = nn.NdArray.from_dlpack(_Elsewhere(values), copy=True)
    values[...] = 0
    assert repr(x.cell.place) == "ShelfArray:1"
    np.testing.assert_array_equal(x.data, np.arange(6))


def test_host_memory_is_refused_where_a_copy_is_forbidden():
    with pytest.raises(BufferError, match="leave copy out"):
        nn.NdArray.from_dlpack(np.zeros(3, "f"), copy=False)


def test_memory_of_cuda_is_handed_out_where_the_class_offers_it(device):
    with nn.context_scope(device):
        y = F.add_scalar(nn.NdArray.from_numpy_array(np.arange(6, dtype="f").reshape(2, 3)), 1.0)
    found = y.__cuda_array_interface__
    assert found["shape"] == (2, 3) and found["typestr"] == "<f4"
    assert y.cell.storage.exported  # never used again for another array
    assert not hasattr(nn.NdArray.from_numpy_array(np.zeros(3, "f")), "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="it is in memory of host, which offers none"):
        nn.NdArray((3,)).__cuda_array_interface__  # noqa: B018  # to ask is the point


def test_an_array_on_a_device_can_be_asked_for_on_the_host(device):
    with nn.context_scope(device):
        y = F.add_scalar(nn.NdArray.from_numpy_array(np.arange(3, dtype="f")), 1.0)
        np.testing.assert_array_equal(np.from_dlpack(y, device="cpu"), [1, 2, 3])


def test_another_device_than_its_own_is_refused(device):
    with nn.context_scope(device):
        y = F.add_scalar(nn.NdArray.from_numpy_array(np.arange(3, dtype="f")), 1.0)
        with pytest.raises(BufferError, match=r"the array is on device \(12, 1\)"):
            y.__dlpack__(dl_device=(2, 0))


def test_what_speaks_no_dlpack_is_refused():
    with pytest.raises(TypeError, match="it does not speak DLPack"):
        nn.NdArray.from_dlpack([1, 2])


def test_a_device_that_no_plugin_has_is_refused():
    class Foreign:
        def __dlpack__(self, **options):
            raise AssertionError("never asked")

        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(BufferError, match="no usable plugin has an array class for that device"):
        nn.NdArray.from_dlpack(Foreign())


def test_what_numpy_has_no_dlpack_of_is_refused_with_the_remedy():
    array = nn.NdArray.from_numpy_array(np.ones(2, ml_dtypes.bfloat16))
    with pytest.raises(BufferError, match=r"has no bfloat16 there\nWhat to do: cast\('float32'\) it first"):
        np.from_dlpack(array)
    array.cast("float32")
    assert np.from_dlpack(array).tolist() == [1, 1]


class _Eighths:
    """An array of a dtype that NumPy does not know, where it says it is."""

    dtype = "float8"

    def __init__(self, kind):
        self.kind = kind

    def __array__(self, dtype=None, copy=None):
        raise TypeError("no such dtype")

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, **_):
        raise RuntimeError("Unsupported dtype")


def test_a_dtype_that_numpy_does_not_know_is_refused_with_its_name():
    with pytest.raises(BufferError, match="its dtype is float8\nWhat to do: convert it to a dtype of NumPy"):
        nn.NdArray.from_dlpack(_Eighths(1))


@pytest.mark.parametrize(("kind", "remedy"), [(1, "pass a regular array"), (2, "NdArray.from_dlpack")])
def test_only_arrays_of_devices_are_told_of_dlpack(kind, remedy):
    with pytest.raises(ValueError, match=remedy):
        nn.NdArray.from_numpy_array(_Eighths(kind))
