"""Hand-written kernels of the cpu backend, a module or a folder per family.

A module that computes ops has `accepts(call)` and `prepare(call)`.
"""
