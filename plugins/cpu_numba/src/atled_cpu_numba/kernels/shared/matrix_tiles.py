"""numba intrinsics on the tiles of AMX: products of bfloat16, summed up in float32.

A tile has 16 rows of 64 bytes. One of A has 32 numbers of each of 16 rows. One of B has, of 16 columns, 32 numbers, two
by two: row i holds the numbers 2 i and 2 i + 1 of column 0, then those of column 1, ... C's are float32, 16 by 16.
Each instruction adds the products of the first numbers of the pairs, and those of the second ones, in order; it takes
denormals for zeros, and makes zeros of them. (Intel's manual, volume 2, TDPBF16PS.)

Importing this module imports numba; so kernel modules import it only inside the functions that build a kernel.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from atled_cpu_numba.kernels.shared.vectors import Writer, transpose_registers, vector_intrinsic

_ROWS = 16  # of a tile, and columns of one of C
_TILE_BYTES = 1024
_CONFIGURATION_WORDS = 8

_BYTE = ir.IntType(8)
_HALVES, _WORDS = (ir.VectorType(ir.IntType(bits), _ROWS) for bits in (16, 32))
_LINE = 64
# Numbers of the tiles: four of C, two each of A and B.
_C, _A, _B = (0, 1, 2, 3), (4, 5), (6, 7)


def _call(w: Writer, name: str, kinds: list[Any], *arguments: Any) -> None:
    w.builder.call(w.declare(f"llvm.x86.{name}", ir.VoidType(), kinds), list(arguments))


def _tile(number: int) -> Any:
    return ir.Constant(_BYTE, number)


def _place(w: Writer, address: Any) -> Any:
    return w.builder.inttoptr(address, _BYTE.as_pointer())


def _move(w: Writer, name: str, tile: int, address: Any, row_bytes: Any) -> None:
    kinds = [_BYTE, _BYTE.as_pointer(), ir.IntType(64)]
    _call(w, name, kinds, _tile(tile), _place(w, address), row_bytes)


def _generate_configure(w: Writer, address: Any) -> None:
    """Palette 1; 64 bytes a row and 16 rows for each of the eight tiles."""
    words = w.builder.inttoptr(address, ir.IntType(64).as_pointer())
    bytes_of_four, rows_of_eight = 0x0040_0040_0040_0040, 0x1010_1010_1010_1010
    content = {0: 1, 2: bytes_of_four, 3: bytes_of_four, 6: rows_of_eight}
    for word in range(_CONFIGURATION_WORDS):
        w.builder.store(w.number(content.get(word, 0)), w.builder.gep(words, [w.number(word)]))
    _call(w, "ldtilecfg", [_BYTE.as_pointer()], _place(w, address))


def _generate_release(w: Writer) -> None:
    _call(w, "tilerelease", [])


def _generate_add_product(w: Writer, a: Any, a_row: Any, b: Any, b_step: Any, steps: Any, c: Any, c_row: Any) -> None:
    builder = w.builder

    def below(address: Any, row: Any) -> Any:
        return builder.add(address, builder.mul(row, w.number(_ROWS)))

    upper_left, lower_left = c, below(c, c_row)
    places = [builder.add(start, w.number(_LINE * column)) for start in (upper_left, lower_left) for column in (0, 1)]
    for tile, place in zip(_C, places, strict=True):
        _move(w, "tileloadd64", tile, place, c_row)
    line = w.number(_LINE)
    with w.counted(steps, [a, b]) as (_, (a_at, b_at), following):
        _move(w, "tileloadd64", _A[0], a_at, a_row)
        _move(w, "tileloadd64", _B[0], b_at, line)
        _move(w, "tileloadd64", _B[1], builder.add(b_at, b_step), line)
        _move(w, "tileloadd64", _A[1], below(a_at, a_row), a_row)
        for tile in _C:
            row, column = divmod(tile, 2)
            _call(w, "tdpbf16ps", [_BYTE] * 3, _tile(tile), _tile(_A[row]), _tile(_B[column]))
        following += [builder.add(a_at, line), builder.add(b_at, w.number(_TILE_BYTES))]
    for tile, place in zip(_C, places, strict=True):
        _move(w, "tilestored64", tile, place, c_row)


def _load(w: Writer, address: Any, kind: Any) -> Any:
    return w.builder.load(w.builder.inttoptr(address, kind.as_pointer()), align=2, typ=kind)


def _store(w: Writer, value: Any, address: Any) -> None:
    w.builder.store(value, w.builder.inttoptr(address, value.type.as_pointer()), align=4)


def _generate_pair_rows(w: Writer, x: Any, z: Any, target: Any, b_step: Any) -> None:
    builder = w.builder
    for column in (0, 1):
        places = [builder.add(address, w.number(2 * _ROWS * column)) for address in (x, z)]
        first, second = (builder.zext(_load(w, place, _HALVES), _WORDS) for place in places)
        pairs = builder.or_(first, builder.shl(second, ir.Constant(_WORDS, [16] * _ROWS)))
        _store(w, pairs, builder.add(target, b_step) if column else target)


def _generate_transpose_pairs(w: Writer, places: Any, offset: Any, target: Any, mask: Any, last: Any) -> None:
    builder = w.builder
    table = builder.inttoptr(places, ir.IntType(64).as_pointer())
    rows = []
    for column in range(_ROWS):
        start = builder.load(builder.gep(table, [w.number(column)]), typ=ir.IntType(64))
        rows.append(_load(w, builder.add(start, offset), _WORDS))
    transpose_registers(w, rows)
    narrow = builder.trunc(mask, ir.IntType(32))
    undefined = ir.Constant(_WORDS, ir.Undefined)
    first = builder.insert_element(undefined, narrow, ir.Constant(ir.IntType(32), 0))
    kept = builder.shuffle_vector(first, undefined, ir.Constant(_WORDS, [0] * _ROWS))
    for pair, row in enumerate(rows):
        is_last = builder.icmp_signed("==", last, w.number(pair))
        chosen = builder.select(is_last, builder.and_(row, kept), row)
        _store(w, chosen, builder.add(target, w.number(_LINE * pair)))


configure = vector_intrinsic(
    "configure", 1, _generate_configure, "configure((address,)): shape all tiles; the 64 bytes there are overwritten."
)
release = vector_intrinsic(
    "release", 0, _generate_release, "release(()): leave the tiles, so that switches of threads save none."
)
add_product = vector_intrinsic(
    "add_product",
    7,
    _generate_add_product,
    """add_product((a, a_row, b, b_step, steps, c, c_row)): C += A B, for 32 rows and columns of C; strides in bytes.

    a: numbers of A, a_row from row to row, 64 bytes of each in a step.
    b: tiles of the first 16 columns of B, one behind the other; those of the other ones begin b_step behind.
    steps: 0 or more.  c: of float32, c_row from row to row.
    """,
)
pair_rows = vector_intrinsic(
    "pair_rows",
    4,
    _generate_pair_rows,
    """pair_rows((x, z, target, b_step)): a row of tiles of B from two rows of 32 numbers.

    target: of the row of the first 16 columns; that of the others is b_step bytes behind.
    """,
)
transpose_pairs = vector_intrinsic(
    "transpose_pairs",
    5,
    _generate_transpose_pairs,
    """transpose_pairs((places, offset, target, mask, last)): 16 rows of a tile of B, from 16 columns of 32 numbers.

    places: address of the 16 addresses of columns, to which offset is added.  target: of the first row.
    last: number of the row of which only the bits of `mask` are kept, any other number: of none.
    """,
)
