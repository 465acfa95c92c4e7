"""Convolution and its adjoint over three axes and more, or group by group, in float32: with the kernels for two axes.

A slice of the result is a result over two axes, whose channels are the channels and leading taps of the whole, see
`leading_axes`. Some slices at once are what the kernel for two axes takes for images: what they see is collected, and
what they are is delivered to the result.

Block (64-bit words; strides in elements):
    0 x or gy, 1 weight, 2 bias or 0, 3 y or gx, 4 workspace, 5 bytes of it per share
    6 images
    7 planes of a piece, 8 slices of each, 9 elements of a slice      of the source
    10 planes of a piece, 11 slices of each, 12 elements of a slice   of the result
    13 phases, 14 word where they start
    15, 16 blocks of a piece's weight by rows of each; in every row, 17 leading places of the kernel by 18 other places
    19 to 22: where the pieces of a share's workspace begin, in bytes: workspace of the inner kernel, weights, what
        slices see, results; before them the block of COLLECT_SLICES and that of the inner kernel
    23 COLLECT_SLICES
    24 range kernel to run on what is written of the result, or 0, 25 its block
    26 pieces of the groups
Each phase:
    0 slices per image, 1 slices at once, 2 taps, 3 word where their places start, 4 word where the slices start
    5 inner kernel, 6 word where its block starts, 7 words of it
    8 whether the weights are to be rearranged
    9 to 13: words of the inner block for source, weight, bias, result and workspace, or -1
Shares are made of pieces and slices at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from atled.plugin import Native, Prepared
from atled_cpu_numba.kernels.convolution.slice_pieces import BLOCK_WORDS, COLLECT_SLICES
from atled_cpu_numba.kernels.shared.launch import fitting_shares, share_count, undivided
from atled_cpu_numba.kernels.shared.leading_axes import Axis, Phase, extents, leading_phases, pair_count, slices_note
from atled_cpu_numba.store import Kernel

_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_CHUNK_BYTES = 2 << 20  # of what some slices see and are, as much as two level-2 caches: more wins nothing
_LEAST_POSITIONS = 192  # of the result with leading taps of their own: their weights are transformed or packed anew
_WORDS = 27
_PHASE_WORDS = 14


class Problem(NamedTuple):
    """A convolution or its adjoint: channels and maps, of the source and the result, are those of one group.

    biases: for each input behind the weight, whether it is there.
    direct_for: the flag of the Context for which only direct sums will do, "" where there is none.
    """

    forward: bool
    images: int
    groups: int
    channels: int
    maps: int
    axes: tuple[Axis, ...]
    biases: tuple[bool, ...]
    direct_for: str

    @property
    def weight_size(self) -> int:
        """Elements of the weight."""
        return self.groups * self.channels * self.maps * math.prod(axis.kernel for axis in self.axes)

    def in_order(self, phase: Phase) -> bool:
        """Whether the weight is already as a kernel over two axes wants it for the slices of `phase`."""
        whole = len(phase.taps) == math.prod(axis.kernel for axis in self.axes[:-2])
        return whole and (self.forward or self.maps == 1)

    def bias_words(self, word: int) -> tuple[int, ...]:
        """For each input behind the weight, `word` if it is there, else -1."""
        return tuple(word if there else -1 for there in self.biases)


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import copy_rows

    @piece
    def rearrange_weights(w, source_at, taps, places, target):
        """The weights of a phase: per block and tap the rows, as a kernel over two axes wants them."""
        to = target
        for number in range(w[15]):
            for t in range(taps):
                source = source_at + 4 * (number * w[16] * w[17] + places[t]) * w[18]
                copy_rows((source, w[17] * w[18], to, w[18], w[16], w[18]))
                to += 4 * w[16] * w[18]

    @piece
    def deliver(w, phase, block, piece_number, first, taken, results):
        """The results of some slices to y, or the bias to those that see nothing: `results` is 0 then."""
        slices, maps, elements = phase[0], w[10], w[12]
        table = words(block + 8 * phase[4])
        for number in range(first, first + taken):
            image = number // slices
            place = table[(number - image * slices) * (1 + phase[2])]
            for m in range(maps):
                one = piece_number * maps + m
                start = ((image * w[26] * maps + one) * w[11] + place) * elements
                if results != 0:
                    source = results + 4 * ((number - first) * maps + m) * elements
                    copy_rows((source, elements, w[3] + 4 * start, elements, 1, elements))
                else:
                    y = floats32(w[3] + 4 * start)
                    bias = floats32(w[2])[one] if w[2] != 0 else 0.0
                    for i in range(elements):
                        y[i] = bias
                if w[24] != 0:
                    call3(w[24], w[25], start, start + elements)

    @piece
    def set_up(w, phase, block, piece_number, share):
        """The inner block and the weights of a phase in the share's workspace; returns the block's address."""
        at = share + 8 * BLOCK_WORDS
        inner, template = words(at), words(block + 8 * phase[6])
        for i in range(phase[7]):
            inner[i] = template[i]
        inner[phase[9]], inner[phase[12]] = share + w[21], share + w[22]
        inner[phase[10]] = w[1] + 4 * piece_number * w[15] * w[16] * w[17] * w[18]
        if phase[8] != 0:
            rearrange_weights(w, inner[phase[10]], phase[2], words(block + 8 * phase[3]), share + w[20])
            inner[phase[10]] = share + w[20]
        if phase[11] >= 0:
            inner[phase[11]] = w[2] + 4 * piece_number * w[10]
        if phase[13] >= 0:
            inner[phase[13]] = share + w[19]
        return at

    @kernel
    def convolution_slices(block, part, parts):
        w = words(block)
        share = w[4] + part * w[5]
        q = words(share)
        units = 0
        for number in range(w[13]):
            phase = words(block + 8 * (w[14] + _PHASE_WORDS * number))
            units += (w[6] * phase[0] + phase[1] - 1) // phase[1]
        first_unit, last_unit, before = w[26] * units * part // parts, w[26] * units * (part + 1) // parts, 0
        for number in range(w[26] * w[13]):
            piece_number = number // w[13]
            phase = words(block + 8 * (w[14] + _PHASE_WORDS * (number - piece_number * w[13])))
            slices, chunk = w[6] * phase[0], phase[1]
            chunks = (slices + chunk - 1) // chunk
            c0, c1 = max(0, first_unit - before), min(chunks, last_unit - before)
            before += chunks
            if c0 >= c1:
                continue
            inner = set_up(w, phase, block, piece_number, share) if phase[5] != 0 else 0
            for c in range(c0, c1):
                first = c * chunk
                taken = min(chunk, slices - first)
                if phase[5] == 0:
                    deliver(w, phase, block, piece_number, first, taken, 0)
                    continue
                q[0], q[1], q[2], q[3] = w[0], share + w[21], first, taken
                q[4], q[5], q[6] = phase[0], phase[2], block + 8 * phase[4]
                q[7], q[8], q[9], q[10], q[11] = w[26] * w[7], piece_number * w[7], w[7], w[8], w[9]
                call3(w[23], share, 0, 1)
                code = call3(phase[5], inner, 0, 1)
                if code != 0:
                    return code
                deliver(w, phase, block, piece_number, first, taken, share + w[22])
        return 0

    return convolution_slices


CONVOLUTION_SLICES = Kernel("convolution_slices", _build)


def prepare(problem: Problem, prepare_planar: Callable[[Problem], Prepared], *, pieces: int) -> Prepared:
    """A convolution over any number of axes.

    prepare_planar: the same for two.  pieces: a divisor of the groups, how many times fewer of them a piece has.
    """
    p = problem._replace(groups=problem.groups // pieces)
    leading, planar = p.axes[:-2], p.axes[-2:]
    kernel_places, source_slices, result_slices = extents(leading)
    planar_places, seen, wanted = extents(planar)
    phases = leading_phases(leading, forward=p.forward, least=-(-_LEAST_POSITIONS // (p.images * wanted)))
    taps = max(len(phase.taps) for phase in phases)
    weights = p.groups * p.channels * p.maps * planar_places
    flops = 2.0 * weights * (wanted if p.forward else seen) * pair_count(phases)
    copied = p.groups * (taps * p.channels * seen + p.maps * wanted)
    work_us = pieces * p.images * (flops + 20.0 * result_slices * copied) / _FLOPS_PER_US
    units = p.images * result_slices
    parts = share_count(work_us, pieces * units)
    # However the work is divided, the kernel for two axes is the same.
    least = -(-_LEAST_POSITIONS // wanted)
    at_once = max(least, min(_CHUNK_BYTES // (4 * copied), pieces * units // parts))

    inner = [_prepare_phase(p, phase, at_once, prepare_planar) for phase in phases]
    chunk = max(chunk for chunk, _ in inner)
    prepared = [planar_call for _, planar_call in inner if planar_call is not None]
    sizes = [
        8 * max((len(_native(planar_call).block) for planar_call in prepared), default=0),
        max((planar_call.workspace for planar_call in prepared), default=0),
        0 if all(map(p.in_order, phases)) else 4 * taps * weights,
        4 * chunk * p.groups * p.channels * taps * seen,
        4 * chunk * p.groups * p.maps * wanted,
    ]
    starts = [8 * BLOCK_WORDS]
    for size in sizes:
        starts.append(starts[-1] + -(-size // 64) * 64)
    share_bytes = starts.pop()
    parts = fitting_shares(parts, share_bytes)
    words = [0, 0, 0, 0, 0, share_bytes, p.images]
    words += [p.groups * p.channels, source_slices, seen, p.groups * p.maps, result_slices, wanted]
    # For an adjoint the weights of one tap must come behind one another for all maps, which are the second axis there.
    rows = (p.groups * p.channels * p.maps, 1) if p.forward else (p.groups * p.channels, p.maps)
    words += [len(phases), _WORDS, *rows, kernel_places, planar_places, *starts[1:]]
    words += [COLLECT_SLICES.address(), 0, 0, pieces]
    assert len(words) == _WORDS
    words += _phase_words(p, phases, inner)
    notes = dict.fromkeys(planar_call.note for planar_call in prepared)
    native = Native(
        CONVOLUTION_SLICES.address(),
        np.array(words, np.int64),
        (0, 1, *p.bias_words(2), 3, 4),
        parts=parts,
        owner=(CONVOLUTION_SLICES, *(_native(planar_call).owner for planar_call in prepared)),
        after={0: 24},
    )
    note = f"{slices_note(leading, pieces, chunk, taps)}: {' / '.join(notes)}"
    return Prepared(native=native, workspace=share_bytes * parts, note=note)


def _prepare_phase(
    problem: Problem, phase: Phase, at_once: int, prepare_planar: Callable[[Problem], Prepared]
) -> tuple[int, Prepared | None]:
    """How many slices are taken at once, at least `at_once`, and the call over two axes, if they see anything."""
    slices = problem.images * len(phase.slices)
    chunk = -(-slices // max(1, slices // at_once))
    if not phase.taps:
        return chunk, None
    channels = problem.channels * len(phase.taps)
    planar = problem._replace(images=chunk, channels=channels, axes=problem.axes[-2:])
    with undivided():
        return chunk, prepare_planar(planar)


def _phase_words(problem: Problem, phases: Sequence[Phase], inner: Sequence[tuple[int, Prepared | None]]) -> list[int]:
    """The words behind the first ones: the phases, then their tables and inner blocks."""
    heads: list[int] = []
    tables: list[int] = []
    start = _WORDS + _PHASE_WORDS * len(phases)
    for phase, (chunk, prepared) in zip(phases, inner, strict=True):
        heads += [len(phase.slices), chunk, len(phase.taps), start + len(tables)]
        tables += phase.taps
        heads.append(start + len(tables))
        tables += [word for found in phase.slices for word in found]
        if prepared is None:
            heads += [0, 0, 0, 0, -1, -1, -1, -1, -1]
            continue
        native = _native(prepared)
        source, weight, *rest = native.arguments
        bias = rest[0] if any(problem.biases) else -1
        result, *workspace = rest[len(problem.biases) :]
        heads += [native.address, start + len(tables), len(native.block), int(not problem.in_order(phase))]
        heads += [source, weight, bias, result, *(workspace or [-1])]
        tables += native.block.tolist()
    return heads + tables


def _native(prepared: Prepared) -> Native:
    assert prepared.native is not None
    return prepared.native
