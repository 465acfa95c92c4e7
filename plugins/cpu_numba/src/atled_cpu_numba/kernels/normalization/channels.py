"""BatchNormalization and its gradient.

x is seen as (outer, channels, inner). With a long inner size a kernel goes through the rows of some neighbouring
channels; with a short one through columns: the elements of some channels side by side, with one accumulator each.
"""

from __future__ import annotations

import math

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.normalization import backward, forward
from atled_cpu_numba.kernels.normalization.backward import Backward
from atled_cpu_numba.kernels.normalization.forward import FEWEST_COLUMNS, MOST_COLUMNS, Forward
from atled_cpu_numba.kernels.shared.elements import real_of
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    REALS,
    has_empty,
    in_lines,
    launch,
    narrow_dtypes,
    refuse_floats,
    share_count,
)
from atled_cpu_numba.kernels.shared.layout import filled, words_of

_RUN_BYTES = 1 << 17  # of neighbouring channels taken together: memory is read ahead only where it goes on and on
_ROW = 24  # from this inner size on, a channel is gone through row by row
_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares

# By op and whether it goes by rows.
_KERNELS = {
    ("BatchNormalization", True): forward.ROWS,
    ("BatchNormalization", False): forward.COLUMN_WISE,
    ("BatchNormalizationGrad", True): backward.ROWS,
    ("BatchNormalizationGrad", False): backward.COLUMN_WISE,
}


# The words of inputs and outputs.
_ARGUMENTS = {
    "BatchNormalization": ("x", "beta", "gamma", "mean", "variance", "y", "batch_mean", "batch_variance"),
    "BatchNormalizationGrad": ("gy", "x", "gamma", "mean", "variance", "gx", "gbeta", "ggamma"),
}


def accepts(call: Call) -> bool | str:
    """Whether all arrays are present, of one dtype, float32 or float64, with one axis of channels."""
    if len(call.attributes["axes"]) != 1:
        return f"takes one axis of channels, not {len(call.attributes['axes'])}"
    if any(desc is None for desc in call.inputs):
        return "takes no call without scale, shift or statistics"
    refused = refuse_floats(call, REALS, floats=range(len(call.inputs)), outputs=len(call.outputs))
    if refused:
        return refused
    if has_empty(call):
        return "takes no empty arrays"
    return True


def narrow_arguments(call: Call) -> tuple[int, ...]:
    """Which arguments, inputs and then outputs, are taken as they are where they are narrow: those of the size of x.

    What belongs to channels is float32.
    """
    positions = (0, 5) if call.spec.name == "BatchNormalization" else (0, 1, 5)
    descs = [*call.inputs, *call.outputs]
    dtypes = {desc.dtype.name for n in positions if (desc := descs[n]) is not None}
    return positions if len(dtypes) == 1 and dtypes.issubset(narrow_dtypes()) else ()


def prepare(call: Call) -> Prepared:
    """BatchNormalization: x, beta, gamma, mean, variance -> y, batch_mean, batch_variance.

    BatchNormalizationGrad: gy, x, gamma, batch_mean, batch_variance -> gx, gbeta, ggamma.
    x, y, gy and gx may be narrow (`narrow_arguments`).
    """
    name = call.spec.name
    x = call.outputs[0]
    axis = call.attributes["axes"][0] % x.ndim
    outer, channels, inner = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    by_rows = inner >= _ROW
    work_us = x.size / _ELEMENTS_PER_US
    if by_rows:
        parts = share_count(work_us, channels)
        step = min(-(-_RUN_BYTES // (x.dtype.itemsize * inner)), max(1, channels // parts))
        share_bytes = 64 * step
    else:
        width, real = channels * inner, real_of(x.dtype.name)
        most = MOST_COLUMNS[real]
        parts = share_count(work_us, -(-width // FEWEST_COLUMNS))
        step = min(-(-channels // max(parts, -(-width // most))), max(1, most // inner))
        share_bytes = in_lines((2 * 8 + 4 * SIZES[real]) * step * inner)
    is_forward = name == "BatchNormalization"
    block = Forward if is_forward else Backward
    words = filled(
        block,
        outer=outer,
        channels=channels,
        inner=inner,
        batch_stat=int(call.attributes["batch_stat"]),
        share_bytes=share_bytes,
        unit_channels=step,
    )
    return launch(
        _KERNELS[name, by_rows][x.dtype.name],
        words,
        words_of(block, *_ARGUMENTS[name], "workspace"),
        parts=parts,
        workspace=share_bytes * parts,
        attributes={"decay_rate": Forward.decay_rate, "eps": Forward.eps} if is_forward else {"eps": Backward.eps},
        after={0: Forward.after} if is_forward else None,
        before=None if is_forward else {0: Backward.before},
        in_place={0: 0},
        note="rows" if by_rows else "columns",
    )
