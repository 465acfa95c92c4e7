"""Backend `reference`: every op by the NumPy reference of its spec, in host memory; the core's own plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atled._version import __version__
from atled.call import Call
from atled.reference import prepare_reference
from atled_contexts import API_VERSION, BackendInfo, Context, Implementation, PluginInfo, Registrar, hookimpl


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
            rank=-1,
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
        return Implementation(
            op,
            "reference",
            prepare_reference,
            note="NumPy",
            op_version=None,
            layout=_as_given,
            integers=True,
            strides=True,
        )

    @hookimpl
    def atled_preset(self, name: str, type_config: str, device_id: str, options: Mapping[str, Any]) -> Context | None:
        """`get_extension_context("reference")`."""
        if name != "reference":
            return None
        return Context([f"reference:{type_config}"], "CpuCachedArray", device_id, **options)
