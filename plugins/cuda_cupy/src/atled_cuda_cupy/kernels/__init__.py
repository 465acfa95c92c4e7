"""The kernels: one module for each family of ops, and beside it the text that its kernels are made from."""
