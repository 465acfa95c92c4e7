"""Backends: what makes one, and the gradients of op-trees."""

from __future__ import annotations

from atled.neon.backends.generation import cleanup_backend, gen_backend

__all__ = ["cleanup_backend", "gen_backend"]
