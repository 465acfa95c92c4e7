"""The array class of a device by itself: what goes in comes out, on the device that was asked."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.arrays.place import ArrayClass, place_on
from atled.conformance.cases import Topic, array_classes, over
from atled.conformance.subject import Subject
from atled.conformance.watching import bytes_in_use
from atled.dtypes import largest
from atled.errors import listing
from atled.type_configs import compute_dtype
from atled_contexts import devices

_DTYPES = ("float32", "float16", "float64", "int64", "int32", "uint8", "bool")


_NEEDED = ("allocate", "upload", "download", "copy", "fill", "view")
"""The methods without which an array class is none."""


@over(array_classes)
def test_methods(subject: Subject, case: Topic) -> None:
    """It has all methods that an array class must have: what else fails may fail for want of one."""
    missing = [name for name in _NEEDED if getattr(type(case.value), name) is getattr(ArrayClass, name)]
    assert not missing, f"{case.name} has no {listing(missing)}; help(atled.plugin.ArrayClass) says what they do"


def _per_dtype(subject: Subject) -> list[Topic]:
    declared = [compute_dtype(name) for info in subject.backends for name in subject.type_configs(info.name)]
    return [
        Topic(f"{case.name}-{dtype.name}", (case.value, dtype))
        for case in array_classes(subject)
        for dtype in dict.fromkeys([*map(np.dtype, _DTYPES), *declared])
    ]


def _values(dtype: np.dtype, size: int = 37) -> np.ndarray:
    """Numbers that no other dtype of that size holds."""
    rng = np.random.default_rng(4)
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.max, limits.min, *rng.integers(0, 100, size - 2)], dtype)
    return np.array([np.nan, np.inf, largest(dtype), *rng.standard_normal(size - 3)], dtype)


def _up(array_class: ArrayClass, device: str, values: np.ndarray) -> object:
    array = array_class.allocate(ArrayDesc(values.shape, values.dtype), device)
    array_class.upload(values, array)
    return array


def _down(array_class: ArrayClass, array: object, like: np.ndarray) -> np.ndarray:
    values = np.zeros_like(like)
    array_class.download(array, values)
    return values


def _assert_same(found: np.ndarray, wanted: np.ndarray, words: str) -> None:
    """Bit for bit; NumPy's own comparisons do not know NaN in bfloat16."""
    # Not within the assert: where CI is set, pytest shows every difference of two such texts, which takes half an hour.
    is_same = found.tobytes() == wanted.tobytes()
    assert is_same, f"{words}: {found} instead of {wanted}"


def _occupy(array_class: ArrayClass, device: str) -> None:
    """Give the queue work that takes a while: what is asked for next waits, if it may."""
    large = array_class.allocate(ArrayDesc((1 << 20,), np.dtype(np.float32)), device)
    for _ in range(8):
        array_class.fill(large, 1.0)


@over(_per_dtype)
def test_round_trip(subject: Subject, case: Topic) -> None:
    """What is uploaded is downloaded, to the last bit, and is a copy on both ways."""
    array_class, dtype = case.value
    values = _values(dtype)
    source = values.copy()
    _occupy(array_class, subject.device)
    array = _up(array_class, subject.device, source)
    source[...] = 0
    found = _down(array_class, array, values)
    _assert_same(found, values, f"{dtype} does not come back as it went")
    found[...] = 0
    _assert_same(_down(array_class, array, values), values, "the result of a download is no copy")


@over(_per_dtype)
def test_copy_fill_view(subject: Subject, case: Topic) -> None:
    """A copy on the device is one; a fill reaches all; a view is the same memory."""
    array_class, dtype = case.value
    values = _values(dtype, 24)
    source = _up(array_class, subject.device, values)
    target = array_class.allocate(ArrayDesc(values.shape, dtype), subject.device)
    array_class.copy(source, target)
    _assert_same(_down(array_class, target, values), values, "a copy differs")
    view = array_class.view(source, (2, 3, 4))
    array_class.fill(source, 1.0)
    ones = np.ones((2, 3, 4), dtype)
    _assert_same(_down(array_class, view, ones), ones, "a view does not show what was filled in")
    _assert_same(_down(array_class, target, values), values, "a copy changes with its source")


@over(array_classes)
def test_queue_order(subject: Subject, case: Topic) -> None:
    """What is asked for first is done first: memory may be given to others while work that reads it waits."""
    array_class: ArrayClass = case.value
    values = _values(np.dtype(np.float32), 1 << 16)
    first, second, third = (_up(array_class, subject.device, np.zeros_like(values)) for _ in range(3))
    array_class.upload(values, first)
    array_class.copy(first, second)
    array_class.fill(first, 1.0)
    array_class.copy(second, third)
    array_class.upload(np.zeros_like(values), second)
    _assert_same(_down(array_class, third, values), values, "work on a device is not done in the order of its queue")


