"""Models, under neon's name of the module."""

from __future__ import annotations

from typing import Any, NoReturn

from atled.errors import four_parts
from atled.neon.models.network import Model

__all__ = ["Model"]


def left_out(module: str, name: str) -> NoReturn:
    """Refuse a name that a module does not have.

    ImportError: one that neon has; of an AttributeError `from ... import` would not show the message.
    AttributeError: any other.
    """
    if name != "GAN":
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    remedy = (
        "give GenerativeAdversarial to a Model, and call fprop and bprop of its generator and discriminator in turn"
    )
    raise ImportError(four_parts(f"{module}.{name}", "this model of neon's is not in atled", "", remedy))


def __getattr__(name: str) -> Any:
    left_out(__name__, name)
