"""What the driver says when something is wrong, and what of it means that the device is gone."""

from __future__ import annotations

import os
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
    """Whether a device is lost; reason: why, "" while it is not."""

    __slots__ = ("_number", "reason")

    def __init__(self, number: int) -> None:
        self._number = number
        self.reason = ""

    def check(self) -> None:
        """Raise where the device was lost before."""
        if self.reason:
            raise DeviceLostError(f"CudaCachedArray:{self._number}", self.reason)

    def tell(self, error: Exception) -> NoReturn:
        """Raise what an error of CUDA means; from the first one that loses the device on, that it is lost."""
        self.check()
        status = getattr(error, "status", 0)
        if status not in _LOST:
            raise error
        self.reason = f"{_LOST[status]} ({error}); CUDA has given up this process"
        raise DeviceLostError(f"CudaCachedArray:{self._number}", self.reason) from error


def errors() -> tuple[type[Exception], type[Exception]]:
    """The types of CUDA's errors."""
    return cp.RuntimeError, cp.DriverError


_started_in = 0
_is_forked = False


def started() -> None:
    """CUDA is started in this process: it cannot be used in its children."""
    global _started_in
    _started_in = os.getpid()


def check_process() -> None:
    """Raise where this process is a child of one that uses CUDA."""
    if _is_forked:
        raise RuntimeError(
            four_parts(
                "use of a device of CUDA",
                f"process {os.getpid()} was forked from process {_started_in}, which uses CUDA: that does not work",
                "",
                "start processes by multiprocessing.get_context('spawn'), or fork before CUDA is first used",
            )
        )


def _after_fork() -> None:
    global _is_forked
    _is_forked = _is_forked or bool(_started_in)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
