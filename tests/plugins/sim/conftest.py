"""Backend `sim` for each test, with counts at zero and no fallback told yet."""

from __future__ import annotations

import gc

import pytest

import atled_sim
from atled.arrays.memory import clear_memory_cache
from atled.arrays.place import TRANSFERS
from atled.parameter import clear_parameters
from atled_contexts import get_extension_context, plugins, register_plugin, reset_fallback_counts
from atled_sim.plugin import PLUGIN

if not any(record.name == "sim" for record in plugins()):
    register_plugin("sim", PLUGIN)


@pytest.fixture(autouse=True)
def fresh_counts():
    """Nothing counted, nothing told, no parameters."""
    clear_parameters()
    reset_fallback_counts()
    TRANSFERS.reset()
    for device_id in atled_sim.DEVICE_IDS:
        atled_sim.device(device_id).reset_counts()
    yield
    clear_parameters()


@pytest.fixture
def sim():
    """The preset, without fallback."""
    return get_extension_context("sim", fallback="raise")


@pytest.fixture
def device():
    """Device "0", after what earlier tests left there is gone."""
    gc.collect()
    clear_memory_cache()
    device = atled_sim.device("0")
    device.memory.reset_peak()
    return device
