"""What the driver says when something is wrong, and what of it means that the device is gone."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import NoReturn

from atled.plugin import DeviceLostError, four_parts
from atled_cuda_cupy import cupy_names as cp

# Errors behind which CUDA answers every call of the process with the same error, by their numbers in cuda.h.
_LOST = {
    214: "an error in its memory that could not be corrected",
    220: "an error of NVLink that could not be corrected",
    700: "a kernel reached for an address that is no memory",
    702: "a kernel ran longer than is allowed",
    709: "its context was destroyed",
    710: "an assertion failed in a kernel",
    714: "the stack of a kernel is damaged",
    715: "a kernel had an instruction that the device does not know",
    716: "a kernel reached for an address that is not aligned",
    717: "an instruction reached for memory of another kind",
    718: "a kernel went on at an address that is no code",
    719: "a kernel failed",
}


class Loss:
    """Whether a device cannot be used any more.

    refusal: gives the error for who tries; None while it can be used.
    """

    __slots__ = ("_number", "refusal")

    def __init__(self, number: int) -> None:
        self._number = number
        self.refusal: Callable[[], Exception] | None = None

    def tell(self, error: Exception) -> NoReturn:
        """Raise what an error of CUDA means; from the first one that loses the device on, that it is lost."""
        if self.refusal is not None:
            raise self.refusal() from error
        status = getattr(error, "status", 0)
        if status not in _LOST:
            raise error
        reason = f"{_LOST[status]} ({error}); CUDA has given up this process"
        self.refusal = functools.partial(DeviceLostError, f"CudaCachedArray:{self._number}", reason)
        raise self.refusal() from error


def errors() -> tuple[type[Exception], type[Exception]]:
    """The types of CUDA's errors."""
    return cp.RuntimeError, cp.DriverError


def forked(parent: int) -> RuntimeError:
    """The error for a process whose parent uses CUDA."""
    return RuntimeError(
        four_parts(
            "use of a device of CUDA",
            f"process {os.getpid()} was forked from process {parent}, which uses CUDA: that does not work",
            "",
            "start processes by multiprocessing.get_context('spawn'), or fork before CUDA is first used",
        )
    )
