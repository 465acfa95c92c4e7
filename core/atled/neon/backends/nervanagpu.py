"""NervanaGPU: the backend on a GPU, as programs name and subclass it."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.neon.backends.backend import Backend
from atled.neon.backends.contexts import context_of_kind
from atled.neon.backends.tensor_kinds import GPUTensor
from atled_contexts import Context

__all__ = ["GPUTensor", "NervanaGPU"]


class NervanaGPU(Backend):
    """Computes on a GPU, with the best backend that is there for one."""

    backend_name = "gpu"
    tensor_cls = GPUTensor

    def __init__(
        self,
        rng_seed: int | None = None,
        default_dtype: Any = np.float32,
        stochastic_round: bool | int = False,
        deterministic: bool | None = None,
        device_id: int | None = 0,
        hist_bins: int = 64,
        hist_offset: int = -48,
        compat_mode: str | None = None,
        num_devices: int | None = None,
        *,
        context: Context | None = None,
    ) -> None:
        """Arguments and errors as of Backend, and:

        device_id: which GPU.  num_devices, stochastic_round: no effect: one GPU computes, and rounds to the nearest.
        hist_bins, hist_offset: counts of a row of histograms, and the power of two of the first (`set_hist_buffers`).
        context: None for the best one on a GPU, deterministic where there is a seed.

        PluginError: no GPU or no plugin for one, with what to install.
        """
        if context is None:
            context = context_of_kind("gpu", default_dtype, device_id, deterministic=rng_seed is not None or None)
        super().__init__(rng_seed, default_dtype, compat_mode, deterministic, context=context)
        self.set_hist_buffers(hist_bins, hist_offset)
