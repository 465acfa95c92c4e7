"""Making the present backend."""

from __future__ import annotations

import atexit
import functools
from typing import Any

import numpy as np

from atled.errors import did_you_mean, four_parts, listing
from atled.neon.backends.arguments import declared_arguments
from atled.neon.backends.backend import Backend
from atled.neon.backends.contexts import check_datatype, context_named
from atled.neon.backends.nervanacpu import NervanaCPU
from atled.neon.backends.nervanagpu import NervanaGPU
from atled.neon.backends.nervanamkl import NervanaMKL
from atled.neon.message_log import logger
from atled.neon.nervana_object import NervanaObject
from atled_contexts import Context, backend_info, backend_status, backends, get_current_context

_CLASS_NAMES = {"nervanacpu": NervanaCPU, "nervanamkl": NervanaMKL, "nervanagpu": NervanaGPU}
"""What classes are called without regard to case: neon's guide writes backend='nervanagpu'."""


def gen_backend(
    backend: str | Context | list[str] | tuple[str, ...] | None = "cpu",
    rng_seed: int | None = None,
    datatype: Any = np.float32,
    batch_size: int = 0,
    stochastic_round: bool | int = False,
    device_id: int = 0,
    max_devices: int | None = None,
    compat_mode: str | None = None,
    deterministic_update: bool | None = None,
    deterministic: bool | None = None,
) -> Backend:
    """Make a backend, which from then on is `NervanaObject.be`; the one before is cleaned up.

        be = gen_backend("cpu", rng_seed=1, batch_size=128)

    Args:
        backend: "cpu" or "mkl": the best backend on the host. "gpu" or "nervanagpu": the best one on a GPU. Or the name
            of a registered subclass of Backend, of any atled backend ("sim", "opencl", "reference"), such a name with a
            type config ("cpu:half"), a list of these, or a Context. None: the Context in force.
        rng_seed: of `be.rng`; None for fresh entropy.
        datatype: dtype of tensors for which none is given: numpy.float16, float32 or float64. It chooses the type
            config, too, but for a Context and for names that have one.
        batch_size: `be.bsz`, which may be set later on.
        stochastic_round: no effect: values are rounded to the nearest.
        device_id: which GPU; the host has one device. A Context has its own.
        max_devices: no effect: one device computes.
        compat_mode: "caffe" for the output sizes and drop-out of caffe.
        deterministic_update, deterministic: no effect but a warning; `be.deterministic` says whether there is a seed.

    ValueError: an unknown backend, datatype or mode, or a negative batch size. PluginError: no GPU, or no plugin for
    it. With any error the present backend stays.
    """
    for name, value in {"deterministic_update": deterministic_update, "deterministic": deterministic}.items():
        if value is not None:
            logger.warning("%s has no effect: a backend is deterministic where it has an rng_seed", name)
    given = {
        "rng_seed": rng_seed,
        "default_dtype": check_datatype(datatype),
        "stochastic_round": stochastic_round,
        "device_id": device_id,
        "num_devices": max_devices,
        "compat_mode": compat_mode,
    }
    made = _made(backend, given)
    _check_made(made)
    made.bsz = batch_size
    cleanup_backend()
    NervanaObject.be = made
    _clean_up_at_exit()
    return made


def cleanup_backend() -> None:
    """Clean the present backend up (`Backend.cleanup_backend`); there is none then. Also called at exit."""
    present, NervanaObject.be = NervanaObject.be, None
    if present is not None:
        present.cleanup_backend()


@functools.cache  # once in a process
def _clean_up_at_exit() -> None:
    atexit.register(cleanup_backend)


def _check_made(made: Backend) -> None:
    """TypeError for a backend that its class left without what `Backend.__init__` gives."""
    if "context" not in vars(made):
        asked = f"a backend of class {type(made).__name__}"
        wrong = "its constructor did not call that of Backend"
        raise TypeError(four_parts(asked, wrong, "", "call super().__init__(rng_seed, default_dtype) in it"))


def _made(asked: Any, given: dict[str, Any]) -> Backend:
    """A backend of the class and the Context that a request means."""
    if asked is None:
        return _with_context(get_current_context(), given)
    if not isinstance(asked, str):
        return _with_context(asked if isinstance(asked, Context) else Context(asked), given)
    registered = Backend.backends.get(asked) or _CLASS_NAMES.get(asked)
    if registered is not None:
        return registered(**declared_arguments(registered, given))
    if ":" not in asked and backend_status(asked).state == "absent":
        raise ValueError(_absent(asked))
    return _with_context(context_named(asked, given["default_dtype"], given["device_id"]), given)


def _with_context(context: Context, given: dict[str, Any]) -> Backend:
    """A backend that computes under a Context: NervanaCPU or NervanaGPU, by what its first backend is."""
    kind = backend_info(context.backends[0][0]).kind
    chosen = {"cpu": NervanaCPU, "gpu": NervanaGPU}.get(kind, Backend)
    return chosen(**declared_arguments(chosen, given), context=context)


def _absent(asked: str) -> str:
    """The message for a name that nothing has."""
    choices = Backend.backend_choices()
    names = [*choices, *_CLASS_NAMES, *backends()]
    return four_parts(
        f"gen_backend({asked!r})",
        "there is no such backend",
        [f"registered: {listing(choices)}", f"atled backends: {listing(backends())}"],
        did_you_mean(asked, names, backend_status(asked).remedy),
    )
