"""Backend `reference`: every op by the NumPy reference of its spec, in host memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from atled._version import __version__
from atled.call import Call, Prepared
from atled.dtypes import is_narrow
from atled_contexts import API_VERSION, BackendInfo, Context, Implementation, PluginInfo, Registrar, hookimpl

ADOPTED_NOTE = "adopted reference"
"""What marks a reference that a host backend took as its own implementation."""

_SINGLE = np.dtype(np.float32)


def reference_run(call: Call) -> Callable[..., None]:
    """`run(*arguments)` on NumPy arrays that computes a call by the reference of its spec.

    Arrays narrower than float32 are computed in float32 and rounded once, when the results are stored.
    """
    spec = call.spec
    attributes = dict(call.attributes)
    names = spec.float_names
    first_output = len(call.inputs)
    first_float = first_output + len(call.outputs)
    narrow = [desc is not None and is_narrow(desc.dtype) for desc in call.inputs]
    widen = any(narrow) and not _passes_through(call)

    def run(*arguments: Any) -> None:
        inputs = list(arguments[:first_output])
        if widen:
            pairs = zip(inputs, narrow, strict=True)
            inputs = [x.astype(_SINGLE) if must and x is not None else x for x, must in pairs]
        values = spec.reference(*inputs, **attributes, **dict(zip(names, arguments[first_float:], strict=True)))
        results = (values,) if isinstance(values, np.ndarray | np.generic) else values
        for output, result in zip(arguments[first_output:first_float], results, strict=True):
            if output is None:
                continue  # nobody reads it
            with np.errstate(over="ignore"):  # a large number becomes inf in a narrow dtype
                np.copyto(output, result, casting="unsafe")
        if widen:
            for position in spec.mutated:
                arguments[position][...] = inputs[position]

    return run


def _passes_through(call: Call) -> bool:
    """Whether the op only moves elements, whatever their dtype."""
    return all(item.kind == "keep" for item in call.spec.inputs)


def prepare_reference(call: Call) -> Prepared:
    """Prepare a call on its reference."""
    return Prepared(reference_run(call))


def adopt_reference(op: str, backend: str) -> Implementation:
    """The reference as a host backend's own implementation of an op; `explain` shows it as adopted."""
    return Implementation(op, backend, prepare_reference, prefers=lambda call: -1.0, note=ADOPTED_NOTE, op_version=None)


def _as_given(call: Call) -> str:
    """References compute images in either order by definition."""
    return ""


class ReferencePlugin:
    """The core's own plugin."""

    @hookimpl
    def atled_info(self) -> PluginInfo:
        """Who it is."""
        backend = BackendInfo(
            "reference",
            ("float", "half", "double", "bf16", "tf32"),
            default_priority=1,
            host=True,
            array_classes=("CpuArray", "CpuCachedArray"),
        )
        return PluginInfo("reference", API_VERSION, "atled", __version__, (backend,), ("reference",))

    @hookimpl
    def atled_register(self, registrar: Registrar) -> None:
        """Hand over the references of all op specs."""
        registrar.family("reference", self._provide)
        # Host memory is the engine's own: both names of NNabla mean the same pooled memory.
        registrar.array_class("CpuArray", "host", "reference")
        registrar.array_class("CpuCachedArray", "host", "reference", default=True)

    @staticmethod
    def _provide(op: str) -> Implementation:
        return Implementation(op, "reference", prepare_reference, note="NumPy", op_version=None, layout=_as_given)

    @hookimpl
    def atled_preset(self, name: str, type_config: str, device_id: str, options: Mapping[str, Any]) -> Context | None:
        """`get_extension_context("reference")`."""
        if name != "reference":
            return None
        return Context([f"reference:{type_config}"], "CpuCachedArray", device_id, **options)
