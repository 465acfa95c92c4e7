"""The largest of each sample, in the order of the reference."""

from __future__ import annotations

import numpy as np
import pytest

from atled.plugin import ArrayDesc, Call, op_spec
from atled_cuda_cupy.kernels import sorting

SHAPES = [((5, 7), 3), ((3, 300), 300), ((2, 2000), 17), ((1, 20000), 1000), ((2, 600), 1)]


def top_k(compute, x, **attributes):
    attributes = {"abs": False, "reduce": True, "base_axis": 1, **attributes}
    got = compute(sorting, "prepare_top_k", "TopKData", (x,), **attributes)
    for one, other in zip(got, op_spec("TopKData").reference(x, **attributes), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("abs", [False, True])
@pytest.mark.parametrize(("shape", "k"), SHAPES)
def test_the_largest_with_many_equal_ones(compute, shape, k, abs, reduce):
    x = np.random.default_rng(0).integers(-40, 41, shape).astype("float32")
    top_k(compute, x, k=k, abs=abs, reduce=reduce)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_dtypes(compute, dtype):
    top_k(compute, np.random.default_rng(1).standard_normal((3, 500)).astype(dtype), k=40)


@pytest.mark.parametrize("abs", [False, True])
def test_infinities_zeros_of_both_signs_and_nan(compute, abs):
    x = np.tile(np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, np.nan], "float32"), (2, 1))
    top_k(compute, x, k=8, abs=abs)


def test_the_order_of_very_many_is_for_the_host():
    x = ArrayDesc((1, 10**6), np.float32)
    attributes = {"k": 10**5, "abs": False, "base_axis": 1}
    index = ArrayDesc((1, 10**5), np.int64)
    ordered = Call(op_spec("TopKData"), (x,), (x, index), {**attributes, "reduce": False})
    assert "sorts" in sorting.accepts(ordered)
    assert sorting.accepts(ordered.without([1])) is True
