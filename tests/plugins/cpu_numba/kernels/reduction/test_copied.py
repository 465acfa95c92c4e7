"""Reductions over axes that alternate often, and of arrays with gaps: as their references, and as of a copy."""

import ml_dtypes
import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.call import Call
from atled.plugin import op_spec
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.reduction import any_axes, extremum, groups, log_sum_exp, products, truth, whole_numbers

# Shapes and axes of which none collapses into four groups; the last ones with axes of one element and none.
CASES = [
    ((5, 6, 7, 9), (0, 2)), ((3, 11, 2, 70), (0, 2)), ((40, 3, 300, 1, 5), (0, 2)), ((2, 3, 4, 5, 7), (0, 2, 4)),
    ((2, 3, 4, 5, 7), (1, 3)), ((3, 1, 2, 5, 1, 4, 33), (0, 3, 4)), ((2, 3, 4, 5, 2, 3), (0, 2, 4)),
    ((4, 3, 2, 5, 1), (0, 2, 4)), ((2, 3, 17, 9000), (0, 2)), ((2, 7, 3, 5, 1031), (0, 2, 4)), ((0, 3, 2, 4), (0, 2)),
    ((2, 0, 2, 4), (0, 2)), ((2, 3, 4, 0), (0, 2)),
]  # fmt: skip
FULL = [case for case in CASES if 0 not in case[0]]
OPS = [
    (any_axes, "Sum", "float32"), (any_axes, "Sum", "float64"), (any_axes, "Mean", "float32"),
    (products, "Prod", "float32"), (products, "Prod", "float64"), (truth, "Any", "bool"), (truth, "All", "float32"),
    (whole_numbers, "Sum", "int32"), (whole_numbers, "Prod", "uint8"),
]  # fmt: skip
EXTREMA = [
    (extremum, "Max", "float32"), (extremum, "Min", "float64"), (extremum, "MaxTies", "float32"),
    (extremum, "ArgMin", "float32"), (log_sum_exp, "LogSumExp", "float32"), (whole_numbers, "Max", "int16"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def for_one_thread(monkeypatch):
    """Kernels that are launched by `run` cannot share the rows of which they consist: a pool would do that."""
    monkeypatch.setattr(pool, "_chosen_count", 1)


@pytest.fixture
def set_threads():
    """Sets how many threads work on kernels, until the test ends."""
    yield pool.set_thread_count
    pool.set_thread_count(None)


def drawn(shape, dtype, op="Sum"):
    rng = np.random.default_rng(len(shape))
    if np.dtype(dtype).kind in "iub":
        return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    return (rng.uniform(0.7, 1.4, shape) if op == "Prod" else rng.standard_normal(shape)).astype(dtype)


def reference(op, x, axes):
    found = op_spec(op).reference(x, axes=axes, keep_dims=False)
    return [np.asarray(y) for y in (found if isinstance(found, (tuple, list)) else (found,))]


def assert_close(found, wanted, terms):
    """terms: each of which may have added an error of rounding."""
    if wanted.dtype.kind == "f":
        error = float(np.finfo(wanted.dtype).eps) * (terms + 2)
        np.testing.assert_allclose(found, wanted, rtol=error, atol=error)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape, axes", CASES)
@pytest.mark.parametrize("module, op, dtype", OPS)
def test_axes_that_alternate_more_than_four_times_are_reduced(run, module, op, dtype, shape, axes):
    x = drawn(shape, dtype, op)
    with np.errstate(all="ignore"):
        wanted = reference(op, x, axes)
    found = [np.empty(y.shape, y.dtype) for y in wanted]
    assert run(module, op, [x], found, axes=axes, keep_dims=False) == 0
    for y, exact in zip(found, wanted, strict=True):
        assert_close(y, exact, x.size)


@pytest.mark.parametrize("shape, axes", FULL)
@pytest.mark.parametrize("module, op, dtype", EXTREMA)
def test_so_are_extrema_and_their_places(run, module, op, dtype, shape, axes):
    x = drawn(shape, dtype)
    wanted = reference(op, x, axes)
    found = [np.empty(y.shape, y.dtype) for y in wanted]
    assert run(module, op, [x], found, axes=axes, keep_dims=False) == 0
    for y, exact in zip(found, wanted, strict=True):
        assert_close(y, exact, x.size if op == "LogSumExp" else 0)


def test_a_place_that_nobody_reads_is_left_out(run):
    x = drawn((3, 4, 5, 6), "float32")
    y, index = np.empty((4, 6), "f"), np.full((4, 6), -1)
    assert run(extremum, "Max", [x], [y, index], unread=(1,), axes=(0, 2), keep_dims=False) == 0
    np.testing.assert_array_equal(y, x.max((0, 2)))
    assert (index == -1).all()


@pytest.mark.parametrize("shape, axes", FULL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_go_to_these_places(run, dtype, shape, axes):
    y, index = reference("Max", drawn(shape, dtype), axes)
    gy = drawn(y.shape, dtype)
    gx = np.full(shape, np.nan, dtype)
    assert run(extremum, "MaxMinGrad", [gy, index], [gx], axes=axes, shape=shape) == 0
    np.testing.assert_array_equal(gx, op_spec("MaxMinGrad").reference(gy, index, axes=axes, shape=shape))
    found = np.full(y.shape, np.nan, dtype)
    assert run(extremum, "MaxMinGather", [gx, index], [found], axes=axes) == 0
    np.testing.assert_array_equal(found, gy)


def test_a_place_out_of_range_is_an_error_before_anything_is_written(run):
    gx, index = np.full((2, 3, 4, 5), np.nan, "f"), np.zeros((3, 5), np.int64)
    index[2, 4] = 8
    assert run(extremum, "MaxMinGrad", [np.ones((3, 5), "f"), index], [gx], axes=(0, 2), shape=gx.shape) != 0
    assert np.isnan(gx).all()


@pytest.mark.parametrize("op", ["Sum", "Max"])
def test_nan_and_infinity_come_through(run, op):
    x = np.zeros((3, 4, 5, 20), "f")
    x[1, 1, 2, 3], x[2, 2, 4, 5], x[0, 3, 0, 19], x[1, 3, 1, 19] = np.nan, np.inf, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        wanted = reference(op, x, (0, 2))
    found = [np.empty(y.shape, y.dtype) for y in wanted]
    assert run(any_axes if op == "Sum" else extremum, op, [x], found, axes=(0, 2), keep_dims=False) == 0
    for y, exact in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(y, exact)


VIEWS = {
    "some columns": lambda x: x[..., 3:-5],
    "some rows": lambda x: x[:, :, 1:3],
    "every other": lambda x: x[::2, 1::2],
    "from behind": lambda x: x[::-1, :, ::-1, :17],
    "another order": lambda x: x.transpose(1, 0, 2, 3)[..., :31],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("axes", [(3,), (0,), (1,), (0, 1, 2, 3), (0, 2), (1, 3), (0, 2, 3), ()])
@pytest.mark.parametrize("op", ["Sum", "Mean"])
def test_arrays_with_gaps_are_summed_where_they_are(run_in_place, op, axes, view):
    x = VIEWS[view](drawn((4, 5, 6, 70), "float32"))
    wanted = reference(op, x, axes)
    found = [np.empty(y.shape, y.dtype) for y in wanted]
    assert run_in_place(any_axes, op, [x], found, axes=axes, keep_dims=False) == 0
    for y, exact in zip(found, wanted, strict=True):
        assert_close(y, exact, x.size)


@pytest.mark.parametrize("shape, axes", CASES)
def test_an_array_is_copied_with_its_last_axis_at_its_place(shape, axes):
    x = np.empty(shape, "f")
    call = Call(op_spec("Sum"), (nn.plugin.ArrayDesc(x.shape),), (), {"axes": axes})
    assert groups.groups_as_it_lies(call) is None or 0 in shape
    order = groups.copied_order(call.inputs[0], axes)
    assert sorted(order) == list(range(len(shape)))
    last = max(axis for axis in range(len(shape)) if shape[axis] != 1)
    assert [axis for axis in order if shape[axis] != 1][-1] == last
    assert [axis for axis in order if axis in axes] == list(axes)
    assert groups.groups_as_it_lies(groups.on_copy(call)) is not None


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_slice_is_summed_without_a_copy_of_the_whole(axis):
    x = nn.Variable.from_numpy_array(drawn((300, 200), "float32"))
    cut = {"start": (0, 17), "stop": (300, 190), "step": (1, 1)}
    y = F.sum(F.slice(x, **cut), axis=axis)
    y.forward()
    assert [step.name for step in y.plan.steps] == ["Sum"]
    held = F.slice(x, **cut)
    of_held = F.sum(held, axis=axis)
    of_held.forward()
    np.testing.assert_array_equal(y.d, of_held.d)


@pytest.mark.parametrize("shape, axes", [case for case in FULL if np.prod(case[0]) > 20_000])
@pytest.mark.parametrize("name", ["sum", "max", "prod"])
def test_threads_that_share_the_work_give_the_same_bits(set_threads, name, shape, axes):
    x = nn.Variable.from_numpy_array(drawn(shape, "float32", "Prod"), need_grad=True)
    found = []
    for threads in (1, 2, 3):
        set_threads(threads)
        nn.clear_memory_cache()  # with the plans for another count of threads
        y = getattr(F, name)(x, axis=axes)
        y.forward()
        x.grad.zero()
        y.backward()
        found.append((y.d.copy(), x.g.copy()))
    assert_close(found[0][0], reference(name.capitalize(), x.d, axes)[0], x.size)
    for each in found[1:]:
        for one, other in zip(found[0], each, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("config, dtype", [("half", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("name", ["sum", "max", "prod"])
def test_narrow_numbers_are_reduced_over_such_axes(config, dtype, name):
    x = drawn((3, 5, 4, 33), "float32", "Prod").astype(dtype)
    with nn.context_scope(nn.Context([f"cpu:{config}"], fallback="raise")):
        v = nn.Variable.from_numpy_array(x.astype("f"), need_grad=True)
        y = getattr(F, name)(v, axis=(0, 2))
        y.forward()
        y.backward()
        assert not any("adopted" in line for line in str(y.plan).splitlines())
        (wanted, *_) = reference(name.capitalize(), x, (0, 2))
        np.testing.assert_allclose(y.d.astype("f"), wanted.astype("f"), rtol=2**-7)
        if name == "max":
            assert (v.g.astype("f") <= (x.astype("f") == wanted.astype("f")[:, None])).all()
            assert v.g.astype("f").sum() == y.size
