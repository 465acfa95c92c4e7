"""The gradient of a convolution over three axes and more, or group by group, with respect to its weight, in float32.

What a slice of gy sees, and the slice itself, are collected as `convolution_slices` does it: images of a convolution
over two axes, with as many channels as the whole has channels times leading taps. The gradients with respect to that
one's weight are added up, those of some slices at once.

Block (64-bit words; strides in elements):
    0 x, 1 gy, 2 gw, 3 workspace, 4 bytes of it per share
    5 images, 6 phases, 7 word where they start
    8 channels of x per image, 9 slices of each, 10 elements of a slice
    11 maps of gy per image, 12 slices of each, 13 elements of a slice
    14 COLLECT_SLICES
    15 pieces, 16 channels of x in each, 17 maps of gy in each, 18 from the maps of one to those of the next
    19 from piece to piece of gw, 20 from map to map of gw, 21 channels of a map in a piece
    22 leading places of the kernel, 23 the other places
    24 to 27: where the pieces of a share's workspace begin, in bytes: workspace of the inner kernel, what slices see,
        slices of gy, their gw; before them the block of COLLECT_SLICES and that of the inner kernel
Each phase:
    0 slices per image, 1 slices at once, 2 taps, 3 word where their places start
    4 word where the slices start, 5 word where their places in gy start
    6 inner kernel, 7 word where its block starts, 8 words of it
    9 to 12: words of the inner block for x, gy, gw and workspace, or -1
Shares are made of pieces: channels, or groups if there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from atled.plugin import Native, Prepared
from atled_cpu_numba.kernels.convolution.slice_pieces import BLOCK_WORDS, COLLECT_SLICES
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.launch import fitting_shares, launch, share_count, undivided
from atled_cpu_numba.kernels.shared.leading_axes import (
    Axis,
    Phase,
    extents,
    leading_phases,
    one_tap_each,
    pair_count,
    slices_note,
)
from atled_cpu_numba.store import Kernel

_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_CHUNK_BYTES = 4 << 20  # of what some slices see and are: more at once, and gradients are added up less often
_LEAST_POSITIONS = 384  # of gy with leading taps of their own: their gw is transformed and added up
_WORDS = 28
_PHASE_WORDS = 13


class Problem(NamedTuple):
    """The gradient of a convolution; channels and maps are those of one group.

    direct_for: the flag of the Context for which only direct sums will do, "" where there is none.
    """

    images: int
    groups: int
    channels: int
    maps: int
    axes: tuple[Axis, ...]
    direct_for: str


def _build() -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, floats32, words
    from atled_cpu_numba.kernels.shared.options import kernel, piece

    @piece
    def collect(w, phase, block, share, number, first, taken):
        """What some slices see and they themselves; zeros for slices that are missing at the end."""
        q = words(share)
        q[0], q[1], q[2], q[3] = w[0], share + w[25], first, taken
        q[4], q[5], q[6] = phase[0], phase[2], block + 8 * phase[4]
        q[7], q[8], q[9], q[10], q[11] = w[8], number * w[16], w[16], w[9], w[10]
        call3(w[14], share, 0, 1)
        q[0], q[1], q[5], q[6] = w[1], share + w[26], 0, block + 8 * phase[5]
        q[7], q[8], q[9], q[10], q[11] = w[11], number * w[18], w[17], w[12], w[13]
        call3(w[14], share, 0, 1)
        if taken < phase[1]:
            x, gy = floats32(share + w[25]), floats32(share + w[26])
            for i in range(taken * w[16] * phase[2] * w[10], phase[1] * w[16] * phase[2] * w[10]):
                x[i] = 0.0
            for i in range(taken * w[17] * w[13], phase[1] * w[17] * w[13]):
                gy[i] = 0.0

    @piece
    def add_up(w, phase, block, number, sums_at):
        """More of gw of a piece."""
        taps, places = phase[2], words(block + 8 * phase[3])
        for m in range(w[17]):
            for channel in range(w[21]):
                to = w[2] + 4 * (number * w[19] + m * w[20] + channel * w[22] * w[23])
                for t in range(taps):
                    gw, sums = floats32(to + 4 * places[t] * w[23]), floats32(sums_at)
                    for i in range(w[23]):
                        gw[i] += sums[i]
                    sums_at += 4 * w[23]

    @kernel
    def slices_weight(block, part, parts):
        w = words(block)
        share = w[3] + part * w[4]
        at = share + 8 * BLOCK_WORDS
        inner = words(at)
        for number in range(w[15] * part // parts, w[15] * (part + 1) // parts):
            for m in range(w[17]):
                gw = floats32(w[2] + 4 * (number * w[19] + m * w[20]))
                for i in range(w[21] * w[22] * w[23]):
                    gw[i] = 0.0
            for phase_number in range(w[6]):
                phase = words(block + 8 * (w[7] + _PHASE_WORDS * phase_number))
                template, slices = words(block + 8 * phase[7]), w[5] * phase[0]
                for i in range(phase[8]):
                    inner[i] = template[i]
                inner[phase[9]], inner[phase[10]], inner[phase[11]] = share + w[25], share + w[26], share + w[27]
                if phase[12] >= 0:
                    inner[phase[12]] = share + w[24]
                for first in range(0, slices, max(1, phase[1])):
                    collect(w, phase, block, share, number, first, min(phase[1], slices - first))
                    code = call3(phase[6], at, 0, 1)
                    if code != 0:
                        return code
                    add_up(w, phase, block, number, share + w[27])
        return 0

    return slices_weight


SLICES_WEIGHT = Kernel("slices_weight", _build)


def prepare(problem: Problem, prepare_planar: Callable[[Problem], Prepared], *, pieces: int) -> Prepared:
    """x, gy -> gw of a convolution over any number of axes.

    prepare_planar: the same for two.  pieces: a divisor of the groups, how many pieces they are to be divided into at
    least.
    """
    p = problem
    leading, planar = p.axes[:-2], p.axes[-2:]
    leading_places, source_slices, slices = extents(leading)
    places, seen, windows = extents(planar)
    least = -(-_LEAST_POSITIONS // (p.images * windows))
    found = leading_phases(leading, forward=True, least=least)
    if p.groups > 1 and p.channels == 1:  # the gradients of filters of single planes
        found = one_tap_each(found)
    phases = [phase for phase in found if phase.taps]
    taps = max((len(phase.taps) for phase in phases), default=0)
    copied = p.groups * (p.channels * taps * seen + p.maps * windows)
    flops = 2.0 * p.groups * p.maps * p.channels * places * windows * pair_count(phases)
    work_us = p.images * (flops + 20.0 * slices * copied) / _FLOPS_PER_US
    parts = share_count(work_us, p.groups if p.groups > 1 else p.channels)
    # Before the threads are looked at: slices at once are summed in another order than one by one.
    at_once = max(-(-_LEAST_POSITIONS // windows), _CHUNK_BYTES * pieces // (4 * copied))
    pieces = _pieces(p, pieces, parts)
    # Of a piece:
    groups = p.groups // pieces if p.groups > 1 else 1
    channels = p.channels // (pieces if p.groups == 1 else 1)
    inner = []
    for phase in phases:
        of_phase = p.images * len(phase.slices)
        chunk = -(-of_phase // max(1, of_phase // at_once))
        with undivided():
            planar_problem = Problem(chunk, groups, channels * len(phase.taps), p.maps, planar, p.direct_for)
            inner.append((chunk, prepare_planar(planar_problem)))

    chunk = max((chunk for chunk, _ in inner), default=0)
    map_step = p.channels * leading_places * places
    steps = (0, channels * leading_places * places) if p.groups == 1 else (groups * p.maps, groups * p.maps * map_step)
    sizes = [
        8 * max((len(_native(prepared).block) for _, prepared in inner), default=0),
        max((prepared.workspace for _, prepared in inner), default=0),
        4 * chunk * groups * channels * taps * seen,
        4 * chunk * groups * p.maps * windows,
        4 * groups * p.maps * channels * taps * places,
    ]
    starts = [8 * BLOCK_WORDS]
    for size in sizes:
        starts.append(starts[-1] + -(-size // 64) * 64)
    share_bytes = starts.pop()
    parts = fitting_shares(min(pieces, parts), share_bytes)
    words = [0, 0, 0, 0, share_bytes, p.images, len(phases), _WORDS]
    words += [p.groups * p.channels, source_slices, seen, p.groups * p.maps, slices, windows, COLLECT_SLICES.address()]
    words += [pieces, groups * channels, groups * p.maps, *steps, map_step, channels, leading_places, places]
    words += starts[1:]
    assert len(words) == _WORDS
    words += _phase_words(phases, inner)
    notes = dict.fromkeys(prepared.note for _, prepared in inner)
    return launch(
        SLICES_WEIGHT,
        words,
        (0, 1, 2, 3),
        parts=parts,
        workspace=share_bytes * parts,
        owner=(SLICES_WEIGHT, *(_native(prepared).owner for _, prepared in inner)),
        note=f"{slices_note(leading, p.groups // groups, chunk, taps)}: {' / '.join(notes)}",
    )


def _phase_words(phases: Sequence[Phase], inner: Sequence[tuple[int, Prepared]]) -> list[int]:
    """The words behind the first ones: the phases, then their tables and inner blocks."""
    heads: list[int] = []
    tables: list[int] = []
    start = _WORDS + _PHASE_WORDS * len(phases)
    for phase, (chunk, prepared) in zip(phases, inner, strict=True):
        native = _native(prepared)
        heads += [len(phase.slices), chunk, len(phase.taps)]
        of_gy = [found[0] for found in phase.slices]
        for table in (phase.taps, [word for found in phase.slices for word in found], of_gy):
            heads.append(start + len(tables))
            tables += table
        x, gy, gw, *workspace = native.arguments
        heads += [native.address, start + len(tables), len(native.block), x, gy, gw, *(workspace or [-1])]
        tables += native.block.tolist()
    return heads + tables


def _native(prepared: Prepared) -> Native:
    assert prepared.native is not None
    return prepared.native


def _pieces(problem: Problem, least: int, parts: int) -> int:
    """How many pieces of the same size the work is divided into: for each of `parts` one, if that is possible.

    Pieces of channels fill the lanes, so that each is computed as the whole would be.
    """
    if problem.groups > 1:
        return max(n for n in range(1, max(least, parts) + 1) if problem.groups % n == 0)
    vector = host_lanes().vector
    return max(n for n in range(1, parts + 1) if n == 1 or problem.channels % (n * vector) == 0)
