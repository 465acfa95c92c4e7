"""What kernels of several families are made of: compile options, launching, vectors, sums, geometry of windows."""
