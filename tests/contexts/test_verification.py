"""Verification: what is in force where, which calls it picks, typed settings."""

import pickle
import threading

import pytest

from atled_contexts import (
    SettingError,
    VerificationError,
    active_trace,
    active_verification,
    backends,
    bind,
    is_observed,
    reload_plugins,
    trace,
    verify,
)
from atled_contexts.observation import verify_process


@pytest.fixture(autouse=True)
def unverified():
    """No verification of the process before and after."""
    verify_process(None)
    yield
    verify_process(None)


def test_nothing_is_observed_by_default():
    assert not is_observed() and active_verification() is None and active_trace() is None


def test_a_verification_is_in_force_in_its_block_only():
    with verify(0.5) as checks:
        assert is_observed() and active_verification() is checks and checks.rate == 0.5
    assert not is_observed() and active_verification() is None


def test_traces_and_verifications_nest_in_both_orders():
    with verify(0.5) as checks, trace() as t:
        assert active_verification() is checks and active_trace() is t
    with trace() as t, verify(0.5) as checks:
        assert active_verification() is checks and active_trace() is t
        with verify(0):
            assert active_verification() is None and active_trace() is t
    assert not is_observed()


def test_all_calls_are_checked_at_rate_1_and_a_share_below():
    with verify() as checks:
        assert all(checks.wants("A") for _ in range(10))
    assert (checks.calls, checks.checked, checks.by_op) == (10, 10, {"A": 10})
    with verify(0.25) as checks:
        for _ in range(500):
            checks.wants("A")
            checks.wants("B")
    # Not every fourth call: then one of the two would never be checked.
    assert checks.calls == 1000 and 200 < checks.checked < 300 and min(checks.by_op.values()) > 90


@pytest.mark.parametrize(
    ("rate", "error"), [(1.5, ValueError), (-0.1, ValueError), ("1", TypeError), (True, TypeError)]
)
def test_a_rate_is_a_number_from_0_to_1(rate, error):
    with pytest.raises(error, match="from 0 to 1"), verify(rate):
        pass


def test_the_environment_turns_it_on_for_every_thread_and_every_trace(monkeypatch, reference):
    monkeypatch.setenv("ATLED_VERIFY", "0.25")
    seen = []
    with trace():  # before anything was discovered
        reload_plugins()
        backends()
        assert active_verification().rate == 0.25
    thread = threading.Thread(target=lambda: seen.append((is_observed(), active_verification().rate)))
    thread.start()
    thread.join()
    assert is_observed() and seen == [(True, 0.25)]
    with verify(0):
        assert active_verification() is None
    monkeypatch.delenv("ATLED_VERIFY")
    reload_plugins()
    backends()
    assert not is_observed()


@pytest.mark.parametrize(("text", "wrong"), [("often", "is not a number"), ("2", "is not from 0 to 1")])
def test_the_setting_is_typed(monkeypatch, reference, text, wrong):
    monkeypatch.setenv("ATLED_VERIFY", text)
    reload_plugins()
    with pytest.raises(SettingError, match=wrong):
        backends()


def test_the_error_travels_between_processes():
    error = VerificationError("wrong", op="ReLU", backend="b", plugin="p", call="ReLU(...)", error=0.5)
    found = pickle.loads(pickle.dumps(error))
    assert (str(found), found.op, found.plugin, found.error) == ("wrong", "ReLU", "p", 0.5)


def test_a_bound_function_carries_the_verification_into_a_thread():
    seen = []
    with verify(0.5) as checks:
        thread = threading.Thread(target=bind(lambda: seen.append(active_verification())))
        thread.start()
        thread.join()
    assert seen == [checks]
