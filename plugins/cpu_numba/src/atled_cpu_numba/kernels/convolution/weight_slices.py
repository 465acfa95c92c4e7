"""The gradient of a convolution over three axes and more, or group by group, with respect to its weight, in float32.

What a slice of gy sees, and the slice itself, are collected as `slices` does it: images of a convolution
over two axes, with as many channels as the whole has channels times leading taps. The gradients with respect to that
one's weight are added up, those of some slices at once.

Shares are made of pieces: channels, or groups if there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import NamedTuple, Native, Prepared
from atled_cpu_numba.kernels.convolution.slice_pieces import BLOCK_WORDS, COLLECT_SLICES, CollectSlices
from atled_cpu_numba.kernels.shared.lanes import SIZES, lanes_of
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    kernels_by_dtype,
    launch,
    piece_starts,
    share_count,
    undivided,
)
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled, layout, size_of
from atled_cpu_numba.kernels.shared.leading_axes import (
    Axis,
    Phase,
    extents,
    leading_phases,
    one_tap_each,
    pair_count,
    slices_note,
)

_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_CHUNK_BYTES = 4 << 20  # of what some slices see and are: more at once, and gradients are added up less often
_LEAST_POSITIONS = 384  # of gy with leading taps of their own: their gw is transformed and added up


@layout
class Block:
    """What the kernel reads; starts in bytes from a share's workspace. The phases follow, then what they point to."""

    x: int  # address
    gy: int
    gw: int
    workspace: int
    share_bytes: int  # of workspace, which begins with the blocks of COLLECT_SLICES and of the inner kernel
    images: int
    phases: int
    phases_at: int  # word where they start
    x_planes: int  # channels of x per image
    x_plane_slices: int
    x_elements: int  # of a slice
    gy_planes: int  # maps of gy per image
    gy_plane_slices: int
    gy_elements: int
    collect_slices: int  # address of COLLECT_SLICES
    pieces: int
    channels: int  # of x in a piece
    maps: int  # of gy in a piece
    map_step: int  # from the maps of a piece to those of the next
    gw_piece_step: int  # from piece to piece of gw, in elements
    gw_map_step: int  # from map to map of gw
    map_channels: int  # of a map in a piece
    leading_places: int  # of the kernel
    places: int  # the others
    inner_start: int  # of the inner kernel's workspace
    x_start: int  # of what slices see
    gy_start: int  # of slices of gy
    gw_start: int  # of their gw


@layout
class PhaseWords:
    """Slices with the same leading taps."""

    slices: int  # per image
    chunk: int  # slices at once
    taps: int
    places_at: int  # word where the taps' places start
    slices_at: int  # word where the slices start
    gy_slices_at: int  # word where their places in gy start
    kernel: int  # inner kernel
    inner_at: int  # word where its block starts
    inner_words: int
    x: int  # words of the inner block
    gy: int
    gw: int
    workspace: int  # or NO_WORD


_PHASE_WORDS = size_of(PhaseWords)


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
    dtype: str


