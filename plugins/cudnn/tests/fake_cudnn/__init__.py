"""A stand-in for libcudnn.so.9: takes the calls of its graph API, is strict about them, and computes with NumPy."""

from __future__ import annotations

from fake_cudnn.functions import FakeCudnn

__all__ = ["FakeCudnn"]
