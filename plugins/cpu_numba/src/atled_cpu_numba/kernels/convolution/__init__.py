"""Convolution, its adjoint and its gradients: `choice` and `weight` pick one of the ways beside them."""