PreparePlanar = Callable[[Problem, Problem], Prepared]


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece

    element, floats = SIZES[dtype], Real(dtype).pointer

    @piece
    def collect(w, phase, block, share, number, first, taken):
        """What some slices see and they themselves; zeros for slices that are missing at the end."""
        q = words(share)
        q[CollectSlices.source], q[CollectSlices.target] = w[Block.x], share + w[Block.x_start]
        q[CollectSlices.first], q[CollectSlices.taken] = first, taken
        of_image, taps = phase[PhaseWords.slices], phase[PhaseWords.taps]
        table = block + 8 * phase[PhaseWords.slices_at]
        q[CollectSlices.slices], q[CollectSlices.taps], q[CollectSlices.table] = of_image, taps, table
        image_planes, first_plane, planes = w[Block.x_planes], number * w[Block.channels], w[Block.channels]
        plane_slices, elements = w[Block.x_plane_slices], w[Block.x_elements]
        q[CollectSlices.image_planes], q[CollectSlices.first_plane] = image_planes, first_plane
        q[CollectSlices.planes], q[CollectSlices.plane_slices] = planes, plane_slices
        q[CollectSlices.elements] = elements
        call3(w[Block.collect_slices], share, 0, 1)
        source, target = w[Block.gy], share + w[Block.gy_start]
        table = block + 8 * phase[PhaseWords.gy_slices_at]
        q[CollectSlices.source], q[CollectSlices.target] = source, target
        q[CollectSlices.taps], q[CollectSlices.table] = 0, table
        image_planes, first_plane, planes = w[Block.gy_planes], number * w[Block.map_step], w[Block.maps]
        plane_slices, elements = w[Block.gy_plane_slices], w[Block.gy_elements]
        q[CollectSlices.image_planes], q[CollectSlices.first_plane] = image_planes, first_plane
        q[CollectSlices.planes], q[CollectSlices.plane_slices] = planes, plane_slices
        q[CollectSlices.elements] = elements
        call3(w[Block.collect_slices], share, 0, 1)
        if taken < phase[PhaseWords.chunk]:
            x, gy = floats(share + w[Block.x_start]), floats(share + w[Block.gy_start])
            begin = taken * w[Block.channels] * phase[PhaseWords.taps] * w[Block.x_elements]
            end = phase[PhaseWords.chunk] * w[Block.channels] * phase[PhaseWords.taps] * w[Block.x_elements]
            for i in range(begin, end):
                x[i] = 0.0
            begin = taken * w[Block.maps] * w[Block.gy_elements]
            end = phase[PhaseWords.chunk] * w[Block.maps] * w[Block.gy_elements]
            for i in range(begin, end):
                gy[i] = 0.0

    @piece
    def add_up(w, phase, block, number, sums_at):
        """More of gw of a piece."""
        taps, places = phase[PhaseWords.taps], ints64(block + 8 * phase[PhaseWords.places_at])
        for m in range(w[Block.maps]):
            for channel in range(w[Block.map_channels]):
                gw_at, start = w[Block.gw], number * w[Block.gw_piece_step] + m * w[Block.gw_map_step]
                to = gw_at + element * (start + channel * w[Block.leading_places] * w[Block.places])
                for t in range(taps):
                    gw, sums = floats(to + element * places[t] * w[Block.places]), floats(sums_at)
                    for i in range(w[Block.places]):
                        gw[i] += sums[i]
                    sums_at += element * w[Block.places]

    @kernel
    def slices_weight(block, part, parts):
        w = words(block)
        share = w[Block.workspace] + part * w[Block.share_bytes]
        at = share + 8 * BLOCK_WORDS
        inner = words(at)
        for number in range(w[Block.pieces] * part // parts, w[Block.pieces] * (part + 1) // parts):
            for m in range(w[Block.maps]):
                gw = floats(w[Block.gw] + element * (number * w[Block.gw_piece_step] + m * w[Block.gw_map_step]))
                for i in range(w[Block.map_channels] * w[Block.leading_places] * w[Block.places]):
                    gw[i] = 0.0
            for phase_number in range(w[Block.phases]):
                phase = words(block + 8 * (w[Block.phases_at] + _PHASE_WORDS * phase_number))
                template = words(block + 8 * phase[PhaseWords.inner_at])
                slices = w[Block.images] * phase[PhaseWords.slices]
                for i in range(phase[PhaseWords.inner_words]):
                    inner[i] = template[i]
                x, gy, gw_at = share + w[Block.x_start], share + w[Block.gy_start], share + w[Block.gw_start]
                inner[phase[PhaseWords.x]], inner[phase[PhaseWords.gy]], inner[phase[PhaseWords.gw]] = x, gy, gw_at
                if phase[PhaseWords.workspace] >= 0:
                    inner[phase[PhaseWords.workspace]] = share + w[Block.inner_start]
                for first in range(0, slices, max(1, phase[PhaseWords.chunk])):
                    collect(w, phase, block, share, number, first, min(phase[PhaseWords.chunk], slices - first))
                    code = call3(phase[PhaseWords.kernel], at, 0, 1)
                    if code != 0:
                        return code
                    add_up(w, phase, block, number, share + w[Block.gw_start])
        return 0

    return slices_weight


SLICES_WEIGHT = kernels_by_dtype("slices_weight", _build)


def prepare(problem: Problem, prepare_planar: PreparePlanar, *, pieces: int) -> Prepared:
    """x, gy -> gw of a convolution over any number of axes.

    prepare_planar: the same for two, given a piece and what it is a piece of.  pieces: a divisor of the groups, how
    many pieces they are to be divided into at least.
    """
    p, element = problem, SIZES[problem.dtype]
    leading = p.axes[:-2]
    leading_places, source_slices, slices = extents(leading)
    places, seen, windows = extents(p.axes[-2:])
    phases = _phases(p, windows)
    taps = max((len(phase.taps) for phase in phases), default=0)
    copied = p.groups * (p.channels * taps * seen + p.maps * windows)
    flops = 2.0 * p.groups * p.maps * p.channels * places * windows * pair_count(phases)
    work_us = p.images * (flops + 20.0 * slices * copied) / _FLOPS_PER_US
    parts = share_count(work_us, p.groups if p.groups > 1 else p.channels)
    # Before the threads are looked at: slices at once are summed in another order than one by one.
    at_once = max(-(-_LEAST_POSITIONS // windows), _CHUNK_BYTES * pieces // (element * copied))
    whole = p._replace(groups=p.groups // pieces)  # decides how each piece is computed
    pieces = _pieces(p, pieces, parts)
    # Of a piece:
    groups = p.groups // pieces if p.groups > 1 else 1
    channels = p.channels // (pieces if p.groups == 1 else 1)
    piece = p._replace(groups=groups, channels=channels)
    inner = [_prepare_phase(piece, whole, phase, at_once, prepare_planar) for phase in phases]
    chunk = max((chunk for chunk, _ in inner), default=0)
    map_step = p.channels * leading_places * places
    sizes = {
        "inner_start": max((prepared.workspace for _, prepared in inner), default=0),
        "x_start": element * chunk * groups * channels * taps * seen,
        "gy_start": element * chunk * groups * p.maps * windows,
        "gw_start": element * groups * p.maps * channels * taps * places,
    }
    inner_bytes = 8 * max((len(_native(prepared).block) for _, prepared in inner), default=0)
    starts = piece_starts(8 * BLOCK_WORDS + inner_bytes, sizes)
    parts = fitting_shares(min(pieces, parts), starts["share_bytes"])
    words = filled(
        Block,
        images=p.images,
        phases=len(phases),
        phases_at=size_of(Block),
        x_planes=p.groups * p.channels,
        x_plane_slices=source_slices,
        x_elements=seen,
        gy_planes=p.groups * p.maps,
        gy_plane_slices=slices,
        gy_elements=windows,
        collect_slices=COLLECT_SLICES[p.dtype].address(),
        pieces=pieces,
        channels=groups * channels,
        maps=groups * p.maps,
        map_step=0 if p.groups == 1 else groups * p.maps,
        gw_piece_step=channels * leading_places * places if p.groups == 1 else groups * p.maps * map_step,
        gw_map_step=map_step,
        map_channels=channels,
        leading_places=leading_places,
        places=places,
        **starts,
    )
    words += _phase_words(phases, inner)
    notes = dict.fromkeys(prepared.note for _, prepared in inner)
    return launch(
        SLICES_WEIGHT[p.dtype],
        words,
        (Block.x, Block.gy, Block.gw, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        owner=(SLICES_WEIGHT[p.dtype], *(_native(prepared).owner for _, prepared in inner)),
        note=f"{slices_note(leading, p.groups // groups, chunk, taps)}: {' / '.join(notes)}",
    )


def _phases(p: Problem, windows: int) -> list[Phase]:
    """The slices of gy that see something, by their leading taps; windows: elements of a slice."""
    least = -(-_LEAST_POSITIONS // (p.images * windows))
    found = leading_phases(p.axes[:-2], forward=True, least=least)
    if p.groups > 1 and p.channels == 1:  # the gradients of filters of single planes
        found = one_tap_each(found)
    return [phase for phase in found if phase.taps]


def _prepare_phase(
    piece: Problem, whole: Problem, phase: Phase, at_once: int, prepare_planar: PreparePlanar
) -> tuple[int, Prepared]:
    """How many slices are taken at once, at least `at_once`, and the call over two axes."""
    slices = piece.images * len(phase.slices)
    chunk = -(-slices // max(1, slices // at_once))

    def planar(p: Problem) -> Problem:
        return p._replace(images=chunk, channels=p.channels * len(phase.taps), axes=p.axes[-2:])

    with undivided():
        return chunk, prepare_planar(planar(piece), planar(whole))


def _phase_words(phases: Sequence[Phase], inner: Sequence[tuple[int, Prepared]]) -> list[int]:
    """The words behind the first ones: the phases, then their tables and inner blocks."""
    heads: list[int] = []
    tables: list[int] = []
    start = size_of(Block) + _PHASE_WORDS * len(phases)
    for phase, (chunk, prepared) in zip(phases, inner, strict=True):
        native = _native(prepared)
        x, gy, gw, *workspace = native.arguments
        slices = [word for found in phase.slices for word in found]
        places_at = start + len(tables)
        slices_at = places_at + len(phase.taps)
        gy_slices_at = slices_at + len(slices)
        heads += filled(
            PhaseWords,
            slices=len(phase.slices),
            chunk=chunk,
            taps=len(phase.taps),
            places_at=places_at,
            slices_at=slices_at,
            gy_slices_at=gy_slices_at,
            kernel=native.address,
            inner_at=gy_slices_at + len(phase.slices),
            inner_words=len(native.block),
            x=x,
            gy=gy,
            gw=gw,
            workspace=workspace[0] if workspace else NO_WORD,
        )
        tables += [*phase.taps, *slices, *(found[0] for found in phase.slices), *native.block.tolist()]
    return heads + tables


def _native(prepared: Prepared) -> Native:
    assert prepared.native is not None
    return prepared.native


def _pieces(problem: Problem, least: int, parts: int) -> int:
    """How many pieces of the same size the work is divided into: for each of `parts` one, if that is possible.

    Pieces of channels fill the lanes.
    """
    if problem.groups > 1:
        return max(n for n in range(1, max(least, parts) + 1) if problem.groups % n == 0)
    vector = lanes_of(problem.dtype).vector
    return max(n for n in range(1, parts + 1) if n == 1 or problem.channels % (n * vector) == 0)