@over(array_classes)
def test_words(subject: Subject, case: Topic) -> None:
    """`put_words` has taken the words when it returns, and writes them in the order of the queue."""
    array_class: ArrayClass = case.value
    wanted = [np.array([1, 2, 3]), np.array([4, 5, 6])]
    table, *seen = (_up(array_class, subject.device, np.zeros(3, np.int64)) for _ in range(3))
    _occupy(array_class, subject.device)
    for words, target in zip(wanted, seen, strict=True):
        given = words.copy()
        array_class.put_words(given, table)
        given.fill(-1)
        array_class.copy(table, target)
    for words, array in zip(wanted, seen, strict=True):
        _assert_same(_down(array_class, array, words), words, "what a copy reads behind put_words")


@over(_per_dtype)
def test_empty_arrays(subject: Subject, case: Topic) -> None:
    """Arrays without elements can be made, filled, viewed and moved."""
    array_class, dtype = case.value
    values = np.zeros(0, dtype)
    array = _up(array_class, subject.device, values)
    array_class.fill(array, 1.0)
    view = array_class.view(array, (3, 0, 2))
    assert _down(array_class, view, np.zeros((3, 0, 2), dtype)).shape == (3, 0, 2)


@over(_per_dtype)
def test_parts(subject: Subject, case: Topic) -> None:
    """Parts of an array of bytes are arrays: each has its own bytes, and keeps them when the whole is dropped."""
    array_class, dtype = case.value
    if not place_on(array_class, subject.device).has_parts:
        pytest.skip("the array class gives no parts of arrays")
    values, step = _values(dtype, 24), array_class.alignment
    assert step > 0 and values.nbytes <= 24 * 8
    pitch = -(-values.nbytes // step) * step
    whole = array_class.allocate(ArrayDesc((4 * pitch,), np.dtype(np.uint8)), subject.device)
    array_class.fill(whole, 7.0)
    desc = ArrayDesc(values.shape, dtype)
    first, second = (array_class.part(whole, offset, desc) for offset in (0, 2 * pitch))
    array_class.upload(values, first)
    array_class.copy(first, second)
    array_class.fill(array_class.view(first, (2, 3, 4)), 1.0)
    _assert_same(_down(array_class, second, values), values, "parts are not kept apart")
    ones = np.ones((2, 3, 4), dtype)
    seen = array_class.part(whole, 0, ArrayDesc(ones.shape, dtype))
    _assert_same(_down(array_class, seen, ones), ones, "a part does not show the bytes of the whole")
    empty = array_class.part(whole, pitch, ArrayDesc((0, 3), dtype))
    array_class.fill(empty, 1.0)
    assert _down(array_class, empty, np.zeros((0, 3), dtype)).shape == (0, 3)
    found = _down(array_class, whole, np.zeros(4 * pitch, np.uint8)).reshape(4, pitch)
    assert (found[[1, 3]] == 7).all() and (found[:, values.nbytes :] == 7).all(), "what is beside a part was written"
    del whole, first, empty, seen
    gc.collect()
    _assert_same(_down(array_class, second, values), values, "a part does not keep the memory alive")


@over(array_classes)
def test_device_ids(subject: Subject, case: Topic) -> None:
    """Arrays of one device are not seen in the memory of another, and are kept apart."""
    array_class: ArrayClass = case.value
    (backend, *_) = [info.name for info in subject.backends if not info.host]
    ids = devices(backend)
    if len(ids) < 2:
        pytest.skip("there is one device only")
    arrays = [_up(array_class, device, np.full(5, number, np.float32)) for number, device in enumerate(ids)]
    for number, array in enumerate(arrays):
        np.testing.assert_array_equal(
            _down(array_class, array, np.zeros(5, np.float32)), np.full(5, number, np.float32)
        )
    found = np.zeros(5, np.float32)
    if array_class.copy_across(arrays[0], arrays[1]):
        np.testing.assert_array_equal(_down(array_class, arrays[1], found), found, "a copy to another device differs")
    for device in ids:
        others = {other: bytes_in_use(array_class, other) for other in ids}
        if others[device] is None:
            return
        held = array_class.allocate(ArrayDesc((1000,), np.float32), device)
        for other in ids:
            grown = (bytes_in_use(array_class, other) or 0) - (others[other] or 0)
            assert (grown > 0) == (other == device), f"an array for device {device!r} takes {grown} bytes of {other!r}"
        del held


@over(array_classes)
def test_memory_returned(subject: Subject, case: Topic) -> None:
    """Memory is given back when nothing refers to it any more, by the array class's own statistics."""
    array_class: ArrayClass = case.value
    if bytes_in_use(array_class, subject.device) is None:
        pytest.skip("the array class keeps no statistics of bytes_in_use")

    def use() -> None:
        arrays = [_up(array_class, subject.device, np.zeros(size, np.float32)) for size in range(0, 5000, 500)]
        views = [array_class.view(array, (1, size)) for array, size in zip(arrays, range(0, 5000, 500), strict=True)]
        assert len(views) == len(arrays)

    _assert_returned(array_class, subject.device, use)


def _assert_returned(array_class: ArrayClass, device: str, use: Callable[[], None]) -> None:
    use()  # what is made once and kept, such as a queue or a cache
    before = bytes_in_use(array_class, device)
    for _ in range(3):
        use()
    after = bytes_in_use(array_class, device)
    assert after == before, f"{after} bytes in use after the same work, {before} before"
