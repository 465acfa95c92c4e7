"""Calls one at a time on arrays of another dtype than the Context's: casts of what is read again are kept."""

import ml_dtypes
import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.graph.run import kept_casts, one_call
from atled_contexts import Context

DTYPES = {"half": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "double": np.dtype(np.float64)}

configs = pytest.mark.parametrize("config", list(DTYPES))


@pytest.fixture
def given(config):
    """x of the Context's dtype, values of w in float32, and w as an array of that."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((40, 30)).astype("f")
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        x = nn.NdArray.from_numpy_array(rng.standard_normal((7, 40)).astype(DTYPES[config]))
        yield x, values, nn.NdArray.from_numpy_array(values.copy())


def casts_of(array):
    """The dtypes of the kept casts that have the present values."""
    return [dtype for (_, dtype), (_, is_current) in array.cell.copies.items() if is_current]


def product(x, values, dtype):
    return F.affine(x, nn.NdArray.from_numpy_array(values.astype(dtype))).data


@configs
def test_the_second_read_keeps_a_cast(config, given):
    x, values, w = given
    expected = product(x, values, DTYPES[config])
    for kept in ([], [DTYPES[config]], [DTYPES[config]]):
        np.testing.assert_array_equal(F.affine(x, w).data, expected)
        assert casts_of(w) == kept
    assert w.cell.dtype == np.float32


@configs
def test_a_write_is_seen_by_the_next_read(config, given):
    x, values, w = given
    for _ in range(3):
        F.affine(x, w)
    w.data[...] = 2 * values
    for _ in range(4):
        np.testing.assert_array_equal(F.affine(x, w).data, product(x, 2 * values, DTYPES[config]))
    w.fill(0.5)
    for _ in range(4):
        np.testing.assert_array_equal(F.affine(x, w).data, product(x, np.full_like(values, 0.5), DTYPES[config]))
    F.mul_scalar(nn.NdArray.from_numpy_array(values), 3.0, outputs=[w])
    for _ in range(4):
        np.testing.assert_array_equal(F.affine(x, w).data, F.affine(x, nn.NdArray.from_numpy_array(w.data.copy())).data)


@configs
def test_while_a_view_is_held_every_read_casts(config, given):
    x, values, w = given
    view = w.data
    for factor in (1, 2, 3):
        view[...] = factor * values
        for _ in range(2):
            np.testing.assert_array_equal(F.affine(x, w).data, product(x, factor * values, DTYPES[config]))
        assert casts_of(w) == []


@configs
def test_an_update_by_a_solver_is_seen(config):
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")), nn.auto_forward(True):
        w = nn.Variable.from_numpy_array(np.ones((40, 30), "f"), need_grad=True)
        x = nn.NdArray.from_numpy_array(np.ones((2, 40), DTYPES[config]))
        solver = nn.solvers.Sgd(lr=0.25)
        solver.set_parameters({"w": w})
        for _ in range(4):
            for _ in range(3):
                found = F.affine(x, w.data).data.astype("f")
                np.testing.assert_allclose(found, w.d.sum(0, keepdims=True).repeat(2, 0), rtol=0.02)
            w.g = 1
            solver.update()


@configs
def test_an_array_that_goes_takes_its_cast_along(config, given):
    x, values, _ = given
    before = len(kept_casts._READ)
    for _ in range(3):
        w = nn.NdArray.from_numpy_array(values)
        F.affine(x, w)
    del w
    assert len(kept_casts._READ) <= before + 1


@configs
def test_what_observes_calls_sees_the_cast(config, given):
    x, values, w = given
    for _ in range(3):
        F.affine(x, w)
    with nn.trace() as trace:
        np.testing.assert_array_equal(F.affine(x, w).data, product(x, values, DTYPES[config]))
    assert "Cast" in str(trace)


def normalized(x):
    dtype = F.tanh(nn.NdArray.from_numpy_array(np.ones(1))).dtype  # what is changed is in that of the Context
    statistics = [nn.NdArray.from_numpy_array(np.full((1, 30), value, dtype)) for value in (0, 1, 0, 1)]
    y = F.batch_normalization(x, *statistics)
    return [y.data, *(statistic.data.copy() for statistic in statistics[2:])]


READING = {
    "two results": lambda w: [y.data for y in F.split(w, axis=1)],
    "with a random state": lambda w: [F.dropout(w, 0.25, seed=7).data],
    "that changes other inputs": normalized,
    "with a float": lambda w: [F.elu(w, 0.5).data],
    "of rows": lambda w: [F.softmax(w).data],
}


@configs
@pytest.mark.parametrize("reading", list(READING))
def test_calls_on_casts_that_are_kept_give_what_calls_on_casts_do(config, given, reading):
    _, values, w = given
    expected = READING[reading](nn.NdArray.from_numpy_array(values.astype(DTYPES[config])))
    for _ in range(5):
        for found, value in zip(READING[reading](w), expected, strict=True):
            np.testing.assert_array_equal(found, value)
    if reading != "that changes other inputs" or config == "double":  # else it is computed in float32
        assert casts_of(w) == [DTYPES[config]]
    assert w.cell.dtype == np.float32


@configs
def test_a_call_all_of_whose_casts_are_kept_looks_at_no_other_way(config, given, monkeypatch):
    x, values, w = given
    for _ in range(4):
        F.affine(x, w)
    monkeypatch.setattr(one_call.CastCall, "_run", lambda *arguments: pytest.fail("the long way"))
    np.testing.assert_array_equal(F.affine(x, w).data, product(x, values, DTYPES[config]))


def test_indices_that_are_kept_are_refused_once_they_are_wrong():
    with nn.context_scope(Context(["cpu:float"], fallback="raise")):
        table = nn.NdArray.from_numpy_array(np.arange(12, dtype="f").reshape(4, 3))
        index = nn.NdArray.from_numpy_array(np.array([1, 3], "f"))
        for _ in range(4):
            assert F.embed(index, table).data.tolist() == [[3, 4, 5], [9, 10, 11]]
        index.data[1] = 0
        for _ in range(4):
            assert F.embed(index, table).data.tolist() == [[3, 4, 5], [0, 1, 2]]
        index.data[1] = 4
        for _ in range(4):
            with pytest.raises(IndexError, match=r"x0\[1\] is 4"):
                F.embed(index, table)
