"""Hand-written kernels of the cpu backend, one module per family, each with `accepts(call)` and `prepare(call)`."""
