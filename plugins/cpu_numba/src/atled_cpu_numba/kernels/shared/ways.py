"""Ways to compute one call, of which one is chosen: by rules, or by measuring them."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence

from atled.plugin import Call, NamedTuple, Prepared
from atled_cpu_numba.on_demand import imported


class Way(NamedTuple):
    """One of several ways that give the same result, but for its rounding.

    pays: whether it is the one to take, by the rules, where no way before it is.
    """

    name: str
    pays: bool
    prepare: Callable[[], Prepared]


def named(ways: Iterable[Way]) -> dict[str, Way]:
    """The ways by their names: the first one of a name stands for it."""
    found: dict[str, Way] = {}
    for way in ways:
        found.setdefault(way.name, way)
    return found


def is_measured(call: Call) -> bool:
    """Whether the fastest way of a call is looked for: where that is set, and equal bits are not asked for."""
    return os.environ.get("ATLED_CPU_TUNE", "").strip() == "search" and not call.deterministic


def chosen(
    ways: Iterable[Way],
    problem: Hashable,
    sizes: Callable[[], Sequence[int]],
    dtype: str,
    *,
    is_measured: bool,
    keeps_packs: bool,
) -> Prepared:
    """The first way that pays, or the fastest one.

    problem: all that ways and times depend on, besides the processor.  sizes: gives the elements of the arrays, in the
    order of the call's arguments, if these are to be measured; those of `dtype`.  is_measured: whether the fastest is
    wanted.  keeps_packs: whether plans are likely to keep packed weights from run to run.
    """
    if is_measured:
        fastest: Callable[..., Prepared] = imported("tuning").fastest
        return fastest(tuple(ways), problem, sizes(), dtype, keeps_packs=keeps_packs)
    return next(way.prepare() for way in ways if way.pays)
