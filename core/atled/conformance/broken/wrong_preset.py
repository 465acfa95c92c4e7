"""A preset that prefers the reference."""

from collections.abc import Mapping
from typing import Any

from atled.conformance.broken.shelf import ShelfPlugin
from atled_contexts import Context, hookimpl


class _Modest(ShelfPlugin):
    @hookimpl
    def atled_preset(self, name: str, type_config: str, device_id: str, options: Mapping[str, Any]) -> Context | None:
        """`get_extension_context("shelf")`, which ends up elsewhere."""
        return Context([f"reference:{type_config}", f"shelf:{type_config}"], **options)


PLUGIN = _Modest()
