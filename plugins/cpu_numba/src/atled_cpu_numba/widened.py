"""Calls in half and bf16 as kernels of float32 between casts: a loop of one step, whose rows are casts and the kernel.

Inputs are widened, and results rounded, once each, as a type config that computes in float32 has it. Where the kernel
offers to have that done piece by piece (`Native.before`, `Native.after`), no row is needed for it: the piece is in the
cache. Products widen their panels themselves (`kernels.products.narrow_products`), and Winograd's convolutions the rows
that they collect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from atled.plugin import ArrayDesc, Call, Native, Pack, Prepared, is_narrow, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels import (
    binarized,
    composed,
    embedding,
    filling,
    incremental,
    labels,
    mean_subtraction,
    narrow_units,
    noise,
    scores,
    softmax,
    spared_casts,
    widened_units,
)
from atled_cpu_numba.kernels.convolution import weight_tiles
from atled_cpu_numba.kernels.depthwise import narrow_planes
from atled_cpu_numba.kernels.loop_block import LoopBlock
from atled_cpu_numba.kernels.normalization import channels as normalization
from atled_cpu_numba.kernels.pooling import pairs, planes
from atled_cpu_numba.kernels.products import narrow_products, narrow_row, tile_products
from atled_cpu_numba.kernels.reduction import any_axes, extremum, full_reduction
from atled_cpu_numba.kernels.reduction import products as reduction_products
from atled_cpu_numba.kernels.shared.launch import native_of
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled
from atled_cpu_numba.kernels.spared_casts import SPARED_CAST
from atled_cpu_numba.kernels.winograd import narrow_collecting

# Ops whose kernels read and write their large arrays as they are, narrow ones too: which of the arguments.
_KEPT: dict[str, Callable[[Call], tuple[int, ...]]] = {
    **dict.fromkeys(
        ("BinaryConnectAffine", "BinaryConnectConvolution", "BinaryWeightAffine", "BinaryWeightConvolution"),
        binarized.narrow_arguments,
    ),
    **dict.fromkeys(("BinaryError", "CELU", "CReLU", "KLMultinomial", "ScaleToNorm"), composed.narrow_arguments),
    **dict.fromkeys(("Constant", "Sink"), filling.narrow_arguments),
    **dict.fromkeys(("BatchNormalization", "BatchNormalizationGrad"), normalization.narrow_arguments),
    "MeanSubtraction": mean_subtraction.narrow_arguments,
    "VATNoise": noise.narrow_arguments,
    **dict.fromkeys(pairs.PAIRS, planes.narrow_arguments),
    **dict.fromkeys(("Sum", "Mean"), any_axes.narrow_arguments),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "GlobalAveragePooling"), full_reduction.narrow_arguments),
    **dict.fromkeys(
        ("ArgMax", "ArgMin", "Max", "MaxMinGather", "MaxMinGrad", "MaxTies", "Min", "MinTies"),
        extremum.narrow_arguments,
    ),
    **dict.fromkeys(("CategoricalCrossEntropy", "CategoricalCrossEntropyGrad"), labels.narrow_arguments),
    **dict.fromkeys(("INQAffine", "INQConvolution"), incremental.narrow_arguments),
    "EmbedGrad": embedding.narrow_arguments,
    "Prod": reduction_products.narrow_arguments,
    "TopNError": scores.narrow_arguments,
    **dict.fromkeys(("Softmax", "SoftmaxCrossEntropy", "SoftmaxCrossEntropyGrad"), softmax.narrow_arguments),
}

# Ways of products and filters that widen, if at all, themselves: the first that answers is taken.
_NARROW_WAYS = (
    tile_products.prepare,
    weight_tiles.prepare,
    narrow_row.prepare,
    narrow_products.prepare,
    narrow_planes.prepare,
)

_SINGLE = np.dtype(np.float32)


def accepts(call: Call, accepts_wide: Callable[[Call], bool | str]) -> bool | str:
    """Of a call with narrow floats: whether what it changes in place is taken as it is, and the rest in float32."""
    changed = {*call.mutated, *call.spec.inplace.values()}
    narrow = {n for n in changed if (desc := call.inputs[n]) is not None and is_narrow(desc.dtype)}
    if narrow and not narrow <= set(_kept(call)):
        return "changes a narrow array in place"
    return accepts_wide(wide(call))


def _kept(call: Call) -> tuple[int, ...]:
    """Arguments that the kernel of a call takes as they are."""
    return _KEPT[call.spec.name](call) if call.spec.name in _KEPT else ()


def wide(call: Call, kept: Sequence[int] = ()) -> Call:
    """The same call, with float32 instead of all narrow floats.

    kept: arguments, inputs and then outputs, that stay as they are.
    """
    attributes: Mapping[str, Any] = call.attributes
    dtype = attributes.get("dtype")
    if isinstance(dtype, np.dtype) and is_narrow(dtype):
        attributes = {**attributes, "dtype": _SINGLE}
    return call.on(
        tuple(desc if desc is None or n in kept else _wide(desc) for n, desc in enumerate(call.inputs)),
        tuple(desc if n in kept else _wide(desc) for n, desc in enumerate(call.outputs, len(call.inputs))),
        attributes,
        type_config="float",
    )


def _wide(desc: ArrayDesc) -> ArrayDesc:
    return desc.astype(_SINGLE) if is_narrow(desc.dtype) else desc


def prepare(call: Call, prepare_wide: Callable[[Call], Prepared]) -> Prepared:
    """The kernel that `prepare_wide` gives for the call in float32, with the casts that it needs."""
    for prepare_narrow in _NARROW_WAYS:
        prepared = prepare_narrow(call)
        if prepared is not None:
            return prepared
    kept = _kept(call)
    units = None if kept else narrow_units.units_of(wide(call))
    in_chunks = None if units is None else widened_units.prepare(call, units, prepare_wide, _cast)
    if in_chunks is not None:
        return in_chunks
    prepared = prepare_wide(wide(call, kept))
    native = prepared.native
    assert native is not None
    first = call.inputs[0] if call.inputs else None
    if first is not None and is_narrow(first.dtype):
        collecting = narrow_collecting.collecting(native, first.dtype.name)
        if collecting is not None:
            native, kept = collecting, (0,)
    rows = _Rows(call.inputs, call.outputs, native, prepared.workspace, prepared.packs, kept)
    packs = [_narrow_pack(call, pack, rows.first_word) for pack in prepared.packs]
    return Prepared(native=rows.native, workspace=rows.workspace, packs=packs, note=prepared.note)


def _narrow_pack(call: Call, pack: Pack, first_word: int) -> Pack:
    """The same pack, made of a narrow input: by a loop of the cast and what packs."""
    source = call.inputs[pack.input]
    assert source is not None
    if not is_narrow(source.dtype):
        return Pack(pack.input, first_word + pack.word, pack.form, pack.nbytes, pack.native, workspace=pack.workspace)
    made = ArrayDesc((pack.nbytes // _SINGLE.itemsize,), _SINGLE)
    rows = _Rows((source,), (made,), pack.native, pack.workspace)
    form = source.dtype.name, pack.form
    return Pack(pack.input, first_word + pack.word, form, pack.nbytes, rows.native, workspace=rows.workspace)


def _cast(source: ArrayDesc, target: ArrayDesc) -> Native:
    """All elements, in order."""
    flat = ArrayDesc((source.size,), source.dtype), ArrayDesc((target.size,), target.dtype)
    native = elementwise.prepare(Call(op_spec("Cast"), flat[:1], flat[1:], {})).native
    assert native is not None
    return native


class _Rows:
    """The loop of a kernel and the casts that it needs.

    inputs, outputs: of the call, some of which are narrow.
    kernel: computes in float32.  kernel_workspace: its bytes.  packs: of its inputs, where they are to be had.
    kept: arguments that it takes as they are.
    native, workspace: the loop, and how many bytes it needs.
    first_word: where in the loop's block that of the kernel begins.
    """

    def __init__(
        self,
        inputs: Sequence[ArrayDesc | None],
        outputs: Sequence[ArrayDesc],
        kernel: Native,
        kernel_workspace: int,
        packs: Sequence[Pack] = (),
        kept: Sequence[int] = (),
    ) -> None:
        self._loop, self._kernel = LoopBlock(), kernel
        self.first_word = self._block = self._loop.put(kernel)
        self._packs, self._kept, self._input_count = packs, kept, len(inputs)
        words = [self._argument(position, desc) for position, desc in enumerate(inputs)]
        self._loop.row(kernel, self._block)
        words += [self._argument(position, desc) for position, desc in enumerate(outputs, len(inputs))]
        if kernel_workspace:
            self._loop.place(self._word(len(words)), kernel_workspace)
        self.workspace = self._loop.workspace
        self.native = self._loop.native(
            words,
            attributes={name: self._block + word for name, word in kernel.attributes.items()},
            # What the kernel reads and writes as it is can have steps of others computed on the way.
            before={n: self._block + word for n, word in kernel.before.items() if n in kept},
            after={n: self._block + word for n, word in kernel.after.items() if n + len(inputs) in kept},
            in_place={n: output for n, output in kernel.in_place.items() if n in kept and n in kernel.before},
        )

    def _word(self, position: int) -> int:
        """The kernel's word for an argument, in the loop's block, or NO_WORD."""
        word = self._kernel.arguments[position]
        return NO_WORD if word == NO_WORD else self._block + word

    def _argument(self, position: int, desc: ArrayDesc | None) -> int:
        """The word that receives the address of an argument; where that is narrow, of the cast from it, or to it."""
        word = self._word(position)
        if word == NO_WORD or desc is None or position in self._kept or not is_narrow(desc.dtype):
            return word
        loop, kernel = self._loop, self._kernel
        is_read, size = position < self._input_count, _wide(desc).nbytes
        cast = _cast(desc, _wide(desc)) if is_read else _cast(_wide(desc), desc)
        block = loop.put(cast)
        outside, inside = cast.arguments[:2] if is_read else cast.arguments[1::-1]
        carried = self._carried(position)
        if carried is not None and cast.ranges is not None:
            pieces = kernel.range_bytes.get(position, 0) * kernel.most_parts if is_read else 0
            size = loop.carry(carried, cast, block, inside, whole=size, pieces=pieces)
        else:
            self._add_cast(position, cast, block)
        loop.fill(block + inside, loop.place(word, size))
        return block + outside

    def _add_cast(self, position: int, cast: Native, block: int) -> None:
        """A row for a cast of a whole array; not needed where there is a pack of that."""
        loop = self._loop
        packed = [self._block + pack.word for pack in self._packs if pack.input == position]
        if not packed:
            loop.row(cast, block)
            return
        spared = native_of(SPARED_CAST, filled(spared_casts.Block, kernel=cast.address), (), cast.parts)
        words = loop.put(spared)
        loop.fill(words + spared_casts.Block.packed, packed[0])
        loop.point(words + spared_casts.Block.block, block)
        loop.row(spared, words)

    def _carried(self, position: int) -> int | None:
        """The first of the kernel's words for a range kernel on an argument, if it has such."""
        kernel, count = self._kernel, self._input_count
        word = kernel.before.get(position) if position < count else kernel.after.get(position - count)
        return None if word is None else self._block + word
