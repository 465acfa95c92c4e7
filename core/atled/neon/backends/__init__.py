"""Backends: what makes one, and the gradients of op-trees."""

from __future__ import annotations

from atled.neon.backends.autodiff import Autodiff
from atled.neon.backends.generation import cleanup_backend, gen_backend

__all__ = ["Autodiff", "cleanup_backend", "gen_backend"]
