"""Functions: values in, arrays out, variables updated."""

import contextlib
import gc
import threading
import weakref

import numpy as np
import pytest

import atled as nn
import atled.keras_backend as B
import atled_sim
from atled.arrays.place import HOST
from atled_contexts import Context, context_scope
from atled_sim import faults

CPU, SIM = Context(["cpu:float", "reference:float"]), Context(["sim:float"])


def counter(start=0.0):
    count = B.variable(start)
    return count, B.function([], count, updates=[(count, count + 1.0)])


def test_outputs_and_updates_are_computed_from_the_values_before(backend):
    x = B.placeholder(ndim=2)
    w = B.variable(np.eye(3, 2))
    total = B.variable(0.0)
    f = B.function([x], [x.dot(w) * 2.5, B.sum(x) + total], updates=[(total, total + B.sum(x))])
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    product, first = f(values)
    np.testing.assert_allclose(product, values[:, :2] * 2.5)
    assert (first, f(values[:2])[1], total.get_value()) == (66, 81, 81)


def test_two_variables_are_swapped(backend):
    a, b = B.variable([1.0, 2.0]), B.variable([3.0, 4.0])
    swap = B.function([], None, updates={a: b, b: a})
    assert swap() == []
    assert (a.get_value().tolist(), b.get_value().tolist()) == ([3, 4], [1, 2])
    swap()
    assert (a.get_value().tolist(), b.get_value().tolist()) == ([1, 2], [3, 4])


def test_sizes_are_known_before_anything_runs():
    x = B.placeholder(ndim=2)
    np.testing.assert_array_equal(B.function([x], B.sum(x, axis=0) / x.shape[0])(np.ones((4, 3))), np.ones(3))
    sizes = B.function([x], x.shape)
    assert sizes(np.ones((4, 3))).tolist() == [4, 3]
    assert not sizes.plan.steps


def test_one_output_is_an_array_a_list_a_list_and_none_an_empty_list():
    x = B.variable([1.0, 2.0])
    assert isinstance(B.function([], x)(), np.ndarray)
    assert [each.tolist() for each in B.function([], [x])()] == [[1, 2]]
    assert [each.tolist() for each in B.function([], (x, B.sum(x), 3.0))()] == [[1, 2], 3, 3]
    assert B.function([], None)() == B.function([], [])() == []


def test_results_are_new_arrays_at_each_call(backend):
    x, y = B.variable([1.0, 2.0]), B.placeholder(ndim=1)
    f = B.function([y], [x, y, x * y, B.ones_like(y)])
    given = np.array([3, 4], np.float32)
    first, second = f(given), f(given)
    for each in first:
        assert each.flags.writeable
        each[...] = 99
    assert [each.tolist() for each in second] == [[1, 2], [3, 4], [3, 8], [1, 1]]
    assert (x.get_value().tolist(), given.tolist()) == ([1, 2], [3, 4])
    assert [each.tolist() for each in f(given)] == [[1, 2], [3, 4], [3, 8], [1, 1]]


def test_a_call_without_inputs_goes_on_from_where_variables_are(backend):
    count, f = counter()
    assert [f().item() for _ in range(4)] == [0, 1, 2, 3]
    count.set_value(10)
    assert [f().item() for _ in range(3)] == [10, 11, 12]
    assert count.get_value() == 13


def test_the_context_in_force_at_the_call_counts():
    x = B.variable(np.ones((2, 2)))
    f = B.function([], x * 2.0, updates=[(x, x + 1.0)])
    for number, context in enumerate((CPU, SIM, SIM, CPU, CPU)):
        with context_scope(context):
            np.testing.assert_array_equal(f(), np.full((2, 2), 2.0 * (number + 1)))
            assert {step.backend for step in f.plan.steps} == {context.backends[0][0]}


def test_variables_stay_where_the_context_has_them():
    x, y = B.variable(np.ones((3, 3))), B.placeholder(ndim=2)
    f = B.function([y], B.sum(x), updates=[(x, x + y)])
    with context_scope(SIM):
        f(np.ones((3, 3))), f(np.ones((3, 3)))
        assert f(np.ones((3, 3))) == 27
    assert x.array.cell.place is not HOST


