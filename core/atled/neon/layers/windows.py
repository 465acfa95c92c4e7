"""Sizes of filters and windows as programs write them: numbers, tuples or dictionaries with neon's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atled.errors import did_you_mean, four_parts, listing, shortened


def filter_sizes(asked: str, fshape: Any, maps: str) -> dict[str, int]:
    """T, R, S and the count of maps by name.

    fshape: (R, S, maps), (T, R, S, maps), or a dictionary.  maps: "K" or "C".  asked: who asks, for messages.
    ValueError: another count of sizes, or an unknown name.
    """
    names = "T", "R", "S", maps
    if isinstance(fshape, Mapping):
        return {"T": 1} | _known(asked, "fshape", fshape, names)
    sizes = _several(fshape)
    if len(sizes) not in (3, 4):
        remedy = f"give (R, S, {maps}), with T before for depth"
        raise ValueError(four_parts(f"{asked}(fshape={shortened(fshape)})", f"{len(sizes)} sizes", "", remedy))
    return {"T": 1} | dict(zip(names[-len(sizes) :], sizes, strict=True))


def window_sizes(asked: str, fshape: Any, image: Sequence[int]) -> dict[str, int]:
    """Sizes of a window of a pooling by name: J, T, R, S, those that are not 1.

    fshape: R = S, (R, S), (T, R, S), a dictionary, or "all" for those of the image.  image: D, H, W.
    ValueError: another count of sizes, or an unknown name.
    """
    names = "J", "T", "R", "S"
    if isinstance(fshape, str) and fshape == "all":
        return dict(zip(names[1:], image, strict=True))
    if isinstance(fshape, Mapping):
        return _known(asked, "fshape", fshape, names)
    sizes = _several(fshape)
    sizes = [*sizes, *sizes] if len(sizes) == 1 else sizes
    if not 2 <= len(sizes) <= 3 or isinstance(fshape, str):
        wrong, remedy = f"{shortened(fshape)} is no window", 'give R, (R, S), (T, R, S), a dictionary, or "all"'
        raise ValueError(four_parts(f"{asked}(fshape={shortened(fshape)})", wrong, "", remedy))
    return dict(zip(names[-len(sizes) :], sizes, strict=True))


def geometry(asked: str, argument: str, kind: str, given: Any, axes: str = "dhw") -> dict[str, int]:
    """Strides, padding or dilation by name, such as str_h; those that are given.

    kind: "str", "pad" or "dil".  given: a number for height and width, a dictionary, None for none.
    axes: of names that there are.  ValueError: an unknown name.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return _known(asked, argument, given, [f"{kind}_{axis}" for axis in axes])
    return {f"{kind}_h": given, f"{kind}_w": given}


def _several(fshape: Any) -> Sequence[Any]:
    return fshape if isinstance(fshape, tuple | list) else (fshape,)


def _known(asked: str, argument: str, given: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    for name in given:
        if name not in names:
            remedy = did_you_mean(str(name), names, f"use {listing(names)}")
            wrong = f"{argument} has no {shortened(name)}"
            raise ValueError(four_parts(f"{asked}({argument}={shortened(dict(given))})", wrong, "", remedy))
    return dict(given)


def image_sizes(asked: str, shape: Any) -> dict[str, int]:
    """C, D, H, W by name.  shape: (C, H, W) or (C, D, H, W).  ValueError: another count of sizes."""
    sizes = _several(shape)
    if len(sizes) not in (3, 4):
        wrong = f"what comes in has sizes {shortened(shape)}, which is no image"
        remedy = "give (C, H, W) or (C, D, H, W), by data with that lshape, or by Reshape before it"
        raise ValueError(four_parts(asked, wrong, "", remedy))
    maps, *places = sizes
    return dict(zip("CDHW", (maps, *(1,) * (3 - len(places)), *places), strict=True))


def output_shape(sizes: Sequence[int]) -> tuple[int, ...]:
    """(maps, height, width), with the depth behind the maps where it is not 1.  sizes: maps, depth, height, width."""
    maps, depth, height, width = sizes
    return (maps, height, width) if depth == 1 else (maps, depth, height, width)
