"""Pooling over small planes of many channels: turned so that the channels lie behind, for `channel_last`, and back.

Where a row has few windows, a vector of them is mostly empty, and one of channels is full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from atled.plugin import ArrayDesc, Call, Prepared, op_spec
from atled_cpu_numba.kernels import transposition
from atled_cpu_numba.kernels.pooling import channel_last
from atled_cpu_numba.kernels.rows_of_kernels import Array, Rows
from atled_cpu_numba.kernels.shared.launch import is_undivided
from atled_cpu_numba.kernels.shared.leading_axes import Axis

_MOST_WINDOWS = 4  # in a row
_LEAST_SEEN = 4  # elements of a row that a window sees


def fits(call: Call, axes: Sequence[Axis]) -> bool:
    """Whether a call with the channels in front is quicker so.  axes: of its windows."""
    width = axes[-1]
    if width.result > _MOST_WINDOWS or width.kernel < _LEAST_SEEN or is_undivided():
        return False
    if all(axis.result == 1 for axis in axes):
        return False  # each is a sum or a maximum of what lies together
    return channel_last.layout(call) == ""


def prepare(call: Call) -> Prepared:
    """As the call: x -> y, and place of MaxPooling; gy, and place of MaxPoolingGrad -> gx."""
    axes = len(call.attributes["kernel"])
    first, result = call.inputs[0], call.outputs[0]
    assert first is not None
    behind = [_turned_desc(desc, axes) for desc in (first, result)]
    inner = call.on(
        (behind[0], *call.inputs[1:]), (behind[1], *call.outputs[1:]), {**call.attributes, "channel_last": True}
    )
    rows = Rows(call)
    given, made = rows.arguments[: len(call.inputs)], rows.arguments[len(call.inputs) :]
    source, target = rows.between(behind[0]), rows.between(behind[1])
    _turn(rows, first, axes, given[0], source, back=False)
    rows.add(channel_last.prepare(inner), source, *given[1:], target, *made[1:])
    _turn(rows, behind[1], axes, target, made[0], back=True)
    return rows.finished("channels in vectors, between transposes")


def _turned_desc(desc: ArrayDesc, axes: int) -> ArrayDesc:
    """(B..., C, S...) with the channels behind."""
    channel = desc.ndim - 1 - axes
    return ArrayDesc((*desc.shape[:channel], *desc.shape[channel + 1 :], desc.shape[channel]), desc.dtype)


def _turn(rows: Rows, desc: ArrayDesc, axes: int, source: Array, target: Array, *, back: bool) -> None:
    """A row that brings the channels behind the axes of an array, or back in front of them."""
    shape: Sequence[int] = desc.shape
    channel = desc.ndim - 1 - axes
    planes = (shape[-1], math.prod(shape[channel:-1])) if back else (shape[channel], math.prod(shape[channel + 1 :]))
    flat = ArrayDesc((math.prod(shape[:channel]), *(planes[::-1] if back else planes)), desc.dtype)
    turned = ArrayDesc((flat.shape[0], flat.shape[2], flat.shape[1]), desc.dtype)
    transposed = Call(op_spec("Transpose"), (flat,), (turned,), {"axes": (0, 2, 1)})
    rows.add(transposition.prepare(transposed), source, target)
