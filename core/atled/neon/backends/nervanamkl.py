"""NervanaMKL: the name under which programs ask for the host with its fastest kernels."""

from __future__ import annotations

from atled.neon.backends.nervanacpu import NervanaCPU


class NervanaMKL(NervanaCPU):
    """NervanaCPU under another name: layouts of MKL's own, which the original converts tensors to, there are none."""

    backend_name = "mkl"

    def is_mkl(self) -> bool:
        """Yes, as it was asked for under that name; whether a program converts data or not makes no difference."""
        return True
