"""Convolution and its adjoint over three axes and more, or group by group: with the kernels for two axes.

A slice of the result is a result over two axes, whose channels are the channels and leading taps of the whole, see
`leading_axes`. Some slices at once are what the kernel for two axes takes for images: what they see is collected, and
what they are is delivered to the result.

Shares are made of pieces and slices at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atled.plugin import Native, Prepared
from atled_cpu_numba.kernels.convolution.problem import Problem
from atled_cpu_numba.kernels.convolution.slice_pieces import BLOCK_WORDS, COLLECT_SLICES, CollectSlices
from atled_cpu_numba.kernels.shared.lanes import SIZES
from atled_cpu_numba.kernels.shared.launch import (
    fitting_shares,
    kernels_by_dtype,
    launch,
    optional_words,
    piece_starts,
    share_count,
    undivided,
)
from atled_cpu_numba.kernels.shared.layout import NO_WORD, filled, layout, size_of
from atled_cpu_numba.kernels.shared.leading_axes import Phase, extents, leading_phases, pair_count, slices_note

_FLOPS_PER_US = 120e3  # a cautious rate of one core, for the number of shares
_CHUNK_BYTES = 2 << 20  # of what some slices see and are, as much as two level-2 caches: more wins nothing
_LEAST_POSITIONS = 192  # of the result with leading taps of their own: their weights are transformed or packed anew


@layout
class Block:
    """What the kernel reads; starts in bytes from a share's workspace. The phases follow, then what they point to."""

    x: int  # address of x or gy
    weight: int
    bias: int  # or 0
    y: int  # or gx
    workspace: int
    share_bytes: int  # of workspace, which begins with the blocks of COLLECT_SLICES and of the inner kernel
    images: int
    planes: int  # of the source in a piece
    plane_slices: int  # of each
    elements: int  # of a slice
    result_planes: int  # of the result in a piece
    result_plane_slices: int
    result_elements: int
    phases: int
    phases_at: int  # word where they start
    weight_blocks: int  # of a piece's weight
    weight_rows: int  # in each of these blocks
    leading_places: int  # of the kernel, in each row
    places: int  # the other places of the kernel, for each leading one
    inner_start: int  # of the inner kernel's workspace
    weights_start: int
    seen_start: int  # of what slices see
    results_start: int
    collect_slices: int  # address of COLLECT_SLICES
    after: int  # range kernel to run on what is written of the result, or 0
    after_block: int
    pieces: int  # of the groups


@layout
class PhaseWords:
    """Slices with the same leading taps."""

    slices: int  # per image
    chunk: int  # slices at once
    taps: int
    places_at: int  # word where the taps' places start
    slices_at: int  # word where the slices start
    kernel: int  # inner kernel, or 0 if the slices see nothing
    inner_at: int  # word where its block starts
    inner_words: int
    rearranges: int  # whether the weights are to be rearranged
    source: int  # words of the inner block: for the source,
    weight: int
    bias: int  # or NO_WORD
    result: int
    workspace: int  # or NO_WORD


_PHASE_WORDS = size_of(PhaseWords)


