"""A backend on which plans fuse, whatever plugins are installed."""

import pytest

from atled.reference import prepare_reference
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    Implementation,
    PluginInfo,
    hookimpl,
    register_plugin,
    unregister_plugin,
)


class FusingPlugin:
    """A host backend that computes every op, fused ones included, by its reference."""

    @hookimpl
    def atled_info(self):
        backend = BackendInfo("fusing", ("float", "double"), host=True, array_classes=("CpuArray",))
        return PluginInfo("fusing", API_VERSION, "test", "1", (backend,))

    @hookimpl
    def atled_register(self, registrar):
        registrar.family(
            "fusing", lambda op: Implementation(op, "fusing", prepare_reference, op_version=None, fuses=True)
        )


@pytest.fixture(scope="module", autouse=True)
def _fusing():
    register_plugin("fusing", FusingPlugin())
    yield
    unregister_plugin("fusing")
