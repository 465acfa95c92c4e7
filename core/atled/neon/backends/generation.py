"""Making the present backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.neon.backends.backend import Backend
from atled.neon.nervana_object import NervanaObject
from atled_contexts import Context, best_context


def gen_backend(
    backend: str | Context = "cpu",
    rng_seed: int | None = None,
    datatype: Any = np.float32,
    batch_size: int = 0,
) -> Backend:
    """Make a backend, which from then on is `NervanaObject.be`.

    backend: "cpu" for the best backend on the host, the name of one, or a Context.
    """
    if isinstance(backend, Context):
        context = backend
    else:
        context = best_context("cpu") if backend == "cpu" else Context(f"{backend}:float")
    made = Backend(rng_seed, datatype, context=context)
    made.bsz = batch_size
    NervanaObject.be = made
    return made


def cleanup_backend() -> None:
    """Release what the present backend holds; there is none then."""
    NervanaObject.be = None
