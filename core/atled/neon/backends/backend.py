"""Backend: what programs written for neon compute with; Tensor and OpTreeNode, which it makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.neon.calls.allocation import AllocationCalls
from atled.neon.calls.trees import TreeCalls
from atled.neon.trees.nodes import OpTreeNode
from atled.neon.trees.tensor import Tensor
from atled_contexts import Context, get_current_context

__all__ = ["Backend", "OpTreeNode", "Tensor"]


class Backend(AllocationCalls, TreeCalls):
    """A place to compute: it makes tensors, and runs op-trees and layer calls on them.

    context: who computes, in order of preference.
    """

    def __init__(
        self,
        rng_seed: int | None = None,
        default_dtype: Any = np.float32,
        compat_mode: str | None = None,
        deterministic: bool | None = None,
        *,
        context: Context | None = None,
    ) -> None:
        self.context = get_current_context() if context is None else context
        self.default_dtype = np.dtype(default_dtype)
        self.rng = np.random.RandomState(rng_seed)
        self.bsz = 0
        self.compat_mode = compat_mode
        self.deterministic = rng_seed is not None if deterministic is None else deterministic
