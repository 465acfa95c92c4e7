"""Rows of a table by index, the gradient of the table, one-hot arrays. What is out of range is told by the flag."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import has_type, template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.arrangement import division, unit_count
from atled_cuda_cupy.kernels.indexing import accepts as accepts_units
from atled_cuda_cupy.kernels.indexing import is_wide, units_text
from atled_cuda_cupy.launching import Launch, Step, queued

_THREADS, _ITEMS = 256, 4  # as in indexing.cuh
_MAY_FAIL = "an index is out of range"
_SEARCHED = 2**24  # comparisons up to which rows look through all indices: less than the launches of a sort take
_DIGIT_BITS, _DIGITS, _TILE, _CHUNK = 8, 256, 2048, 64  # as in index_sorting.cuh, embedding_sums.cuh
_ALIGNED = 256  # bytes that parts of the workspace are aligned to


def _accepts_index(call: Call) -> bool | str:
    """True for indices in int64, else the reason."""
    for number, desc in enumerate(call.inputs):
        if desc is not None and call.spec.input_at(number).kind == "index" and desc.dtype != np.int64:
            return f"the kernels read indices in int64, not in {desc.dtype}"
    return True


def accepts_embed(call: Call) -> bool | str:
    """True for what the kernel moves, else the reason."""
    fits = _accepts_index(call)
    return accepts_units(call) if fits is True else fits


def accepts_computing(call: Call) -> bool | str:
    """True for what the kernels compute in and count, else the reason."""
    if not has_type(call.outputs[0]):
        return f"no kernel computes in {call.outputs[0].dtype}"
    if call.spec.name == "EmbedGrad":
        _, x0 = call.inputs
        assert x0 is not None
        if max(x0.size, call.attributes["n"] + 1) >= 2**31:
            return "the kernels count indices and rows in 32 bits"
    return _accepts_index(call)


def prepare_embed(call: Call) -> Prepared:
    """One row after the other, in units."""
    x0, table = call.inputs
    assert x0 is not None
    assert table is not None
    row, itemsize = math.prod(table.shape[1:]), table.dtype.itemsize
    width = unit_count(itemsize, row) if row else 1
    units = x0.size * max(row // width, 1)
    words = [units, *division(max(row // width, 1)), table.shape[0], int(row > 0)]
    where = device(call.device_id)
    launch = Launch(
        where,
        units_text("embedding"),
        "embed",
        where.blocks(units, _THREADS, _ITEMS),
        _THREADS,
        words,
        {"ITEM": itemsize, "UNIT": itemsize * width},
        wide=is_wide(units, table.size),
    )
    return queued(call, lambda *given: [(launch, given, 0)], may_fail=_MAY_FAIL)


def prepare_one_hot(call: Call) -> Prepared:
    """Each pack of elements compares its place with the index of its row."""
    y, sizes = call.outputs[0], call.attributes["shape"]
    row, itemsize = math.prod(sizes), y.dtype.itemsize
    pack = unit_count(itemsize, row) if row else 1
    packs = y.size // pack
    words = [packs, *division(max(row // pack, 1)), *sizes]
    storage, real = type_names(y.dtype)
    where = device(call.device_id)
    launch = Launch(
        where,
        template("indexing") + template("packs") + template("one_hot"),
        "one_hot",
        where.blocks(packs),
        _THREADS,
        words,
        {"T": storage, "A": real, "PACK": pack, "DIMS": len(sizes)},
        wide=is_wide(y.size),
    )
    return queued(call, lambda *given: [(launch, given, 0)], may_fail=_MAY_FAIL)


class TableGrad:
    """The launches of an `EmbedGrad`."""

    def __init__(self, call: Call) -> None:
        gy, x0 = call.inputs
        assert gy is not None
        assert x0 is not None
        self.call, self.desc = call, call.outputs[0]
        self.size, self.rows = x0.size, call.attributes["n"]
        self.width = math.prod(gy.shape[x0.ndim :])
        self.pack = unit_count(gy.dtype.itemsize, self.width) if self.width else 1
        self.packs = max(self.width // self.pack, 1)
        self.where = device(call.device_id)
        self.is_wide = is_wide(gy.size, self.desc.size)

    def launch(self, name: str, blocks: int, words: Sequence[int]) -> Launch:
        """A kernel that computes sums; words that are not given are 0, so that there is one text for all of them."""
        storage, real = type_names(self.desc.dtype)
        source = template("indexing") + template("packs")
        source += template("embedding_search" if name == "search" else "embedding_sums")
        defines = {"T": storage, "A": real, "PACK": self.pack}
        return Launch(self.where, source, name, blocks, _THREADS, _filled(words), defines, wide=self.is_wide)

    def sort(self, name: str, blocks: int, words: Sequence[int], *, first: bool = False) -> Launch:
        """A kernel of the sort, whose numbers have 32 bits."""
        source = template("indexing") + template("index_sorting")
        return Launch(self.where, source, name, blocks, _THREADS, _filled(words), {"FIRST": int(first)})

    def searched(self) -> Prepared:
        """All in one launch."""
        packs = self.desc.size // self.pack
        words = packs, self.packs, self.rows, self.size
        launch = self.launch("search", max(-(-packs // _THREADS), 1), words)
        return queued(self.call, lambda gy, x0, gw, *flag: [(launch, (gy, x0, gw, *flag), 0)], may_fail=_MAY_FAIL)

    @property
    def is_searched(self) -> bool:
        """Whether rows look through all indices in less time than a sort takes."""
        return self.size * max(self.desc.size // self.pack, 1) <= _SEARCHED

    def sorted(self) -> Prepared:
        """A sort in passes, the borders of the rows, and the sums."""
        steps, workspace, note = self.sorted_steps()

        def within(gy: Any, x0: Any, gw: Any, memory: Any, *flag: Any) -> Sequence[Step]:  # Any: arrays of this device
            return steps(gy, x0, gw, memory.data.ptr, *flag)

        return queued(self.call, within, workspace=workspace, note=note, may_fail=_MAY_FAIL)

    def sorted_steps(self) -> tuple[Callable[..., Sequence[Step]], int, str]:
        """`steps(gy, x0, gw, address of the workspace, flag, failure)`, bytes of the workspace, the note."""
        tiles, chunks = -(-self.size // _TILE), self.size // _CHUNK
        shifts = range(0, max(self.rows.bit_length(), 1), _DIGIT_BITS)
        passes = []
        for shift in shifts:
            words, first = (self.size, self.rows, tiles, shift), shift == 0
            count = self.sort("count_digits", tiles, words, first=first)
            passes.append((count, self.sort("order", tiles, words, first=first)))
        scan = self.sort("scan_tiles", _DIGITS, (tiles,))
        borders = self.launch("find_borders", self.where.blocks(self.rows + 1), (self.size, self.rows))
        of_chunks = chunks * self.packs if self.width else 0
        add_chunks = self.launch("add_chunks", self.where.blocks(of_chunks), (of_chunks, self.packs))
        packs = self.desc.size // self.pack
        add_rows = self.launch("add_rows", self.where.blocks(packs), (packs, self.packs))
        sum_bytes = 8 if self.desc.dtype == np.float64 else 4
        sizes = [4 * self.size] * 4 + [4 * _DIGITS * tiles, 4 * _DIGITS, 4 * (self.rows + 1)]
        sizes.append(chunks * self.width * sum_bytes)
        offsets = [0, *itertools.accumulate(-(-size // _ALIGNED) * _ALIGNED for size in sizes)]

        def steps(gy: Any, x0: Any, gw: Any, start: int, flag: Any, failure: Any) -> Sequence[Step]:
            *halves, counts, totals, starts, sums = (start + offset for offset in offsets[:-1])
            made: list[Step] = []
            keys, places = x0, None
            for number, (count, order) in enumerate(passes):
                keys_to, places_to = halves[2 * (number % 2) :][:2]
                made.append((count, (keys, counts, flag, failure), 0))
                made.append((scan, (counts, totals), 0))
                made.append((order, (keys, places, counts, totals, keys_to, places_to), 0))
                keys, places = keys_to, places_to
            made.append((borders, (keys, starts), 0))
            made.append((add_chunks, (gy, keys, places, sums), 0))
            made.append((add_rows, (gy, places, starts, sums, gw), 0))
            return made

        return steps, offsets[-1], f"sorted in {len(passes)} passes"


def _filled(words: Sequence[int]) -> Sequence[int]:
    return (*words, *[0] * (4 - len(words)))


def prepare_embed_grad(call: Call) -> Prepared:
    """Sums in the order of the places: the same in every run."""
    grad = TableGrad(call)
    return grad.searched() if grad.is_searched else grad.sorted()


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for op, prepare, fits in (
        ("Embed", prepare_embed, accepts_embed),
        ("EmbedGrad", prepare_embed_grad, accepts_computing),
        ("OneHot", prepare_one_hot, accepts_computing),
    ):
        registrar.implementation(op, "cuda", prepare, accepts=fits, note="kernel")