def test_variables_of_other_shapes_are_followed():
    x = B.variable(np.ones((2, 2)))
    f = B.function([], B.sum(x), updates=[(x, x * 2.0)])
    assert f() == 4
    x.set_value(np.ones((3, 2)))
    assert (f(), f()) == (6, 12)
    x.set_value(np.ones((2, 2)))
    assert f() == 4


def test_an_update_may_have_another_shape(backend):
    x, count = B.variable([1.0]), B.variable(0.0)
    grow = B.function([], B.sum(x), updates=[(x, B.concatenate([x, x * 2.0], axis=0)), (count, count + 1.0)])
    assert [grow().item() for _ in range(3)] == [1, 3, 9]
    assert x.get_value().tolist() == [1, 2, 2, 4, 2, 4, 4, 8]
    assert count.get_value() == 3


def test_inputs_are_replaced_by_givens_and_batches_gathered_in_the_plan(backend):
    data = B.variable(np.arange(12).reshape(6, 2))
    x, index = B.placeholder(ndim=2), B.placeholder(ndim=1, dtype="int32")
    f = B.function([index], B.sum(x, axis=0), givens={x: data[index]})
    assert f([0, 5]).tolist() == [10, 12]
    assert f([1]).tolist() == [2, 3]
    start = B.placeholder(ndim=0, dtype="int32")
    rows = B.function([start], x * 1.0, givens=[(x, data[start * 2 : (start + 1) * 2])])
    assert rows(1).tolist() == [[4, 5], [6, 7]]
    assert rows(2).tolist() == [[8, 9], [10, 11]]


def test_givens_replace_all_at_once_variables_and_expressions_too():
    x, y, w = B.placeholder(ndim=0), B.placeholder(ndim=0), B.variable(5.0)
    assert B.function([x, y], x - y, givens={x: y, y: x})(1, 10) == 9
    assert B.function([x], x * 1.0, givens={x: x * 3.0})(2) == 6
    product = x * w
    assert B.function([x], product + w, givens={product: B.exp(x * 0.0)})(3) == 6
    assert B.function([x], product + w, givens={w: x + 1.0})(3) == 16
    assert B.function([], x, givens={x: 4})() == 4


def test_a_replaced_variable_is_still_the_one_that_is_updated():
    w = B.variable(5.0)
    f = B.function([], w * 2.0, updates=[(w, w + 1.0)], givens={w: B.variable(10.0)})
    assert (f(), w.get_value()) == (20, 11)


def test_what_replaces_may_have_sizes_that_depend_on_values():
    data, count, x = B.variable(np.arange(6)), B.placeholder(ndim=0, dtype="int32"), B.placeholder(ndim=1)
    f = B.function([count], [B.sum(x), x.shape[0]], givens={x: data[: count * 2]})
    assert [each.item() for each in f(1)] == [1, 2]
    assert [each.item() for each in f(3)] == [15, 6]


def test_equal_parts_are_computed_once_and_constant_parts_not_at_all():
    x = B.placeholder(ndim=1)
    f = B.function([x], [B.exp(x) + 1.0, B.exp(x) * B.log(B.exp(np.float32(2)) + 1.0)])
    one, other = f(np.zeros(3))
    np.testing.assert_allclose(other, np.log(np.exp(2) + 1) * (one - 1), rtol=1e-6)
    plan = str(f.plan)
    assert plan.count("Exp") == 1
    assert "Log" not in plan


def test_programs_are_found_again_bounded_and_counted(monkeypatch):
    def count():
        return nn.memory_statistics()["caches"]["specializations of functions"]

    x = B.placeholder(ndim=1)
    f = B.function([x], B.sum(x))
    before = count()
    for size in (1, 2, 3, 1, 2, 3):
        assert f(np.ones(size)) == size
    assert (f.program_count, count() - before) == (3, 3)
    for size in range(100):
        assert f(np.ones(size)) == size
    assert f.program_count == 64
    nn.clear_memory_cache()
    assert (f.program_count, f(np.ones(5))) == (0, 5)


