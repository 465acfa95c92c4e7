"""`extension_context`, the old name of `ext_utils.get_extension_context`."""

from __future__ import annotations

from typing import Any

from atled.ext_utils import get_extension_context
from atled.logger import logger
from atled_contexts import Context

__all__ = ["extension_context"]


def extension_context(extension_name: str = "cpu", **kw: Any) -> Context:
    """The Context that an extension proposes; use `ext_utils.get_extension_context` in new scripts."""
    logger.warning("extension_context is out of use: use ext_utils.get_extension_context(%r)", extension_name)
    return get_extension_context(extension_name, **kw)


def __dir__() -> list[str]:
    return sorted(__all__)
