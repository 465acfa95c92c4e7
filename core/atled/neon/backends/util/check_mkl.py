"""Where the original's own library of MKL kernels is: nowhere, and none is needed."""

from __future__ import annotations


def get_mkl_lib() -> str:
    """ "", the path of no library: backend "mkl" is the best backend on the host, whatever that computes with."""
    return ""
