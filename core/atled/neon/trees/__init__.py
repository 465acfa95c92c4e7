"""Tensors, op-trees of them, and how these run as programs of the core."""
