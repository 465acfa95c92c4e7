"""Random op-trees of neon's API, with NumPy beside."""
