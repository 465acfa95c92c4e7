"""Lays an elementwise program out over arrays: which axes to walk through, and the argument block of its kernel.

A kernel `int64 name(int64 block, int64 part, int64 parts)` gets the address of these 64-bit words, for an outer rank
R, P operands (inputs, then outputs) and A attributes:

    1                  length of the inner, contiguous axis, in elements
    R                  sizes of the outer axes, outermost first
    P                  addresses of the operands
    P * R              outer strides in elements: all of the first operand, then all of the second ...
    A                  attributes, as the bits of a float64

Along the inner axis an operand has stride 1, or 0 where it is broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from atled.ops.formula import Program

INPUT_DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool")
OUTPUT_DTYPES = ("float16", "bfloat16", "float32", "float64")
COMPUTE_DTYPES = ("float32", "float64")


class Layout:
    """What a kernel depends on, besides the program; sizes and strides are run-time values.

    dtypes: names of the operands' dtypes, inputs then outputs: float16, bfloat16, float32, float64 and, for inputs,
        int32, int64, uint8, bool.
    compute: "float32" or "float64", the type that everything is computed in.
    rank: number of outer axes.  inner_strides: 0 or 1 per operand.
    """

    __slots__ = ("compute", "dtypes", "inner_strides", "rank")
    dtypes: tuple[str, ...]
    compute: str
    rank: int
    inner_strides: tuple[int, ...]

    def __init__(self, dtypes: Sequence[str], compute: str, rank: int, inner_strides: Sequence[int]) -> None:
        for dtype in dtypes:
            if dtype not in INPUT_DTYPES:
                known = ", ".join(INPUT_DTYPES)
                raise TypeError(f"layout of {', '.join(dtypes)}: no {dtype} here. Cast to one of {known}.")
        if compute not in COMPUTE_DTYPES:
            raise ValueError(f"layout computing in {compute!r}: unknown. Use one of {', '.join(COMPUTE_DTYPES)}.")
        if len(inner_strides) != len(dtypes) or not set(inner_strides) <= {0, 1}:
            raise ValueError(f"inner strides {tuple(inner_strides)}: give 0 or 1 for each of {len(dtypes)} operands.")
        object.__setattr__(self, "dtypes", tuple(dtypes))
        object.__setattr__(self, "compute", compute)
        object.__setattr__(self, "rank", rank)
        object.__setattr__(self, "inner_strides", tuple(inner_strides))

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"a Layout cannot be changed (attribute {attribute!r}); make a new one")

    @property
    def length_word(self) -> int:
        """Word of the block that holds the length of the inner axis."""
        return 0

    @property
    def first_size(self) -> int:
        """Word of the block where the sizes of the outer axes begin."""
        return self.length_word + 1

    @property
    def first_address(self) -> int:
        """Word of the block where the addresses begin."""
        return self.first_size + self.rank

    @property
    def first_stride(self) -> int:
        """Word of the block where the outer strides begin."""
        return self.first_address + len(self.dtypes)

    @property
    def first_attribute(self) -> int:
        """Word of the block where the attributes begin."""
        return self.first_stride + len(self.dtypes) * self.rank

    @property
    def key(self) -> tuple[object, ...]:
        """All of it, for cache keys."""
        return self.dtypes, self.compute, self.rank, self.inner_strides

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Layout({self.dtypes!r}, {self.compute!r}, {self.rank!r}, {self.inner_strides!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return Layout, (self.dtypes, self.compute, self.rank, self.inner_strides)


class LayoutPlan(NamedTuple):
    """What `plan_layout` returns.

    layout: what the kernel is written for.
    words: (words,) int64; template of the argument block, addresses and attributes 0.
    address_words: word of each operand's address, inputs then outputs.
    attribute_words: word of each attribute, which is stored as the bits of a float64.
    """

    layout: Layout
    words: np.ndarray
    address_words: tuple[int, ...]
    attribute_words: dict[str, int]


def plan_layout(
    program: Program, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any], compute: str | None = None
) -> LayoutPlan:
    """Layout and argument block of `program` on C-contiguous arrays.

    shapes, dtypes: of the inputs, then of the outputs. Inputs broadcast to the outputs' shape, as NumPy does; outputs
        all have the full shape. Neighbouring axes that every operand walks through in the same way become one.
    compute: "float32" or "float64"; None takes float64 where any operand is float64.
    Raises ValueError for a wrong number of operands and for shapes that do not fit, TypeError for a dtype.
    """
    names = [np.dtype(dtype).name for dtype in dtypes]
    count = len(program.inputs)
    if not len(shapes) == len(names) == count + len(program.output_names):
        raise ValueError(
            f"{program!r}: given {len(shapes)} shapes and {len(names)} dtypes. "
            f"Give one for each of {count} inputs and {len(program.output_names)} outputs."
        )
    for name in names[count:]:
        if name not in OUTPUT_DTYPES:
            raise TypeError(f"{program!r}: an output is {name}. Give it one of {', '.join(OUTPUT_DTYPES)}.")
    *outer, (length, inner_strides) = _collapse(_broadcast_strides(program, shapes), len(names))
    compute = compute or ("float64" if "float64" in names else "float32")
    layout = Layout(names, compute, len(outer), inner_strides)
    addresses = layout.first_address
    strides = [axis[1][operand] for operand in range(len(names)) for axis in outer]
    words = [length, *(size for size, _ in outer), *[0] * len(names), *strides, *[0] * len(program.attributes)]
    attributes = layout.first_attribute
    return LayoutPlan(
        layout,
        np.array(words, np.int64),
        tuple(range(addresses, addresses + len(names))),
        {name: attributes + i for i, name in enumerate(program.attributes)},
    )


_Axis = tuple[int, tuple[int, ...]]  # size, stride in elements of each operand


def _broadcast_strides(program: Program, shapes: Sequence[tuple[int, ...]]) -> list[_Axis]:
    full = tuple(shapes[-1])
    columns = []
    for position, shape in enumerate(shapes):
        padded = (1,) * (len(full) - len(shape)) + tuple(shape)
        is_input = position < len(program.inputs)
        fits = len(padded) == len(full) and all(
            size == wanted or (is_input and size == 1) for size, wanted in zip(padded, full, strict=True)
        )
        if not fits:
            what = "input" if is_input else "output"
            raise ValueError(
                f"{program!r} on shapes {list(map(tuple, shapes))}: {what} shape {tuple(shape)} does not fit the "
                f"output shape {full}. Inputs must broadcast to it, outputs must have it."
            )
        stride, column = 1, []
        for size in reversed(padded):
            column.append(0 if size == 1 else stride)
            stride *= size
        columns.append(column[::-1])
    return [(size, tuple(column[i] for column in columns)) for i, size in enumerate(full)]


def _collapse(axes: list[_Axis], operand_count: int) -> list[_Axis]:
    """The fewest axes, innermost last, that visit the same elements; at least one."""
    # Stride 1 where it does not matter, so that scalars and empty arrays share their code with flat arrays.
    flat = (1,) * operand_count
    if any(size == 0 for size, _ in axes):
        return [(0, flat)]
    merged: list[_Axis] = []
    for size, strides in axes:
        if size == 1:
            continue
        if merged and merged[-1][1] == tuple(stride * size for stride in strides):
            size *= merged.pop()[0]
        merged.append((size, strides))
    return merged or [(1, flat)]
