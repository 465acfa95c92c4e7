"""Memory is counted, kept within a limit, and given back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.storage import POOL, HostStorage, Pool
from atled.limits import caches

MIB = 1 << 20


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    limit = POOL.limit_bytes
    nn.clear_memory_cache()
    yield
    nn.set_memory_cache_limit(limit)


def host() -> dict[str, int]:
    return nn.memory_statistics()["host"]


def test_a_pool_counts_what_it_took_kept_and_gave_back():
    pool = Pool(limit_bytes=2 * MIB)
    storages = [HostStorage(MIB, pool) for _ in range(3)]
    assert pool.statistics() == {
        "bytes_in_use": 3 * MIB,
        "kept_bytes": 0,
        "peak_bytes": 3 * MIB,
        "limit_bytes": 2 * MIB,
        "allocated_count": 3,
        "reused_count": 0,
    }
    storages.clear()
    storages = [HostStorage(MIB, pool)]
    view = storages[0].export((MIB,), np.dtype(np.uint8))
    counts = pool.statistics()
    assert (counts["bytes_in_use"], counts["kept_bytes"], counts["reused_count"]) == (MIB, MIB, 1)
    storages.clear()
    assert view.nbytes == MIB  # a view that outlives its array is not counted
    counts = pool.statistics()
    assert (counts["bytes_in_use"], counts["kept_bytes"], counts["peak_bytes"]) == (0, MIB, 3 * MIB)
    pool.clear()
    assert (pool.statistics()["bytes_in_use"], pool.statistics()["kept_bytes"]) == (0, 0)


def test_a_lower_limit_drops_the_largest_buffers_first():
    pool = Pool()
    storages = [HostStorage(nbytes, pool) for nbytes in (4 * MIB, MIB, MIB, 64)]
    storages.clear()
    pool.set_limit(2 * MIB + 64)
    assert pool.kept_bytes == 2 * MIB + 64
    pool.set_limit(MIB)
    assert pool.kept_bytes == 64
    storages = [HostStorage(2 * MIB, pool)]
    storages.clear()
    assert pool.kept_bytes == 64
    assert pool.statistics()["bytes_in_use"] == 0


def test_arrays_are_counted_while_they_live():
    before = host()["bytes_in_use"]
    arrays = [nn.NdArray((MIB,)) for _ in range(3)]
    for array in arrays:
        array.fill(1)
        F.identity(array)
    assert host()["bytes_in_use"] - before == 3 * 4 * MIB
    assert host()["peak_bytes"] >= 4 * 4 * MIB
    array = None
    arrays.clear()
    assert host()["bytes_in_use"] == before
    assert host()["kept_bytes"] >= 4 * 4 * MIB


def test_results_of_small_ops_that_nobody_holds_count_as_kept():
    a = nn.NdArray.from_numpy_array(np.ones(100, np.float32))
    F.exp(a), F.exp(a)
    before = host()
    held = [F.exp(a) for _ in range(50)]
    during = host()
    del held
    after = host()
    assert during["bytes_in_use"] - before["bytes_in_use"] == 50 * 448
    assert after["bytes_in_use"] == before["bytes_in_use"]
    assert after["kept_bytes"] >= 50 * 448


def test_clearing_gives_everything_back_that_is_kept():
    a = nn.NdArray.from_numpy_array(np.ones(100, np.float32))
    for _ in range(5):
        F.exp(a), F.exp(nn.NdArray((MIB,)))
    in_use = host()["bytes_in_use"]
    nn.clear_memory_cache()
    assert host()["kept_bytes"] == 0
    assert host()["bytes_in_use"] == in_use
    assert F.exp(a).data[0] == pytest.approx(np.e)


def test_nothing_large_is_kept_under_a_limit_of_zero():
    nn.set_memory_cache_limit(0)
    assert host()["limit_bytes"] == 0
    F.exp(nn.NdArray((MIB,)))
    assert host()["kept_bytes"] < MIB


def test_a_limit_may_be_the_first_thing_that_a_program_sets(monkeypatch):
    for name in list(caches._CACHES):  # none is there before a function was called
        monkeypatch.delitem(caches._CACHES, name)
    nn.set_memory_cache_limit(MIB)
    assert POOL.limit_bytes == MIB


def test_devices_are_counted_by_their_plugins():
    try:
        context = nn.get_extension_context("sim", device_id="1")
    except ValueError:
        pytest.skip("no sim")
    with nn.context_scope(context):
        y = F.exp(nn.NdArray((1000,)))
        counted = nn.memory_statistics()["SimArray:1"]["bytes_in_use"]
        assert counted >= y.size * 4
    assert "SimArray:0" in nn.memory_statistics()


@pytest.mark.parametrize(("limit", "error"), [("1 GB", TypeError), (1.5, TypeError), (-1, ValueError)])
def test_a_limit_that_is_no_count_of_bytes_is_refused(limit: object, error: type[Exception]):
    before = POOL.limit_bytes
    with pytest.raises(error, match="bytes"):
        nn.set_memory_cache_limit(limit)  # type: ignore[arg-type]  # the point of the test
    assert POOL.limit_bytes == before
