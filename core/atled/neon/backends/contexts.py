"""The Contexts of backends: by the kind of what computes, or by the name of an atled backend, and a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import did_you_mean, four_parts, listing, shortened
from atled.type_configs import standard_config
from atled_contexts import Context, backend_status, backends, best_context, extension_names, get_extension_context
from atled_contexts.scopes import tell_if_reference

_DTYPES = (np.float16, np.float32, np.float64)
_MEANT: dict[str, str] = {}
"""The atled backend that a kind means, where someone has said so; else the best one of the kind."""


def check_datatype(datatype: Any) -> np.dtype:
    """The default dtype of a backend; ValueError for all but float16, float32 and float64."""
    try:
        dtype = np.dtype(datatype)
    except TypeError as error:
        raise ValueError(_refusal(datatype)) from error
    if datatype is None or dtype not in _DTYPES:
        raise ValueError(_refusal(datatype))
    return dtype


def _refusal(datatype: Any) -> str:
    return four_parts(
        f"a backend with datatype {shortened(datatype)}",
        "it computes in floating-point numbers of 16, 32 or 64 bits",
        "",
        "use numpy.float16, numpy.float32 or numpy.float64; tensors of other dtypes are made with their own dtype=",
    )


def let_kinds_mean(name: str | None) -> None:
    """Let "cpu" and "gpu", and all backends that are chosen by them, compute on one atled backend from now on.

    name: as of `context_named`; None for the best one of the kind again.
    ValueError: there is no such backend; nothing is changed.
    """
    if name is None:
        _MEANT.clear()
        return
    backend = name.partition(":")[0]
    status = backend_status(backend)
    if status.state == "absent":
        raise ValueError(
            four_parts(
                f"neon's backends on {name!r}",
                "there is no such backend",
                f"atled backends: {listing(backends())}",
                did_you_mean(backend, backends(), status.remedy),
            )
        )
    _MEANT.update(cpu=name, gpu=name)


def context_of_kind(kind: str, datatype: Any, device_id: int | None = 0, **options: Any) -> Context:
    """The best Context of a kind of backend, "cpu" or "gpu", for tensors of a dtype; or what `let_kinds_mean` says.

    ReferenceWarning, once, where the best one for the host is the reference, since nothing faster is installed.

    PluginError where no usable backend is of that kind, with what to install.
    """
    if kind in _MEANT:
        return context_named(_MEANT[kind], datatype, device_id)
    config = standard_config(check_datatype(datatype))
    found = best_context(kind, type_config=config, device_id=str(device_id or 0), **options)
    tell_if_reference(found)
    return found


def context_named(name: str, datatype: Any, device_id: int | None = 0) -> Context:
    """The Context that a backend's plugin proposes, else that backend alone; ContextError as of `Context`.

    name: of a backend, or "name:type_config"; then that backend alone, whatever the dtype.
    """
    backend, colon, _ = name.partition(":")
    config = standard_config(check_datatype(datatype))
    device = _device(backend, device_id)
    if not colon and backend in extension_names():
        return get_extension_context(backend, type_config=config, device_id=device)
    return Context(name if colon else f"{name}:{config}", device_id=device)


def _device(backend: str, device_id: int | None) -> str:
    """The id given; the host has one device, whichever was asked for."""
    info = backend_status(backend).info
    return "0" if info is not None and info.host else str(device_id or 0)
