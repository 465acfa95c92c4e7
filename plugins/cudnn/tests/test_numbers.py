"""What cuDNN does to numbers: on the stand-in by its own rules, on a GPU for the first time.

`pytest plugins/cudnn/tests/test_numbers.py -s` on a GPU prints the line for `atled_cudnn/confirmed.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.ext_utils import get_extension_context
from atled.plugin import ArrayDesc, Call, op_spec
from atled_cudnn import plans, pooling
from atled_cudnn.library import version

GEOMETRY = {"kernel": (3, 2), "stride": (2, 1), "ignore_border": True, "pad": (1, 0)}


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(prepared, *arrays):
    """Run a prepared call on arrays of the device; gives the last one."""
    import cupy

    given = [cupy.asarray(array) for array in arrays]
    workspace = [cupy.empty((prepared.workspace,), np.uint8)] if prepared.workspace else []
    prepared.run(*given, *workspace)
    return cupy.asnumpy(given[-1])


def pooled_back(x):
    """The gradient of max pooling by x, on cuDNN and by the reference."""
    spec = op_spec("MaxPooling")
    y, _ = spec.reference(x, **GEOMETRY)
    gy = values(*y.shape, seed=1)
    descs = [ArrayDesc(one.shape, one.dtype) for one in (gy, x, y)]
    call = Call(op_spec("MaxPoolingGradByValue"), tuple(descs), (descs[1],), GEOMETRY, device_id="0")
    found = run(pooling.prepare(call), gy, x, y, np.empty_like(x))
    return found, op_spec("MaxPoolingGradByValue").reference(gy, x, y, **GEOMETRY)


def test_the_gradient_of_maxima_goes_where_the_spec_says(cudnn):
    distinct = np.random.default_rng(0).permutation(2 * 3 * 8 * 7).reshape(2, 3, 8, 7).astype(np.float32)
    found, expected = pooled_back(distinct)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_whether_the_first_of_equal_maxima_and_nan_get_it_is_as_the_table_says(cudnn):
    tied = np.round(values(2, 3, 8, 7))
    special = tied.copy()
    special[0, 1, 2:5, 3:5] = np.nan
    same = [np.array_equal(*pooled_back(x)) for x in (tied, special)]
    name = plans.properties(0).name
    line = f"({version()}, {name!r})"
    print(f"{line}: equal maxima {same[0]}, NaN {same[1]}" + (" - add it to FIRST_MAXIMUM" if all(same) else ""))
    if (version(), name) in pooling.FIRST_MAXIMUM:
        assert all(same), f"{line} is in FIRST_MAXIMUM, and does otherwise"


@pytest.mark.parametrize(
    ("type_config", "least", "most"),
    [("float", 0, 3e-6), ("tf32", 1e-5, 2e-3), ("half", 1e-5, 3e-3), ("bf16", 1e-4, 3e-2), ("double", 0, 1e-6)],
)
def test_each_type_config_has_the_precision_that_it_promises(cudnn, type_config, least, most):
    x, w = values(2, 64, 12, 12), values(64, 64, 3, 3, seed=1)
    with nn.context_scope(get_extension_context("cudnn", type_config=type_config, fallback="quiet", local_errors=True)):
        y = F.convolution(*map(nn.Variable.from_numpy_array, (x, w)))
        y.forward()
    exact = op_spec("Convolution").reference(
        x.astype(np.float64), w.astype(np.float64), None,
        base_axis=1, pad=(0, 0), stride=(1, 1), dilation=(1, 1), group=1,
    )  # fmt: skip
    error = float(np.abs(np.asarray(y.d, np.float64) - exact).max() / np.abs(exact).max())
    assert least <= error <= most


def test_a_fused_rectifier_keeps_nan(cudnn):
    x = values(1, 8, 6, 6)
    x[0, 0, 3, 3] = np.nan
    with nn.context_scope(get_extension_context("cudnn", fallback="quiet")):
        arrays = (x, values(8, 8, 3, 3, seed=1), values(8, seed=2))
        y = F.relu(F.convolution(*map(nn.Variable.from_numpy_array, arrays)))
        y.forward()
    assert np.isnan(y.d).sum() == 8 * 9


@pytest.mark.parametrize("type_config", ["float", "half"])
def test_deterministic_runs_are_equal_to_the_last_bit(cudnn, type_config):
    context = get_extension_context("cudnn", type_config=type_config, fallback="quiet", deterministic=True)
    results = []
    for _ in range(3):
        with nn.context_scope(context):
            x, w = (
                nn.Variable.from_numpy_array(one, need_grad=True)
                for one in (values(8, 16, 20, 20), values(32, 16, 3, 3))
            )
            y = F.convolution(x, w)
            y.forward()
            y.backward(values(*y.shape, seed=3))
            results.append((y.d.copy(), x.g.copy(), w.g.copy()))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
