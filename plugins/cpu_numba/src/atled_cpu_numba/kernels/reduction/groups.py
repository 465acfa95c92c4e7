"""The axes of a reduction collapsed into alternating groups of kept and reduced ones: what its kernels take.

Where axes alternate more often, or an array that is summed has gaps, kernels run on a copy (`copied`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from atled.plugin import ArrayDesc, Call, NamedTuple, Prepared
from atled_cpu_numba.kernels.shared.launch import REALS, refuse_floats, share_count
from atled_cpu_numba.on_demand import imported

# Columns of one unit: as many as may be, since memory is read ahead where it goes on and on; what they become stays in
# the cache.
_MOST_COLUMNS = 2048
_FEWEST_COLUMNS = 256


class Groups(NamedTuple):
    """A reduction of x (kept_outer, reduced_outer, kept_inner, reduced_inner) over its second and last axis.

    Counts of elements; 1 where there is no such group.
    """

    kept_outer: int
    reduced_outer: int
    kept_inner: int
    reduced_inner: int


class Reduction:
    """The first words of the blocks of reductions; the sizes are those of `Groups`."""

    x: int  # address of x, or of gx
    y: int  # address of y, or of gy
    kept_outer: int
    reduced_outer: int
    kept_inner: int
    reduced_inner: int


def accepts(call: Call) -> bool | str:
    """Whether a reduction's floats are float32 or float64, and x lies in C order or without gaps."""
    # Places of extrema are no floats.
    refused = refuse_floats(call, REALS, floats=(0,), outputs=0 if call.spec.name.startswith("Arg") else 1)
    return refused or has_no_gaps(call)


def has_no_gaps(call: Call) -> bool | str:
    """Whether an array that is reduced lies in C order, or so that it is read without a copy."""
    if reduced_of(call).strides is None or groups_as_it_lies(call) is not None:
        return True
    return "takes arrays without gaps, whose kept axes are in the order of the result"


def takes_copies(prepare: Callable[[Call], Prepared]) -> Callable[[Call], Prepared]:
    """`prepare` for what its kernels take as it lies, and else of a copy (`copied`)."""

    @functools.wraps(prepare)
    def either(call: Call) -> Prepared:
        if groups_as_it_lies(call) is not None:
            return prepare(call)
        prepared: Prepared = imported("kernels.reduction.copied").prepare(call, prepare)
        return prepared

    return either


def groups_of(call: Call) -> Groups:
    """The groups of a call that is accepted, or of what is reduced in its place."""
    groups = groups_as_it_lies(call)
    if groups is None:
        groups = groups_as_it_lies(on_copy(call))
    assert groups is not None
    return groups


def on_copy(call: Call) -> Call:
    """The same reduction of an array of which `copied_order` says in which order its axes lie."""
    x, axes = reduced_of(call), call.attributes["axes"]
    order = copied_order(x, axes)
    made = ArrayDesc(tuple(x.shape[axis] for axis in order), x.dtype)
    attributes = {**call.attributes, "axes": tuple(place for place, axis in enumerate(order) if axis in axes)}
    if call.spec.name == "MaxMinGrad":
        return call.on(call.inputs, (made,), {**attributes, "shape": made.shape})
    return call.on((made, *call.inputs[1:]), call.outputs, attributes)


def copied_order(x: ArrayDesc, axes: Sequence[int]) -> list[int]:
    """The axes in an order that collapses into four groups, with the last one at its place: rows stay rows."""
    last = max((axis for axis in axes if x.shape[axis] > 1), default=-1)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    return [*(axis for axis in kept if axis < last), *axes, *(axis for axis in kept if axis > last)]


def groups_as_it_lies(call: Call) -> Groups | None:
    """The groups of what is reduced without a copy; None where that has gaps, or axes alternate more often."""
    found = in_memory(reduced_of(call), call.attributes["axes"])
    return None if found is None else collapse(*found)


def columns_at_once(groups: Groups, work_us: float) -> tuple[int, int]:
    """For a reduction over leading axes alone: the number of shares, and how many columns make a unit."""
    parts = share_count(work_us, groups.kept_outer * -(-groups.kept_inner // _FEWEST_COLUMNS))
    blocks = max(-(-parts // max(1, groups.kept_outer)), -(-groups.kept_inner // _MOST_COLUMNS))
    return parts, -(-groups.kept_inner // blocks) or 1


def reduced_of(call: Call) -> ArrayDesc:
    """The array whose axes are reduced; of MaxMinGrad, the result."""
    x = call.outputs[0] if call.spec.name == "MaxMinGrad" else call.inputs[0]
    assert x is not None
    return x


def in_memory(desc: ArrayDesc, axes: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Shape and reduced axes in the order in which an array lies in memory; None where that has gaps.

    Nor where kept axes are in another order, for so the result would be.
    """
    if desc.strides is None:
        return list(desc.shape), list(axes)
    steps = desc.strides
    order = sorted((axis for axis, size in enumerate(desc.shape) if size != 1), key=lambda axis: -steps[axis])
    shape = [desc.shape[axis] for axis in order]
    kept = [axis for axis in order if axis not in axes]
    strides = tuple(steps[axis] for axis in order)
    if kept != sorted(kept) or ArrayDesc(tuple(shape), desc.dtype, strides).strides is not None:
        return None
    return shape, [place for place, axis in enumerate(order) if axis in axes]


def collapse(shape: Sequence[int], axes: Sequence[int]) -> Groups | None:
    """The four groups, or None if it takes more; `axes` are the reduced ones, not negative.

    Axes of one element belong to any group. A single reduced group comes out as `reduced_inner` if nothing is kept
    behind it, else as `reduced_outer`.
    """
    groups: list[tuple[bool, int]] = []
    for axis, size in enumerate(shape):
        reduced = axis in axes
        if size == 1:
            continue
        if groups and groups[-1][0] == reduced:
            groups[-1] = reduced, groups[-1][1] * size
        else:
            groups.append((reduced, size))
    kinds = [reduced for reduced, _ in groups]
    sizes = [size for _, size in groups]
    if kinds == [True]:  # a sum over everything goes along one row
        return Groups(1, 1, 1, sizes[0])
    if kinds == [False, True]:
        return Groups(sizes[0], 1, 1, sizes[1])
    if kinds and kinds[0]:
        sizes.insert(0, 1)
    if len(sizes) > 4:
        return None
    outer, reduced_outer, inner, reduced_inner = sizes + [1] * (4 - len(sizes))
    return Groups(outer, reduced_outer, inner, reduced_inner)
