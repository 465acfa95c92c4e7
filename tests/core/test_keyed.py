"""Descriptions of programs: what they compute and assign, how they are found again, and what is refused."""

import contextlib
import gc
import weakref

import numpy as np
import pytest

import atled as nn
import atled_sim
from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.calling import call_tables
from atled.keyed import Description, Runner, attributes_of
from atled.op_spec import DERIVED, Row, define, undefine
from atled_contexts import context_scope
from atled_sim import faults
from graph_programs import differences

CPU, SIM = nn.Context(["cpu:float"]), nn.Context(["sim:float"])
REFERENCE = nn.Context(["reference:float"])
INTEGERS = nn.Context(["cpu:float", "reference:float"])
PLACES = pytest.mark.parametrize("context", [CPU, SIM, REFERENCE], ids=["cpu", "sim", "reference"])


def array(*shape, dtype=np.float32, seed=0):
    return NdArray.from_numpy_array(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def chain(context, x, y, factor=2.0):
    """tanh(x + y) * factor, described."""
    d = Description(context)
    a, b = d.leaf(x), d.leaf(y)
    d.result(d.call("MulScalar", d.call("Tanh", d.call("Add2", a, b)), val=factor))
    return d


def programs():
    return nn.memory_statistics()["caches"]["programs by key"]


@PLACES
def test_results_are_new_arrays_with_the_values_of_now(context):
    x, y = array(3, 4), array(3, 4, seed=1)
    d = chain(context, x, y)
    (first,) = d.run()
    (second,) = d.run()
    assert first.cell is not second.cell
    np.testing.assert_array_equal(first.data, second.data)
    x.data[...] = 0
    (third,) = d.run()
    np.testing.assert_allclose(third.data, 2 * np.tanh(y.data), rtol=1e-5)
    assert not np.array_equal(first.data, third.data)


@PLACES
def test_a_description_made_anew_is_found_again(context):
    x, y = array(3, 4), array(3, 4, seed=1)
    chain(context, x, y).run()
    before = programs()
    for factor in (1.0, 3.0):
        (found,) = chain(context, array(3, 4, seed=2), y, factor).run()
        np.testing.assert_allclose(found.data, factor * np.tanh(array(3, 4, seed=2).data + y.data), rtol=1e-5)
    assert programs() == before
    chain(context, x, x).run()  # the same array twice is another program
    chain(context, array(3, 1), y).run()  # and so is another shape
    assert programs() == before + 2


@PLACES
def test_several_steps_and_results(context):
    x, w = array(4, 3), array(3, 5, seed=1)
    d = Description(context)
    a = d.leaf(x)
    h = d.call("Affine", a, d.leaf(w))
    d.result(d.call("Sum", h, axes=[1]))
    d.result(d.call("Tanh", h))
    d.result(a)
    d.result(h)
    total, squashed, same, whole = d.run()
    product = x.data @ w.data
    np.testing.assert_allclose(total.data, product.sum(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(squashed.data, np.tanh(product), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(same.data, x.data)
    assert same.cell is not x.cell
    np.testing.assert_allclose(whole.data, product, rtol=1e-4, atol=1e-5)


@PLACES
def test_assigned_values_are_all_made_of_the_old_ones(context):
    x, y = array(2, 3), array(2, 3, seed=1)
    was_x, was_y = x.data.copy(), y.data.copy()
    d = Description(context)
    a, b = d.leaf(x), d.leaf(y)
    d.assign(a, d.call("Add2", a, b))
    d.assign(b, d.call("Mul2", a, b))
    d.result(d.call("Sub2", a, b))
    for _ in range(3):
        (difference,) = d.run()
        was_x, was_y, was = was_x + was_y, was_x * was_y, was_x - was_y
        np.testing.assert_allclose(difference.data, was, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(x.data, was_x, rtol=1e-5)
        np.testing.assert_allclose(y.data, was_y, rtol=1e-5)


@PLACES
def test_two_arrays_are_swapped(context):
    x, y = array(2, 3), array(2, 3, seed=1)
    was_x, was_y = x.data.copy(), y.data.copy()
    d = Description(context)
    a, b = d.leaf(x), d.leaf(y)
    d.assign(a, b)
    d.assign(b, a)
    d.run()
    np.testing.assert_array_equal(x.data, was_y)
    np.testing.assert_array_equal(y.data, was_x)


@PLACES
def test_assigned_values_are_broadcast_and_cast(context):
    x, whole = array(3), NdArray.from_numpy_array(np.zeros((2, 3), np.float64))
    d = Description(context)
    d.assign(whole, d.call("MulScalar", d.leaf(x), val=2.0))
    d.run()
    assert whole.data.dtype == np.float64
    np.testing.assert_allclose(whole.data, np.broadcast_to(2 * x.data, (2, 3)), rtol=1e-6)


@PLACES
def test_what_a_user_holds_of_an_array_shows_what_is_assigned(context):
    x = array(2, 3)
    view = x.data
    d = Description(context)
    a = d.leaf(x)
    d.assign(a, d.call("AddScalar", a, val=1.0))
    was = view.copy()
    d.run()
    d.run()
    np.testing.assert_allclose(view, was + 2, rtol=1e-6)


@PLACES
def test_graphs_that_read_an_array_see_what_is_assigned(context):
    with context_scope(context):
        v = nn.Variable.from_numpy_array(np.ones((2, 3), np.float32))
        z = nn.functions.tanh(v)
        z.forward()
        d = Description()
        a = d.leaf(v)
        d.assign(a, d.call("AddScalar", a, val=1.0))
        for count in (2, 3):
            d.run()
            z.forward()
            np.testing.assert_allclose(z.d, np.full((2, 3), np.tanh(count)), rtol=1e-5)


@PLACES
def test_gradients_are_values(context):
    x, y = array(2, 3), array(2, 3, seed=1)
    d = Description(context)
    a, b, c = d.leaf(x), d.leaf(y), d.leaf(array(4))
    for each in d.gradients(d.call("Mul2", d.call("Exp", a), b), [a, b, c]):
        d.result(each)
    ga, gb, gc = d.run()
    np.testing.assert_allclose(ga.data, np.exp(x.data) * y.data, rtol=1e-5)
    np.testing.assert_allclose(gb.data, np.exp(x.data), rtol=1e-5)
    np.testing.assert_array_equal(gc.data, np.zeros(4))


@PLACES
def test_an_error_is_a_constant_that_arrives_at_the_value(context):
    x, y = array(2, 3), array(2, 3, seed=1)
    d = Description(context)
    a, b = d.leaf(x), d.leaf(y)
    error = d.call("Mul2", a, b)
    for each in d.gradients(d.call("Mul2", a, a), [a, b], error):
        d.result(each)
    ga, gb = d.run()
    np.testing.assert_allclose(ga.data, 2 * x.data * x.data * y.data, rtol=1e-5)
    np.testing.assert_array_equal(gb.data, np.zeros((2, 3)))


def test_an_error_of_another_shape_than_the_value_is_refused():
    d = Description()
    a = d.leaf(array(2, 3))
    d.result(d.gradients(a, [a], d.leaf(array(2, 1)))[0])
    with pytest.raises(ValueError, match="their shapes differ"):
        d.run()


@pytest.mark.parametrize("context", [CPU, SIM], ids=["cpu", "sim"])
def test_traces_and_verifications_see_the_steps(context):
    x, y = array(3, 4), array(3, 4, seed=1)
    d = chain(context, x, y)
    with nn.trace() as trace:
        (seen,) = d.run()
    assert sum(row.calls for row in trace.rows() if row.backend == context.backends[0][0]) >= 1
    np.testing.assert_allclose(seen.data, 2 * np.tanh(x.data + y.data), rtol=1e-5)
    with nn.verify() as verification:
        d.run()
    assert verification.checked > 0


def test_the_context_in_force_counts_unless_one_is_given():
    x, y = array(3, 4), array(3, 4, seed=1)
    d = chain(None, x, y)
    for context in (CPU, SIM, CPU):
        with context_scope(context):
            d.run()
            assert {step.backend for step in d.plan.steps if step.prepared is not None} == {context.backends[0][0]}


@pytest.mark.parametrize(("limit", "steps_limit"), [(16, 1000), (1000, 16)])
def test_caches_are_bounded(monkeypatch, limit, steps_limit):
    monkeypatch.setattr(call_tables, "_LIMIT", limit)
    monkeypatch.setattr(call_tables, "_STEPS_LIMIT", steps_limit)
    x = array(1)
    counts = []
    for number in range(24):
        d = Description(CPU)
        d.result(d.call("Reshape", d.leaf(x), shape=(1,) * (number + 1)))
        d.run()
        counts.append(programs())
    assert max(counts) == 16 and min(counts) < 16


def test_no_array_is_kept_alive():
    x = array(3, 4)
    chain(CPU, x, x).run()
    reference = weakref.ref(x.cell)
    del x
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("operation", ["launch", "allocation", "upload", "download"])
def test_a_run_that_fails_leaves_every_array_as_it_was(operation):
    failed = 0
    for nth in range(1, 20):
        x, y = array(2, 3), array(3, 3, seed=1)
        was = x.data.copy(), y.data.copy()
        d = Description(SIM)
        a, b = d.leaf(x), d.leaf(y)
        product = d.call("Affine", a, b)
        d.assign(a, d.call("Tanh", product))
        d.assign(b, d.call("MulScalar", b, val=0.5))
        d.result(product)
        with faults.fail(operation, nth) as fault, contextlib.suppress(atled_sim.SimFault):
            d.run()
        failed += fault.happened
        if fault.happened:
            np.testing.assert_array_equal(x.data, was[0])
            np.testing.assert_array_equal(y.data, was[1])
            d.run()
        np.testing.assert_allclose(x.data, np.tanh(was[0] @ was[1]), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(y.data, was[1] * 0.5, rtol=1e-6)
        if not fault.happened:
            break
    assert failed or operation == "download"


def refused(kind, match, describe):
    x, y = array(2, 3), array(4)
    was = x.data.copy(), y.data.copy()
    d = Description(CPU)
    with pytest.raises(kind, match=match):
        describe(d, d.leaf(x), d.leaf(y))
        d.run()
    np.testing.assert_array_equal(x.data, was[0])
    np.testing.assert_array_equal(y.data, was[1])


def test_shapes_that_do_not_fit_are_refused():
    refused(ValueError, "Add2", lambda d, a, b: d.result(d.call("Add2", a, b)))
    refused(ValueError, "does not broadcast", lambda d, a, b: d.assign(a, b))


def test_two_assignments_to_one_array_are_refused():
    def twice(d, a, b):
        d.assign(a, d.call("Exp", a))
        d.assign(a, a)

    refused(ValueError, "assigns to it already", twice)


def test_descriptions_that_make_no_sense_are_refused():
    refused(TypeError, "it is no array outside", lambda d, a, b: d.assign(d.call("Exp", a), a))
    refused(TypeError, "it is none", lambda d, a, b: d.result(17))
    refused(TypeError, "it is none", lambda d, a, b: d.call("Exp", 1.5))
    refused(ValueError, "no op has that name", lambda d, a, b: d.result(d.call("Expp", a)))
    refused(IndexError, "it has 1", lambda d, a, b: d.result(d.output(d.call("Exp", a), 1)))
    refused(TypeError, "no array of the library", lambda d, a, b: d.leaf(np.zeros(3)))
    refused(TypeError, "val", lambda d, a, b: d.call("MulScalar", a, val="x"))
    refused(ValueError, "no random state", lambda d, a, b: d.result(d.call("Dropout", a)))
    refused(TypeError, "pass axis as an axis", lambda d, a, b: d.call("Sum", a, axes=object()))
    refused(TypeError, "pass axis as an axis", lambda d, a, b: d.call("Sum", a, axes=(1.5,)))
    refused(TypeError, "no attribute", lambda d, a, b: d.result(d.call("Exp", a, speed=1)))


def test_an_elementwise_update_is_written_in_place():
    x, y = array(2, 3), array(2, 3, seed=1)
    was, storage = x.data.copy(), x.cell.storage
    d = Description(CPU)
    a = d.leaf(x)
    d.assign(a, d.call("Tanh", d.call("Add2", a, d.leaf(y))))
    d.run()
    assert x.cell.storage is storage
    assert [step.name for step in d.plan.steps] == ["Add2+Tanh+Assign"]
    np.testing.assert_allclose(x.data, np.tanh(was + y.data), rtol=1e-5)


def test_what_is_made_for_an_array_that_nothing_reads_is_written_in_place():
    x, y, z = array(3, 4), array(4, 5, seed=1), array(3, 5, seed=2)
    storage = z.cell.storage
    d = Description(CPU)
    d.assign(d.leaf(z), d.call("BatchMatmul", d.leaf(x), d.leaf(y)))
    d.run()
    assert z.cell.storage is storage
    assert [step.name for step in d.plan.steps] == ["BatchMatmul"]
    np.testing.assert_allclose(z.data, x.data @ y.data, rtol=1e-4, atol=1e-5)


def pooled(d, x):
    maximum = d.call("WindowMax", d.leaf(x), kernel=(2,))
    return maximum, d.output(maximum, 1)


def test_all_that_a_node_makes_is_written_where_it_is_assigned_to():
    x, y, place = array(3, 4), array(3, 2), NdArray.from_numpy_array(np.ones((3, 2), np.uint8))
    storages = [y.cell.storage, place.cell.storage]
    d = Description(CPU)
    for target, value in zip((y, place), pooled(d, x), strict=True):
        d.assign(target, value)
    d.run()
    assert [y.cell.storage, place.cell.storage] == storages
    assert [step.name for step in d.plan.steps] == ["WindowMax"]
    pairs = x.data.reshape(3, 2, 2)
    np.testing.assert_array_equal(y.data, pairs.max(-1))
    np.testing.assert_array_equal(place.data, pairs.argmax(-1))


@PLACES
def test_what_else_reads_one_of_several_results_gets_its_values(context):
    x, y, place = array(3, 4), array(3, 2), NdArray.from_numpy_array(np.ones((3, 2), np.uint8))
    d = Description(context)
    maximum, at = pooled(d, x)
    d.assign(place, at)
    d.assign(y, maximum)
    d.result(d.call("Sum", maximum, axes=(1,)))
    (sums,) = d.run()
    pairs = x.data.reshape(3, 2, 2)
    np.testing.assert_array_equal(y.data, pairs.max(-1))
    np.testing.assert_array_equal(place.data, pairs.argmax(-1))
    np.testing.assert_allclose(sums.data, pairs.max(-1).sum(1), rtol=1e-6)


@PLACES
def test_what_else_is_computed_of_an_array_is_so_of_its_old_values(context):
    x, y, z = array(3, 3), array(3, 3, seed=1), array(3, 3, seed=2)
    was = z.data.copy()
    d = Description(context)
    c, product = d.leaf(z), d.call("BatchMatmul", d.leaf(x), d.leaf(y))
    d.assign(c, product)
    d.assign(y, c)
    d.result(d.call("Sum", product, axes=(1,)))
    d.result(d.call("Tanh", d.leaf(View(z)[1:])))
    product = x.data @ y.data
    sums, tanh = d.run()
    np.testing.assert_allclose(z.data, product, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(y.data, was)
    np.testing.assert_allclose(sums.data, product.sum(1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tanh.data, np.tanh(was[1:]), rtol=1e-5)


def test_what_no_elementwise_step_makes_is_swapped_in():
    x, y = array(3, 3), array(3, 3, seed=1)
    was, storage = x.data.copy(), x.cell.storage
    d = Description(CPU)
    a = d.leaf(x)
    d.assign(a, d.call("Affine", a, d.leaf(y)))
    d.run()
    assert x.cell.storage is not storage
    np.testing.assert_allclose(x.data, was @ y.data, rtol=1e-4, atol=1e-5)


def test_nothing_that_may_fail_runs_behind_what_is_written_in_place():
    table, x = array(4, 3), array(2, 3)
    index = NdArray.from_numpy_array(np.array([0, 9]))
    was = x.data.copy()
    d = Description(CPU)
    a = d.leaf(x)
    d.assign(a, d.call("Exp", a))
    d.result(d.call("Embed", d.leaf(index), d.leaf(table)))
    with pytest.raises(IndexError, match="out of range"):
        d.run()
    np.testing.assert_array_equal(x.data, was)
    index.data[...] = 1
    d.run()
    np.testing.assert_allclose(x.data, np.exp(was), rtol=1e-5)


def test_a_program_of_one_kernel_that_fails_says_so_at_each_run():
    table = array(4, 3)
    index = NdArray.from_numpy_array(np.array([0, 9]))
    for _ in range(3):
        d = Description(CPU)
        d.result(d.call("Embed", d.leaf(index), d.leaf(table)))
        with pytest.raises(IndexError, match="out of range"):
            d.run()
    index.data[...] = 1
    np.testing.assert_array_equal(d.run()[0].data, table.data[[1, 1]])


@PLACES
def test_a_step_that_may_fail_writes_no_view(context):
    table, x = array(4, 3), array(5, 3)
    index = NdArray.from_numpy_array(np.array([0, 1, 2, 9]))
    was = x.data.copy()
    d = Description(context)
    d.assign(View(x)[1:], d.call("Embed", d.leaf(index), d.leaf(table)))
    with pytest.raises(IndexError, match="out of range"):
        d.run()
    np.testing.assert_array_equal(x.data, was)
    index.data[...] = 1
    d.run()
    was[1:] = table.data[1]
    np.testing.assert_array_equal(x.data, was)


def test_shapes_and_dtypes_of_values_are_told_before_anything_runs():
    d = Description(INTEGERS)
    a, b = d.leaf(NdArray.from_numpy_array(np.ones((2, 3), np.int32))), d.leaf(array(3))
    product = d.call("Mul2", a, b)
    assert d.desc(product) == ArrayDesc((2, 3), np.float64)
    wrong = d.call("Add2", product, d.call("Reshape", a, shape=(3, 2)))
    with pytest.raises(ValueError, match="Add2"):
        d.desc(wrong)


@PLACES
def test_views_are_windows_on_one_array(context):
    x = NdArray.from_numpy_array(np.arange(24, dtype=np.float32).reshape(4, 6))
    view, expected = View(x), np.arange(24, dtype=np.float32).reshape(4, 6)
    d = Description(context)
    d.assign(view[:, 1:], d.leaf(view[:, :-1]))  # the old right side
    d.run()
    expected[:, 1:] = expected[:, :-1].copy()
    np.testing.assert_array_equal(x.data, expected)
    d = Description(context)
    left, right = d.leaf(view[:2, ::-2]), d.leaf(view[2:, ::2])
    d.assign(left, right)
    d.assign(right, left)
    d.result(d.leaf(x))
    (before,) = d.run()
    np.testing.assert_array_equal(before.data, expected)
    expected[:2, ::-2], expected[2:, ::2] = expected[2:, ::2].copy(), expected[:2, ::-2].copy()
    np.testing.assert_array_equal(x.data, expected)


@PLACES
def test_views_of_arrays_of_several_sizes_are_told_apart(context):
    for size in (9, 12, 30):
        x, expected = NdArray.from_numpy_array(np.arange(size, dtype=np.float32)), np.arange(size, dtype=np.float32)
        d = Description(context)
        left, right = d.leaf(View(x)[1:4]), d.leaf(View(x)[5:8])
        d.assign(left, right)
        d.assign(right, left)
        d.run()
        expected[1:4], expected[5:8] = expected[5:8].copy(), expected[1:4].copy()
        np.testing.assert_array_equal(x.data, expected)


@PLACES
def test_where_a_view_begins_compiles_nothing_anew(context):
    x = NdArray.from_numpy_array(np.arange(12, dtype=np.float32))
    expected = np.arange(12, dtype=np.float32)
    counts = set()
    for begin in range(0, 12, 3):
        d = Description(context)
        rows = d.leaf(View(x)[begin : begin + 3])
        d.assign(rows, d.call("Mul2", rows, d.number(begin)))
        d.run()
        expected[begin : begin + 3] *= begin
        np.testing.assert_array_equal(x.data, expected)
        counts.add(programs())
    assert len(counts) == 1


def test_numbers_widen_nothing_and_are_of_the_time_of_the_run():
    before = None
    for dtype in (np.float32, np.int32, np.uint8):
        values = np.array([1, 2, 3], dtype)
        for number in (3, 5, 2.5):
            d = Description(INTEGERS)
            d.result(d.call("Mul2", d.leaf(NdArray.from_numpy_array(values)), d.number(number)))
            (found,) = d.run()
            expected = values * number
            assert found.data.dtype == expected.dtype
            np.testing.assert_array_equal(found.data, expected)
            if number == 3:
                before = programs()
            elif number == 5:
                assert programs() == before


@pytest.mark.parametrize("numbers", [(4, 0), (2.5, -1.0), (3, 0.5), (True, 5)], ids=repr)
def test_a_choice_between_numbers_has_the_dtype_that_numpy_gives_it(numbers):
    condition = np.array([True, False, True])
    d = Description()
    d.result(d.call("Where", d.leaf(NdArray.from_numpy_array(condition)), *map(d.number, numbers)))
    (chosen,) = d.run()
    wanted = np.where(condition, *numbers)
    assert chosen.dtype == wanted.dtype
    np.testing.assert_array_equal(chosen.data, wanted)


def test_numbers_that_a_dtype_does_not_hold_are_refused():
    small = NdArray.from_numpy_array(np.array([1, 2], np.uint8))
    for describe in (
        lambda d, a: d.result(d.call("Add2", a, d.number(256))),
        lambda d, a: d.result(d.call("Add2", a, d.number(-1))),
        lambda d, a: d.assign(a, d.number(300)),
    ):
        d = Description(INTEGERS)
        describe(d, d.leaf(small))
        with pytest.raises(OverflowError, match="uint8 holds 0 to 255"):
            d.run()
    np.testing.assert_array_equal(small.data, [1, 2])


def test_whole_numbers_stay_exact():
    large = NdArray.from_numpy_array(np.array([2**62, -(2**62)]))
    d = Description(INTEGERS)
    a = d.leaf(large)
    d.result(d.call("Add2", a, d.number(2**53 + 1)))
    d.result(d.call("Sub2", a, d.number(7)))
    more, less = d.run()
    np.testing.assert_array_equal(more.data, large.data + (2**53 + 1))
    np.testing.assert_array_equal(less.data, large.data - 7)


def recurrence(d, x, h, w, **how):
    """Tanh of a row and the state times a weight, described as a loop; the state is kept of each step."""

    def step(row, h):
        h = d.call("Tanh", d.call("Add2", row, d.call("BatchMatmul", h, w)))
        return [h], [h]

    return d.loop(step, [x], [h], **how)


@PLACES
def test_a_loop_calls_its_step_once_and_takes_values_from_around_it(context):
    x, h, w = array(5, 2, 8), array(2, 8, seed=1), array(8, 8, seed=2)
    d = Description(context)
    made = recurrence(d, d.leaf(x), d.leaf(h), d.leaf(w))
    d.result(made.states[0])
    d.result(made.rows[0])
    state, wanted = h.data, []
    for row in x.data:
        state = np.tanh(row + state @ w.data)
        wanted.append(state)
    for got in (d.run(), d.run()):
        np.testing.assert_allclose(got[0].data, state, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[1].data, wanted, rtol=1e-4, atol=1e-5)


def test_gradients_go_through_loops():
    x, h, w = (array(*shape, dtype=np.float64, seed=n) for n, shape in enumerate(((3, 2, 8), (2, 8), (8, 8))))

    def total(*values):
        state = values[1]
        kept = 0.0
        for row in values[0]:
            state = np.tanh(row + state @ values[2])
            kept += state.sum()
        return kept

    d = Description(CPU)
    leaves = [d.leaf(each) for each in (x, h, w)]
    made = recurrence(d, *leaves)
    for gradient in d.gradients(made.rows[0], leaves):
        d.result(gradient)
    arrays = [each.data.copy() for each in (x, h, w)]
    for number, gradient in enumerate(d.run()):
        np.testing.assert_allclose(gradient.data, differences(total, arrays, number), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("limit", [-1.0, 3.0, 50.0])
def test_a_condition_ends_a_loop_and_numbers_are_those_of_the_run(limit):
    x = array(2, dtype=np.float64)
    d = Description(CPU)
    factor, bound = d.number(1.5), d.number(limit)

    def step(x):
        x = d.call("Add2", d.call("Mul2", x, factor), d.number(1.0))
        return [x], [x], d.call("Greater", d.call("Sum", x, axes=(0,)), bound)

    made = d.loop(step, states=[d.leaf(x)], length=6)
    for value in (*made.states, made.steps, *made.rows):
        d.result(value)
    before = programs()
    last, steps, rows = (each.data for each in d.run())
    state, count, kept = x.data, 0, np.zeros((6, 2))
    while count < 6:
        state = kept[count] = state * 1.5 + 1
        count += 1
        if state.sum() > limit:
            break
    assert steps == count
    np.testing.assert_allclose(last, state)
    np.testing.assert_allclose(rows, kept)
    assert programs() <= before + 1


def test_a_branch_in_a_loop_takes_from_around_both():
    x, flags, a = (
        array(3, 4, dtype=np.float64),
        NdArray.from_numpy_array(np.array([1, 0, 1])),
        array(4, dtype=np.float64),
    )
    d = Description(CPU)
    rows, taken, number = d.leaf(x), d.leaf(a), d.number(3)

    def step(row, flag, state):
        return d.branch(flag, lambda: [d.call("Mul2", row, taken)], lambda: [d.call("Add2", state, number)]), []

    made = d.loop(step, [rows, d.leaf(flags)], [taken])
    d.result(made.states[0])
    for gradient in d.gradients(made.states[0], [rows, taken]):
        d.result(gradient)
    last, of_rows, of_taken = (each.data for each in d.run())
    np.testing.assert_allclose(last, x.data[2] * a.data)
    np.testing.assert_allclose(of_rows, [np.zeros(4), np.zeros(4), a.data])
    np.testing.assert_allclose(of_taken, x.data[2])


def test_each_step_of_a_loop_draws_anew():
    state = NdArray.from_numpy_array(np.array([5, -1]))
    d = Description(CPU)
    random_state = d.leaf(state)
    made = d.loop(lambda: ([], [d.call("Rand", random_state, shape=(4,))]), length=3)
    d.result(made.rows[0])
    first, second = d.run()[0].data, d.run()[0].data
    assert len(np.unique([first, second])) == 24
    np.testing.assert_array_equal(state.data, [5, 5])


@PLACES
def test_a_run_that_fails_behind_a_loop_draws_again_what_that_drew(context):
    state, place = NdArray.from_numpy_array(np.array([5, -1])), NdArray.from_numpy_array(np.array([0]))
    d = Description(context)
    random_state = d.leaf(state)
    made = d.loop(lambda: ([], [d.call("Rand", random_state, shape=(4,))]), length=3)
    d.result(d.call("Take", made.rows[0], d.leaf(place), axis=0))
    d.run()
    np.testing.assert_array_equal(state.data, [5, 2])
    place.data = [3]
    with pytest.raises(IndexError, match="out of range"):
        d.run()
    np.testing.assert_array_equal(state.data, [5, 2])


def test_a_count_of_steps_is_an_array_and_a_refused_one_changes_nothing():
    x, count = array(2), NdArray.from_numpy_array(np.array(3))
    before = x.data.copy()
    d = Description(CPU)
    leaf = d.leaf(x)
    made = d.loop(lambda state: ([d.call("Add2", state, state)], []), states=[leaf], count=d.leaf(count))
    d.assign(leaf, made.states[0])
    d.run()
    np.testing.assert_array_equal(x.data, 8 * before)
    count.data = -2
    with pytest.raises((ValueError, RuntimeError), match="steps"):
        d.run()
    np.testing.assert_array_equal(x.data, 8 * before)


def test_a_count_of_steps_may_be_a_python_number_with_which_nothing_is_compiled_anew():
    x, counts = array(2), set()
    for count in (3, 5):
        d = Description(CPU)
        steps = d.number(count)

        def outer(state, d=d, steps=steps):
            made = d.loop(lambda inner: ([d.call("Add2", inner, inner)], []), states=[state], count=steps)
            return made.states, []

        d.result(d.loop(outer, states=[d.leaf(x)], length=2).states[0])
        np.testing.assert_array_equal(d.run()[0].data, 4**count * x.data)
        counts.add(programs())
    assert len(counts) == 1
    with pytest.raises(TypeError, match="Python number"):
        d = Description(CPU)
        d.loop(lambda state: ([state], []), states=[d.leaf(x)], count=d.number(2.5))
        d.run()


def test_rows_of_views_are_taken():
    x = array(4, 6, dtype=np.float64)
    d = Description(CPU)
    rows = d.leaf(View(x)[::-1, 1::2])
    made = d.loop(lambda row, state: ([d.call("Sub2", row, state)], []), [rows], [d.leaf(View(x)[0, :3])])
    d.result(made.states[0])
    state = x.data[0, :3]
    for row in x.data[::-1, 1::2]:
        state = row - state
    np.testing.assert_allclose(d.run()[0].data, state)


def test_values_of_a_step_belong_to_it():
    inside = []
    for wrong in ("result", "outside", "no end"):
        d = Description(CPU)
        x = d.leaf(array(2))

        def step(state, d=d, wrong=wrong):
            value = d.call("Tanh", state)
            inside.append(value)
            if wrong == "result":
                d.result(value)
            if wrong == "no end":
                d.run()
            return [value], []

        with pytest.raises(TypeError, match="no end") if wrong == "no end" else contextlib.nullcontext():
            d.loop(step, states=[x], length=2)
        if wrong == "no end":
            continue
        if wrong == "outside":
            d.result(inside[-1])
        with pytest.raises(TypeError, match=r"in a loop|has ended"):
            d.run()


def test_what_changes_arrays_is_no_part_of_a_step():
    d = Description(CPU)
    x = d.leaf(array(2))
    d.loop(lambda state: ([d.call("SgdUpdate", state, state, lr=1.0)], []), states=[x], length=2)
    with pytest.raises(TypeError, match="SgdUpdate in a loop or a branch"):
        d.run()


def test_a_description_goes_on_behind_its_runs():
    x = array(3)
    d = Description(CPU)
    y = d.call("Exp", d.leaf(x))
    d.result(y)
    for _ in range(3):
        d.run()
    d.result(d.call("Add2", y, y))
    first, second = d.run()
    np.testing.assert_array_equal(second.data, first.data * 2)


def test_a_description_that_is_kept_takes_other_arrays_and_numbers():
    x, y = array(3, 4), array(3, 4, seed=1)
    d = Description(CPU)
    a, factor, b = d.leaf(x), d.number(2), d.leaf(y)
    d.result(d.call("MulScalar", d.call("Add2", d.call("Mul2", a, factor), b), val=0.5))
    d.run()
    for shape, number in (((3, 4), 3), ((3, 4), 70_000), ((1, 4), 2.5)):
        other = array(*shape, seed=2)
        d.put(a, other)
        d.set_number(factor, number)
        (found,) = d.run()
        np.testing.assert_allclose(found.data, (other.data * number + y.data) / 2, rtol=1e-5)
    with pytest.raises(ValueError, match="describe the program anew"):
        d.put(a, y)
    with pytest.raises(ValueError, match="describe the program anew"):
        d.set_number(a, 2.0)
    with pytest.raises(ValueError, match="describe the program anew"):
        d.set_number(factor, 2**60)
    with pytest.raises(ValueError, match="describe the program anew"):
        d.set_number(d.leaf(array()), 2.0)


@PLACES
def test_a_description_that_is_kept_follows_its_arrays_to_other_memory(context):
    x, y, out = array(3, 4), array(3, 4, seed=1), array(3, 4)
    views = View(x)[1:], View(out)[:2]
    expected = out.data.copy()
    d = Description(context)
    number = d.number(2.0)
    d.assign(views[1], d.call("Add2", d.call("Mul2", d.leaf(views[0]), number), d.leaf(View(y)[1:])))

    def check(factor):
        for _ in range(4):  # the first of them compiles, and one binds
            out.data[...] = 0
            assert d.run() == []
            expected[:2] = x.data[1:] * factor + y.data[1:]
            expected[2] = 0
            np.testing.assert_allclose(out.data, expected, rtol=1e-6)

    check(2)
    for seed in range(6):  # more often than it is bound anew
        other = array(3, 4, seed=seed + 2).cell
        y.cell.adopt(other.place, other.dtype, other.storage)
        check(2)
    x.data = array(3, 4, seed=9).data
    check(2)
    x.zero()
    check(2)
    d.set_number(number, 3.0)
    x.fill(5)
    check(3)
    with context_scope(REFERENCE):
        check(3)
    check(3)


def test_numbers_that_are_put_into_a_description_count_from_then_on():
    x, out = array(3, 4), array(3, 4)
    d = Description(CPU)
    d.assign(out, d.call("Mul2", d.leaf(x), d.number(0.0)))
    for factor in (0.0, -0.0, 2.0):
        d.floats[0] = factor
        for _ in range(3):
            d.run()
            np.testing.assert_array_equal(out.data, x.data * np.float32(factor))
            np.testing.assert_array_equal(np.signbit(out.data), np.signbit(x.data * np.float32(factor)))


@PLACES
def test_a_description_that_is_kept_takes_the_context_of_each_run_and_goes_on(context):
    x, out, further = array(3, 4), array(3, 4), array(3, 4)
    d = Description()
    value = d.call("Mul2", d.leaf(x), d.leaf(x))
    d.assign(out, value)
    for _ in range(4):
        d.run()
    with context_scope(context):
        for _ in range(4):
            x.data[...] += 1
            d.run()
            np.testing.assert_allclose(out.data, x.data**2, rtol=1e-6)
    d.assign(further, d.call("Add2", value, d.leaf(x)))
    for _ in range(4):
        d.run()
        np.testing.assert_allclose(further.data, x.data**2 + x.data, rtol=1e-6)
    another = array(3, 4, seed=5)
    d.put(0, another)
    for _ in range(4):
        d.run()
        np.testing.assert_allclose(out.data, another.data**2, rtol=1e-6)


def test_small_arrays_that_stay_where_they_are_are_bound_once(monkeypatch):
    x, out = array(3, 4), array(3, 4)
    d = Description(CPU)
    d.assign(out, d.call("Mul2", d.leaf(x), d.leaf(x)))
    for _ in range(3):
        d.run()
    with monkeypatch.context() as patched:
        patched.setattr(type(d._program), "run", None)
        x.data[...] = 3
        version = out.cell.last_write
        d.run()
    assert out.cell.last_write > version
    np.testing.assert_array_equal(out.data, np.full((3, 4), 9))


def test_it_is_told_who_would_compute_each_call_and_why():
    d = chain(SIM, array(3, 4), array(3, 4))
    explanation = nn.explain(d)
    assert [call.op for call in explanation.calls] == ["Add2", "Tanh", "MulScalar"]
    assert {call.chosen.backend for call in explanation.calls} == {"sim"}
    assert "under Context(['sim:float']" in str(explanation)


@PLACES
def test_random_ops_go_on_with_their_states(context):
    state = NdArray.from_numpy_array(np.array([7, 0]))
    d = Description(context)
    d.result(d.call("Rand", d.leaf(state), shape=(5,)))
    (first,), (second,) = d.run(), d.run()
    assert not np.array_equal(first.data, second.data)
    np.testing.assert_array_equal(state.data, [7, 2])
    state.data[1] = 0
    (again,) = d.run()
    np.testing.assert_array_equal(again.data, first.data)


def test_two_calls_do_not_draw_from_one_random_state():
    state = NdArray.from_numpy_array(np.array([7, 0]))
    d = Description(CPU)
    a = d.leaf(state)
    d.result(d.call("Add2", d.call("Rand", a, shape=(5,)), d.call("Rand", a, shape=(5,))))
    with pytest.raises(ValueError, match="that of another call"):
        d.run()
    np.testing.assert_array_equal(state.data, [7, 0])


def test_products_of_another_dtype_are_added_to_a_state_in_its_own():
    x, state = array(3, 4, 8), array(8, 8, dtype=np.float64)
    d = Description(CPU)

    def step(row, state):
        return [d.call("Add2", state, d.call("BatchMatmul", row, row, transpose_a=True))], []

    d.result(d.loop(step, [d.leaf(x)], [d.leaf(state)]).states[0])
    (found,) = d.run()
    assert found.dtype == np.float64
    np.testing.assert_allclose(found.data, state.data + np.einsum("tij,tik->jk", x.data, x.data), rtol=1e-5)


def test_an_op_of_ones_own_is_that_of_its_last_definition():
    x = NdArray.from_numpy_array(np.float32([2]))

    def computed():
        d = Description(CPU)
        d.result(d.call("KeyedPower", d.leaf(x)))
        (found,) = d.run()
        return found.data[0]

    try:
        define(Row("KeyedPower", "keyed_power", "x * x", {"x": DERIVED}, doc="Second power of each element."))
        assert [computed(), computed()] == [4, 4]
        row = Row("KeyedPower", "keyed_power", "x * x * x", {"x": DERIVED}, doc="Third power of each element.")
        define(row, replace=True)
        assert [computed(), computed()] == [8, 8]
    finally:
        undefine("KeyedPower")
    with pytest.raises(ValueError, match="no op has that name"):
        computed()


@PLACES
def test_results_and_new_values_may_be_views_of_what_is_made(context):
    x, y = array(4, 6), array(6, 4, seed=1)
    values = x.data.copy()
    squashed = np.tanh(values)
    d = Description(context)
    a = d.leaf(x)
    t = d.call("Tanh", a)
    turned = d.call("Transpose", t, axes=(1, 0))
    for value in (t, turned, d.call("Slice", t, start=(1, 0), stop=(3, 4), step=(1, 2)), t):
        d.result(value)
    d.assign(y, turned)
    d.assign(a, d.call("Reshape", d.call("Transpose", a, axes=(1, 0)), shape=(4, 6)))
    found = d.run()
    for array_found, wanted in zip(found, (squashed, squashed.T, squashed[1:3, 0:4:2], squashed), strict=True):
        np.testing.assert_allclose(array_found.data, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y.data, squashed.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(x.data, values.T.reshape(4, 6))
    found[0].data[...] = 7
    np.testing.assert_allclose(found[3].data, squashed, rtol=1e-5, atol=1e-6)


@PLACES
def test_several_arrays_are_rotated_or_hold_one_value_apart(context):
    arrays = [NdArray.from_numpy_array(np.full((2, 2), number, np.float32)) for number in (1, 2, 3)]
    d = Description(context)
    a, b, c = map(d.leaf, arrays)
    for target, value in ((a, b), (b, c), (c, a)):
        d.assign(target, value)
    d.run()
    assert [each.data[0, 0] for each in arrays] == [2, 3, 1]
    d = Description(context)
    a, b, _ = map(d.leaf, arrays)
    total = d.call("Add2", a, b)
    d.assign(a, total)
    d.assign(b, total)
    d.run()
    arrays[0].data[...] = 0
    assert [each.data[0, 0] for each in arrays] == [0, 5, 1]


@pytest.mark.parametrize("backwards", [False, True])
def test_of_a_state_of_which_the_last_row_is_read_no_row_is_kept(backwards):
    x, h, w = (array(*shape, dtype=np.float64, seed=n) for n, shape in enumerate(((3, 2, 8), (2, 8), (8, 8))))
    d = Description(CPU)
    made = recurrence(d, *map(d.leaf, (x, h, w)), backwards=backwards)
    last = 0 if backwards else 2
    d.result(d.call("Slice", made.rows[0], start=(last, 0, 1), stop=(last + 1, 2, 8), step=(1, 1, 3)))
    state = h.data
    for row in x.data[::-1] if backwards else x.data:
        state = np.tanh(row + state @ w.data)
    np.testing.assert_allclose(d.run()[0].data, state[None, :, 1::3])
    loops = [step for step in d.plan.steps if step.name == "Loop"]
    assert [step.arguments[-1] for step in loops] == [-1]


def test_a_slice_of_other_rows_is_one_of_them():
    x = array(3, 2, dtype=np.float64)
    d = Description(CPU)
    made = d.loop(
        lambda row, state: ([d.call("Add2", row, state)],) * 2, [d.leaf(x)], [d.leaf(array(2, dtype=np.float64))]
    )
    for start, stop in ((0, 1), (1, 3), (2, 3), (2, 2)):
        d.result(d.call("Slice", made.rows[0], start=(start, 0), stop=(stop, 2), step=(1, 1)))
    rows = array(2, dtype=np.float64).data + np.cumsum(x.data, axis=0)
    for found, wanted in zip(d.run(), (rows[:1], rows[1:], rows[2:], rows[2:2]), strict=True):
        np.testing.assert_allclose(found.data, wanted)


@PLACES
def test_views_without_elements_are_read_and_assigned(context):
    x, nothing = array(6), array(5, 0, 3)
    whole, empty = View(x), View(nothing)[:, :, 1:]
    d = Description(context)
    last, none = d.leaf(whole[4:]), d.leaf(whole[0:0])
    d.result(last)
    d.result(d.call("Exp", none))
    d.assign(empty, d.call("Exp", d.leaf(empty)))
    for _ in range(2):
        found, made = d.run()
        np.testing.assert_array_equal(found.data, x.data[4:])
        assert made.shape == (0,)


def test_calls_with_other_inputs_than_the_op_has_are_refused():
    x = array(3)
    for op, count, wrong in (("Tanh", 2, "it has 1"), ("Add2", 1, "x1 is missing"), ("Add2", 3, "it has 2")):
        d = Description(CPU)
        d.result(d.call(op, *[d.leaf(x)] * count))
        with pytest.raises(TypeError, match=rf"(?s)a call of {op} with {count} inputs: {wrong}.*What to do"):
            d.run()


def test_numbers_are_refused_in_words():
    x, bytes_ = array(3), NdArray.from_numpy_array(np.array([1, 2], np.uint8))
    for value, named in ((300, "from 256 to 32767"), (-1, "from -128 to -1")):
        for is_assigned in (False, True):
            d = Description(INTEGERS)
            leaf, number = d.leaf(bytes_), d.number(value)
            if is_assigned:
                d.assign(leaf, number)
            else:
                d.result(d.call("Add2", leaf, number))
            with pytest.raises(OverflowError, match=f"a Python number {named} beside arrays of uint8"):
                d.run()
    for op, wrong in (("Add2", "all its inputs are numbers"), ("Dot", "not elementwise")):
        d = Description(CPU)
        d.result(d.call(op, d.leaf(x) if op == "Dot" else d.number(2), d.number(3)))
        with pytest.raises(TypeError, match=f"{op} with Python numbers: .*{wrong}"):
            d.run()
    d = Description(CPU)
    for value in (1, 2):
        d.assign(x, d.number(value))
    with pytest.raises(ValueError, match=r"an assignment of a Python number \(int\) to"):
        d.run()


def test_a_count_of_steps_is_a_whole_number():
    d = Description(CPU)
    made = d.loop(lambda x: ([x], []), [], [d.leaf(array())], count=d.leaf(array()), length=3)
    d.result(made.states[0])
    with pytest.raises(ValueError, match=r"a count float32.*no whole number"):
        d.run()


@pytest.mark.parametrize("returned", [None, 1, [[]], ([], []), ([1, 1], []), ([1], 2), ([1], [], 1, 1)])
def test_what_the_step_of_a_loop_returns_is_checked(returned):
    d = Description(CPU)
    with pytest.raises(TypeError, match=r"(?s)the step of a loop: it returns.*What to do"):
        d.loop(lambda x: returned, [], [d.leaf(array())], length=3)


def test_a_description_goes_on_behind_a_step_that_raises():
    x, y, z = array(4), array(4, seed=1), array(2, seed=2)

    def step(_):
        d.call("MulScalar", d.leaf(View(z)[1:]), val=3.0)
        raise KeyError("mine")

    d = Description(CPU)
    a = d.leaf(View(x)[1:3])
    with pytest.raises(KeyError, match="mine"):
        d.loop(step, [], [a], length=3)
    with pytest.raises(KeyError, match="mine"):
        d.branch(a, lambda: [d.call("Mul2", d.leaf(y), d.number(5))], lambda: step(a))
    d.result(d.call("Mul2", a, d.number(2)))
    d.result(d.call("Mul2", d.leaf(View(y)[2:]), d.number(7)))
    first, second = d.run()
    assert (first.data == x.data[1:3] * 2).all()
    assert (second.data == y.data[2:] * np.float32(7)).all()


@PLACES
@pytest.mark.parametrize("is_counted", [False, True])
def test_a_loop_without_steps_does_nothing_that_could_fail(context, is_counted):
    table, place, state = array(3, 2), NdArray.from_numpy_array(np.array(7)), array(2)
    d = Description(context)
    rows, wrong = d.leaf(table), d.leaf(place)
    length = {"count": d.leaf(NdArray.from_numpy_array(np.array(0))), "length": 4} if is_counted else {"length": 0}

    def step(state):
        return [d.call("Add2", state, d.call("Take", rows, wrong, axis=0))], []

    d.result(d.loop(step, [], [d.leaf(state)], **length).states[0])
    (last,) = d.run()
    np.testing.assert_array_equal(last.data, state.data)


def test_rows_of_products_with_a_wider_bias_are_computed_in_its_dtype():
    x, w, bias = array(4, 2, 8), array(8, 3), array(3, dtype=np.float64)
    d = Description(CPU)
    weight, wide = d.leaf(w), d.leaf(bias)
    made = d.loop(lambda row: ([], [d.call("Affine", row, weight, wide, base_axis=1)]), [d.leaf(x)])
    d.result(made.rows[0])
    expected = x.data.astype(np.float64) @ w.data.astype(np.float64) + bias.data
    np.testing.assert_allclose(d.run()[0].data, expected, rtol=1e-12)


def test_a_large_number_beside_truth_values_is_of_numpys_dtype():
    truths = NdArray.from_numpy_array(np.array([True, False]))
    for number in (2**53 + 1, 2**63 - 1, -(2**63) + 1):
        d = Description(CPU)
        d.result(d.call("Maximum2", d.leaf(truths), d.number(number)))
        (found,) = d.run()
        expected = np.maximum(truths.data, number)
        assert found.data.dtype == expected.dtype
        np.testing.assert_array_equal(found.data, expected)


@PLACES
def test_integers_are_compared_with_numbers_that_they_cannot_be(context):
    values = np.array([0, 200], np.uint8)
    for op, compare in (("Greater", np.greater), ("Less", np.less), ("Equal", np.equal)):
        for number in (-1, 300, 2**40):
            d = Description(context if context is not CPU else INTEGERS)
            d.result(d.call(op, d.leaf(NdArray.from_numpy_array(values)), d.number(number)))
            found = d.run()[0].data
            assert found.dtype == bool
            assert found.tolist() == compare(values, number).tolist()


def test_equal_calls_are_computed_once():
    x = array(3, 4)
    d = Description(CPU)
    leaf = d.leaf(x)
    first, second = (d.call("Sum", d.call("Exp", leaf), axes=(0,), keep_dims=True) for _ in range(2))
    d.result(d.call("Div2", d.call("Add2", first, d.number(1)), second))
    text = str(d.explain())
    assert (text.count("Exp("), text.count("Sum(")) == (1, 1), text
    total = np.exp(x.data).sum(0, keepdims=True)
    np.testing.assert_allclose(d.run()[0].data, (total + 1) / total, rtol=1e-5)


def test_calls_that_differ_in_a_number_are_two():
    x = array(3, 4)
    d = Description(CPU)
    leaf = d.leaf(x)
    d.result(d.call("Sub2", d.call("MulScalar", leaf, val=2.0), d.call("MulScalar", leaf, val=3.0)))
    np.testing.assert_allclose(d.run()[0].data, -x.data, rtol=1e-5)


def test_equal_calls_in_different_loops_are_of_their_own():
    x = array(3, 4)
    d = Description(CPU)
    leaf = d.leaf(x)
    rows = [d.loop(lambda row: ([], [d.call("Exp", d.call("Tanh", row))]), [leaf]).rows[0] for _ in range(2)]
    d.result(d.call("Sub2", rows[0], d.call("Exp", d.call("Tanh", leaf))))
    np.testing.assert_allclose(d.run()[0].data, 0, atol=1e-6)


def test_a_front_end_appends_calls_to_the_entries():
    x = array(3, 4)
    d = Description(CPU)
    leaf = d.leaf(x)
    d.entries.append(("Tanh", (leaf,)))
    d.entries.append(("Mul2", (leaf, len(d.entries) - 1)))
    d.entries.append(("Sum", (len(d.entries) - 1,), attributes_of("Sum", axes=1, keep_dims=True)))
    d.result(len(d.entries) - 1)
    np.testing.assert_allclose(d.run()[0].data, (x.data * np.tanh(x.data)).sum(1, keepdims=True), rtol=1e-5)


# Patterns.


def test_patterns_run_on_other_arrays_and_keep_none_alive():
    x, y, out = array(3, 4), array(3, 4, seed=1), array(3, 4)
    d = Description()
    d.assign(d.leaf(out), d.call("Mul2", d.leaf(x), d.leaf(y)))
    d.run()
    pattern = d.pattern([View(each) for each in (x, y, out)])
    watched = weakref.ref(x.cell)
    del d, x, y, out
    gc.collect()
    assert watched() is None
    for seed in range(2):
        given = [array(3, 4, seed=seed), array(3, 4, seed=seed + 1), array(3, 4)]
        pattern.run([View(each) for each in given])
        np.testing.assert_array_equal(given[2].data, given[0].data * given[1].data)


def test_patterns_of_views_run_on_views_elsewhere():
    def views(seed, row):
        memory, out = View(array(5, 4, seed=seed)), View(array(5, 4))
        return memory[row : row + 2], memory[row + 1 : row + 3], out[1:3]

    a, b, out = views(0, 0)
    d = Description()
    d.assign(out, d.call("Mul2", d.leaf(a), d.leaf(b)))
    d.run()
    pattern = d.pattern([a, b, out])
    for row in (0, 2):
        a, b, out = views(3, row)
        pattern.run([a, b, out])
        np.testing.assert_array_equal(out.numpy(), a.numpy() * b.numpy())


def test_a_pattern_is_not_run_where_arrays_became_one():
    x, out = array(3, 4), array(3, 4)
    d = Description()
    d.assign(d.leaf(out), d.call("Exp", d.leaf(x)))
    d.run()
    before = x.data.copy()
    assert d.pattern([View(x), View(out)]).run([View(x), View(x)]) is None
    np.testing.assert_array_equal(x.data, before)


def test_what_has_arrays_of_its_own_has_no_pattern():
    x, own = array(3, 4), array(3, 4)
    d = Description()
    d.result(d.call("Mul2", d.leaf(x), d.leaf(own)))
    assert d.pattern([View(x)]) is None


@PLACES
def test_a_runner_runs_a_description_on_other_arrays(context):
    x, y = array(3, 4), array(3, 4, seed=1)
    runner = Runner(chain(context, x, y))
    for seed in (2, 3, 4):
        a, b = array(3, 4, seed=seed), array(3, 4, seed=seed + 1)
        expected = 2 * np.tanh(a.data + b.data)
        np.testing.assert_allclose(runner.run([a.cell, b.cell])[0].data, expected, rtol=1e-5)
        (found,) = runner.run_out([a.cell, b.cell])
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_kept_run_sees_new_values_and_says_where_it_is_to_be_made_anew():
    total = NdArray.from_numpy_array(np.float32(0))
    d = Description()
    leaf = d.leaf(total)
    d.result(leaf)
    d.assign(leaf, d.call("Add2", leaf, d.number(1)))
    runner, cells = Runner(d), [total.cell]
    assert runner.kept(cells) is None
    with context_scope(CPU):
        runner.run_out(cells), runner.run_out(cells)
        run = runner.kept(cells)
        assert [run()[0].item() for _ in range(3)] == [2, 3, 4]
        total.data = 10
        assert run()[0].item() == 10
        with nn.trace():
            assert run() is None
        total.cast(np.float64)
        assert run() is None
    with context_scope(REFERENCE):
        assert run() is None
    assert total.data.item() == 11


def test_one_of_two_equal_calls_may_be_a_value_of_its_own():
    x = array(3)
    d = Description(CPU)
    leaf = d.leaf(x)
    first, second = d.apart(d.call("Tanh", leaf)), d.call("Tanh", leaf)
    (gradient,) = d.gradients(d.call("Add2", d.call("Mul2", first, d.number(3)), second), [first])
    d.result(gradient)
    assert d.run()[0].data.tolist() == [3, 3, 3]
