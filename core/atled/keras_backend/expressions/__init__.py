"""Expressions: what is to be computed, with known count of axes and dtype, and sizes that a call brings."""