def test_functions_and_their_variables_are_not_kept_alive():
    count, f = counter()
    f(), f()
    references = [weakref.ref(each) for each in (count.array.cell, f)]
    del count, f
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_plan_an_explanation_a_trace_and_a_verification_show_what_runs():
    x = B.placeholder(ndim=2)
    f = B.function([x], B.sum(B.exp(x)), name="f")
    with pytest.raises(RuntimeError, match="call it once"):
        print(f.plan)
    with context_scope(CPU):
        f(np.ones((2, 3)))
        assert "Exp" in str(f.plan)
        assert [call.op for call in nn.explain(f).calls] == ["Exp", "Sum"]
        with nn.trace() as trace:
            f(np.ones((2, 3)))
        assert sum(row.calls for row in trace.rows()) >= 1
        with nn.verify() as verification:
            f(np.ones((2, 3)))
        assert verification.checked > 0


def test_threads_may_call_one_function_at_the_same_time():
    x = B.placeholder(ndim=2)
    w = B.variable(np.eye(4))
    f = B.function([x], [x.dot(w), x.shape])
    wrong = []

    def call(thread):
        for number in range(40):
            values = np.full((1 + (thread + number) % 5, 4), thread * 100 + number, np.float32)
            product, shape = f(values)
            if not np.array_equal(product, values) or tuple(shape) != values.shape:
                wrong.append((thread, number))

    threads = [threading.Thread(target=call, args=(each,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.mark.parametrize("operation", ["launch", "allocation", "upload", "download"])
def test_a_call_that_fails_leaves_every_variable_as_it_was(operation):
    failed = 0
    rng = np.random.default_rng(0)
    for nth in range(1, 30):
        w, v, grown = B.variable(rng.normal(size=(3, 3))), B.variable(np.zeros((3, 3))), B.variable([1.0])
        x = B.placeholder(ndim=2)
        gradient = B.gradients(B.sum(B.sigmoid(x.dot(w))), w)
        updates = [(v, v * 0.5 + gradient), (w, w - v), (grown, B.concatenate([grown, grown], axis=0))]
        f = B.function([x], B.sum(gradient), updates=updates)
        was = [each.get_value() for each in (w, v, grown)]
        given = rng.normal(size=(2, 3))
        with (
            context_scope(SIM),
            faults.fail(operation, nth) as fault,
            contextlib.suppress(atled_sim.SimFault, MemoryError, RuntimeError),
        ):
            f(given)
        failed += fault.happened
        if not fault.happened:
            break
        for variable, before in zip((w, v, grown), was, strict=True):
            np.testing.assert_array_equal(variable.get_value(), before)
    assert failed


def test_a_call_that_fails_on_the_host_leaves_every_variable_as_it_was():
    count, data = B.variable(0.0), B.variable(np.arange(4))
    index, matrix = B.placeholder(ndim=1, dtype="int32"), B.placeholder(ndim=2)
    f = B.function([index], data[index], updates=[(count, count + 1.0)])
    g = B.function([matrix], B.solve(matrix, matrix), updates=[(count, count + B.sum(matrix))])
    with context_scope(CPU):
        with pytest.raises(IndexError):
            f([0, 4])
        with pytest.raises(ValueError, match="singular"):
            g(np.zeros((2, 2)))
        assert count.get_value() == 0
        f([0, 3]), g(np.eye(2))
        assert count.get_value() == 3


def test_expressions_are_evaluated_without_a_function(backend):
    x = B.variable([[1.0, 2.0]])
    np.testing.assert_allclose((x * 2.0 + 1.0).eval(), [[3, 5]])
    assert B.eval(x.shape).tolist() == [1, 2]
    assert B.eval(x.shape[1]) == 2
    with pytest.raises(ValueError, match="placeholder"):
        (x * B.placeholder(ndim=2, name="placeholder")).eval()
