"""Backend `cuda` of atled: NVIDIA GPUs through CuPy, with kernels of its own."""
