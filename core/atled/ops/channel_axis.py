"""The place of the channel axis of images: in front of the spatial axes, or with `channel_last` behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError
from atled.ops.spec import Attribute, OpSpec

CHANNEL_LAST = Attribute("channel_last", "bool", False)


class Channelled(OpSpec, abstract=True):
    """An op on images (B..., C, S...) that takes (B..., S..., C), too; weights (O, I, K...) are (O, K..., I) then.

    spatial: the attribute with one entry per spatial axis.
    """

    spatial: ClassVar[str] = "pad"


def either_layout(method: Callable[..., Any]) -> Callable[..., Any]:
    """Shape rules and references are written for channels in front; this moves the axes before and behind."""

    @wraps(method)
    def both(spec: Channelled, *inputs: Any, channel_last: bool = False, **attributes: Any) -> Any:
        if not channel_last:
            return method(spec, *inputs, **attributes)
        count = len(attributes[spec.spatial])
        named = zip(spec.input_names, inputs, strict=True)
        moved = [to_front(x, count) if name in spec.channelled else x for name, x in named]
        try:
            result = method(spec, *moved, **attributes)
        except RefusedError as error:
            raise RefusedError(f"with channel_last=True, shapes told as without: {error}") from error
        results = (result,) if isinstance(result, ArrayDesc | np.ndarray) else result
        named = zip(spec.outputs, results, strict=True)
        back = tuple(to_back(y, count) if name in spec.channelled else y for name, y in named)
        return back[0] if results is not result else back

    return both


def front_axes(ndim: int, count: int) -> tuple[int, ...]:
    """The axes of (B..., S..., C) in the order (B..., C, S...), for `count` spatial ones."""
    channel = ndim - 1 - count
    return (*range(channel), ndim - 1, *range(channel, ndim - 1))


def back_axes(ndim: int, count: int) -> tuple[int, ...]:
    """The axes of (B..., C, S...) in the order (B..., S..., C), for `count` spatial ones."""
    channel = ndim - 1 - count
    return (*range(channel), *range(channel + 1, ndim), channel)


# `Any`: an array, its description, or None where an optional input is absent.
def to_front(x: Any, count: int) -> Any:
    """(B..., S..., C) as (B..., C, S...)."""
    return x if x is None or x.ndim <= count else _permuted(x, front_axes(x.ndim, count))


def to_back(x: Any, count: int) -> Any:
    """(B..., C, S...) as (B..., S..., C)."""
    return x if x is None or x.ndim <= count else _permuted(x, back_axes(x.ndim, count))


def _permuted(x: Any, axes: Sequence[int]) -> Any:
    if isinstance(x, ArrayDesc):
        return ArrayDesc(tuple(x.shape[axis] for axis in axes), x.dtype)
    return x.transpose(axes)


def spatial_shape(shape: Sequence[int], count: int, channel_last: bool) -> tuple[int, ...]:
    """S of an image or K of a weight, for `count` spatial axes."""
    return tuple(shape[-1 - count : -1] if channel_last else shape[len(shape) - count :])


def all_but_channels(ndim: int, count: int, channel_last: bool) -> tuple[int, ...]:
    """The axes over which the gradient of a bias is summed."""
    channel = ndim - 1 if channel_last else ndim - 1 - count
    return tuple(axis for axis in range(ndim) if axis != channel)
