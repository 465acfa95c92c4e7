"""A numba intrinsic for filters of one row: some vectors of its windows at a time.

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from atled_cpu_numba.kernels.shared.vectors import vector_intrinsic

_AT_ONCE = 4  # vectors: as many independent sums as hide the latency of the multipliers


def make_filter_line(dtype: str) -> Any:
    """An intrinsic filter_line((x, taps, tap_step, weight, turn, bias, y, vectors)).

    x: address of what the first window sees by the first tap; tap_step: from there to what it sees by the next one.
    weight: address of `taps` taps; turn: 1, or -1 for taps that descend.  bias: address of what is added.
    y: address of so many vectors of results.
    """

    def generate(w, x, taps, tap_step, weight, turn, bias, y, vectors):
        builder = w.builder
        x, weight, y = (w.pointer(address) for address in (x, weight, y))
        begin = w.splat(w.load_one(w.pointer(bias)))

        def write(j: Any, count: int) -> None:
            """The vectors from window `j` on."""
            with w.counted(taps, [*[begin] * count, w.at(x, j), weight]) as (_, phis, following):
                seen, tap = phis[count:]
                factor = w.splat(w.load_one(tap))
                for part, total in enumerate(phis[:count]):
                    following.append(w.multiply_add(factor, w.load(w.at(seen, part * w.width)), total))
                following += [w.at(seen, tap_step), w.at(tap, turn)]
            for part, total in enumerate(following[:count]):
                w.store(total, w.at(w.at(y, j), part * w.width))

        rounds = builder.sdiv(vectors, w.number(_AT_ONCE))
        with w.counted(rounds, []) as (i, _, _following):
            write(builder.mul(i, w.number(_AT_ONCE * w.width)), _AT_ONCE)
        done = builder.mul(rounds, w.number(_AT_ONCE))
        rest, j = builder.sub(vectors, done), builder.mul(done, w.number(w.width))
        for count in range(1, _AT_ONCE):
            with builder.if_then(builder.icmp_signed("==", rest, w.number(count))):
                write(j, count)

    return vector_intrinsic("filter_line", 8, generate, "A filtered row; see make_filter_line.", dtype)
