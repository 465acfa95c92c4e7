"""Sliding windows: how many fit along each axis, and which elements each of them sees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atled.array_desc import ArrayDesc

if TYPE_CHECKING:
    from atled.ops.spec import OpSpec

Slices = tuple[slice, ...]

_MOST = 2**31 - 1
"""Of a kernel, pad, stride or dilation: so that places of elements, which are sums of products, count in 64 bits."""


def window_counts(
    sizes: Sequence[int], kernel: Sequence[int], pad: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """How many whole windows fit: `(n + 2p - (d(k-1) + 1)) // s + 1` per axis; below 1 where none does."""
    return tuple(
        (n + 2 * p - (d * (k - 1) + 1)) // s + 1
        for n, k, p, s, d in zip(sizes, kernel, pad, stride, dilation, strict=True)
    )


def taps(
    sizes: Sequence[int],
    counts: Sequence[int],
    kernel: Sequence[int],
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], Slices, Slices]]:
    """Per kernel position, in C order: the position, the windows that see an element there, and those elements.

    Window i has its position o on element `i*s - p + o*d` of the axis; windows for which that is outside are left out.

    Args:
        sizes: elements per axis.  counts: windows per axis.  kernel, pad, stride, dilation: per axis.

    Returns:
        an iterator of (position, slices of the windows, slices of the elements); the slices select equally many.
    """
    seeing = map(_seeing, sizes, counts, kernel, pad, stride, dilation)
    for position in itertools.product(*seeing):
        windows, elements = [], []
        for o, n, count, p, s, d in zip(position, sizes, counts, pad, stride, dilation, strict=True):
            offset = o * d - p
            first = max(0, -(offset // s))
            last = min(count - 1, (n - 1 - offset) // s)
            if last < first:
                break
            windows.append(slice(first, last + 1))
            elements.append(slice(first * s + offset, last * s + offset + 1, s))
        else:
            yield position, tuple(windows), tuple(elements)


def _seeing(n: int, count: int, k: int, p: int, s: int, d: int) -> Sequence[int]:
    """The positions of one axis of the kernel, those that see no element left out where there are many of them."""
    if k <= n * count:
        return range(k)
    offsets = (element + p - window * s for window in range(count) for element in range(n))
    return sorted({offset // d for offset in offsets if offset % d == 0 and 0 <= offset // d < k})


def per_axis(
    spec: OpSpec,
    inputs: Sequence[ArrayDesc | None],
    attributes: Mapping[str, Any],
    name: str,
    axes: int,
    *,
    least: int,
    default: int = 0,
) -> tuple[int, ...]:
    """The attribute `name` with one value per window axis, `default` everywhere if it was not given."""
    values = attributes[name]
    if values is None:
        return (default,) * axes
    if len(values) != axes:
        raise spec.error(inputs, f"{name}={values} has {len(values)} entries", f"give {axes}, one per spatial axis")
    if any(value < least for value in values):
        raise spec.error(inputs, f"{name}={values} has an entry below {least}", f"use {least} or more")
    if name != "shape" and any(value > _MOST for value in values):
        raise spec.error(inputs, f"{name}={values} has an entry above {_MOST}", f"use {_MOST} or less")
    return values
