"""Containers of layers, under neon's name of the module."""

from __future__ import annotations

from atled.neon.layers.deltas_tree import DeltasTree

__all__ = ["DeltasTree"]
