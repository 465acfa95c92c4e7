"""Pooling and its gradients: `planes` for one or two axes, `slices` for more."""
