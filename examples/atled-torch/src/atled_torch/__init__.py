"""Backend `torch` of atled: PyTorch's CPU tensors, a worked example of a plugin over an array library."""
