"""Loops launch their steps on windows of arrays, and give what they give in host memory."""

import numpy as np
import pytest

import atled as nn
from atled import recurrent
from atled.arrays.place import TRANSFERS
from atled.keyed import Description
from atled_contexts import context_scope

T, B, HIDDEN = 4, 2, 64  # rows of 512 bytes


def layer(backwards):
    """All h of a recurrent layer, and its gradients, as what runs it."""
    rng = np.random.default_rng(0)
    shapes = (T, B, HIDDEN), (B, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN,)
    d = Description()
    leaves = [d.leaf(nn.NdArray.from_numpy_array(rng.normal(size=shape).astype("f") / 4)) for shape in shapes]
    made = recurrent.plain(d, *leaves, backwards=backwards)
    for value in (made.rows[0], made.states[0], *d.gradients(made.rows[0], leaves)):
        d.result(value)
    return d


@pytest.mark.parametrize("backwards", [False, True])
def test_a_loop_and_its_gradients(cuda, backwards):
    with context_scope(nn.Context(["cpu"])):
        expected = [result.data for result in layer(backwards).run()]
    with context_scope(cuda):
        d = layer(backwards)
        d.run()
        TRANSFERS.reset()
        results = d.run()
        assert TRANSFERS.calls == 0
    for result, values in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.data, values, rtol=1e-4, atol=1e-5)
