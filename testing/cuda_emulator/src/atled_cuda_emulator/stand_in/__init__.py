"""The modules that stand in for CuPy's."""
