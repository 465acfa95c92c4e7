"""Layers, by family; `atled.parametric_functions` has them all."""
