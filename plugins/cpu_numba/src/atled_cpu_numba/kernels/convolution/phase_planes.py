"""The source of a convolution as padded planes of 16-bit elements, in which each tap's elements lie side by side.

Result (i, j) reads, for a tap, element (i, j) of a plane behind a place that is the tap's: rows are longer than those
of the result by the reach of the kernel. With strides, elements whose distance is no multiple of the stride lie in
different planes, the phases. The adjoint is a convolution of stride 1 over a source with zeros between its elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.convolution.problem import Task
from atled_cpu_numba.kernels.shared.layout import layout, size_of


@layout
class Planes:
    """What a kernel is told of them, along both axes."""

    source_rows: int  # elements of a channel
    source_columns: int
    plane_rows: int  # elements of a plane
    plane_columns: int
    phases_rows: int  # planes of a channel
    phases_columns: int
    pad_rows: int  # of a plane in front of the channel; below 0: so much of that is left out
    pad_columns: int
    step_rows: int  # elements of a channel for one step in a plane
    step_columns: int
    spread_rows: int  # steps in a plane for one element of a channel
    spread_columns: int


PLANES_WORDS = size_of(Planes)
"""Of blocks that have them."""


class Shape(NamedTuple):
    """Planes of a problem.

    words: of `Planes`.  taps: where each tap begins, in elements from the planes of a
    channel.  channel: elements of the planes of a channel.  pitch: elements of a row.
    """

    words: Mapping[str, int]
    taps: tuple[int, ...]
    channel: int
    pitch: int


def planes_of(task: Task) -> Shape:
    """Those that `task` reads."""
    axes = [_axis(task, number) for number in (0, 1)]
    (plane_rows, pitch), (_, phases) = ((axes[0][name], axes[1][name]) for name in ("plane", "phases"))
    plane = plane_rows * pitch
    rows, columns = ([divmod(shift, axis["step"]) for shift in axis.pop("shifts")] for axis in axes)
    taps = tuple(
        (upper_phase * phases + lower_phase) * plane + upper * pitch + lower
        for upper, upper_phase in rows
        for lower, lower_phase in columns
    )
    words = {
        f"{name}_{along}": axis[name] for along, axis in zip(("rows", "columns"), axes, strict=True) for name in axis
    }
    return Shape(words, taps, axes[0]["phases"] * phases * plane, pitch)


def put_planes(words: list[int], at: int, planes: Mapping[str, int]) -> None:
    """Put the words of `Planes` into those of a block that has them from `at` on."""
    for name, value in planes.items():
        words[at + getattr(Planes, name)] = value


def _axis(task: Task, axis: int) -> dict[str, Any]:
    kernel, dilation, pad, stride = task.kernel[axis], task.dilation[axis], task.pad[axis], task.stride[axis]
    reach = (kernel - 1) * dilation
    shifts = [tap * dilation for tap in range(kernel)]
    if not task.forward:
        shifts, pad = shifts[::-1], reach - pad
    step, spread = (stride, 1) if task.forward else (1, stride)
    return {
        "shifts": shifts,
        "source": task.source[axis],
        "plane": task.result[axis] + reach // step,
        "phases": min(step, reach + 1),
        "pad": pad,
        "step": step,
        "spread": spread,
    }


def make_fill_planes() -> Any:
    """A piece fill_planes(words of Planes, address of the first channel, address of its planes, count of channels).

    Imports numba, as the functions that build kernels do.
    """
    from atled_cpu_numba.codegen import ints16
    from atled_cpu_numba.kernels.shared.options import inlined, piece

    @inlined
    def fill_row(w, x, target, phase):
        """One row of a plane, from one row of a channel."""
        size, length = w[Planes.source_columns], w[Planes.plane_columns]
        pad, step, spread = w[Planes.pad_columns], w[Planes.step_columns], w[Planes.spread_columns]
        if spread > 1:
            for j in range(length):
                target[j] = 0
            for j in range(size):
                at = pad + j * spread
                if 0 <= at < length:
                    target[at] = x[j]
            return
        first = min(length, max(0, (pad - phase + step - 1) // step))
        after = max(first, min(length, (size - 1 + pad - phase) // step + 1))
        for j in range(first):
            target[j] = 0
        if step == 1:
            for j in range(first, after):
                target[j] = x[j - pad]
        else:
            for j in range(first, after):
                target[j] = x[j * step + phase - pad]
        for j in range(after, length):
            target[j] = 0

    @piece
    def fill_planes(w, source, planes, channels):
        target = planes
        for channel in range(channels):
            for upper in range(w[Planes.phases_rows]):
                for lower in range(w[Planes.phases_columns]):
                    for row in range(w[Planes.plane_rows]):
                        at = row * w[Planes.step_rows] + upper - w[Planes.pad_rows]
                        place = at // w[Planes.spread_rows]
                        y = ints16(target)
                        if at >= 0 and at == place * w[Planes.spread_rows] and place < w[Planes.source_rows]:
                            number = channel * w[Planes.source_rows] + place
                            fill_row(w, ints16(source + 2 * number * w[Planes.source_columns]), y, lower)
                        else:
                            for j in range(w[Planes.plane_columns]):
                                y[j] = 0
                        target += 2 * w[Planes.plane_columns]

    return fill_planes
