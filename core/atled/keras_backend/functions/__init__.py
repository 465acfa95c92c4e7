"""The functions of the backend, by family."""
