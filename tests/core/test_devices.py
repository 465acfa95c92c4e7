"""What devices are told."""

import pytest

import atled as nn
from atled.devices import clear_kept_memory, device_arrays, synchronize
from atled_contexts import array_class

HOST, DEVICE = nn.Context("reference:float"), nn.Context("sim:float", device_id="1")


@pytest.fixture
def told(monkeypatch):
    """What the array class of the simulated device is told."""
    found = []
    arrays = array_class("SimArray")
    for name in ("synchronize", "clear_memory_cache"):
        monkeypatch.setattr(arrays, name, lambda device, name=name: found.append((name, device)))
    return found


def test_the_device_of_the_context_is_waited_for(told):
    synchronize(HOST)
    assert told == []
    synchronize(DEVICE)
    assert told == [("synchronize", "1")]


def test_memory_is_given_back_by_the_device_of_the_context(told, monkeypatch):
    clear_kept_memory(DEVICE)
    assert told == [("clear_memory_cache", "1")]
    monkeypatch.setattr("atled.devices.clear_host_memory_cache", lambda: told.append("host"))
    clear_kept_memory(HOST)
    assert told[1:] == ["host"]


def test_the_host_has_no_array_class():
    assert device_arrays(HOST) is None
    assert device_arrays(DEVICE) is array_class("SimArray")
