"""Recorded calls, and what is derived from them: shapes, structure, nodes."""
