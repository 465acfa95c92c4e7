"""Random alterations of images: geometry, brightness, contrast and noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError, four_parts
from atled.ops import philox
from atled.ops.samples import Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec

_GEOMETRY_DRAWS = 8
"""Uniform numbers per image for its geometry, in this order: scale, aspect ratio, angle, distortion, flip_lr, flip_ud,
vertical place, horizontal place. After them come two per channel, for brightness and contrast, and one for noise."""


class ImageAugmentation(OpSpec):
    """Images scaled, deformed, turned, distorted, flipped, cropped, and altered in brightness and contrast, at random.

    Each image draws uniform numbers u and with them v = 2 u - 1, in this order:

    1. scale `s = min_scale (max_scale / min_scale)^u`;
    2. aspect ratio `r = aspect_ratio^v`: scale s sqrt(r) along the width, s / sqrt(r) along the height;
    3. angle `a = angle v`;
    4. distortion `k = distortion v`: distances t from the centre, 1 at the corners, become `t (1 + k t^2) / (1 + k)`;
    5. flip_lr and 6. flip_ud: flipped where u >= 0.5;
    7. vertical and 8. horizontal place u of the output in the scaled and padded image, 0 at one end, 1 at the other;
    9. two numbers per channel: brightness `b = brightness v` and contrast `c = contrast^v`. Without brightness_each
       (contrast_each), all channels take those of the first;
    10. noise with the standard deviation `noise u`.

    Output pixel (i, j), relative to the centre of the output, is flipped, distorted, turned, divided by the scales, and
    moved to its place. The image is interpolated linearly there; what is outside takes the nearest pixel of the border.
    Then `y = (y - contrast_center) c + contrast_center + b + noise`. Image n draws words `n D` to `n D + D - 1` of the
    random_state, D being 9 + 2 C; the noise are normal numbers from the random state with 2^62 added to its call count.

    Args:
        x: (B..., H, W) float; the last three axes, or as many as there are, are one image (C, H, W).
        random_state: (2,) int64, key and call count; supplied by the engine.
        shape: sizes of y along the trailing axes; only the last two may differ from those of x; default: those of x.
        pad: (vertical, horizontal) pixels by which the image is thought wider on each side.
        min_scale, max_scale: above 0; bounds of the scale.
        angle: the largest angle either way, in radians.
        aspect_ratio: above 0; the largest stretch of width to height either way.
        distortion: the largest distortion either way, below 1.
        flip_lr, flip_ud: whether to flip horizontally and vertically, with probability 1/2.
        brightness: the largest number added either way.
        brightness_each: whether each channel gets its own.
        contrast: above 0; the largest factor either way.
        contrast_center: the value that contrast does not change.
        contrast_each: whether each channel gets its own.
        noise: the largest standard deviation of the noise.
        seed: whole number that fixes the random numbers of this function; -1: fresh entropy.

    Returns:
        y: (B..., T...) float; T is shape. No gradient flows.

    Raises:
        ValueError: x has fewer than two axes, shape or pad does not fit, x has no pixels, an attribute is out of range.
    """

    function = "image_augmentation"
    category = "stochastic"
    inputs = (Input("x"), Input("random_state", kind="random_state", gradient="none"))
    attributes = (
        Attribute("shape", "ints", None),
        Attribute("pad", "ints", (0, 0)),
        Attribute("min_scale", "float", 1.0),
        Attribute("max_scale", "float", 1.0),
        Attribute("angle", "float", 0.0),
        Attribute("aspect_ratio", "float", 1.0),
        Attribute("distortion", "float", 0.0),
        Attribute("flip_lr", "bool", False),
        Attribute("flip_ud", "bool", False),
        Attribute("brightness", "float", 0.0),
        Attribute("brightness_each", "bool", False),
        Attribute("contrast", "float", 1.0),
        Attribute("contrast_center", "float", 0.0),
        Attribute("contrast_each", "bool", False),
        Attribute("noise", "float", 0.0),
        Attribute("seed", "int", -1),
    )
    random = True
    no_gradient = "stops"

    def normalize(self, attributes: dict[str, Any], *inputs: Any) -> dict[str, Any]:
        x, shape, pad = inputs[0], attributes["shape"] or (), attributes["pad"]
        if x.ndim < 2:
            raise self.error(inputs, f"x has {x.ndim} axes", "give it at least two, height and width")
        whole = x.shape[: x.ndim - len(shape)] + shape
        if len(shape) > x.ndim or whole[:-2] != x.shape[:-2] or min(whole[-2:]) < 0:
            remedy = f"use {list(x.shape[:-2])} + height and width, or the last of these"
            raise self.error(inputs, f"shape={shape} does not fit", remedy)
        if 0 in x.shape[-2:] and 0 not in whole:
            raise self.error(inputs, "the images have no pixels", "give them at least one")
        if len(pad) != 2 or min(pad) < 0 or max(pad) >= 2**31:
            raise self.error(inputs, f"pad={pad}", "give two numbers from 0 to 2147483647: vertical, horizontal")
        return {**attributes, "shape": whole}

    def check_values(self, attributes: Mapping[str, Any]) -> None:
        """ValueError for a scale, ratio or factor that is not above 0, or too large a distortion."""
        for name in ("min_scale", "max_scale", "aspect_ratio", "contrast"):
            if not 0 < attributes[name] < math.inf:
                raise self._out_of_range(name, attributes[name], "use a number above 0")
        if not abs(attributes["distortion"]) < 1:
            raise self._out_of_range("distortion", attributes["distortion"], "use -1 to 1, neither included")

    def _out_of_range(self, name: str, value: float, remedy: str) -> RefusedError:
        return RefusedError(four_parts(f"{self.name}({name}={value})", f"{name} is out of range", "", remedy))

    def infer(self, x: ArrayDesc, *, shape: tuple[int, ...], **_: Any) -> ArrayDesc:
        return ArrayDesc(shape, x.dtype)

    def reference(
        self,
        x: np.ndarray,
        random_state: np.ndarray,
        *,
        shape: tuple[int, ...],
        contrast_center: float,
        noise: float,
        **attributes: Any,
    ) -> np.ndarray:
        if 0 in shape:
            return np.zeros(shape, x.dtype)
        images = x.reshape(-1, x.shape[-3] if x.ndim > 2 else 1, *x.shape[-2:])
        count, channels = images.shape[:2]
        draws = philox.uniform(random_state, (count, _GEOMETRY_DRAWS + 2 * channels + 1))
        y = np.empty((count, channels, *shape[-2:]))
        for number, (image, drawn) in enumerate(zip(images, draws, strict=True)):
            rows, columns = _sources(drawn, image.shape[1:], shape[-2:], attributes)
            taken = _interpolated(image.astype(np.float64), rows, columns)
            brightness, contrast = _tones(drawn[_GEOMETRY_DRAWS:-1], attributes)
            y[number] = (taken - contrast_center) * contrast + contrast_center + brightness
        # From a call count that no call reaches: no word is used for two numbers.
        sigma = noise * draws[:, -1].reshape(count, 1, 1, 1)
        y += sigma * philox.normal(random_state + np.array([0, 1 << 62]), y.shape)
        return y.reshape(shape).astype(x.dtype)

    def samples(self) -> Sequence[Sample]:
        def pixels(*shape: int) -> Uniform:
            return Uniform(shape, 0.0, 1.0)

        return (
            Sample(pixels(2, 1, 5, 6), seed=7),
            Sample(pixels(3, 2, 5, 6), shape=(4, 3), seed=7),
            Sample(pixels(3, 2, 5, 6), shape=(2, 8, 9), pad=(1, 2), seed=7),
            Sample(pixels(3, 1, 5, 6), min_scale=0.5, max_scale=2.0, aspect_ratio=1.3, seed=1),
            Sample(pixels(3, 1, 6, 6), angle=0.5, distortion=0.2, seed=1),
            Sample(pixels(5, 1, 3, 4), flip_lr=True, flip_ud=True, seed=-2),
            Sample(pixels(2, 3, 3, 4), brightness=0.5, contrast=1.5, contrast_center=0.5, seed=-2),
            Sample(pixels(2, 3, 3, 4), brightness=0.5, brightness_each=True, contrast=1.5, contrast_each=True, seed=3),
            Sample(pixels(2, 3, 3, 4), noise=0.1, seed=3),
            Sample(pixels(4, 4), shape=[2, 2], seed=3),
            Sample(pixels(0, 1, 3, 4), seed=3),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "x has 1 axes", (4,)),
            Refused(ValueError, "shape=.* does not fit", (2, 3, 4, 4), shape=(1, 4, 4)),
            Refused(ValueError, "have no pixels", (2, 1, 0, 4), shape=(3, 3)),
            Refused(ValueError, "pad=", (2, 1, 4, 4), pad=(1,)),
            Refused(ValueError, "pad=", (2, 1, 4, 4), pad=(2**31, 0)),
            Refused(ValueError, "min_scale is out of range", (2, 1, 4, 4), min_scale=0.0),
            Refused(ValueError, "distortion is out of range", (2, 1, 4, 4), distortion=1.0),
            Refused(TypeError, "flip_lr", (2, 1, 4, 4), flip_lr="yes"),
        )


def _sources(
    drawn: np.ndarray, size: Sequence[int], wanted: Sequence[int], attributes: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Row and column in the image, fractions included, of every output pixel: two (height, width) float64."""
    u, v = drawn, 2 * drawn - 1
    scale = attributes["min_scale"] * (attributes["max_scale"] / attributes["min_scale"]) ** u[0]
    stretch = attributes["aspect_ratio"] ** (v[1] / 2)
    angle, distortion = attributes["angle"] * v[2], attributes["distortion"] * v[3]
    scales = (scale / stretch, scale * stretch)
    half = [(n - 1) / 2 for n in wanted]
    rows, columns = np.meshgrid(np.arange(wanted[0]) - half[0], np.arange(wanted[1]) - half[1], indexing="ij")
    if attributes["flip_lr"] and u[4] >= 0.5:
        columns = -columns
    if attributes["flip_ud"] and u[5] >= 0.5:
        rows = -rows
    corner = max(math.hypot(*half), 1e-9)
    bent = (1 + distortion * (rows**2 + columns**2) / corner**2) / (1 + distortion)
    rows, columns = rows * bent, columns * bent
    turned = (
        rows * math.cos(angle) - columns * math.sin(angle),
        columns * math.cos(angle) + rows * math.sin(angle),
    )
    places = []
    for axis, place in enumerate(u[6:8]):
        # The outermost places of the output's centre, so that it just fits into the padded image.
        extent = wanted[axis] / scales[axis]
        room = size[axis] + 2 * attributes["pad"][axis] - extent
        centre = place * room - attributes["pad"][axis] + (extent - 1) / 2
        places.append(turned[axis] / scales[axis] + centre)
    return places[0], places[1]


def _interpolated(image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The image (C, H, W) at fractional places, linearly; beyond the border its nearest pixel: (C, rows.shape)."""
    rows = rows.clip(0, image.shape[1] - 1)
    columns = columns.clip(0, image.shape[2] - 1)
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    down, right = rows - top, columns - left
    bottom = np.minimum(top + 1, image.shape[1] - 1)
    beside = np.minimum(left + 1, image.shape[2] - 1)
    upper = image[:, top, left] * (1 - right) + image[:, top, beside] * right
    lower = image[:, bottom, left] * (1 - right) + image[:, bottom, beside] * right
    return upper * (1 - down) + lower * down


def _tones(drawn: np.ndarray, attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Brightness and contrast per channel, each (C, 1, 1)."""
    v = 2 * drawn.reshape(-1, 2, 1, 1) - 1
    brightness = attributes["brightness"] * (v[:, 0] if attributes["brightness_each"] else v[:1, 0])
    contrast = attributes["contrast"] ** (v[:, 1] if attributes["contrast_each"] else v[:1, 1])
    return brightness, contrast
