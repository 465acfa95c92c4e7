"""What recurrent cells do with the numbers of one row of one step, between the matrix products.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
All arguments are addresses of rows of `size` floats, or several of them side by side. Each loop writes one row and
reads few, so that LLVM finds in a handful of comparisons that they do not overlap, and computes in vectors.

Forward pieces: (maps, h, c, y, cells, size, count): the affine maps become gates, in place, then y and cells are
written; of `count` units from those on at which the addresses are.
Backward pieces: (gates, h, c, y, cells, of_x, of_h, gh, gc, own, size): gh and gc hold what arrives at y and
cells; of_x and of_h get the gradients of the affine maps of x and of h; gh and gc are left with what goes to the states
before without passing a matrix. own: a row of workspace. h and c are the states before the step.
"""

from __future__ import annotations

from typing import Any

from atled.plugin import NamedTuple
from atled_cpu_numba.kernels.recurrent.gates import row_activations
from atled_cpu_numba.kernels.shared.options import Real, piece
from atled_cpu_numba.kernels.shared.scalars import activations, choose


class Cell(NamedTuple):
    """One kind of cell.

    maps: affine maps per unit.  saved: numbers per unit kept for the gradient, the maps' place in the forward.
    separate: how many of the maps, the last ones, are kept apart from their parts of h, which have a bias of their own.
    carries: whether some of gh goes to the step before without passing the weight.
    """

    maps: int
    saved: int
    separate: int
    carries: bool
    forward: Any  # numba ships no types
    backward: Any


def cell_of(name: str, dtype: str) -> Cell:
    """ "LSTM", "GRU", or a plain cell by its activation, "TANH" or "RELU", for "float32" or "float64"."""
    real = Real(dtype)
    number, floats, element = real.kind, real.pointer, real.size
    tanh, rows = activations(dtype).tanh, row_activations(dtype)
    sigmoid_row, tanh_row = rows.sigmoid, rows.tanh

    @piece
    def lstm(maps, h, c, y, cells, size, count):
        i, f, g, o = (
            floats(maps),
            floats(maps + element * size),
            floats(maps + 2 * element * size),
            floats(maps + 3 * element * size),
        )
        for number in range(4):
            row = maps + element * number * size
            if number == 2:
                tanh_row(row, row, count)
            else:
                sigmoid_row(row, row, count)
        before, after, out = floats(c), floats(cells), floats(y)
        for j in range(count):
            after[j] = f[j] * before[j] + i[j] * g[j]
        tanh_row(cells, y, count)
        for j in range(count):
            out[j] *= o[j]

    @piece
    def lstm_grad(gates, h, c, y, cells, of_x, of_h, gh, gc, own, size):
        i, f, g, o = (
            floats(gates),
            floats(gates + element * size),
            floats(gates + 2 * element * size),
            floats(gates + 3 * element * size),
        )
        before, after = floats(c), floats(cells)
        of_i, of_f, of_g = floats(of_x), floats(of_x + element * size), floats(of_x + 2 * element * size)
        of_o = floats(of_x + 3 * element * size)
        to_h, to_c, squashed = floats(gh), floats(gc), floats(own)
        one = number(1)
        for j in range(size):
            squashed[j] = tanh(after[j])
        for j in range(size):
            of_o[j] = to_h[j] * squashed[j] * (o[j] * (one - o[j]))
        for j in range(size):
            to_c[j] += to_h[j] * o[j] * (one - squashed[j] * squashed[j])
        for j in range(size):
            of_i[j] = to_c[j] * g[j] * (i[j] * (one - i[j]))
        for j in range(size):
            of_f[j] = to_c[j] * before[j] * (f[j] * (one - f[j]))
        for j in range(size):
            of_g[j] = to_c[j] * i[j] * (one - g[j] * g[j])
        for j in range(size):
            to_c[j] *= f[j]

    @piece
    def gru(maps, h, c, y, cells, size, count):
        r, z, n, new = (
            floats(maps),
            floats(maps + element * size),
            floats(maps + 2 * element * size),
            floats(maps + 3 * element * size),
        )
        sigmoid_row(maps, maps, count)
        sigmoid_row(maps + element * size, maps + element * size, count)
        for j in range(count):
            n[j] += r[j] * new[j]
        tanh_row(maps + 2 * element * size, maps + 2 * element * size, count)
        before, out = floats(h), floats(y)
        for j in range(count):
            out[j] = n[j] + z[j] * (before[j] - n[j])

    @piece
    def gru_grad(gates, h, c, y, cells, of_x, of_h, gh, gc, own, size):
        r, z, n, new = (
            floats(gates),
            floats(gates + element * size),
            floats(gates + 2 * element * size),
            floats(gates + 3 * element * size),
        )
        of_r, of_z, of_n = floats(of_x), floats(of_x + element * size), floats(of_x + 2 * element * size)
        of_r_z, of_new = floats(of_h), floats(of_h + 2 * element * size)
        before, to_h = floats(h), floats(gh)
        one = number(1)
        for j in range(size):
            of_z[j] = to_h[j] * (before[j] - n[j]) * (z[j] * (one - z[j]))
        for j in range(size):
            of_n[j] = to_h[j] * (one - z[j]) * (one - n[j] * n[j])
        for j in range(size):
            of_r[j] = of_n[j] * new[j] * (r[j] * (one - r[j]))
        for j in range(size):
            of_new[j] = of_n[j] * r[j]
        for j in range(2 * size):
            of_r_z[j] = of_r[j]
        for j in range(size):
            to_h[j] *= z[j]

    @piece
    def plain_tanh(maps, h, c, y, cells, size, count):
        tanh_row(y, y, count)

    @piece
    def tanh_grad(gates, h, c, y, cells, of_x, of_h, gh, gc, own, size):
        out, of_map, to_h = floats(y), floats(of_x), floats(gh)
        for j in range(size):
            of_map[j] = to_h[j] * (number(1) - out[j] * out[j])

    @piece
    def relu(maps, h, c, y, cells, size, count):
        out = floats(y)
        for j in range(count):
            out[j] = choose(out[j] < number(0), number(0), out[j])  # NaN stays

    @piece
    def relu_grad(gates, h, c, y, cells, of_x, of_h, gh, gc, own, size):
        out, of_map, to_h = floats(y), floats(of_x), floats(gh)
        for j in range(size):
            of_map[j] = choose(out[j] > number(0), to_h[j], number(0))

    return {
        "LSTM": Cell(4, 4, 0, False, lstm, lstm_grad),
        "GRU": Cell(3, 4, 1, True, gru, gru_grad),
        "TANH": Cell(1, 0, 0, False, plain_tanh, tanh_grad),
        "RELU": Cell(1, 0, 0, False, relu, relu_grad),
    }[name]
