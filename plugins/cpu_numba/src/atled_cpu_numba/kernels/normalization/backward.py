"""The kernels of BatchNormalization's gradient: one that goes through rows, and one that goes through columns."""

from __future__ import annotations

import math
from collections.abc import Callable

from atled_cpu_numba.kernels.normalization.forward import STRETCH, STRETCH_ROWS
from atled_cpu_numba.kernels.shared.elements import item_bytes, real_of
from atled_cpu_numba.kernels.shared.launch import ANY, kernels_by_dtype
from atled_cpu_numba.kernels.shared.layout import layout


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


def _build_rows(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, float64_of_bits, floats64, words
    from atled_cpu_numba.kernels.normalization.scaled_rows import make_propagate_row
    from atled_cpu_numba.kernels.shared.options import Real, kernel
    from atled_cpu_numba.kernels.shared.sums import plain_and_mixed

    real, item, sum_up = Real(real_of(dtype)), item_bytes(dtype), plain_and_mixed(dtype)
    number, floats, size, propagate_row = real.kind, real.pointer, real.size, make_propagate_row(dtype)

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
        a_at, b_at, c_at = own + 16 * step, own + 24 * step, own + 32 * step
        a, b, c = floats(a_at), floats(b_at), floats(c_at)
        lines = max(1, STRETCH // inner)
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
                    elements = (end - begin) * inner  # longer than a stretch for one channel alone
                    for start in range(0, elements, STRETCH):
                        some = min(STRETCH, elements - start)
                        x, gy = w[Backward.x] + item * (row + start), w[Backward.gy] + item * (row + start)
                        length = min(inner, some)
                        for i in range(begin, end):
                            at = item * (i - begin) * inner
                            plain, mixed = sum_up(gy + at, x + at, length, mean[first + i])
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
                for begin in range(0, taken, lines):
                    row = (n * channels + first + begin) * inner
                    end = min(taken, begin + lines)
                    for i in range(begin, end):
                        at, far = item * (row + (i - begin) * inner), size * i
                        x, gy, gx = w[Backward.x] + at, w[Backward.gy] + at, w[Backward.gx] + at
                        middle_at = w[Backward.mean] + size * (first + i)
                        propagate_row((x, gy, gx, middle_at, a_at + far, b_at + far, c_at + far, inner))
        return 0

    return normalize_grad_rows


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
    def normalize_grad_columns(block, part, parts):
        w = words(block)
        outer, channels, inner = w[Backward.outer], w[Backward.channels], w[Backward.inner]
        batch_stat, step = w[Backward.batch_stat], w[Backward.unit_channels]
        gamma, mean, variance = floats(w[Backward.gamma]), floats(w[Backward.mean]), floats(w[Backward.variance])
        gbeta, ggamma, eps = floats(w[Backward.gbeta]), floats(w[Backward.ggamma]), float64_of_bits(w[Backward.eps])
        count = float(outer * inner)
        row_bytes, most = item * channels * inner, step * inner
        own = w[Backward.workspace] + part * w[Backward.share_bytes]
        totals, products = floats64(own), floats64(own + 8 * most)
        own += 16 * most
        middles, a = floats(own), floats(own + size * most)
        b, c = floats(own + 2 * size * most), floats(own + 3 * size * most)
        sums, mixed = b, c  # of a stretch; then what results are made of
        units = (channels + step - 1) // step
        for unit in range(units * part // parts, units * (part + 1) // parts):
            first = unit * step
            taken = min(step, channels - first)
            width = taken * inner
            for j in range(width):
                totals[j] = 0.0
                products[j] = 0.0
                middles[j] = mean[first + j // inner]
            for top in range(0, outer, STRETCH_ROWS):
                rows = min(STRETCH_ROWS, outer - top)
                for j in range(width):
                    sums[j] = number(0)
                    mixed[j] = number(0)
                for piece in range((rows + 3) // 4):
                    some = min(4, rows - 4 * piece)
                    at = (top + 4 * piece) * row_bytes + item * first * inner
                    if w[Backward.before] != 0:
                        for n in range(some):
                            row = ((top + 4 * piece + n) * channels + first) * inner
                            call3(w[Backward.before], w[Backward.before_block], row, row + width)
                    x_at, gy_at = w[Backward.x] + at, w[Backward.gy] + at
                    if some == 4:
                        x0, x1 = elements(x_at), elements(x_at + row_bytes)
                        x2, x3 = elements(x_at + 2 * row_bytes), elements(x_at + 3 * row_bytes)
                        g0, g1 = elements(gy_at), elements(gy_at + row_bytes)
                        g2, g3 = elements(gy_at + 2 * row_bytes), elements(gy_at + 3 * row_bytes)
                        for j in range(width):
                            middle = middles[j]
                            a0, a1, a2, a3 = read(g0, j), read(g1, j), read(g2, j), read(g3, j)
                            sums[j] += (a0 + a1) + (a2 + a3)
                            mixed[j] += (a0 * (read(x0, j) - middle) + a1 * (read(x1, j) - middle)) + (
                                a2 * (read(x2, j) - middle) + a3 * (read(x3, j) - middle)
                            )
                    else:
                        for n in range(some):
                            x, gy = elements(x_at + n * row_bytes), elements(gy_at + n * row_bytes)
                            for j in range(width):
                                sums[j] += read(gy, j)
                                mixed[j] += read(gy, j) * (read(x, j) - middles[j])
                for j in range(width):
                    totals[j] += float(sums[j])
                    products[j] += float(mixed[j])
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
            for n in range(outer - 1, -1, -1):  # as in the kernel for rows
                at = item * (n * channels + first) * inner
                x, gy, gx = elements(w[Backward.x] + at), elements(w[Backward.gy] + at), elements(w[Backward.gx] + at)
                if w[Backward.gy] == w[Backward.gx]:  # as in the kernel for rows
                    for j in range(width):
                        write(gx, j, read(gx, j) * a[j] + ((read(x, j) - middles[j]) * b[j] + c[j]))
                else:
                    for j in range(width):
                        write(gx, j, read(gy, j) * a[j] + ((read(x, j) - middles[j]) * b[j] + c[j]))
        return 0

    return normalize_grad_columns


ROWS = kernels_by_dtype("normalize_grad_rows", _build_rows, dtypes=ANY)
COLUMN_WISE = kernels_by_dtype("normalize_grad_columns", _build_columns, dtypes=ANY)
