"""Host memory: alignment, the pool, and views that outlive their storage."""

import gc
import sys
import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.storage import ALIGNMENT, HostStorage, Pool, ViewEnd, size_class
from atled.errors import OutOfMemoryError
from memory_stress import run_in_threads

FLOAT32 = np.dtype(np.float32)


@pytest.mark.parametrize("nbytes", [0, 1, 64, 65, 1000, 1 << 20, (1 << 20) + 1])
def test_size_classes_waste_at_most_a_quarter(nbytes):
    capacity = size_class(nbytes)
    assert capacity >= nbytes
    assert capacity % ALIGNMENT == 0
    assert nbytes <= 64 or capacity <= max(nbytes * 1.25, nbytes + ALIGNMENT)


@pytest.mark.parametrize("nbytes", [(1 << 16) + 1, 589824, (1 << 20) + 1, (1 << 25) + 1])
def test_large_buffers_waste_at_most_a_sixteenth(nbytes):
    assert nbytes <= size_class(nbytes) <= nbytes * 17 / 16


@pytest.mark.parametrize("nbytes", [0, 4, 100, 5000, 1 << 22])
def test_buffers_are_aligned(nbytes):
    assert HostStorage(nbytes, Pool()).address % ALIGNMENT == 0


def test_a_dropped_buffer_is_used_again():
    pool = Pool()
    storage = HostStorage(1000, pool)
    address = storage.address
    del storage
    assert HostStorage(1010, pool).address == address
    assert pool.allocated_count == 1


@pytest.mark.parametrize("nbytes", [40, 1 << 20])
def test_a_buffer_is_used_again_once_its_views_are_gone(nbytes):
    pool = Pool()
    for _ in range(3):
        storage = HostStorage(nbytes, pool)
        view = storage.export((10,), FLOAT32)
        part = memoryview(view[2:5])
        del view, part, storage
    assert pool.allocated_count == 1
    assert pool.statistics()["bytes_in_use"] == 0


@pytest.mark.parametrize(
    "of", [lambda view: view[2:5], lambda view: memoryview(view)[2:5], lambda view: view.T.data[2:5]]
)
def test_a_view_of_a_view_keeps_the_buffer_out_of_the_pool(of):
    pool = Pool()
    storage = HostStorage(40, pool)
    storage.export((10,), FLOAT32)  # gone at once
    view = storage.export((10,), FLOAT32)
    view[:] = 7
    part = of(view)
    del view, storage
    for _ in range(3):
        HostStorage(40, pool).array((10,), FLOAT32)[:] = 8
    assert list(part) == [7, 7, 7]


def test_a_view_that_garbage_gives_away_keeps_the_buffer_out_of_the_pool():
    pool, kept = Pool(), []

    class Holder:
        def __init__(self):
            self.itself, self.storage = self, HostStorage(40, pool)
            self.view = self.storage.export((10,), FLOAT32)

        def __del__(self):
            kept.append(self.view)

    Holder()
    gc.collect()
    (view,) = kept
    view[:] = 7
    HostStorage(40, pool).array((10,), FLOAT32)[:] = 8
    assert list(view) == [7] * 10


def test_a_buffer_with_views_does_not_enter_the_pool():
    pool = Pool()
    storage = HostStorage(40, pool)
    view = storage.export((10,), FLOAT32)
    view[...] = 7
    part = view[2:]
    del storage, view
    others = [HostStorage(40, pool).array((10,), FLOAT32) for _ in range(5)]
    for other in others:
        other[...] = 0
    gc.collect()
    np.testing.assert_array_equal(part, np.full(8, 7))
    assert pool.kept_bytes <= 5 * 64


def test_views_are_known_to_live_through_any_chain_of_views():
    storage = HostStorage(40, Pool())
    part = storage.export((10,), FLOAT32)[2:].reshape(2, 4).T
    assert storage.has_live_view
    del part
    assert not storage.has_live_view


def test_the_pool_keeps_no_more_than_its_limit():
    pool = Pool(limit_bytes=3 << 20)
    storages = [HostStorage(1 << 20, pool) for _ in range(5)]
    storages.clear()
    assert pool.kept_bytes == 3 << 20
    pool.clear()
    assert pool.kept_bytes == 0


def test_a_pool_counts_right_while_its_limit_changes():
    pool = Pool()
    done = threading.Event()

    def work():
        for number in range(3000):
            storages = [HostStorage(nbytes, pool) for nbytes in (64, 1 << 16, 1 << 17)]
            if number % 10 == 0:
                storages[0].export((4,), FLOAT32)

    def limit():
        while not done.is_set():
            pool.set_limit(0)
            pool.set_limit(1 << 30)

    def work_then_end():
        try:
            run_in_threads(work, work)
        finally:
            done.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        run_in_threads(work_then_end, limit)
    finally:
        sys.setswitchinterval(interval)
    gc.collect()
    assert pool.statistics()["bytes_in_use"] == 0


def test_memory_that_the_system_refuses_is_not_counted():
    pool = Pool()
    with pytest.raises(OutOfMemoryError):
        HostStorage(1 << 60, pool)
    gc.collect()
    counts = pool.statistics()
    assert (counts["bytes_in_use"], counts["peak_bytes"], counts["allocated_count"]) == (0, 0, 0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_write_through_a_view_whose_end_was_not_noted_is_seen(monkeypatch):
    """What a handler of a signal raises in the callback of a weak reference, Python only prints."""

    def interrupted(self, root):
        raise KeyboardInterrupt

    x, w = nn.Variable((2, 3)), nn.Variable.from_numpy_array(np.ones((3, 4), np.float32))
    infer = nn.inference(F.affine(x, F.exp(w)), x)
    ones = np.ones((2, 3), np.float32)
    for _ in range(3):
        infer(ones)
    with monkeypatch.context() as patch:
        patch.setattr(ViewEnd, "__call__", interrupted)
        w.d[...] = 0
    np.testing.assert_array_equal(infer(ones), np.full((2, 4), 3))
    number = w.data.cell.storage.viewed_until
    assert number and w.data.cell.storage.viewed_until == number
