"""The `cpu` backend of atled: kernels built by numba and LLVM, run by its own thread pool."""
