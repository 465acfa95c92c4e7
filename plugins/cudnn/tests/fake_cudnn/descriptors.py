"""Descriptors as the stand-in holds them, and what finalization checks of each kind."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

from fake_cudnn import rules as r

ELEMENT_BYTES = {0: 4, 1: 8, 2: 2, 9: 2}
_serials = itertools.count(0x6400_0000_0000, 64)


class Refused(Exception):
    """A call that cuDNN answers with a status that is not success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Descriptor:
    """A descriptor. values: by name of the attribute, with the type.  extra: what finalization found out."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.address = next(_serials)
        self.types: dict[int, int] = {}
        self.values: dict[int, list[Any]] = {}
        self.is_final = False
        self.extra: Any = None

    def one(self, name: int, otherwise: Any = None) -> Any:
        """The first value of an attribute."""
        return self.values[name][0] if self.values.get(name) else otherwise

    def set(self, name: int, type_: int, values: list[Any]) -> None:
        """As cudnnBackendSetAttribute, with descriptors in the place of their addresses."""
        rule = r.RULES[self.kind].get(name)
        if rule is None or rule.read_only:
            raise Refused(r.BAD_PARAM, f"descriptor {self.kind} has no attribute {name} to set")
        if self.is_final:
            raise Refused(r.BAD_PARAM, f"descriptor {self.kind} is finalized")
        if type_ not in rule.types:
            raise Refused(r.ATTRIBUTE_TYPE, f"attribute {name} has not type {type_}")
        if not 1 <= len(values) <= rule.most:
            raise Refused(r.OUT_OF_BOUND, f"attribute {name} has not {len(values)} values")
        for value in values if type_ == r.DESCRIPTOR else ():
            if value.kind not in rule.kinds:
                raise Refused(r.DESCRIPTOR_TYPE, f"attribute {name} takes no descriptor {value.kind}")
            if not value.is_final:
                raise Refused(r.NOT_FINALIZED, f"attribute {name}: descriptor {value.kind} is not finalized")
        self.types[name], self.values[name] = type_, values

    def finalize(self) -> None:
        """As cudnnBackendFinalize."""
        if self.is_final:
            raise Refused(r.BAD_PARAM, f"descriptor {self.kind} is finalized already")
        for name, rule in r.RULES[self.kind].items():
            if rule.required and not rule.read_only and name not in self.values:
                raise Refused(r.BAD_PARAM, f"descriptor {self.kind} needs attribute {name}")
        check = _CHECKS.get(self.kind)
        if check is not None:
            check(self)
        self.is_final = True

    def plain(self) -> list[Any]:
        """As data for JSON: kind, then name, type and values of each attribute."""
        return [
            self.kind,
            [
                [name, self.types[name], [one.plain() if isinstance(one, Descriptor) else one for one in values]]
                for name, values in self.values.items()
            ],
        ]


def refuse_unless(holds: bool, text: str, status: int = r.BAD_PARAM) -> None:
    """Raise Refused where something does not hold."""
    if not holds:
        raise Refused(status, text)


def _tensor(made: Descriptor) -> None:
    dims, strides, alignment = made.values[902], made.values[903], made.one(900)
    refuse_unless(made.one(901) in ELEMENT_BYTES, "this stand-in has float dtypes only", r.NOT_SUPPORTED)
    refuse_unless(len(dims) == len(strides) and 3 <= len(dims) <= 5, "dimensions and strides: 3 to 5 of each")
    refuse_unless(min(dims) > 0 and min(strides) > 0, "a dimension or stride is not positive")
    refuse_unless(alignment % ELEMENT_BYTES[made.one(901)] == 0, "the alignment is no multiple of the element's size")


def _convolution(made: Descriptor) -> None:
    spatial = made.one(106)
    lengths = {len(made.values[name]) for name in (102, 103, 104, 105)}
    refuse_unless(lengths == {spatial}, "paddings, strides and dilations: one per spatial dimension")
    refuse_unless(min(made.values[102] + made.values[103]) > 0, "a stride or dilation is not positive")
    refuse_unless(min(made.values[104] + made.values[105]) >= 0, "a padding is negative")
    refuse_unless(made.one(101) == 1, "this stand-in has cross-correlation only", r.NOT_SUPPORTED)


TENSORS = {
    r.FORWARD: (702, 704, 703, 705),
    r.DATA_GRADIENT: (708, 710, 709, 711),
    r.WEIGHT_GRADIENT: (714, 716, 715, 717),
}
"""Names of the convolution, and of the tensors x, w and y, of each operation."""


def _operation(made: Descriptor) -> None:
    described, x, w, y = (made.one(name) for name in TENSORS[made.kind])
    spatial = described.one(106)
    dims = [tensor.values[902] for tensor in (x, w, y)]
    refuse_unless({len(one) for one in dims} == {spatial + 2}, "tensors and convolution differ in dimensions")
    (n, c, *sizes), (k, depth, *kernel), (batch, maps, *counts) = dims
    refuse_unless(n == batch and k == maps and c % depth == 0, "N, C and K do not fit", r.SHAPE_MISMATCH)
    refuse_unless(k % (c // depth) == 0, "the groups do not divide the output maps", r.SHAPE_MISMATCH)
    geometry = zip(sizes, kernel, *(described.values[name] for name in (105, 104, 103, 102)), strict=True)
    expected = [(s + before + behind - d * (f - 1) - 1) // t + 1 for s, f, before, behind, t, d in geometry]
    refuse_unless(counts == expected, f"y has sizes {counts}, not {expected}", r.SHAPE_MISMATCH)
    stored = {tensor.one(901) for tensor in (x, w, y) if not tensor.one(907, False)}
    refuse_unless(len(stored) == 1, "tensors of several data types", r.NOT_SUPPORTED)


def _pointwise(made: Descriptor) -> None:
    mode = made.one(750).one(0)
    refuse_unless(mode in (0, 100), "this stand-in adds and rectifies only", r.NOT_SUPPORTED)
    refuse_unless((mode == 0) == (752 in made.values), "an operand too many, or too few")
    x, y = made.one(751).values[902], made.one(753).values[902]
    refuse_unless(x == y, "x and y differ in shape", r.SHAPE_MISMATCH)
    for size, full in zip(made.one(752).values[902] if mode == 0 else (), y, strict=False):
        refuse_unless(size in (1, full), "b does not broadcast to y", r.SHAPE_MISMATCH)


def _resample(made: Descriptor) -> None:
    spatial = made.one(1702)
    lengths = {len(made.values[name]) for name in (1703, 1704, 1705, 1706)}
    refuse_unless(lengths == {spatial}, "paddings, strides and windows: one per spatial dimension")
    refuse_unless(made.one(1700) in (2, 3, 4), "this stand-in pools only", r.NOT_SUPPORTED)
    refuse_unless(min(made.values[1705] + made.values[1706]) > 0, "a stride or window is not positive")


def _resampled(made: Descriptor) -> None:
    forward = made.kind == r.RESAMPLE_FORWARD
    described, x, y = (made.one(name) for name in ((1716, 1710, 1711) if forward else (1725, 1720, 1721)))
    (n, c, *sizes), (batch, channels, *counts) = x.values[902], y.values[902]
    refuse_unless((n, c) == (batch, channels), "N and C differ", r.SHAPE_MISMATCH)
    geometry = zip(sizes, *(described.values[name] for name in (1706, 1704, 1703, 1705)), strict=True)
    expected = [1 + (s + before + behind - w) // t for s, w, before, behind, t in geometry]
    refuse_unless(counts == expected, f"y has sizes {counts}, not {expected}", r.SHAPE_MISMATCH)
    if not forward and described.one(1700) == 3:
        refuse_unless(1726 in made.values and 1727 in made.values, "x and y are required for NCHW", r.NOT_SUPPORTED)


def _graph(made: Descriptor) -> None:
    stored: dict[int, list[Any]] = {}
    for operation in made.values[801]:
        for tensor in (one for values in operation.values.values() for one in values if isinstance(one, Descriptor)):
            if tensor.kind == r.TENSOR:
                known = stored.setdefault(tensor.one(906), tensor.plain())
                refuse_unless(known == tensor.plain(), "one id for two tensors", r.DUPLICATED)


def _pack(made: Descriptor) -> None:
    refuse_unless(len(made.values[1000]) == len(made.values[1001]), "ids and pointers differ in number")
    refuse_unless(len(set(made.values[1000])) == len(made.values[1000]), "an id twice", r.DUPLICATED)


def _device(made: Descriptor) -> None:
    if 2702 in made.values:
        made.extra = json.loads(b"".join(made.values[2702]))
        return
    refuse_unless(2700 in made.values, "no device is named")
    made.extra = {"cudaDeviceId": made.one(2700), "deviceName": "NVIDIA Emulated", "deviceVer": 900}


_CHECKS: dict[int, Callable[[Descriptor], None]] = {
    r.TENSOR: _tensor,
    r.CONVOLUTION: _convolution,
    r.FORWARD: _operation,
    r.DATA_GRADIENT: _operation,
    r.WEIGHT_GRADIENT: _operation,
    r.OPERATION_POINTWISE: _pointwise,
    r.RESAMPLE: _resample,
    r.RESAMPLE_FORWARD: _resampled,
    r.RESAMPLE_BACKWARD: _resampled,
    r.GRAPH: _graph,
    r.VARIANT_PACK: _pack,
    r.DEVICE_PROPERTIES: _device,
}
