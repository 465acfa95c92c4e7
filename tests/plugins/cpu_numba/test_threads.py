"""How many processors there are for a process in a container."""

import pytest

from atled_cpu_numba.threads import parse_quota


@pytest.mark.parametrize(
    ("texts", "count"),
    [(["200000 100000"], 2), (["150000 100000"], 2), (["50000 100000"], 1), (["400000", "100000"], 4)],
)
def test_a_container_has_the_processors_that_its_quota_pays_for(texts, count):
    assert parse_quota(*texts) == count


@pytest.mark.parametrize("texts", [["max 100000"], ["-1", "100000"], []])
def test_without_a_quota_all_processors_may_be_used(texts):
    assert parse_quota(*texts) > 1000
