"""Models: networks that are trained, evaluated, saved."""

from __future__ import annotations

from typing import Any

from atled.neon.models.model import Model, left_out

__all__ = ["Model"]


def __getattr__(name: str) -> Any:
    left_out(__name__, name)
