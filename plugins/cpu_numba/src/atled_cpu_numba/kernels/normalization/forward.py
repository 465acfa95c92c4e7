"""The kernels of BatchNormalization: one that goes through rows, and one that goes through columns.

Statistics are taken around the mean of the stretch before, or of the first rows, and added up in float64: a mean far
from zero costs no digits of the variance. Where stretches differ a lot, that is the variance: what it costs around the
wrong mean is a rounding of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.launch import ANY, kernels_by_dtype
from atled_cpu_numba.kernels.shared.layout import layout

STRETCH = 2048  # elements that stay in the level-1 cache between two passes
# Side by side. Of float32 so many that memory is read ahead, while what belongs to them stays in the level-2 cache; of
# float64 as many as stay in the level-1 cache with eight of their rows: of more, images of 4 x 4 took 1.3 of the time.
MOST_COLUMNS = {"float32": 1024, "float64": 256}
FEWEST_COLUMNS = 256  # of a share
STRETCH_ROWS = 64  # of columns: so many are added up in the array's dtype
_FIRST_ROWS = 4  # of columns: whose mean the first stretch is taken around


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


def _build_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.normalization.scaled_rows import make_scale_row
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import moments, plain_sum

    real, item, sum_up, sum_moments = Real(real_of(dtype)), item_bytes(dtype), plain_sum(dtype), moments(dtype)
    number, floats, size, scale_row = real.kind, real.pointer, real.size, make_scale_row(dtype)

    @kernel
    def normalize_rows(block, part, parts):
        w = words(block)
        outer, channels, inner = w[Forward.outer], w[Forward.channels], w[Forward.inner]
        batch_stat, step = w[Forward.batch_stat], w[Forward.unit_channels]
        gamma = floats(w[Forward.gamma])
        mean, variance = floats(w[Forward.mean]), floats(w[Forward.variance])
        batch_mean, batch_variance = floats(w[Forward.batch_mean]), floats(w[Forward.batch_variance])
        decay, eps = float64_of_bits(w[Forward.decay_rate]), float64_of_bits(w[Forward.eps])
        count = float(outer * inner)
        own = w[Forward.workspace] + part * w[Forward.share_bytes]
        shifts, totals, squares = floats64(own), floats64(own + 8 * step), floats64(own + 16 * step)
        arounds, scales = floats(own + 24 * step), floats(own + 32 * step)
        lines = max(1, STRETCH // inner)
        units = (channels + step - 1) // step
        for unit in range(units * part // parts, units * (part + 1) // parts):
            first = unit * step
            taken = min(step, channels - first)
            if batch_stat != 0:
                for i in range(taken):
                    length = min(STRETCH, inner)
                    arounds[i] = number(sum_up(w[Forward.x] + item * (first + i) * inner, length) / number(length))
                    shifts[i] = float(arounds[i])
                    totals[i] = 0.0
                    squares[i] = 0.0
                for n in range(outer):
                    for begin in range(0, taken, lines):
                        row = (n * channels + first + begin) * inner
                        end = min(taken, begin + lines)
                        elements = (end - begin) * inner  # longer than a stretch for one channel alone
                        for start in range(0, elements, STRETCH):
                            some = min(STRETCH, elements - start)
                            x = w[Forward.x] + item * (row + start)
                            length = min(inner, some)
                            for i in range(begin, end):
                                around = arounds[i]
                                rest, square = sum_moments(x + item * (i - begin) * inner, length, around)
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
                        at = item * (row + (i - begin) * inner)
                        middle_at, scale_at = own + 24 * step + size * i, own + 32 * step + size * i
                        beta_at = w[Forward.beta] + size * (first + i)
                        scale_row((w[Forward.x] + at, w[Forward.y] + at, middle_at, scale_at, beta_at, inner))
                    if w[Forward.after] != 0:
                        call3(w[Forward.after], w[Forward.after_block], row, row + (end - begin) * inner)
        return 0

    return normalize_rows


def _build_columns(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.shared.narrow_vectors import make_reading, make_writing
    from atled_cpu_numba.kernels.shared.options import Real, kernel

    real, item, (elements, read), write = (
        Real(real_of(dtype)),
        item_bytes(dtype),
        make_reading(dtype),
        make_writing(dtype),
    )
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
        row_bytes, most = item * channels * inner, step * inner
        own = w[Forward.workspace] + part * w[Forward.share_bytes]
        totals, squares = floats64(own), floats64(own + 8 * most)
        own += 16 * most
        middles, shifts = floats(own), floats(own + size * most)
        # Of a stretch; then what results are made of.
        rests, parts_of_squares = floats(own + 2 * size * most), floats(own + 3 * size * most)
        scales, addends = rests, parts_of_squares
        units = (channels + step - 1) // step
        for unit in range(units * part // parts, units * (part + 1) // parts):
            first = unit * step
            taken = min(step, channels - first)
            width = taken * inner
            x_at = w[Forward.x] + item * first * inner
            if batch_stat != 0:
                shift = elements(x_at)
                for j in range(width):
                    totals[j] = 0.0
                    squares[j] = 0.0
                    shifts[j] = read(shift, j // inner * inner)
                    middles[j] = number(0)
                some = min(_FIRST_ROWS, outer)
                for n in range(some):
                    x = elements(x_at + n * row_bytes)
                    for j in range(width):
                        middles[j] += read(x, j) - shifts[j]
                for j in range(width):
                    middles[j] = shifts[j] + middles[j] / number(some)
                for top in range(0, outer, STRETCH_ROWS):
                    rows, at = min(STRETCH_ROWS, outer - top), x_at + top * row_bytes
                    for j in range(width):
                        rests[j] = number(0)
                        parts_of_squares[j] = number(0)
                    for _ in range(rows // 8):
                        x0, x1, x2, x3 = (
                            elements(at),
                            elements(at + row_bytes),
                            elements(at + 2 * row_bytes),
                            elements(at + 3 * row_bytes),
                        )
                        at += 4 * row_bytes
                        x4, x5, x6, x7 = (
                            elements(at),
                            elements(at + row_bytes),
                            elements(at + 2 * row_bytes),
                            elements(at + 3 * row_bytes),
                        )
                        at += 4 * row_bytes
                        for j in range(width):
                            around = middles[j]
                            a, b = read(x0, j) - around, read(x1, j) - around
                            c, d = read(x2, j) - around, read(x3, j) - around
                            e, f = read(x4, j) - around, read(x5, j) - around
                            g, h = read(x6, j) - around, read(x7, j) - around
                            rests[j] += ((a + b) + (c + d)) + ((e + f) + (g + h))
                            parts_of_squares[j] += ((a * a + b * b) + (c * c + d * d)) + (
                                (e * e + f * f) + (g * g + h * h)
                            )
                    for _ in range(rows % 8):
                        x = elements(at)
                        for j in range(width):
                            d = read(x, j) - middles[j]
                            rests[j] += d
                            parts_of_squares[j] += d * d
                        at += row_bytes
                    length = float(rows)
                    for j in range(width):
                        rest, offset = float(rests[j]), float(middles[j]) - float(shifts[j])
                        totals[j] += length * offset + rest
                        squares[j] += float(parts_of_squares[j]) + offset * (2.0 * rest + length * offset)
                        middles[j] = number(float(middles[j]) + rest / length)
            for i in range(taken):
                channel = first + i
                middle, spread = float(mean[channel]), float(variance[channel])
                if batch_stat != 0:
                    total, square = 0.0, 0.0
                    for j in range(i * inner, (i + 1) * inner):
                        total += totals[j]
                        square += squares[j]
                    middle = float(shifts[i * inner]) + total / count
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
            for n in range(outer - 1, -1, -1):  # as in the kernel for rows
                at = item * (n * channels + first) * inner
                x, y = elements(w[Forward.x] + at), elements(w[Forward.y] + at)
                for j in range(width):
                    write(y, j, (read(x, j) - middles[j]) * scales[j] + addends[j])
                if w[Forward.after] != 0:
                    row = (n * channels + first) * inner
                    call3(w[Forward.after], w[Forward.after_block], row, row + width)
        return 0

    return normalize_columns


ROWS = kernels_by_dtype("normalize_rows", _build_rows, dtypes=ANY)
COLUMN_WISE = kernels_by_dtype("normalize_columns", _build_columns, dtypes=ANY)
