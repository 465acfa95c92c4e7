"""Layers: steps of a network, with their errors."""

from __future__ import annotations

from atled.neon.layers.container import DeltasTree
from atled.neon.layers.layer import CompoundLayer, Layer, ParameterLayer

__all__ = ["CompoundLayer", "DeltasTree", "Layer", "ParameterLayer"]