def _build(dtype: str) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, ints64, words
    from atled_cpu_numba.kernels.shared.options import Real, kernel, piece
    from atled_cpu_numba.kernels.shared.vectors import make_copy_rows

    element, floats = SIZES[dtype], Real(dtype).pointer
    copy_rows = make_copy_rows(dtype)

    @piece
    def rearrange_weights(w, source_at, taps, places, target):
        """The weights of a phase: per block and tap the rows, as a kernel over two axes wants them."""
        to = target
        for number in range(w[Block.weight_blocks]):
            for t in range(taps):
                start = number * w[Block.weight_rows] * w[Block.leading_places] + places[t]
                source, row = source_at + element * start * w[Block.places], w[Block.leading_places] * w[Block.places]
                copy_rows((source, row, to, w[Block.places], w[Block.weight_rows], w[Block.places]))
                to += element * w[Block.weight_rows] * w[Block.places]

    @piece
    def deliver(w, phase, block, piece_number, first, taken, results):
        """The results of some slices to y, or the bias to those that see nothing: `results` is 0 then."""
        slices, maps, elements = phase[PhaseWords.slices], w[Block.result_planes], w[Block.result_elements]
        table = ints64(block + 8 * phase[PhaseWords.slices_at])
        for number in range(first, first + taken):
            image = number // slices
            place = table[(number - image * slices) * (1 + phase[PhaseWords.taps])]
            for m in range(maps):
                one = piece_number * maps + m
                start = ((image * w[Block.pieces] * maps + one) * w[Block.result_plane_slices] + place) * elements
                if results != 0:
                    source = results + element * ((number - first) * maps + m) * elements
                    copy_rows((source, elements, w[Block.y] + element * start, elements, 1, elements))
                else:
                    y = floats(w[Block.y] + element * start)
                    bias = floats(w[Block.bias])[one] if w[Block.bias] != 0 else 0.0
                    for i in range(elements):
                        y[i] = bias
                if w[Block.after] != 0:
                    call3(w[Block.after], w[Block.after_block], start, start + elements)

    @piece
    def set_up(w, phase, block, piece_number, share):
        """The inner block and the weights of a phase in the share's workspace; returns the block's address."""
        at = share + 8 * BLOCK_WORDS
        inner, template = words(at), words(block + 8 * phase[PhaseWords.inner_at])
        for i in range(phase[PhaseWords.inner_words]):
            inner[i] = template[i]
        seen, results = share + w[Block.seen_start], share + w[Block.results_start]
        inner[phase[PhaseWords.source]], inner[phase[PhaseWords.result]] = seen, results
        weight, start = w[Block.weight], element * piece_number * w[Block.weight_blocks] * w[Block.weight_rows]
        inner[phase[PhaseWords.weight]] = weight + start * w[Block.leading_places] * w[Block.places]
        if phase[PhaseWords.rearranges] != 0:
            weight, taps = inner[phase[PhaseWords.weight]], phase[PhaseWords.taps]
            places = ints64(block + 8 * phase[PhaseWords.places_at])
            rearrange_weights(w, weight, taps, places, share + w[Block.weights_start])
            inner[phase[PhaseWords.weight]] = share + w[Block.weights_start]
        if phase[PhaseWords.bias] >= 0:
            inner[phase[PhaseWords.bias]] = w[Block.bias] + element * piece_number * w[Block.result_planes]
        if phase[PhaseWords.workspace] >= 0:
            inner[phase[PhaseWords.workspace]] = share + w[Block.inner_start]
        return at

    @kernel
    def convolution_slices(block, part, parts):
        w = words(block)
        share = w[Block.workspace] + part * w[Block.share_bytes]
        q = words(share)
        units = 0
        for number in range(w[Block.phases]):
            phase = words(block + 8 * (w[Block.phases_at] + _PHASE_WORDS * number))
            slices = w[Block.images] * phase[PhaseWords.slices]
            units += (slices + phase[PhaseWords.chunk] - 1) // phase[PhaseWords.chunk]
        first_unit, last_unit = w[Block.pieces] * units * part // parts, w[Block.pieces] * units * (part + 1) // parts
        before = 0
        for number in range(w[Block.pieces] * w[Block.phases]):
            piece_number = number // w[Block.phases]
            phase = words(block + 8 * (w[Block.phases_at] + _PHASE_WORDS * (number - piece_number * w[Block.phases])))
            slices, chunk = w[Block.images] * phase[PhaseWords.slices], phase[PhaseWords.chunk]
            chunks = (slices + chunk - 1) // chunk
            c0, c1 = max(0, first_unit - before), min(chunks, last_unit - before)
            before += chunks
            if c0 >= c1:
                continue
            inner = set_up(w, phase, block, piece_number, share) if phase[PhaseWords.kernel] != 0 else 0
            for c in range(c0, c1):
                first = c * chunk
                taken = min(chunk, slices - first)
                if phase[PhaseWords.kernel] == 0:
                    deliver(w, phase, block, piece_number, first, taken, 0)
                    continue
                q[CollectSlices.source], q[CollectSlices.target] = w[Block.x], share + w[Block.seen_start]
                q[CollectSlices.first], q[CollectSlices.taken] = first, taken
                of_image, taps = phase[PhaseWords.slices], phase[PhaseWords.taps]
                table = block + 8 * phase[PhaseWords.slices_at]
                q[CollectSlices.slices], q[CollectSlices.taps], q[CollectSlices.table] = of_image, taps, table
                image_planes, first_plane = w[Block.pieces] * w[Block.planes], piece_number * w[Block.planes]
                planes, plane_slices, elements = w[Block.planes], w[Block.plane_slices], w[Block.elements]
                q[CollectSlices.image_planes], q[CollectSlices.first_plane] = image_planes, first_plane
                q[CollectSlices.planes], q[CollectSlices.plane_slices] = planes, plane_slices
                q[CollectSlices.elements] = elements
                call3(w[Block.collect_slices], share, 0, 1)
                code = call3(phase[PhaseWords.kernel], inner, 0, 1)
                if code != 0:
                    return code
                deliver(w, phase, block, piece_number, first, taken, share + w[Block.results_start])
        return 0

    return convolution_slices


