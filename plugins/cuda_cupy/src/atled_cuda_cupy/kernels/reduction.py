"""Sums, means, products and extrema over any axes, and what goes by them: norms, the gradient of extrema."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from atled.plugin import ArrayDesc, Call, Prepared, Registrar
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy.compiling import has_type, template, type_names
from atled_cuda_cupy.devices import Device, device
from atled_cuda_cupy.kernels.attaching import attached_text
from atled_cuda_cupy.kernels.walk import Walk, place_words, plan_walk
from atled_cuda_cupy.launching import Launch, Step, call_step, queued

_OPERATIONS = {
    "Sum": "SUM",
    "Mean": "SUM",
    "ReduceSum": "SUM",
    "ReduceMean": "SUM",
    "Prod": "PRODUCT",
    "Product": "PRODUCT",
    "Max": "MAXIMUM",
    "Min": "MINIMUM",
    "MaxTies": "MAXIMUM",
    "MinTies": "MINIMUM",
    "LogSumExp": "LOG_SUM_EXP",
}
_WHOLE = ("ArgMax", "ArgMin", "Max", "MaxTies", "Min", "MinTies", "Prod", "Product", "Sum")
_TRUTHS = {"Any": "ANY", "All": "ALL"}
_WORTH_A_LAUNCH = 4  # parts; fewer take no longer one after the other than a second launch does
_MEANS = ("Mean", "ReduceMean")
_PLAIN_READ = "#define READ_0(x, at) load((x)[at])\n"
_PLAIN_STORE = "#define STORE_0(y, at, value) (y)[at] = store<Y>(value)\n"
_NO_OPERANDS = "#define OPERANDS\n#define NUMBERS\n"
_DIVERGENCE = """
/* p (log(p + 1e-8) - log(q + 1e-8)); of near ones by what they differ, since the logarithms would cancel. */
static __device__ __forceinline__ A divergence(A p, A q) {
    const A least = A(1e-8), apart = p - q, whole = q + least;
    return p * (2 * fabs(apart) < whole ? log1p(apart / whole) : log(p + least) - log(whole));
}
#define READ_0(p, at) divergence(load((p)[at]), load(q[at]))
#define OPERANDS , const T *q
#define NUMBERS
"""
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def accepts(call: Call) -> bool | str:
    """True for the dtypes that there are kernels for, else the reason."""
    for desc in (*call.inputs, *call.outputs):
        if desc is not None and desc.dtype.name not in (*_FLOATS, "int64", "int32"):
            return f"the kernels reduce floats, not {desc.dtype}"
    for desc in (*call.reads, *call.writes):
        if desc is not None and not has_type(desc):
            return f"kernels have no type for {desc.dtype}"
    return True


def accepts_whole(call: Call) -> bool | str:
    """The same for what reduces integers and truth values, too; formulas beside them are for others."""
    if not call.has_integers:
        return accepts(call)
    return "no formulas are computed beside sums of integers" if call.formulas else accepts_truths(call)


def whole_type(dtype: Any) -> str:  # Any: a dtype
    """In which type results of a dtype are accumulated that are integers or truth values; "" for floats."""
    if dtype.kind not in "biu":
        return ""
    is_wide = dtype.itemsize == 8 or dtype.name == "uint32"
    return ("unsigned long long" if dtype.name == "uint64" else "long long") if is_wide else "int"


def _worst(dtype: Any, operation: str) -> str:  # Any: a dtype
    """What no element is worse than, where the best one is looked for."""
    is_maximum = operation == "MAXIMUM"
    if dtype.kind not in "biu":
        return f"__int_as_float({'0xff800000' if is_maximum else '0x7f800000'})"
    if dtype.kind == "b":
        return "0" if is_maximum else "1"
    least, greatest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if not is_maximum:
        return f"{greatest}{'ULL' if dtype.kind == 'u' else 'LL'}"
    return f"({least + 1}LL - 1)" if least else "0"  # C has no literal of the least one


def accepts_truths(call: Call) -> bool | str:
    """True for all dtypes that kernels have a type for, else the reason."""
    for desc in (*call.inputs, *call.outputs, *call.reads, *call.writes):
        if desc is not None and not has_type(desc):
            return f"kernels have no type for {desc.dtype}"
    return True


def walking(
    where: Device,
    walk: Walk,
    name: str,
    defines: Mapping[str, object],
    *,
    floats: int = 0,
    text: str = "",
) -> Launch:
    """The kernel of a file NAME.cuh, which walks; text: what stands before it."""
    source, defines = text + template("walk") + template(name), {**walk.defines, **defines}
    return Launch(where, source, name, walk.grid, walk.block, walk.words, defines, 0, floats, walk.wide)


def aligned(size: int) -> int:
    """So many bytes, or a few more; of none some, so that there is a workspace in any case."""
    return max(16, -(-size // 16) * 16)


def _plain(reads: str) -> str:
    return (reads or _PLAIN_READ + _NO_OPERANDS) + _PLAIN_STORE


class Reducing:
    """The launches of one reduction.

    x, axes: what is reduced.  operation: as reduction.cuh calls it.  result: dtype of what is stored.
    sum_type: in which type it is accumulated; default that in which elements are computed.
    divisor: of the result.  call: whose formulas are to be computed, if any.
    reads: defines READ_0 and OPERANDS, where elements are made from one more array.
    workspace: bytes that the launches want.
    """

    def __init__(
        self,
        where: Device,
        x: ArrayDesc,
        axes: Collection[int],
        operation: str,
        result: Any,  # Any: a dtype
        *,
        sum_type: str = "",
        divisor: int = 1,
        call: Call | None = None,
        reads: str = "",
    ) -> None:
        stored, real = type_names(x.dtype)
        sum_type = sum_type or whole_type(np.dtype(result)) or real
        self._divisor = divisor
        self._has_places = operation in ("MAXIMUM", "MINIMUM")
        before, after = (call.before, call.after) if call else ({}, {})
        self._before_floats = sum(len(formula.spec.float_names) for formula in before.values())
        self._before_arrays = sum(len(formula.inputs) for formula in before.values()) + bool(reads)
        is_made = bool(before or reads)
        vector = 1 if is_made else min(8, 16 // x.dtype.itemsize)
        facts: dict[str, Any] = {"vector": vector, "peels": not self._has_places}
        walk = plan_walk(x.shape, axes, where.multiprocessors, **facts)
        if walk.parts < _WORTH_A_LAUNCH:
            walk = plan_walk(x.shape, axes, where.multiprocessors, **facts, batches=0)
        floats = call.float_count if call else 0
        types = {"T": stored, "A": real, "ACC": sum_type, "Y": type_names(result)[0]}
        defines = {**types, "OP": operation, "HAS_FORMULA": int(is_made), "OF_PARTS": 0, "IS_PART": 0}
        if self._has_places:
            defines["WORST"] = _worst(x.dtype, operation)
        self._parts = walk.parts
        self._part_bytes = aligned(walk.results * walk.parts * (4 if sum_type in ("float", "int") else 8))
        self.workspace = 0
        self._second: Launch | None = None
        if walk.parts == 1:
            text = attached_text(call, reads=(0,), stores=(0,), real=real, once=True) if call else _plain(reads)
            self._first = walking(where, walk, "reduce", defines, floats=floats, text=text)
            return
        self.workspace = self._part_bytes + self._has_places * 8 * walk.results * walk.parts
        text = (
            attached_text(call.attached(before, {}, call.wanted), reads=(0,), real=real, once=True)
            if call
            else _plain(reads)
        )
        first = {**defines, "Y": sum_type, "IS_PART": 1}
        self._first = walking(where, walk, "reduce", first, floats=floats, text=text)
        again = plan_walk((walk.parts, walk.results), (0,), where.multiprocessors, batches=0)
        text = (
            attached_text(call.attached({}, after, call.wanted), stores=(0,), real=real, once=True)
            if call
            else _PLAIN_STORE + _NO_OPERANDS
        )
        text += _PLAIN_READ
        second = {**defines, "T": sum_type, "A": sum_type, "HAS_FORMULA": 0, "OF_PARTS": 1}
        self._second = walking(where, again, "reduce", second, floats=floats, text=text)

    def steps(self, x: Any, y: Any, place: Any, attached: Sequence[Any], workspace: Any) -> list[Step]:  # Any: arrays
        """Its launches, for arrays; place: of extrema, or None."""
        if self._second is None:
            return [(self._first, (x, None, y, place, self._divisor, *attached), 0)]
        before, after = attached[: self._before_arrays], attached[self._before_arrays :]
        places = workspace.data.ptr + self._part_bytes if self._has_places else None
        return [
            (self._first, (x, None, workspace, places, 1, *before), 0),
            (self._second, (workspace, places, y, place, self._divisor, *after), self._before_floats),
        ]


def prepare_reduction(call: Call) -> Prepared:
    """A reduction in one launch or two."""
    (x,), name = call.inputs, call.spec.name
    assert x is not None
    axes = call.attributes.get("axes", range(x.ndim))
    operation, where = _OPERATIONS[name], device(call.device_id)
    count = math.prod(x.shape[axis] for axis in axes)
    sum_type = "double" if operation == "PRODUCT" and x.dtype.kind not in "biu" else ""
    divisor = count if name in _MEANS else 1
    made = Reducing(where, x, axes, operation, call.outputs[0].dtype, sum_type=sum_type, divisor=divisor, call=call)

    def steps(*arguments: Any) -> Sequence[Step]:  # Any: arrays of this device
        (x, y, *place), attached, (*workspace,) = call.split(arguments)
        return made.steps(x, y, place[0] if place else None, attached, workspace[0] if workspace else None)

    return queued(call, steps, workspace=made.workspace)


def prepare_place(call: Call) -> Prepared:
    """ArgMax and ArgMin: an extremum, of which only the place is kept."""
    (x,), where = call.inputs, device(call.device_id)
    assert x is not None
    operation = "MAXIMUM" if call.spec.name == "ArgMax" else "MINIMUM"
    made = Reducing(where, x, call.attributes["axes"], operation, x.dtype)
    values = aligned(call.outputs[0].size * x.dtype.itemsize)

    def steps(x: Any, index: Any, workspace: Any) -> Sequence[Step]:  # Any: as above
        return made.steps(x, workspace, index, (), behind(workspace, values, made.workspace))

    return queued(call, steps, workspace=values + made.workspace)


def prepare_truth(call: Call) -> Prepared:
    """Any and All, of integers and truth values, too: accumulated as floats, none of which becomes 0 that was not."""
    (x,), where = call.inputs, device(call.device_id)
    assert x is not None
    sum_type = "float" if x.dtype.kind in "biu" else type_names(x.dtype)[1]
    operation, axes = _TRUTHS[call.spec.name], call.attributes["axes"]
    made = Reducing(where, x, axes, operation, call.outputs[0].dtype, sum_type=sum_type)

    def steps(x: Any, y: Any, *workspace: Any) -> Sequence[Step]:  # Any: as above
        return made.steps(x, y, None, (), workspace[0] if workspace else None)

    return queued(call, steps, workspace=made.workspace)


def prepare_divergence(call: Call) -> Prepared:
    """KLMultinomial: a sum over the elements of two arrays."""
    p, where = call.inputs[0], device(call.device_id)
    assert p is not None
    axes = range(call.attributes["base_axis"], p.ndim)
    made = Reducing(where, p, axes, "SUM", p.dtype, reads=_DIVERGENCE)

    def steps(p: Any, q: Any, y: Any, *workspace: Any) -> Sequence[Step]:  # Any: as above
        return made.steps(p, y, None, (q,), workspace[0] if workspace else None)

    return queued(call, steps, workspace=made.workspace)


def prepare_scaling(call: Call) -> Prepared:
    """ScaleToNorm and VATNoise: sums of squares in double, then each element by that of its result."""
    x = call.inputs[0]
    assert x is not None
    is_noise = call.spec.name == "VATNoise"
    axes = range(call.attributes["base_axis"], x.ndim) if is_noise else call.attributes["axes"]
    where = device(call.device_id)
    squares = Reducing(where, x, axes, "SQUARES", np.float64, sum_type="double")
    walk = plan_walk(x.shape, axes, where.multiprocessors, vector=16 // x.dtype.itemsize, peels=True)
    defines = {"T": type_names(x.dtype)[0], "LEAST": "1e-8" if is_noise else "0.0"}
    scale = walking(where, walk, "scale_to_norm", defines, floats=1)
    sums = aligned(8 * walk.results)

    def steps(x: Any, *arguments: Any) -> Sequence[Step]:  # Any: as above
        (y, norm), workspace = (arguments[1], None) if is_noise else arguments[:2], arguments[2]
        parts = behind(workspace, sums, squares.workspace)
        return [*squares.steps(x, workspace, None, (), parts), (scale, (x, workspace, y, norm), 0)]

    return queued(call, steps, workspace=sums + squares.workspace)


def behind(workspace: Any, offset: int, size: int) -> Any:  # Any: arrays
    """The part of a workspace that begins there."""
    return cp.ndarray((size,), np.uint8, workspace.data + offset)


def zeros(where: Device, array: Any) -> Sequence[Step]:  # Any: an array
    """What makes all bytes of an array 0."""
    address, size = array.data.ptr, array.nbytes
    return [call_step(where, lambda stream: cp.runtime.memsetAsync(address, 0, size, stream))] if size else []


def prepare_put(call: Call) -> Prepared:
    """MaxMinGrad: zeros, then each gradient to its place."""
    axes, gx = call.attributes["axes"], call.outputs[0]
    where = device(call.device_id)
    put = _placing(call, gx, axes, "put")

    def steps(gy: Any, index: Any, gx: Any, flag: Any, number: int) -> Sequence[Step]:  # Any: as above
        return [*zeros(where, gx), (put, (gy, index, gx, flag, number), 0)]

    return queued(call, steps, may_fail="an index is out of range")


def prepare_take(call: Call) -> Prepared:
    """MaxMinGather: the element at each place."""
    (x, _), axes = call.inputs, call.attributes["axes"]
    assert x is not None
    take = _placing(call, x, axes, "take")
    return queued(call, lambda *given: [(take, given, 0)], may_fail="an index is out of range")


def _placing(call: Call, whole: ArrayDesc, axes: Collection[int], name: str) -> Launch:
    where, (defines, words) = device(call.device_id), place_words(whole.shape, axes)
    grid = min(-(-words[0] // 256), 32 * where.multiprocessors)
    source, defines["T"] = template("walk") + template("picking"), type_names(whole.dtype)[0]
    return Launch(where, source, name, grid, 256, words, defines, wide=whole.size >= 2**30)


def prepare_copy(call: Call) -> Prepared:
    """ClipGradByNorm: a copy, whose gradient is another op's matter."""
    where = device(call.device_id)

    def steps(x: Any, y: Any) -> Sequence[Step]:  # Any: as above
        source, target, size = x.data.ptr, y.data.ptr, y.nbytes
        on_device = cp.runtime.memcpyDeviceToDevice
        copy = call_step(where, lambda stream: cp.runtime.memcpyAsync(target, source, size, on_device, stream))
        return [copy] if size else []

    return queued(call, steps, note="copy")


_PREPARES: dict[Callable[[Call], Prepared], str] = {
    prepare_reduction: " ".join(_OPERATIONS),
    prepare_place: "ArgMax ArgMin",
    prepare_scaling: "ScaleToNorm VATNoise",
    prepare_put: "MaxMinGrad",
    prepare_take: "MaxMinGather",
    prepare_copy: "ClipGradByNorm",
    prepare_divergence: "KLMultinomial",
}


def register(registrar: Registrar) -> None:
    """Hand them over."""
    for op in _TRUTHS:
        facts: dict[str, Any] = {"integers": True, "accepts": accepts_truths}
        registrar.implementation(op, "cuda", prepare_truth, note="kernel", **facts)
    for prepare, ops in _PREPARES.items():
        for op in ops.split():
            facts = {"accepts": accepts}
            if op in _WHOLE:
                facts = {"accepts": accepts_whole, "integers": True}
            if prepare is prepare_reduction:
                facts["attaches"] = ("x", "y")
            omits = {"Max": ("index",), "Min": ("index",), "ScaleToNorm": ("norm",)}.get(op, ())
            registrar.implementation(op, "cuda", prepare, note="kernel", omits=omits, **facts)
