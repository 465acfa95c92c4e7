"""Sums and means of everything on the kernels of Sum and Mean."""

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.conformance.checks import check_values
from atled.ops.samples import Sample
from atled.ops.spec import SPECS
from atled_contexts import Context
from atled_cpu_numba.kernels.reduction import full_reduction


@pytest.mark.parametrize("name", ["ReduceSum", "ReduceMean", "GlobalAveragePooling"])
@pytest.mark.parametrize("shape", [(3, 5, 7, 9), (2, 65, 130)])
@pytest.mark.parametrize("type_config", ["float", "double"])
def test_values(name, shape, type_config):
    check_values(SPECS[name], Sample(shape), Context([f"cpu:{type_config}"], fallback="raise"))


def test_half_is_refused():
    x, y = ArrayDesc((2, 3), np.float16), ArrayDesc((), np.float16)
    assert "not float16" in full_reduction.accepts(Call(SPECS["ReduceSum"], (x,), (y,), {}))
