"""Backends on which plans fuse, whatever plugins are installed: one that does no more, two with more joints."""

from functools import partial

import pytest

from atled.ops.elementwise import derived_spec
from atled.plugin import Prepared
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

NAMES = ("fusing", "compiling", "attaching")


def prepare(call):
    """By the reference, but no reference: what is verified."""
    return prepare_reference(call)


def prepare_group(calls):
    """The calls one after the other, by the reference."""
    runs = [prepare_reference(call).run for call in calls]
    widths = len(calls[0].inputs), len(calls[0].outputs), len(calls[0].spec.float_names)

    def run(*arguments):
        for number, one in enumerate(runs):
            own, first = [], 0
            for width in widths:
                own += arguments[first + number * width : first + (number + 1) * width]
                first += width * len(runs)
            one(*own)

    return Prepared(run)


class FusingPlugin:
    """Host backends that compute every op, fused ones included, by its reference."""

    @hookimpl
    def atled_info(self):
        configs = "float", "double", "half"
        backends = (BackendInfo(name, configs, host=True, array_classes=("CpuArray",)) for name in NAMES)
        return PluginInfo("fusing", API_VERSION, "test", "1", tuple(backends))

    @hookimpl
    def atled_register(self, registrar):
        for name in NAMES:
            registrar.family(name, partial(self._provide, name))

    @staticmethod
    def _provide(backend, op):
        joints = {} if backend == "fusing" else {"prepare_group": prepare_group, "casts": True}
        if backend == "attaching":
            spec = derived_spec(op)
            joints["attaches"] = *spec.input_names, *spec.outputs
        return Implementation(op, backend, prepare, op_version=None, fuses=op != "Cast", **joints)


@pytest.fixture(scope="module", autouse=True)
def _fusing():
    register_plugin("fusing", FusingPlugin())
    yield
    unregister_plugin("fusing")
