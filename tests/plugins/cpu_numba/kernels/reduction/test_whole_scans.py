"""CumSum and CumProd of integers and truth values against NumPy, wrap-around included."""

import numpy as np
import pytest

import atled as nn
from atled.conformance.running import evaluate
from atled_cpu_numba.kernels.reduction import whole_scans


def drawn(shape, dtype):
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random(shape) < 0.9
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 50), 1), ((40, 30), 0), ((3, 6, 5), 1), ((3, 1100), 0), ((7,), 0), ((1, 9), 0), ((0, 3), 0), ((3, 0), 0)],
)
def test_scans(run, parts, shape, axis, dtype, exclusive, reverse):
    x = drawn(shape, dtype)
    wide = np.dtype("uint64" if x.dtype.kind == "u" else "int64")
    for name, scan, start in (("CumSum", np.cumsum, 0), ("CumProd", np.cumprod, 1)):
        expected = scan(np.flip(x, axis) if reverse else x, axis, dtype=wide)
        if exclusive and x.size:
            expected = np.delete(np.insert(expected, 0, start, axis), -1, axis)
        y = np.full(shape, 7, wide)
        attributes = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        assert run(whole_scans, name, [x], [y], parts=parts, **attributes) == 0
        np.testing.assert_array_equal(y, np.flip(expected, axis) if reverse else expected)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
@pytest.mark.parametrize("name", ["CumSum", "CumProd"])
def test_graphs_of_integers_are_scanned_by_them(name, dtype):
    x = drawn((37, 700), dtype)
    for axis in (0, 1):

        def build(graph, values, axis=axis):
            return (graph.op(name, *values, axis=axis, exclusive=False, reverse=False),)

        with nn.trace() as trace:
            (found,) = evaluate(build, [x], nn.Context(["cpu:float"], fallback="raise"), by_operands=True).results
        (expected,) = evaluate(build, [x], nn.Context(["reference:float"]), by_operands=True).results
        assert [row.note for row in trace.rows()] == ["kernel"]
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
