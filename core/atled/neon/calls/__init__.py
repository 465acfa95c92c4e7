"""The calls of a backend, a family in each file."""
