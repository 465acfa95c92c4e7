"""Convolution with vectors along the rows of the result, whose shares are slabs of positions or pieces of the maps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import op_spec
from atled_contexts import Context
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.convolution import choice, rows
from atled_cpu_numba.kernels.convolution.problem import problem_of
from atled_cpu_numba.kernels.shared import launch as launching

# Kernel, pad, stride, dilation: source rows are read in place, copied, sorted into phases; or whole slabs see padding.
WINDOWS = {
    "1 x 1": ((1, 1), (0, 0), (1, 1), (1, 1)),
    "3 x 3": ((3, 3), (1, 1), (1, 1), (1, 1)),
    "stride 2": ((3, 3), (1, 1), (2, 2), (1, 1)),
    "stride 3": ((4, 3), (2, 1), (3, 3), (1, 1)),
    "dilation": ((3, 3), (2, 2), (1, 1), (2, 2)),
    "wide padding": ((3, 3), (9, 1), (2, 1), (1, 1)),
    "rows alone": ((5, 1), (2, 0), (1, 1), (1, 1)),
}


def prepare(call):
    """The call as this module computes it, whatever is quicker."""
    return next(way.prepare() for way in choice.ways(problem_of(call)) if way.name in ("rows", "strided rows"))


BY_ROWS = SimpleNamespace(accepts=choice.accepts, prepare=prepare)


def geometry_of(windows, group=1):
    _, pad, stride, dilation = windows
    return {"base_axis": 1, "pad": pad, "stride": stride, "dilation": dilation, "group": group}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("images, group, channels, maps", [(1, 1, 3, 16), (2, 1, 5, 1), (1, 2, 4, 14)])
def test_shares_of_any_positions_give_what_the_reference_gives(
    run, parts, windows, images, group, channels, maps, dtype
):
    rng, spec = np.random.default_rng(0), op_spec("Convolution")
    geometry = geometry_of(windows, group)
    for size in ((16, 64), (33, 50), (70, 67)):
        x = rng.standard_normal((images, group * channels, *size)).astype(dtype)
        weight = rng.standard_normal((group * maps, channels, *windows[0])).astype(dtype)
        bias = rng.standard_normal(group * maps).astype(dtype)
        wanted = spec.reference(x, weight, bias, channel_last=False, **geometry)
        y = np.full(wanted.shape, np.nan, dtype)
        assert run(BY_ROWS, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4, err_msg=f"{size}")


@pytest.mark.parametrize("pad", [(0, 0), (1, 1), (2, 2)])
def test_shares_of_an_adjoint_give_the_same_bits(run, parts, pad):
    rng = np.random.default_rng(1)
    gy, weight = rng.standard_normal((1, 6, 41, 43), "f"), rng.standard_normal((6, 4, 3, 3), "f")
    geometry = geometry_of((None, pad, (1, 1), (1, 1)))
    shape = (1, 4, *(n + 2 - 2 * p for n, p in zip((41, 43), pad, strict=True)))
    results = [np.full(shape, np.nan, "f") for _ in range(2)]
    for count, gx in zip((1, parts), results, strict=True):
        assert run(BY_ROWS, "ConvolutionDataGrad", [gy, weight], [gx], parts=count, **geometry) == 0
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_infinities_are_seen_by_their_windows_alone(run, parts, windows):
    rng, geometry = np.random.default_rng(2), geometry_of(windows)
    x, weight = rng.standard_normal((1, 3, 35, 52), "f"), rng.standard_normal((7, 3, *windows[0]), "f")
    x[0, 1, 17, 20], x[0, 2, 34, 51] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        wanted = op_spec("Convolution").reference(x, weight, None, channel_last=False, **geometry)
    y = np.zeros(wanted.shape, "f")
    assert run(BY_ROWS, "Convolution", [x, weight, None], [y], parts=parts, **geometry) == 0
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(wanted))


@pytest.mark.parametrize("shape, maps, by_positions", [((1, 3, 40, 40), 16, True), ((1, 64, 8, 16), 256, False)])
def test_what_is_larger_is_divided(make_call, monkeypatch, shape, maps, by_positions):
    """Of the source and the weight, shares all read the smaller one."""
    monkeypatch.setattr(pool, "_chosen_count", 2)
    monkeypatch.setattr(launching, "SHARE_US", 1e-9)
    x, weight = np.empty(shape, "f"), np.empty((maps, shape[1], 1, 1), "f")
    y = np.empty((1, maps, *shape[2:]), "f")
    words = prepare(make_call("Convolution", [x, weight, None], [y], **geometry_of(WINDOWS["1 x 1"]))).native.block
    assert (words[rows.Block.slabs] > 1, words[rows.Block.pieces] > 1) == (by_positions, not by_positions)


@pytest.mark.parametrize("kernel, size", [(1, (40, 44)), (1, (37, 45)), (3, (40, 44)), (3, (37, 45))])
def test_formulas_are_computed_once_on_each_position(monkeypatch, kernel, size):
    """Within slabs, each map has ranges of its own; a sum that were made twice would show."""
    monkeypatch.setattr(pool, "_chosen_count", 2)
    monkeypatch.setattr(launching, "SHARE_US", 1e-9)
    rng = np.random.default_rng(3)
    x, w, other = nn.Variable((1, 3, *size)), nn.Variable((8, 3, kernel, kernel)), nn.Variable((1, 8, *size))
    for each in (x, w, other):
        each.d = rng.standard_normal(each.shape)
    with nn.context_scope(Context(["cpu:float"])), nn.auto_forward(False):
        y = F.convolution(x, w, pad=(kernel // 2,) * 2) + other
        y.forward()
    assert [step.name for step in y.plan.steps if step.carrier is not None] == ["Add2"]
    spec, windows = op_spec("Convolution"), ((kernel, kernel), (kernel // 2,) * 2, (1, 1), (1, 1))
    wanted = spec.reference(x.d, w.d, None, channel_last=False, **geometry_of(windows)) + other.d
    np.testing.assert_allclose(y.d, wanted, atol=1e-4)
