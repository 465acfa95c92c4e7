"""Loops: `scan`, whose step is a function of expressions, and what ends one."""
