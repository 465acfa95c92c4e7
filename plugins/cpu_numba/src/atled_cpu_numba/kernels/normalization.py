"""BatchNormalization and its gradient.

x is seen as (outer, channels, inner). With a long inner size a kernel goes through the rows of some neighbouring
channels; with a short one through columns: the elements of some channels side by side, with one accumulator each.

Statistics are taken around the mean of the stretch before, or the first value, and added up in float64: a mean far
from zero costs no digits of the variance. Where stretches differ a lot, that is the variance: what it costs around the
wrong mean is a rounding of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.shared.launch import REALS, has_empty, kernels_by_dtype, launch, refuse_floats, share_count
from atled_cpu_numba.kernels.shared.layout import filled, layout, words_of


@layout
class Forward:
    """What the forward kernels read."""

    x: int  # address
    y: int  # address
    outer: int
    channels: int
    inner: int
    beta: int  # addresses, one value per channel each
    gamma: int
    mean: int
    variance: int
    batch_mean: int
    batch_variance: int
    batch_stat: int  # whether the statistics of the batch are taken
    decay_rate: int  # bits of a float64
    eps: int  # bits of a float64
    workspace: int  # address
    share_bytes: int  # of the workspace, per share
    unit_channels: int
    after: int  # range kernel to run on what is written of y, or 0
    after_block: int  # its block


@layout
class Backward:
    """What the gradient's kernels read."""

    x: int  # address
    gy: int  # address
    outer: int
    channels: int
    inner: int
    gamma: int  # addresses, one value per channel each
    mean: int
    variance: int
    gx: int  # address
    gbeta: int
    ggamma: int
    batch_stat: int  # whether the statistics are those of the batch
    unread: int  # decay_rate in the block of the forward kernels
    eps: int  # bits of a float64
    workspace: int  # address
    share_bytes: int  # of the workspace, per share
    unit_channels: int
    before: int  # range kernel to run on what is about to be read of gy, or 0; gy may then be gx
    before_block: int  # its block


_STRETCH = 2048  # elements that stay in the level-1 cache between two passes
_RUN_BYTES = 1 << 17  # of neighbouring channels taken together: memory is read ahead only where it goes on and on
_ROW = 24  # from this inner size on, a channel is gone through row by row
_COLUMNS = 256  # side by side otherwise
_ELEMENTS_PER_US = 2000.0  # a cautious rate of one core, for the number of shares


