"""Winograd's F(4x4, 3x3): convolution with 3 x 3 kernels and stride 1 in a quarter of the multiplications."""
