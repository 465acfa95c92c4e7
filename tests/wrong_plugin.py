"""A host backend `wrong` that computes by the references, but for the faults that a test gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from atled.call import Call, Prepared
from atled.reference import reference_run
from atled_contexts import (
    API_VERSION,
    BackendInfo,
    Implementation,
    PluginInfo,
    hookimpl,
    register_plugin,
    unregister_plugin,
)

Fault = Callable[..., None]
"""Called with the arrays of a call (inputs, outputs, floats) after they were computed rightly.

With an attribute `instead` that is true it is called instead of that.
"""


class WrongPlugin:
    """Backend `wrong`."""

    def __init__(self, faults: dict[str, Fault]) -> None:
        self.faults = faults

    @hookimpl
    def atled_info(self) -> PluginInfo:
        backend = BackendInfo("wrong", ("float", "half", "double"), host=True, array_classes=("CpuCachedArray",))
        return PluginInfo("wrong-plugin", API_VERSION, "atled-wrong", "0.1", (backend,))

    @hookimpl
    def atled_register(self, registrar) -> None:
        registrar.family("wrong", lambda op: Implementation(op, "wrong", self._prepare, op_version=None))

    def _prepare(self, call: Call) -> Prepared:
        compute = reference_run(call)
        fault = self.faults.get(call.spec.name)

        def run(*arguments):
            if not getattr(fault, "instead", False):
                compute(*arguments)
            if fault is not None:
                fault(*arguments)

        return Prepared(run)


@contextmanager
def wrong(**faults: Fault) -> Iterator[None]:
    """Within the block, backend `wrong` is there, with a fault per op: `with wrong(ReLU=off_by_one):`."""
    register_plugin("wrong-plugin", WrongPlugin(faults))
    try:
        yield
    finally:
        unregister_plugin("wrong-plugin")


def off_by_one(*arguments) -> None:
    """A fault: the last array, which is the output of ops without float attributes, is too large by 1."""
    arrays = [array for array in arguments if isinstance(array, np.ndarray)]
    arrays[-1][...] += 1