def _build_forward_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import moments, plain_sum

    real, sum_up, sum_moments = Real(dtype), plain_sum(dtype), moments(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def normalize_rows(block, part, parts):
        w = words(block)
        outer, channels, inner = w[Forward.outer], w[Forward.channels], w[Forward.inner]
        batch_stat, step = w[Forward.batch_stat], w[Forward.unit_channels]
        beta, gamma = floats(w[Forward.beta]), floats(w[Forward.gamma])
        mean, variance = floats(w[Forward.mean]), floats(w[Forward.variance])
        batch_mean, batch_variance = floats(w[Forward.batch_mean]), floats(w[Forward.batch_variance])
        decay, eps = float64_of_bits(w[Forward.decay_rate]), float64_of_bits(w[Forward.eps])
        count = float(outer * inner)
        own = w[Forward.workspace] + part * w[Forward.share_bytes]
        shifts, totals, squares = floats64(own), floats64(own + 8 * step), floats64(own + 16 * step)
        arounds, scales = floats(own + 24 * step), floats(own + 32 * step)
        lines = max(1, _STRETCH // inner)
        units = (channels + step - 1) // step
        for unit in range(units * part // parts, units * (part + 1) // parts):
            first = unit * step
            taken = min(step, channels - first)
            if batch_stat != 0:
                for i in range(taken):
                    length = min(_STRETCH, inner)
                    arounds[i] = number(sum_up(w[Forward.x] + size * (first + i) * inner, length) / number(length))
                    shifts[i] = float(arounds[i])
                    totals[i] = 0.0
                    squares[i] = 0.0
                for n in range(outer):
                    for i in range(taken):
                        for start in range(0, inner, _STRETCH):
                            x = w[Forward.x] + size * ((n * channels + first + i) * inner + start)
                            length, around = min(_STRETCH, inner - start), arounds[i]
                            rest, square = sum_moments(x, length, around)
                            offset = float(around) - shifts[i]
                            totals[i] += length * offset + rest
                            squares[i] += square + offset * (2.0 * rest + length * offset)
                            arounds[i] = around + rest / number(length)
            for i in range(taken):
                channel = first + i
                middle, spread = float(mean[channel]), float(variance[channel])
                if batch_stat != 0:
                    total = totals[i]
                    middle = shifts[i] + total / count
                    spread = max(0.0, (squares[i] - total * (total / count)) / count)
                    unbiased = spread * (count / max(1.0, count - 1.0))
                    mean[channel] = number(decay * mean[channel] + (1.0 - decay) * middle)
                    variance[channel] = number(decay * variance[channel] + (1.0 - decay) * unbiased)
                batch_mean[channel] = number(middle)
                batch_variance[channel] = number(spread)
                arounds[i] = number(middle)
                scales[i] = number(gamma[channel] / math.sqrt(spread + eps))
            for n in range(outer - 1, -1, -1):  # what was read last is still in the cache
                for begin in range(0, taken, lines):
                    row = (n * channels + first + begin) * inner
                    end = min(taken, begin + lines)
                    for i in range(begin, end):
                        at = size * (row + (i - begin) * inner)
                        x, y = floats(w[Forward.x] + at), floats(w[Forward.y] + at)
                        subtrahend, scale, addend = arounds[i], scales[i], beta[first + i]
                        for j in range(inner):
                            y[j] = (x[j] - subtrahend) * scale + addend
                    if w[Forward.after] != 0:
                        call3(w[Forward.after], w[Forward.after_block], row, row + (end - begin) * inner)
        return 0

    return normalize_rows


def _build_forward_columns(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def normalize_columns(block, part, parts):
        w = words(block)
        outer, channels, inner = w[Forward.outer], w[Forward.channels], w[Forward.inner]
        batch_stat, step = w[Forward.batch_stat], w[Forward.unit_channels]
        beta, gamma = floats(w[Forward.beta]), floats(w[Forward.gamma])
        mean, variance = floats(w[Forward.mean]), floats(w[Forward.variance])
        batch_mean, batch_variance = floats(w[Forward.batch_mean]), floats(w[Forward.batch_variance])
        decay, eps = float64_of_bits(w[Forward.decay_rate]), float64_of_bits(w[Forward.eps])
        count = float(outer * inner)
        own = w[Forward.workspace] + part * w[Forward.share_bytes]
        totals, squares = floats64(own), floats64(own + 8 * _COLUMNS)
        own += 16 * _COLUMNS
        middles, scales, addends = (
            floats(own),
            floats(own + size * _COLUMNS),
            floats(own + 2 * size * _COLUMNS),
        )
        units = (channels + step - 1) // step
        for unit in range(units * part // parts, units * (part + 1) // parts):
            first = unit * step
            taken = min(step, channels - first)
            width = taken * inner
            if batch_stat != 0:
                shift = floats(w[Forward.x] + size * first * inner)
                for j in range(width):
                    totals[j] = 0.0
                    squares[j] = 0.0
                    middles[j] = shift[j // inner * inner]
                for n in range(outer):
                    x = floats(w[Forward.x] + size * (n * channels + first) * inner)
                    for j in range(width):
                        d = float(x[j]) - float(middles[j])
                        totals[j] += d
                        squares[j] += d * d
            for i in range(taken):
                channel = first + i
                middle, spread = float(mean[channel]), float(variance[channel])
                if batch_stat != 0:
                    total, square = 0.0, 0.0
                    for j in range(i * inner, (i + 1) * inner):
                        total += totals[j]
                        square += squares[j]
                    middle = float(middles[i * inner]) + total / count
                    spread = max(0.0, (square - total * (total / count)) / count)
                    unbiased = spread * (count / max(1.0, count - 1.0))
                    mean[channel] = number(decay * mean[channel] + (1.0 - decay) * middle)
                    variance[channel] = number(decay * variance[channel] + (1.0 - decay) * unbiased)
                batch_mean[channel] = number(middle)
                batch_variance[channel] = number(spread)
                scale = number(gamma[channel] / math.sqrt(spread + eps))
                for j in range(i * inner, (i + 1) * inner):
                    middles[j] = number(middle)
                    scales[j] = scale
                    addends[j] = beta[channel]
            for n in range(outer):
                at = size * (n * channels + first) * inner
                x, y = floats(w[Forward.x] + at), floats(w[Forward.y] + at)
                for j in range(width):
                    y[j] = (x[j] - middles[j]) * scales[j] + addends[j]
                if w[Forward.after] != 0:
                    row = (n * channels + first) * inner
                    call3(w[Forward.after], w[Forward.after_block], row, row + width)
        return 0

    return normalize_columns


def _build_backward_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import plain_and_mixed

    real, sum_up = Real(dtype), plain_and_mixed(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def normalize_grad_rows(block, part, parts):
        w = words(block)
        outer, channels, inner = w[Backward.outer], w[Backward.channels], w[Backward.inner]
        batch_stat, step = w[Backward.batch_stat], w[Backward.unit_channels]
        gamma, mean, variance = floats(w[Backward.gamma]), floats(w[Backward.mean]), floats(w[Backward.variance])
        gbeta, ggamma, eps = floats(w[Backward.gbeta]), floats(w[Backward.ggamma]), float64_of_bits(w[Backward.eps])
        count = float(outer * inner)
        own = w[Backward.workspace] + part * w[Backward.share_bytes]
        totals, products = floats64(own), floats64(own + 8 * step)
        a, b, c = floats(own + 16 * step), floats(own + 24 * step), floats(own + 32 * step)
        lines = max(1, _STRETCH // inner)
        units = (channels + step - 1) // step
        for unit in range(units * part // parts, units * (part + 1) // parts):
            first = unit * step
            taken = min(step, channels - first)
            for i in range(taken):
                totals[i] = 0.0
                products[i] = 0.0
            for n in range(outer):
                for begin in range(0, taken, lines):
                    row = (n * channels + first + begin) * inner
                    end = min(taken, begin + lines)
                    if w[Backward.before] != 0:
                        call3(w[Backward.before], w[Backward.before_block], row, row + (end - begin) * inner)
                    for i in range(begin, end):
                        middle = mean[first + i]
                        for start in range(0, inner, _STRETCH):
                            at = size * (row + (i - begin) * inner + start)
                            plain, mixed = sum_up(
                                w[Backward.gy] + at, w[Backward.x] + at, min(_STRETCH, inner - start), middle
                            )
                            totals[i] += plain
                            products[i] += mixed
            for i in range(taken):
                channel = first + i
                inverse = 1.0 / math.sqrt(float(variance[channel]) + eps)
                gbeta[channel] = number(totals[i])
                ggamma[channel] = number(products[i] * inverse)
                # gx = gamma inverse (gy - mean(gy) - x_hat mean(gy x_hat)), as gy * a + (x - middle) * b + c
                slope = gamma[channel] * inverse
                a[i] = number(slope)
                b[i] = number(-slope * products[i] * inverse * inverse / count) if batch_stat != 0 else number(0)
                c[i] = number(-slope * totals[i] / count) if batch_stat != 0 else number(0)
            for n in range(outer - 1, -1, -1):  # what was read last is still in the cache
                for i in range(taken):
                    at = size * ((n * channels + first + i) * inner)
                    x, gy, gx = floats(w[Backward.x] + at), floats(w[Backward.gy] + at), floats(w[Backward.gx] + at)
                    middle, a_, b_, c_ = mean[first + i], a[i], b[i], c[i]
                    if w[Backward.gy] == w[Backward.gx]:  # one pointer for both, or the loop would not run in vectors
                        for j in range(inner):
                            gx[j] = gx[j] * a_ + ((x[j] - middle) * b_ + c_)
                    else:
                        for j in range(inner):
                            gx[j] = gy[j] * a_ + ((x[j] - middle) * b_ + c_)
        return 0

    return normalize_grad_rows


def _build_backward_columns(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real = Real(dtype)
    number, floats, size = real.kind, real.pointer, real.size

    @kernel
    def normalize_grad_columns(block, part, parts):
        w = words(block)
        outer, channels, inner = w[Backward.outer], w[Backward.channels], w[Backward.inner]
        batch_stat, step = w[Backward.batch_stat], w[Backward.unit_channels]
        gamma, mean, variance = floats(w[Backward.gamma]), floats(w[Backward.mean]), floats(w[Backward.variance])
        gbeta, ggamma, eps = floats(w[Backward.gbeta]), floats(w[Backward.ggamma]), float64_of_bits(w[Backward.eps])
        count = float(outer * inner)
        own = w[Backward.workspace] + part * w[Backward.share_bytes]
        totals, products = floats64(own), floats64(own + 8 * _COLUMNS)
        own += 16 * _COLUMNS
        middles, a = floats(own), floats(own + size * _COLUMNS)
        b, c = floats(own + 2 * size * _COLUMNS), floats(own + 3 * size * _COLUMNS)
        units = (channels + step - 1) // step
        for unit in range(units * part // parts, units * (part + 1) // parts):
            first = unit * step
            taken = min(step, channels - first)
            width = taken * inner
            for j in range(width):
                totals[j] = 0.0
                products[j] = 0.0
                middles[j] = mean[first + j // inner]
            for n in range(outer):
                row = (n * channels + first) * inner
                if w[Backward.before] != 0:
                    call3(w[Backward.before], w[Backward.before_block], row, row + width)
                x, gy = floats(w[Backward.x] + size * row), floats(w[Backward.gy] + size * row)
                for j in range(width):
                    totals[j] += gy[j]
                    products[j] += gy[j] * (x[j] - middles[j])
            for i in range(taken):
                channel = first + i
                total, product = 0.0, 0.0
                for j in range(i * inner, (i + 1) * inner):
                    total += totals[j]
                    product += products[j]
                inverse = 1.0 / math.sqrt(float(variance[channel]) + eps)
                gbeta[channel] = number(total)
                ggamma[channel] = number(product * inverse)
                slope = gamma[channel] * inverse  # a, b, c as in the kernel for rows
                for j in range(i * inner, (i + 1) * inner):
                    a[j] = number(slope)
                    b[j] = number(-slope * product * inverse * inverse / count) if batch_stat != 0 else number(0)
                    c[j] = number(-slope * total / count) if batch_stat != 0 else number(0)
            for n in range(outer):
                at = size * (n * channels + first) * inner
                x, gy, gx = floats(w[Backward.x] + at), floats(w[Backward.gy] + at), floats(w[Backward.gx] + at)
                if w[Backward.gy] == w[Backward.gx]:  # as in the kernel for rows
                    for j in range(width):
                        gx[j] = gx[j] * a[j] + ((x[j] - middles[j]) * b[j] + c[j])
                else:
                    for j in range(width):
                        gx[j] = gy[j] * a[j] + ((x[j] - middles[j]) * b[j] + c[j])
        return 0

    return normalize_grad_columns


# By op and whether it goes by rows.
_KERNELS = {
    ("BatchNormalization", True): kernels_by_dtype("normalize_rows", _build_forward_rows),
    ("BatchNormalization", False): kernels_by_dtype("normalize_columns", _build_forward_columns),
    ("BatchNormalizationGrad", True): kernels_by_dtype("normalize_grad_rows", _build_backward_rows),
    ("BatchNormalizationGrad", False): kernels_by_dtype("normalize_grad_columns", _build_backward_columns),
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


def prepare(call: Call) -> Prepared:
    """BatchNormalization: x, beta, gamma, mean, variance -> y, batch_mean, batch_variance.

    BatchNormalizationGrad: gy, x, gamma, batch_mean, batch_variance -> gx, gbeta, ggamma.
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
        step = max(1, _COLUMNS // inner)
        share_bytes = 16 * _COLUMNS + 4 * x.dtype.itemsize * _COLUMNS
        parts = share_count(work_us, -(-channels // step))
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
