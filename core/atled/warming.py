"""Warming up: the kernels that a plugin names, and those of the samples of all ops, are compiled before first use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from atled.errors import four_parts, listing
from atled.generators.catalogue import SampleCalls, all_specs
from atled.named_tuple import NamedTuple
from atled.ops.spec import OpSpec
from atled.preparing import prepare
from atled.type_configs import computable, require
from atled_contexts import (
    PluginError,
    Preparation,
    backend_info,
    devices,
    implementations,
    warmings,
    watch_preparation,
)

Progress = Callable[[int, int, str], None]


class WarmUp(NamedTuple):
    """What a warm-up did.

    backend, type_config: what for.
    prepared: names of what plugins reported to have prepared, in that order; formulas have one name for all.
    ready: count of the plugin's pieces that were ready before.
    ops: count of ops that have an implementation there.
    seconds: in all.
    """

    backend: str
    type_config: str
    prepared: Sequence[str]
    ready: int
    ops: int
    seconds: float


def warm_up(backend: str, type_config: str = "float", progress: Progress | None = None) -> WarmUp:
    """Have a backend compile, or otherwise prepare and keep, what programs under a type config are going to need.

    First what its plugin names (`atled_warm`), then the samples of every op spec and of the first gradients of
    formulas, then what the plugin names after these. Chains that plans fuse are not among them: they are known when a
    graph is. Running it again is quick.

    progress: called as progress(done, total, name) before each piece.
    PluginError: there is no usable backend of that name. ValueError: it has no such type config, or its dtypes
    cannot be had here. What a plugin raises passes through.
    """
    start = time.perf_counter()
    known = backend_info(backend).type_configs
    asked = f"a warm-up of {backend}:{type_config}"
    if type_config not in known:
        raise ValueError(
            four_parts(
                asked,
                f"backend {backend!r} has no type config {type_config!r}",
                f"known are {listing(computable(known))}",
                "name one of them",
            )
        )
    require(type_config, asked)
    pieces = warmings(backend, type_config)
    missing = [piece for piece in pieces if not piece.is_ready]
    specs = all_specs()
    total = len(missing) + len(specs)
    prepared: list[str] = []
    ops = 0

    def note(report: Preparation) -> None:
        if not report.is_finished:
            prepared.append(report.name)

    with watch_preparation(note):
        for done, piece in enumerate(missing):
            if progress is not None:
                progress(done, total, piece.name)
            piece.prepare()
        for done, spec in enumerate(specs, len(missing)):
            if progress is not None:
                progress(done, total, spec.name)
            ops += _prepare_samples(spec, backend, type_config)
        late = [piece for piece in warmings(backend, type_config) if not piece.is_ready]
        for done, piece in enumerate(late, total):
            if progress is not None:
                progress(done, total + len(late), piece.name)
            piece.prepare()
        total += len(late)
    if progress is not None:
        progress(total, total, "")
    return WarmUp(backend, type_config, prepared, len(pieces) - len(missing), ops, time.perf_counter() - start)


def _prepare_samples(spec: OpSpec, backend: str, type_config: str) -> bool:
    """Prepare the samples that the backend computes; whether there were any."""
    offered = [made for made in implementations(spec.name, backend) if made.op_version in (None, spec.version)]
    if not offered or spec.views or spec.opaque:
        return False
    (device, *_) = devices(backend)
    takers = [taker for taker in SampleCalls(spec, device).takers(offered, type_config) if taker is not None]
    for made, call in takers:
        native = prepare(made, call).native
        if native is not None:
            _ = native.address  # asking for it compiles the kernel
    return bool(takers)


def backends_to_warm(names: Sequence[str]) -> list[tuple[str, str]]:
    """(backend, type config) of each "name" or "name:type_config"; PluginError for one that there is nothing to do for.

    Nothing is slow to prepare in `reference`.
    """
    asked = [(name, config or "float") for name, _, config in (item.partition(":") for item in names)]
    for name, config in asked:
        if name == "reference":
            raise PluginError(
                four_parts(
                    f"a warm-up of {name}:{config}",
                    "it computes with NumPy and has nothing to compile",
                    "",
                    "name another backend; `python -m atled doctor` lists them",
                )
            )
    return asked
