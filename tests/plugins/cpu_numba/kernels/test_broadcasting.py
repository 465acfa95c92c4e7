"""PReLU and BroadcastTo on the kernels of formulas."""

import numpy as np
import pytest

import atled as nn
from atled.conformance.checks import check_values
from atled.conformance.running import evaluate
from atled.ops.samples import Sample
from atled.ops.spec import SPECS
from atled_contexts import Context

CASES = [
    ("PReLU", Sample((16, 32, 9, 9), (32,))),
    ("PReLU", Sample((3, 5, 4), (4,), base_axis=2)),
    ("PReLU", Sample((3, 5, 4), (1, 1), base_axis=9)),
    ("BroadcastTo", Sample((5, 6, 70), (70,))),
    ("BroadcastTo", Sample((5, 6, 70), (5,), axis=0)),
    ("BroadcastTo", Sample((5, 6, 70), ())),
]


@pytest.mark.parametrize("type_config", ["float", "double", "half"])
@pytest.mark.parametrize("name, sample", CASES)
def test_values(name, sample, type_config):
    outcome = check_values(SPECS[name], sample, Context([f"cpu:{type_config}"], fallback="raise"))
    assert np.isfinite(outcome.results[0]).all()


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8", "bool"])
@pytest.mark.parametrize("shape, axis", [((70,), -1), ((5,), 0), ((6, 70), 1), ((), -1)])
def test_whole_numbers_are_repeated_as_they_are(dtype, shape, axis):
    y = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)

    def build(graph, values):
        return (graph.op("BroadcastTo", *values, axis=axis),)

    arrays = [np.zeros((5, 6, 70), dtype), y]
    with nn.trace() as trace:
        (found,) = evaluate(build, arrays, Context(["cpu:float"], fallback="raise"), by_operands=True).results
    (expected,) = evaluate(build, arrays, Context(["reference:float"]), by_operands=True).results
    assert {row.note for row in trace.rows()} == {"kernel; formula"}
    assert found.dtype == expected.dtype == dtype
    np.testing.assert_array_equal(found, expected)
