"""Convolution of images whose batch axis is innermost in memory (C, H, W, N); `choice` picks one of the ways here."""
