"""What the backend computes, against the references of the op specs."""

from __future__ import annotations

import numpy as np

import atled as nn
import atled.functions as F
from atled.ext_utils import get_extension_context


def test_a_convolution_runs_on_cudnn():
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 7, 6), (8, 4, 3, 3), (8,)))
    results = []
    for context in (get_extension_context("cudnn"), nn.Context(["reference:float"])):
        with nn.context_scope(context):
            variables = [nn.Variable.from_numpy_array(one, need_grad=True) for one in (x, w, b)]
            y = F.relu(F.convolution(*variables, pad=(1, 1), stride=(2, 1)))
            y.forward()
            y.backward()
            results.append([y.d.copy(), *(one.g.copy() for one in variables)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
