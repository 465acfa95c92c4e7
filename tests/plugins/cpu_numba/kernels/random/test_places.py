"""Random crops, flips and shifts: the same places and elements as the reference's."""

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.ops.spec import SPECS
from atled_cpu_numba.kernels.random import places as random_places

CASES = [
    ("RandomCrop", (3, 5, 6), {"shape": (2, 4)}),
    ("RandomCrop", (3, 5, 6), {"shape": (2, 4), "base_axis": 0}),
    ("RandomCrop", (2, 3, 4, 5), {"shape": (2, 2), "base_axis": 2}),
    ("RandomCrop", (), {"base_axis": 0}),
    ("RandomCrop", (7,), {}),
    ("RandomFlip", (9, 3, 4), {"axes": (1, 2)}),
    ("RandomFlip", (9, 3, 4), {}),
    ("RandomFlip", (9, 3, 4), {"axes": ()}),
    ("RandomShift", (9, 3, 4), {"shifts": (1, 2)}),
    ("RandomShift", (9, 3, 4), {"shifts": (1, 9), "border_mode": "reflect"}),
    ("RandomShift", (5, 17, 19), {"shifts": (9,), "border_mode": "nearest"}),
    # Rows of which parts are moved in vectors, and of which nothing follows one another.
    ("RandomCrop", (4, 5, 70), {"shape": (3, 37)}),
    ("RandomFlip", (6, 3, 71), {"axes": (2,)}),
    ("RandomFlip", (9, 3, 1), {"axes": (2,)}),
    ("RandomShift", (7, 3, 70), {"shifts": (1, 5), "border_mode": "nearest"}),
    ("RandomShift", (7, 70), {"shifts": (100,), "border_mode": "nearest"}),
    ("RandomShift", (7, 3, 35), {"shifts": (1, 40), "border_mode": "reflect"}),
]


@pytest.mark.parametrize("name, shape, attributes", CASES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_elements_and_places(run, parts, name, shape, attributes, dtype):
    spec, x = SPECS[name], np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    checked = spec.check_attributes(attributes, [ArrayDesc(x.shape, x.dtype)])
    for random_state in (np.array([7, 3]), np.array([-2, 1 << 40])):
        expected = spec.reference(x, random_state, **checked)
        found = [np.full(e.shape, -1, e.dtype) for e in expected]
        assert run(random_places, name, [x, random_state], found, parts=parts, **checked) == 0
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
