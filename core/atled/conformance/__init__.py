"""Checks that hold for every op on every backend, made from the samples of the op specs."""
