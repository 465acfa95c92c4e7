"""Layers, under neon's name of the module."""

from __future__ import annotations

from atled.neon.layers.base import Layer
from atled.neon.layers.compound import CompoundLayer
from atled.neon.layers.parameter_layer import ParameterLayer

__all__ = ["CompoundLayer", "Layer", "ParameterLayer"]
