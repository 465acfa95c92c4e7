"""Filters of single planes: depthwise convolution and its gradients."""
