"""Lays an elementwise program out over arrays: which axes to walk through, and the argument block of its kernel.

A kernel `int64 name(int64 block, int64 part, int64 parts)` gets the address of these 64-bit words, for an outer rank
R, P operands (inputs, then outputs) and A attributes:

    1                  length of the inner, contiguous axis, in elements
    R                  sizes of the outer axes, outermost first
    P                  addresses of the operands
    P * R              outer strides in elements: all of the first operand, then all of the second ...
    P                  inner strides in elements
    1                  length of a tile along the innermost outer axis, in elements
    1                  length of a tile along the inner axis
    A                  attributes, as the bits of a float64

Along the inner axis an operand has stride 1, or 0 where it is broadcast; then there are no words for inner strides and
tiles. Operands that are described with strides may have any other (STRIDED). The kernel then works in tiles of the
inner and the innermost outer axis (so R is 1 at least), for which such operands are copied to or from a small buffer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.named_tuple import NamedTuple
from atled.ops.formula import Program

INPUT_DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool")
OUTPUT_DTYPES = ("float16", "bfloat16", "float32", "float64")
WHOLE_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FORMULA_DTYPES = (*OUTPUT_DTYPES, *WHOLE_DTYPES)
"""All that `write_llvm` reads and writes, where a Layout computes in what the operands ask for."""
COMPUTE_DTYPES = ("float32", "float64", *WHOLE_DTYPES)

STRIDED = 2
"""An inner stride that only the block tells."""

_BUFFER_BYTES = 128 << 10  # of all buffers: what the stack of a thread surely has, and the second-level cache, too
_TILE_ELEMENTS = 512  # where nothing is transposed: as little of the nearest cache as is enough for long loops
_TRANSPOSED_ROWS = 16  # elements of one line of memory, which are to be used while it is near
_GRAIN = 16  # elements: tiles are multiples of it along the inner axis
_LONG_ENOUGH = 64  # elements: an inner axis that long is as good as a longer one


def item_bytes(dtype: str) -> int:
    """Size of an element of the dtype of this name."""
    return int("".join(filter(str.isdigit, dtype)) or 8) // 8


class Layout:
    """What a kernel depends on, besides the program; sizes and strides are run-time values.

    dtypes: names of the operands' dtypes, inputs then outputs, of FORMULA_DTYPES.
    compute: the type that everything is computed in: "float32", "float64", or one of WHOLE_DTYPES.
    rank: number of outer axes.  inner_strides: 0, 1 or STRIDED per operand.
    in_order: whether the axes are those of the outputs in C order, as the form on ranges wants.
    """

    __slots__ = ("_hash", "compute", "dtypes", "in_order", "inner_strides", "rank")
    _hash: int
    dtypes: tuple[str, ...]
    compute: str
    rank: int
    inner_strides: tuple[int, ...]
    in_order: bool

    def __init__(
        self, dtypes: Sequence[str], compute: str, rank: int, inner_strides: Sequence[int], in_order: bool = True
    ) -> None:
        for dtype in dtypes:
            if dtype not in FORMULA_DTYPES:
                known = ", ".join(FORMULA_DTYPES)
                raise TypeError(f"layout of {', '.join(dtypes)}: no {dtype} here. Cast to one of {known}.")
        if compute not in COMPUTE_DTYPES:
            raise ValueError(f"layout computing in {compute!r}: unknown. Use one of {', '.join(COMPUTE_DTYPES)}.")
        if len(inner_strides) != len(dtypes) or not set(inner_strides) <= {0, 1, STRIDED}:
            kinds = f"give 0, 1 or {STRIDED} (any other)"
            raise ValueError(f"inner strides {tuple(inner_strides)}: {kinds} for each of {len(dtypes)} operands.")
        if STRIDED in inner_strides and not rank:
            raise ValueError(f"inner strides {tuple(inner_strides)} in rank 0: give an outer axis, of one element.")
        object.__setattr__(self, "dtypes", tuple(dtypes))
        object.__setattr__(self, "compute", compute)
        object.__setattr__(self, "rank", rank)
        object.__setattr__(self, "inner_strides", tuple(inner_strides))
        object.__setattr__(self, "in_order", in_order)
        object.__setattr__(self, "_hash", hash(self.key))

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
    def first_inner_stride(self) -> int:
        """Word of the block where the inner strides begin."""
        return self.first_stride + len(self.dtypes) * self.rank

    @property
    def first_tile(self) -> int:
        """Word of the block with the lengths of a tile."""
        return self.first_inner_stride + len(self.dtypes)

    @property
    def first_attribute(self) -> int:
        """Word of the block where the attributes begin."""
        return self.first_tile + 2 if self.is_tiled else self.first_inner_stride

    @property
    def is_tiled(self) -> bool:
        """Whether an operand has another inner stride than 0 and 1."""
        return STRIDED in self.inner_strides

    @property
    def tile_elements(self) -> int:
        """The most elements of a tile: room in each buffer."""
        strided = [dtype for dtype, inner in zip(self.dtypes, self.inner_strides, strict=True) if inner == STRIDED]
        fitting = _BUFFER_BYTES // sum(map(item_bytes, strided)) // _GRAIN * _GRAIN
        return int(max(fitting, _GRAIN * _TRANSPOSED_ROWS))

    @property
    def key(self) -> tuple[Any, ...]:
        """All of it, for cache keys."""
        return self.dtypes, self.compute, self.rank, self.inner_strides, self.in_order

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return self.key == other.key if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Layout({', '.join(map(repr, self.key))})"

    def __reduce__(self) -> tuple[object, ...]:
        return Layout, self.key


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
    program: Program,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[Any],
    compute: str | None = None,
    strides: Sequence[tuple[int, ...] | None] = (),
) -> LayoutPlan:
    """Layout and argument block of `program` on arrays.

    shapes, dtypes: of the inputs, then of the outputs. Inputs broadcast to the outputs' shape, as NumPy does; outputs
        all have the full shape. Neighbouring axes that every operand walks through in the same way become one.
    compute: as of `Layout`; None takes float64 where any operand is float64, else float32.
    strides: in elements, of each operand; None, or nothing at all, means C-contiguous. Where any is given, axes are
        walked through in the order that suits most operands.
    Raises ValueError for a wrong number of operands and for shapes that do not fit, TypeError for a dtype.
    """
    names = [_name_of(dtype) for dtype in dtypes]
    count = len(program.inputs)
    if not len(shapes) == len(names) == count + len(program.output_names):
        raise ValueError(
            f"{program!r}: given {len(shapes)} shapes and {len(names)} dtypes. "
            f"Give one for each of {count} inputs and {len(program.output_names)} outputs."
        )
    is_strided = any(given is not None for given in strides)
    axes = None if is_strided else _flat(shapes, count)
    if axes is None:
        axes = _collapse(_broadcast_strides(program, shapes, strides or (None,) * len(names)), len(names))
    in_c_order = axes
    if is_strided:
        axes = _collapse(_ordered(axes, count, names), len(names))
    *outer, (length, inner) = axes
    inner_strides = [stride if stride in (0, 1) else STRIDED for stride in inner]
    if STRIDED in inner_strides:
        outer = _crossing_last(outer, inner, names) or [(1, (0,) * len(names))]
    compute = compute or ("float64" if "float64" in names else "float32")
    in_order = axes == in_c_order and STRIDED not in inner_strides
    layout = _layout(tuple(names), compute, len(outer), tuple(inner_strides), in_order)
    words = [length, *(size for size, _ in outer), *[0] * len(names)]
    words += [axis[1][operand] for operand in range(len(names)) for axis in outer]
    if layout.is_tiled:
        words += [*inner, *_tile(outer[-1], (length, inner), layout.tile_elements)]
    words += [0] * len(program.attributes)
    return LayoutPlan(
        layout,
        np.array(words, np.int64),
        tuple(range(layout.first_address, layout.first_stride)),
        {name: layout.first_attribute + i for i, name in enumerate(program.attributes)},
    )


@functools.lru_cache(maxsize=1024)
def _layout(dtypes: tuple[str, ...], compute: str, rank: int, inner_strides: tuple[int, ...], in_order: bool) -> Layout:
    """The layout with these fields; one for all arrays that differ in sizes alone."""
    return Layout(dtypes, compute, rank, inner_strides, in_order)


@functools.cache
def _name_of(dtype: Any) -> str:
    """The name of a dtype, which NumPy takes 3 us to put together."""
    name: str = np.dtype(dtype).name
    return name


_Axis = tuple[int, tuple[int, ...]]  # size, stride in elements of each operand


def _broadcast_strides(
    program: Program, shapes: Sequence[tuple[int, ...]], strides: Sequence[tuple[int, ...] | None]
) -> list[_Axis]:
    full = tuple(shapes[-1])
    columns = []
    for position, (shape, given) in enumerate(zip(shapes, strides, strict=True)):
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
        if given is None:
            given = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        moving = [0] * (len(full) - len(shape)) + list(given)
        columns.append([0 if size == 1 else stride for size, stride in zip(padded, moving, strict=True)])
    return [(size, tuple(column[i] for column in columns)) for i, size in enumerate(full)]


def _flat(shapes: Sequence[tuple[int, ...]], input_count: int) -> list[_Axis] | None:
    """What `_collapse` gives for C order where each input has the shape of the outputs, or one element; else None."""
    full = shapes[-1]
    size = math.prod(full)
    strides = []
    for position, shape in enumerate(shapes):
        if shape == full:
            strides.append(1)
        elif position < input_count and len(shape) <= len(full) and math.prod(shape) == 1:
            strides.append(0)
        else:
            return None
    return [(size, tuple(strides) if size > 1 else (1,) * len(shapes))]


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


def _ordered(axes: list[_Axis], input_count: int, dtypes: Sequence[str]) -> list[_Axis]:
    """The axes in the order of the memory of the outputs, but for the innermost one, which is best for all operands."""
    inner = max(range(len(axes)), key=lambda i: (min(axes[i][0], _LONG_ENOUGH) * _unit_bytes(axes[i], dtypes), i))
    outer = [axis for i, axis in enumerate(axes) if i != inner]
    outer.sort(key=lambda axis: [-abs(stride) for stride in axis[1][input_count:]])
    return [*outer, axes[inner]]


def _crossing_last(outer: list[_Axis], inner: Sequence[int], dtypes: Sequence[str]) -> list[_Axis]:
    """The outer axes, last the one along which most of the operands lie that the inner axis does not suit."""
    if not outer:
        return []
    suited = [stride in (0, 1) for stride in inner]
    last = max(range(len(outer)), key=lambda i: (_unit_bytes(outer[i], dtypes, suited), i))
    return [*outer[:last], *outer[last + 1 :], outer[last]]


def _unit_bytes(axis: _Axis, dtypes: Sequence[str], left_out: Sequence[bool] = ()) -> int:
    """Bytes per element of the operands whose memory goes on from element to element along an axis."""
    return sum(
        item_bytes(dtype)
        for operand, (dtype, stride) in enumerate(zip(dtypes, axis[1], strict=True))
        if stride == 1 and not (left_out and left_out[operand])
    )


def _tile(down: _Axis, across: _Axis, most: int) -> tuple[int, int]:
    """Lengths of a tile along the two axes; most: the elements that the buffers have room for.

    Long rows, for memory is read ahead along them; where an operand is transposed, lines of it are used as a whole.
    """
    (rows, row_strides), (columns, steps) = down, across
    transposes = any(row == 1 and step not in (0, 1) for row, step in zip(row_strides, steps, strict=True))
    height, most = (min(rows, _TRANSPOSED_ROWS), most) if transposes else (1, min(most, _TILE_ELEMENTS))
    width = min(-(-columns // _GRAIN) * _GRAIN, most // height // _GRAIN * _GRAIN)
    return min(rows, most // width), width
