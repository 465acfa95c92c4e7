"""What programs ask of GPUs, with and without a plugin that has one."""

import pytest

from atled.neon.backends.util.check_gpu import get_compute_capability, get_device_count
from atled.plugin import API_VERSION, ArrayClass, BackendInfo, PluginInfo, hookimpl
from atled_contexts import register_plugin, unregister_plugin


class Devices:
    """A plugin for GPUs that computes nothing."""

    @hookimpl
    def atled_info(self):
        return PluginInfo(
            "acme",
            API_VERSION,
            "atled-acme",
            "1.0",
            (BackendInfo("acme", array_classes=("AcmeArray",), kind="gpu", rank=99),),
        )

    @hookimpl
    def atled_register(self, registrar):
        registrar.array_class("AcmeArray", ArrayClass(), "acme", default=True)

    @hookimpl
    def atled_devices(self, backend):
        return ["0", "1"]

    @hookimpl
    def atled_facts(self):
        return {
            "device 0": "Acme A, compute capability 7.5, 8 GiB",
            "device 1": "Acme B, compute capability 9.0, 80 GiB",
            "driver": "for CUDA 13.0",
        }


@pytest.fixture
def acme():
    register_plugin("acme", Devices())
    yield
    unregister_plugin("acme")


def test_devices_are_counted(acme):
    assert get_device_count() == 2


def test_the_capability_is_that_of_the_device_or_the_largest(acme):
    assert get_compute_capability() == 9.0
    assert get_compute_capability(0) == 7.5
    assert get_compute_capability(device_id=2) == 0.0


def test_where_no_gpu_is_usable_there_are_none(monkeypatch):
    monkeypatch.setattr("atled.neon.backends.util.check_gpu.plugins", lambda: ())
    assert get_compute_capability() == 0.0
