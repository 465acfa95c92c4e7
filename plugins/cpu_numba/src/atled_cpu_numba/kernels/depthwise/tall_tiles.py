"""A numba intrinsic for filters of padded planes: rows of the result in registers, a vector of columns each.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic


def make_padded_filter(height: int, stride: int, rows: int, dtype: str) -> Any:
    """An intrinsic that filters a vector of columns of a padded plane, `rows` of the result.

    padded_filter((x, pitch, ahead, step, columns, weight, turn, bias, y, y_row)):
    x: address of what the first tap of the first row sees; the plane's rows are `pitch` apart, `stride` of them from
       row to row of the result.  The second tap beside it sees ahead elements further, each other one step further
       than the tap before the last.
    weight: `height` rows of `columns` taps, one behind the other, those of the first row first; turn: 1, or -1 for
       taps that descend.
    bias: address of a number.  y: rows of a vector, y_row apart.
    """

    def generate(w, x, pitch, ahead, step, columns, weight, turn, bias, y, y_row):
        builder = w.builder
        x, weight, bias, y = (w.pointer(address) for address in (x, weight, bias, y))
        weight_row = builder.mul(columns, turn)
        begin = w.splat(w.load_one(bias))
        with w.counted(columns, [begin] * rows + [x, w.at(x, ahead), weight]) as (_, phis, following):
            sums, (seen, beside, taps) = phis[:rows], phis[rows:]
            factors = [w.splat(w.load_one(w.at(taps, builder.mul(weight_row, w.number(r))))) for r in range(height)]
            line = seen
            for j in range((rows - 1) * stride + height):
                values = w.load(line)
                for r in range(height):
                    i, rest = divmod(j - r, stride)
                    if rest == 0 and 0 <= i < rows:
                        sums[i] = w.multiply_add(values, factors[r], sums[i])
                line = w.at(line, pitch)
            following += [*sums, beside, w.at(seen, step), w.at(taps, turn)]
        for i in range(rows):
            w.store(following[i], w.at(y, builder.mul(y_row, w.number(i))))

    name = f"padded_filter_{height}_{stride}_{rows}"
    return vector_intrinsic(name, 10, generate, "Some rows of a filter; see make_padded_filter.", dtype)
