"""NervanaCPU: the backend on the host, as programs name and subclass it."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.neon.backends.backend import Backend
from atled.neon.backends.contexts import context_of_kind
from atled.neon.backends.tensor_kinds import CPUTensor
from atled_contexts import Context

__all__ = ["CPUTensor", "NervanaCPU"]


class NervanaCPU(Backend):
    """Computes in host memory, on the best backend that is there for it."""

    backend_name = "cpu"
    tensor_cls = CPUTensor

    def __init__(
        self,
        rng_seed: int | None = None,
        default_dtype: Any = np.float32,
        hist_bins: int = 64,
        hist_offset: int = -48,
        compat_mode: str | None = None,
        num_devices: int | None = None,
        stochastic_round: bool | int | None = None,
        device_id: int | None = None,
        deterministic: bool | None = None,
        *,
        context: Context | None = None,
    ) -> None:
        """Arguments and errors as of Backend, and:

        hist_bins, hist_offset: counts of a row of histograms, and the power of two of the first (`set_hist_buffers`).
        num_devices, stochastic_round, device_id: no effect: the host is one device, and values are rounded to the
        nearest.  context: None for the best one on the host.
        """
        found = context_of_kind("cpu", default_dtype) if context is None else context
        super().__init__(rng_seed, default_dtype, compat_mode, deterministic, context=found)
        self.set_hist_buffers(hist_bins, hist_offset)
