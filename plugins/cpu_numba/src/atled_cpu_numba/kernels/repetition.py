"""Tile and Repeat as copies by the formula compiler: each axis becomes two, of which one is repeated."""

from __future__ import annotations

from collections.abc import Sequence

from atled.plugin import ArrayDesc, Call, Prepared, op_spec
from atled_cpu_numba import elementwise


def _copy(call: Call) -> Call:
    """The same arrays, of which the larger is broadcast from the smaller."""
    x, y = call.inputs[0], call.outputs[0]
    assert x is not None
    own: Sequence[int]
    if call.spec.name == "Tile":
        reps = call.attributes["reps"]
        sizes = (1,) * (len(reps) - x.ndim) + x.shape
        own = [n for size in sizes for n in (1, size)]
        whole = [n for pair in zip(reps, sizes, strict=True) for n in pair]
    else:
        axis = call.attributes["axis"] + 1
        own = (*x.shape[:axis], 1, *x.shape[axis:])
        whole = [*x.shape[:axis], call.attributes["repeats"], *x.shape[axis:]]
    descs = (ArrayDesc(tuple(own), x.dtype),), (ArrayDesc(tuple(whole), y.dtype),)
    return Call(
        op_spec("Broadcast"),
        *descs,
        {"shape": tuple(whole)},
        type_config=call.type_config,
        by_operands=call.by_operands,
    )


def accepts(call: Call) -> bool | str:
    """Whether the formula compiler copies the dtype."""
    return elementwise.accepts(_copy(call))


def prepare(call: Call) -> Prepared:
    """Tile: x -> y.  Repeat: x -> y."""
    return elementwise.prepare(_copy(call))
