"""How many shares a call is worth."""

import pytest

from atled_cpu_numba import pool
from atled_cpu_numba.kernels.shared.launch import SHARE_US, share_count


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("shares", [1, 1.9, 2, 3, 5, 6, 7, 15, 16, 100])
@pytest.mark.parametrize("units", [1, 2, 3, 5, 1000])
def test_no_thread_has_two_shares_where_others_have_one(monkeypatch, threads, shares, units):
    monkeypatch.setattr(pool, "_chosen_count", threads)
    count = share_count(shares * SHARE_US, units)
    assert 1 <= count <= units
    assert count <= max(1, shares)
    assert count <= threads or count == 2 * threads


def test_as_many_shares_as_the_work_is_worth(monkeypatch):
    monkeypatch.setattr(pool, "_chosen_count", 4)
    assert [share_count(shares * SHARE_US, 1000) for shares in (1, 2, 3, 4, 5, 7, 8, 9)] == [1, 2, 3, 4, 4, 4, 8, 8]
