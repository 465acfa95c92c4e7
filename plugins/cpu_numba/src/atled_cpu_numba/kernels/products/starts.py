"""What the sums of a product with a bias for each row start from: rows of equal numbers, as wide as a panel."""

from __future__ import annotations

from typing import Any

from atled_cpu_numba.kernels.shared.vectors import Writer, vector_intrinsic


def make_fill_starts(dtype: str = "float32") -> Any:
    """An intrinsic fill_starts((bias, starts, rows, columns)): starts[i * columns + j] = bias[i].

    0 if the address bias is 0.  columns: whole vectors. A loop over so few elements LLVM unrolls before it makes
    vectors of it: a store for each element, which took a tenth of a product's time for 49 positions under AVX-512.
    """

    def generate(w: Writer, bias: Any, starts: Any, rows: Any, columns: Any) -> None:
        builder = w.builder
        vectors = builder.sdiv(columns, w.number(w.width))

        def fill(value_of: Any) -> None:
            with w.counted(rows, [w.pointer(starts)]) as (i, (row,), following):
                value = value_of(i)
                with w.counted(vectors, [row]) as (_, (place,), further):
                    w.store(value, place)
                    further.append(w.at(place, w.width))
                following += further

        with builder.if_else(builder.icmp_signed("!=", bias, w.number(0))) as (there, absent):
            with there:
                fill(lambda i: w.splat(w.load_one(w.at(w.pointer(bias), i))))
            with absent:
                fill(lambda i: w.zeros)

    return vector_intrinsic("fill_starts", 4, generate, "See make_fill_starts.", dtype)
