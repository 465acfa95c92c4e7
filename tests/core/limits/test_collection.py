"""Collections of cyclic garbage are put off, and are on again afterwards."""

from __future__ import annotations

import gc

import pytest

from atled.limits.collection import COLLECTION_PAUSED


@pytest.fixture(autouse=True)
def restored():
    was = gc.isenabled()
    yield
    (gc.enable if was else gc.disable)()


def test_the_last_to_leave_turns_it_on_again():
    gc.enable()
    with COLLECTION_PAUSED:
        with COLLECTION_PAUSED:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off_and_comes_on_after_an_error():
    gc.disable()
    with COLLECTION_PAUSED:
        pass
    assert not gc.isenabled()
    gc.enable()
    with pytest.raises(ValueError, match="within"), COLLECTION_PAUSED:
        raise ValueError("within")
    assert gc.isenabled()
