"""Batch normalization, its gradient, and mean subtraction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from atled.plugin import ArrayDesc, Call, Prepared, Registrar
from atled_cuda_cupy.compiling import template, type_names
from atled_cuda_cupy.devices import Device, device
from atled_cuda_cupy.kernels.attaching import attached_text
from atled_cuda_cupy.kernels.reduction import Reducing, accepts, aligned, behind, walking
from atled_cuda_cupy.kernels.walk import Walk, plan_walk
from atled_cuda_cupy.launching import Launch, Step, queued

_BACKWARDS = {"BACKWARDS": 1}  # what the first walk saw last may still be in the L2 cache
_WARPS = 4  # of a block of the kernels that have a warp per channel


def _types(x: ArrayDesc, statistics: ArrayDesc) -> dict[str, object]:
    stored, real = type_names(x.dtype)
    return {"T": stored, "A": real, "S": type_names(statistics.dtype)[0]}


def _walk(where: Device, x: ArrayDesc, axes: Sequence[int], *, vectors: bool) -> Walk:
    vector = 16 // x.dtype.itemsize if vectors else 1
    return plan_walk(x.shape, axes, where.multiprocessors, vector=vector, peels=True, batches=1)


def _unroll(walk: Walk) -> int:
    return 2 if walk.defines["VEC"] != 1 else 4


def _by_channel(
    where: Device, source: str, name: str, types: Mapping[str, object], channels: int, parts: int, floats: int
) -> Launch:
    """A kernel that has a warp for each channel."""
    grid = -(-channels // _WARPS)
    return Launch(where, source, name, grid, 32 * _WARPS, (channels, parts), types, floats=floats)


def prepare_batch_normalization(call: Call) -> Prepared:
    """Numbers of the batch in parts, then those of each channel and the running ones, then the elements."""
    x, _, _, mean, _ = call.inputs
    assert x is not None and mean is not None
    where, batch_stat = device(call.device_id), call.attributes["batch_stat"]
    others = [axis for axis in range(x.ndim) if axis not in call.attributes["axes"]]
    types, double = _types(x, mean), x.dtype.itemsize == 8
    real = types["A"]
    walk = _walk(where, x, others, vectors=True)
    channels, size = walk.results, 8 if double else 4
    parts = walk.parts if batch_stat else 0
    moments = walking(where, walk, "moments", types, text=template("channel_state"))
    source = template("channel_state") + template("statistics")
    statistics = _by_channel(where, source, "statistics", types, channels, parts, 2)
    has_formula = bool(call.after)
    over_elements = _walk(where, x, others, vectors=not has_formula)
    defines = {**types, "HAS_FORMULA": int(has_formula), **_BACKWARDS}
    text = attached_text(call, stores=(0,), real=str(real), once=True)
    normalize = walking(where, over_elements, "normalize", defines, floats=call.float_count, text=text)
    coefficients = aligned(2 * size * channels)
    workspace = coefficients + 3 * size * channels * parts

    def steps(*arguments: Any) -> Sequence[Step]:  # Any: arrays of this device
        (x, beta, gamma, mean, variance, y, m, v), attached, (numbers, flag) = call.split(arguments)
        found = behind(numbers, coefficients, workspace - coefficients)
        first: list[Step] = [(moments, (x, found), 0)] if batch_stat else []
        given = (found, walk.count, gamma, mean, variance, m, v, numbers, flag)
        return [*first, (statistics, given, 0), (normalize, (x, numbers, beta, y, *attached), 0)]

    return queued(call, steps, workspace=workspace, heeds_failure=True)


def prepare_gradient(call: Call) -> Prepared:
    """Sums in parts, then numbers of each channel, then the elements. A formula before gy is computed in both walks."""
    gy, x, _, mean, _ = call.inputs
    assert gy is not None and x is not None and mean is not None
    where, batch_stat = device(call.device_id), call.attributes["batch_stat"]
    others = [axis for axis in range(x.ndim) if axis not in call.attributes["axes"]]
    types, size = _types(x, mean), 8 if x.dtype.itemsize == 8 else 4
    real, before = str(types["A"]), int(bool(call.before))
    walk = _walk(where, x, others, vectors=not before)
    channels, floats = walk.results, call.float_count
    reads = attached_text(call.attached(call.before, {}, call.wanted), reads=(0,), real=real, once=True)
    # Two arrays are loaded at a time.
    defines = {**types, "HAS_FORMULA": before, "UNROLL": _unroll(walk)}
    sums = walking(where, walk, "gradient_sums", defines, floats=floats, text=reads)
    source = template("gradient_statistics")
    statistics = _by_channel(where, source, "gradient_statistics", types, channels, walk.parts, 1)
    over_elements = _walk(where, x, others, vectors=not call.formulas)
    modes: dict[str, object] = {"UNROLL": _unroll(over_elements), **_BACKWARDS}
    modes |= {"HAS_FORMULA": before, "STORES_FORMULA": int(bool(call.after)), "BATCH_STAT": int(batch_stat)}
    text = attached_text(call, reads=(0,), stores=(0,), real=real, once=True)
    spread = walking(where, over_elements, "spread", {**types, **modes}, floats=floats, text=text)
    coefficients = aligned(3 * size * channels)
    workspace = coefficients + 2 * size * channels * walk.parts
    operands = sum(len(formula.inputs) for formula in call.before.values())

    def steps(*arguments: Any) -> Sequence[Step]:  # Any: as above
        (gy, x, gamma, mean, variance, gx, gbeta, ggamma), attached, (numbers,) = call.split(arguments)
        found = behind(numbers, coefficients, workspace - coefficients)
        given = (found, walk.count, gamma, variance, gbeta, ggamma, numbers)
        return [
            (sums, (gy, x, mean, found, *attached[:operands]), 0),
            (statistics, given, 0),
            (spread, (gy, x, numbers, mean, gx, *attached), 0),
        ]

    return queued(call, steps, workspace=workspace)


def prepare_mean_subtraction(call: Call) -> Prepared:
    """Sums over the batch, the running mean by them, the elements; the count of calls last."""
    x, mean, _ = call.inputs
    assert x is not None and mean is not None
    where, moves = device(call.device_id), call.attributes["update_running_mean"]
    axes = range(call.attributes["base_axis"])
    batch = math.prod(x.shape[axis] for axis in axes) if moves else 0
    types = _types(x, mean)
    sum_dtype = "float64" if x.dtype.itemsize == 8 else "float32"
    sums = Reducing(where, x, axes, "SUM", sum_dtype)
    walk = _walk(where, x, axes, vectors=True)
    subtract = walking(where, walk, "subtract", types)
    source, blocks = template("mean_subtraction"), min(-(-mean.size // 256), 8 * where.multiprocessors)
    move = Launch(where, source, "move_mean", blocks, 256, (mean.size,), types)
    count = Launch(where, source, "count_call", 1, 1, (), types)
    made = aligned(8 * mean.size)

    def steps(x: Any, mean: Any, t: Any, y: Any, scale: Any, *others: Any) -> Sequence[Step]:  # Any: as above
        workspace, flag = others if moves else (None, *others)
        last: list[Step] = [(subtract, (x, mean, y), 0), (count, (t, scale, batch, flag), 0)]
        if not moves:
            return last
        parts = behind(workspace, made, sums.workspace)
        return [*sums.steps(x, workspace, None, (), parts), (move, (workspace, batch, mean, t, flag), 0), *last]

    size = made + sums.workspace if moves else 0
    return queued(call, steps, workspace=size, heeds_failure=True)


def register(registrar: Registrar) -> None:
    """Hand them over."""
    facts: dict[str, Any] = {"accepts": accepts, "note": "kernel"}
    statistics = ("batch_mean", "batch_variance")
    registrar.implementation(
        "BatchNormalization", "cuda", prepare_batch_normalization, omits=statistics, attaches=("y",), **facts
    )
    registrar.implementation("BatchNormalizationGrad", "cuda", prepare_gradient, attaches=("gy", "gx"), **facts)
    registrar.implementation("MeanSubtraction", "cuda", prepare_mean_subtraction, **facts)
