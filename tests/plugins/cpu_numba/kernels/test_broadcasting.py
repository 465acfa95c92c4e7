"""PReLU and BroadcastTo on the kernels of formulas."""

import numpy as np
import pytest

from atled.conformance.checks import check_values
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
