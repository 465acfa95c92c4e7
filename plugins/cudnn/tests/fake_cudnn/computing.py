"""What the operations of a graph compute, by NumPy in float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from fake_cudnn import engines
from fake_cudnn import rules as r
from fake_cudnn.descriptors import TENSORS, Descriptor

DTYPES: dict[int, Any] = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}
Array = np.ndarray[Any, Any]


class Values:
    """The tensors of one execution: stored ones as arrays over their memory, virtual ones as they come."""

    def __init__(self, stored: dict[int, Array], engine: int) -> None:
        self._stored = stored
        self._virtual: dict[int, Array] = {}
        self._engine = engine

    def get(self, tensor: Descriptor) -> Array:
        """In float64."""
        number = tensor.one(906)
        return self._virtual[number] if tensor.one(907, False) else self._stored[number].astype(np.float64)

    def factor(self, tensor: Descriptor) -> Array:
        """In float64, as the engine rounds factors of products."""
        return engines.rounded(self._engine, self._stored[tensor.one(906)], tensor.one(901)).astype(np.float64)

    def put(self, tensor: Descriptor, values: Array) -> None:
        """Store, or keep."""
        number = tensor.one(906)
        if tensor.one(907, False):
            self._virtual[number] = values
        else:
            with np.errstate(over="ignore"):
                self._stored[number][...] = values.astype(DTYPES[tensor.one(901)])


def compute(graph: Descriptor, values: Values) -> None:
    """All operations, in the order in which they are given."""
    for operation in graph.values[801]:
        if operation.kind in TENSORS:
            _convolution(operation, values)
        elif operation.kind == r.OPERATION_POINTWISE:
            _pointwise(operation, values)
        elif operation.kind == r.RESAMPLE_FORWARD:
            _pooling(operation, values)
        else:
            _pooling_gradient(operation, values)


def _taps(kernel: list[int], counts: list[int], stride: list[int], dilation: list[int]) -> Iterator[Any]:
    """Per place of a window, the place and the elements of the padded image that the windows have there."""
    for place in itertools.product(*map(range, kernel)):
        geometry = zip(place, counts, stride, dilation, strict=True)
        yield place, tuple(slice(p * d, p * d + (n - 1) * s + 1, s) for p, n, s, d in geometry)


def _convolution(operation: Descriptor, values: Values) -> None:
    described, x, w, y = (operation.one(name) for name in TENSORS[operation.kind])
    before, behind, stride, dilation = (described.values[name] for name in (105, 104, 103, 102))
    (n, c, *sizes), (k, depth, *kernel), counts = x.values[902], w.values[902], y.values[902][2:]
    groups = c // depth
    room = [size + a + b for size, a, b in zip(sizes, before, behind, strict=True)]
    images = np.zeros((n, groups, depth, *room))
    inner = tuple(slice(a, a + size) for a, size in zip(before, sizes, strict=True))
    weight = np.zeros((groups, k // groups, depth, *kernel))
    maps = np.zeros((n, groups, k // groups, *counts))
    if operation.kind != r.DATA_GRADIENT:
        images[(..., *inner)] = values.factor(x).reshape(n, groups, depth, *sizes)
    if operation.kind != r.WEIGHT_GRADIENT:
        weight[...] = values.factor(w).reshape(weight.shape)
    if operation.kind != r.FORWARD:
        maps[...] = values.factor(y).reshape(maps.shape)
    for place, elements in _taps(kernel, counts, stride, dilation):
        seen = (..., *elements)
        if operation.kind == r.FORWARD:
            maps += np.einsum("ngc...,goc->ngo...", images[seen], weight[(..., *place)])
        elif operation.kind == r.DATA_GRADIENT:
            images[seen] += np.einsum("ngo...,goc->ngc...", maps, weight[(..., *place)])
        else:
            flat = [one.reshape(*one.shape[:3], -1) for one in (images[seen], maps)]
            weight[(..., *place)] = np.einsum("ngcs,ngos->goc", *flat)
    if operation.kind == r.FORWARD:
        values.put(y, maps.reshape(y.values[902]))
    elif operation.kind == r.DATA_GRADIENT:
        values.put(x, images[(..., *inner)].reshape(x.values[902]))
    else:
        values.put(w, weight.reshape(w.values[902]))


def _pointwise(operation: Descriptor, values: Values) -> None:
    x, described = values.get(operation.one(751)), operation.one(750)
    if described.one(0) == 0:
        y = x + values.get(operation.one(752))
    else:
        y = np.maximum(x, 0) if described.one(2) == 1 else np.where(x > 0, x, 0)
    values.put(operation.one(753), y)


class _Windows:
    """A pooling's geometry over padded images."""

    def __init__(self, described: Descriptor, x: Descriptor, y: Descriptor) -> None:
        self.mode, self.propagates_nan = described.one(1700), described.one(1707) == 1
        kernel, before, behind, stride = (described.values[name] for name in (1706, 1704, 1703, 1705))
        self.leading, sizes, self.counts = x.values[902][:2], x.values[902][2:], y.values[902][2:]
        self.room = [size + a + b for size, a, b in zip(sizes, before, behind, strict=True)]
        self.inner = (..., *(slice(a, a + size) for a, size in zip(before, sizes, strict=True)))
        self.taps = [((..., *elements)) for _, elements in _taps(kernel, self.counts, stride, [1] * len(kernel))]

    def padded(self, values: Array | float, padding: float) -> Array:
        """Images with padding around them."""
        images = np.full((*self.leading, *self.room), padding)
        images[self.inner] = values
        return images

    def divisors(self) -> Array:
        """How many elements each window's average counts."""
        if self.mode == 2:
            return np.array(float(len(self.taps)))
        ones = self.padded(1.0, 0.0)
        return sum((ones[seen] for seen in self.taps), np.zeros(()))


def _pooling(operation: Descriptor, values: Values) -> None:
    x, y = operation.one(1710), operation.one(1711)
    windows = _Windows(operation.one(1716), x, y)
    if windows.mode == 3:
        images = windows.padded(values.get(x), -np.inf)
        larger = np.maximum if windows.propagates_nan else np.fmax
        values.put(y, larger.reduce([images[seen] for seen in windows.taps]))
    else:
        images = windows.padded(values.get(x), 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            values.put(y, sum(images[seen] for seen in windows.taps) / windows.divisors())


def _pooling_gradient(operation: Descriptor, values: Values) -> None:
    gx, gy = operation.one(1720), operation.one(1721)
    windows = _Windows(operation.one(1725), gx, gy)
    made, given = windows.padded(0.0, 0.0), values.get(gy)
    if windows.mode == 3:
        x, y = windows.padded(values.get(operation.one(1726)), -np.inf), values.get(operation.one(1727))
        free = np.ones(y.shape, bool)  # windows whose maximum was not met yet
        for seen in windows.taps:
            here = free & ((x[seen] == y) | (np.isnan(x[seen]) & np.isnan(y)))
            made[seen] += np.where(here, given, 0)
            free &= ~here
    else:
        for seen in windows.taps:
            made[seen] += given / windows.divisors()
    values.put(gx, made[windows.inner])
