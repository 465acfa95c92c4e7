"""Which part of a tensor an index names: two axes at least stay."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

from atled.errors import four_parts, shortened

Cuts = tuple[tuple[int, int, int] | int, ...]
"""Per axis (start, stop, step) as `slice.indices` gives them, or an int: one element, and the axis goes."""


def cuts_of(shape: tuple[int, ...], index: Any) -> Cuts:  # Any: whatever stands in the brackets
    """What an index takes of each of the first axes.

    An integer takes one element. Its axis stays, with size 1, where there are two axes; where there are more, it goes,
    those of the first integers first, until there are two. `...` stands for all axes that are not named.

    IndexError: an integer out of range, more entries than axes, or what is no integer, slice or `...`.
    """
    keys = index if type(index) is tuple else (index,)
    if len(keys) > len(shape):
        keys = _without_ellipsis(shape, index, keys)
    may_go = len(shape) - 2
    cuts: list[tuple[int, int, int] | int] = []
    for axis, item in enumerate(keys):
        if type(item) is slice:
            try:
                cuts.append(item.indices(shape[axis]))
            except (TypeError, ValueError) as error:
                _refuse(shape, index, f"{item} is no slice of an axis: {error}", error)
        elif type(item) is int:
            size = shape[axis]
            if not -size <= item < size:
                _refuse(shape, index, f"{item} is out of range for axis {axis}, which has {size}")
            position = item + size if item < 0 else item
            cuts.append(position if may_go > 0 else (position, position + 1, 1))
            may_go -= 1
        elif item is Ellipsis:
            return cuts_of(shape, _without_ellipsis(shape, index, keys))
        else:
            return cuts_of(shape, (*keys[:axis], _integer(shape, index, item), *keys[axis + 1 :]))
    return tuple(cuts)


def _without_ellipsis(shape: tuple[int, ...], index: Any, keys: tuple[Any, ...]) -> tuple[Any, ...]:
    """The entries with full slices in the place of `...`."""
    places = [place for place, item in enumerate(keys) if item is Ellipsis]
    missing = len(shape) - len(keys) + len(places)
    if len(places) > 1 or missing < 0:
        _refuse(shape, index, f"there are {len(shape)} axes and at most one `...` to name")
    if not places:
        return keys
    (place,) = places
    return (*keys[:place], *[slice(None)] * missing, *keys[place + 1 :])


def _integer(shape: tuple[int, ...], index: Any, item: Any) -> int:
    """An entry that is an integer of another type, such as NumPy's."""
    is_truth = isinstance(item, bool) or getattr(getattr(item, "dtype", None), "kind", "") == "b"
    if not is_truth:
        try:
            return operator.index(item)
        except TypeError as error:
            _refuse(shape, index, f"{shortened(item)} is no integer, slice or `...`", error)
    return _refuse(shape, index, f"{shortened(item)} is a truth value")


def _refuse(shape: tuple[int, ...], index: Any, wrong: str, cause: BaseException | None = None) -> NoReturn:
    raise IndexError(
        four_parts(
            f"[{shortened(index)}] of a tensor of shape {shape}",
            wrong,
            "",
            "use integers within the axes and slices; `take(indices, axis)` copies rows or columns by their numbers",
        )
    ) from cause
