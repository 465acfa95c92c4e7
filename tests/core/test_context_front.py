"""Contexts as scripts meet them through the front of the package."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled_contexts import reset_default_context


def test_the_default_context_is_one_backend_in_float():
    (backend,) = nn.Context().backend
    assert backend.endswith(":float")
    assert nn.Context().device_id == "0"


def test_a_string_is_a_list_of_one_backend():
    assert nn.Context("reference:float") == nn.Context(["reference:float"])
    assert nn.Context("reference").backend == ["reference:float"]


def test_a_list_of_characters_is_refused():
    with pytest.raises(ValueError, match="reference"):
        nn.Context(list("reference:float"))


def test_an_absent_backend_in_a_list_is_passed_over():
    with nn.context_scope(nn.Context(["no_such:float", "reference:float"])):
        y = F.exp(nn.NdArray((1,)))
    assert y.data[0] == 1


def test_an_absent_backend_alone_is_refused():
    with pytest.raises(ValueError, match="no_such"):
        nn.Context(["no_such:float"])


def test_a_scope_ends_with_its_block():
    before = nn.get_current_context()
    inner = nn.Context(["reference:half"])
    with nn.context_scope(inner):
        assert nn.get_current_context() == inner
    assert nn.get_current_context() == before


def test_the_default_context_cannot_be_set_within_a_scope():
    with nn.context_scope(nn.Context(["reference:float"])), pytest.raises(AssertionError):
        nn.set_default_context(nn.Context(["reference:float"]))


@pytest.mark.parametrize(("type_config", "dtype"), [("float", "float32"), ("half", "float16"), ("double", "float64")])
def test_the_type_config_says_in_which_dtype_functions_compute(type_config, dtype):
    with nn.context_scope(nn.get_extension_context("reference", type_config=type_config)):
        y = F.exp(nn.Variable.from_numpy_array(np.zeros(2, np.float32)))
    y.forward()
    assert y.d.dtype == dtype


def test_an_unknown_extension_is_refused_with_the_nearest_name():
    with pytest.raises(RuntimeError, match="did you mean 'reference'"):
        nn.get_extension_context("refrence")


def test_an_assignment_shows_at_the_next_call_and_not_in_recorded_ones():
    ctx = nn.Context("reference:float")
    x = nn.Variable.from_numpy_array(np.zeros(2, np.float32))
    with nn.context_scope(ctx):
        before = F.exp(x)
        at_once = F.exp(x.data)
        ctx.backend = ["reference:double"]
        after = F.exp(x)
        assert F.exp(x.data).dtype == np.float64
    assert at_once.dtype == np.float32
    for y, dtype in ((before, np.float32), (after, np.float64)):
        y.forward()
        assert y.d.dtype == dtype
    assert before.parent.context.backend == ["reference:float"]


def test_a_layer_and_a_solver_follow_an_assignment():
    ctx = nn.Context("reference:float")
    nn.set_default_context(ctx)
    try:
        w = nn.Variable((2,), need_grad=True)
        w.d = 1
        solver = S.Adam()
        solver.set_parameters({"w": w})
        for entry, dtype in (("reference:float", np.float32), ("reference:double", np.float64)):
            ctx.backend = [entry]
            loss = F.sum(w * w)
            loss.forward()
            solver.zero_grad()
            loss.backward()
            solver.update()
            assert loss.d.dtype == dtype
    finally:
        reset_default_context()


@pytest.mark.parametrize("outlier", [1e8, np.inf])
def test_with_local_errors_an_outlier_spoils_only_what_is_computed_from_it(outlier):
    rng = np.random.default_rng(3)
    clean = (1e4 * rng.standard_normal((2, 16, 16, 16))).astype(np.float32)
    spoilt = clean.copy()
    spoilt[1, 3, 8, 9] = outlier
    w = nn.NdArray.from_numpy_array(rng.standard_normal((16, 16, 3, 3)).astype(np.float32))
    seen = np.zeros((2, 16, 16, 16), bool)
    seen[1, :, 7:10, 8:11] = True
    with nn.context_scope(nn.Context(local_errors=True)):
        for function in (F.convolution, F.deconvolution):
            without, with_it = (function(nn.NdArray.from_numpy_array(x), w, pad=(1, 1)).data for x in (clean, spoilt))
            np.testing.assert_array_equal(with_it[~seen], without[~seen])
            assert not np.array_equal(with_it[seen], without[seen])