CONVOLUTION_SLICES = kernels_by_dtype("convolution_slices", _build)


def prepare(
    problem: Problem, prepare_planar: Callable[[Problem], Prepared], *, pieces: int, least_images: int
) -> Prepared:
    """A convolution over any number of axes.

    prepare_planar: the same for two; from `least_images` images on how it computes does not depend on their number.
    pieces: a divisor of the groups, how many times fewer of them a piece has.
    """
    p = problem._replace(groups=problem.groups // pieces)
    element = SIZES[p.dtype]
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
    least = max(-(-_LEAST_POSITIONS // wanted), min(least_images, pieces * units))
    at_once = max(least, min(_CHUNK_BYTES // (element * copied), pieces * units // parts))

    inner = [_prepare_phase(p, phase, at_once, prepare_planar) for phase in phases]
    chunk = max(chunk for chunk, _ in inner)
    prepared = [planar_call for _, planar_call in inner if planar_call is not None]
    sizes = {
        "inner_start": max((planar_call.workspace for planar_call in prepared), default=0),
        "weights_start": 0 if all(map(p.in_order, phases)) else element * taps * weights,
        "seen_start": element * chunk * p.groups * p.channels * taps * seen,
        "results_start": element * chunk * p.groups * p.maps * wanted,
    }
    inner_bytes = 8 * max((len(_native(planar_call).block) for planar_call in prepared), default=0)
    starts = piece_starts(8 * BLOCK_WORDS + inner_bytes, sizes)
    parts = fitting_shares(parts, starts["share_bytes"])
    words = filled(
        Block,
        images=p.images,
        planes=p.groups * p.channels,
        plane_slices=source_slices,
        elements=seen,
        result_planes=p.groups * p.maps,
        result_plane_slices=result_slices,
        result_elements=wanted,
        phases=len(phases),
        phases_at=size_of(Block),
        # For an adjoint the weights of one tap must come behind one another for all maps, the second axis there.
        weight_blocks=p.groups * p.channels * (p.maps if p.forward else 1),
        weight_rows=1 if p.forward else p.maps,
        leading_places=kernel_places,
        places=planar_places,
        collect_slices=COLLECT_SLICES[p.dtype].address(),
        pieces=pieces,
        **starts,
    )
    words += _phase_words(p, phases, inner)
    notes = dict.fromkeys(planar_call.note for planar_call in prepared)
    return launch(
        CONVOLUTION_SLICES[p.dtype],
        words,
        (Block.x, Block.weight, *optional_words(Block.bias, p.biases), Block.y, Block.workspace),
        parts=parts,
        workspace=starts["share_bytes"] * parts,
        owner=(CONVOLUTION_SLICES[p.dtype], *(_native(planar_call).owner for planar_call in prepared)),
        after={0: Block.after},
        note=f"{slices_note(leading, pieces, chunk, taps)}: {' / '.join(notes)}",
    )


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
    start = size_of(Block) + _PHASE_WORDS * len(phases)
    for phase, (chunk, prepared) in zip(phases, inner, strict=True):
        slices = [word for found in phase.slices for word in found]
        places_at = start + len(tables)
        slices_at = places_at + len(phase.taps)
        tables += [*phase.taps, *slices]
        heads += filled(
            PhaseWords,
            slices=len(phase.slices),
            chunk=chunk,
            taps=len(phase.taps),
            places_at=places_at,
            slices_at=slices_at,
            **({} if prepared is None else _inner_words(problem, phase, prepared, start + len(tables))),
        )
        if prepared is not None:
            tables += _native(prepared).block.tolist()
    return heads + tables


def _inner_words(problem: Problem, phase: Phase, prepared: Prepared, inner_at: int) -> dict[str, int]:
    """What the words of a phase say about its inner kernel."""
    native = _native(prepared)
    source, weight, *rest = native.arguments
    result, *workspace = rest[len(problem.biases) :]
    return {
        "kernel": native.address,
        "inner_at": inner_at,
        "inner_words": len(native.block),
        "rearranges": int(not problem.in_order(phase)),
        "source": source,
        "weight": weight,
        "bias": rest[0] if any(problem.biases) else NO_WORD,
        "result": result,
        "workspace": workspace[0] if workspace else NO_WORD,
    }


def _native(prepared: Prepared) -> Native:
    assert prepared.native is not None
    return prepared.native
