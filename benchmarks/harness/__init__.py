"""Measures libraries against each other, each in a process of its own, in interleaved rounds on the same cores."""
