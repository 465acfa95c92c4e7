"""Sequences of descriptions, recorded and run again as one program, against the descriptions one by one."""

import threading

import numpy as np
import pytest

import atled as nn
from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.keyed import Description
from atled.sequences import recorded, repeatable

CONTEXTS = {
    "reference": nn.Context(["reference:float"]),
    "cpu": nn.Context(["cpu:float", "reference:float"], fallback="quiet"),
    "sim": nn.Context(["sim:float", "reference:float"], fallback="quiet"),
}


def array(*shape, dtype=np.float32, seed=0):
    return NdArray.from_numpy_array(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def assigned(target, op, *inputs, **attributes):
    d = Description()
    d.assign(target, d.call(op, *[d.leaf(each) for each in inputs], **attributes))
    d.run()
    return d


def check(step, arrays, programs=None):
    """Recorded and replayed twice, a step gives what three steps do."""
    start = [each.data.copy() for each in arrays]
    for _ in range(3):
        step()
    wanted = [each.data.copy() for each in arrays]
    for each, values in zip(arrays, start, strict=True):
        each.data[...] = values
    with recorded() as recording:
        step()
    replay = recording.replay()
    replay.run()
    replay.run()
    for each, values in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(each.data, values, rtol=1e-5, atol=1e-6)
    if programs is not None:
        assert replay.programs == programs
    return replay


@pytest.fixture(params=CONTEXTS, autouse=True)
def context(request):
    """Each test on each backend that runs here."""
    with nn.context_scope(CONTEXTS[request.param]):
        yield


def test_a_leaf_has_what_was_assigned_before():
    x, y, z = array(3, 4), array(3, 4, seed=1), array(3, 4, seed=2)

    def step():
        assigned(y, "Tanh", x)
        assigned(z, "Add2", y, x)
        assigned(x, "Mul2", z, y)

    check(step, [x, y, z], programs=1)


def test_of_several_assignments_the_last_one_stays():
    x, y = array(3, 4), array(3, 4, seed=1)

    def step():
        for op in ("Tanh", "ReLU", "Tanh"):
            assigned(y, op, x)
            assigned(x, "Add2", y, x)

    check(step, [x, y], programs=1)


def test_transposed_and_reshaped_views_of_what_was_assigned_are_read():
    x, y, z, flat = array(3, 4), array(3, 4, seed=1), array(4, 3, seed=2), array(6, 2, seed=3)

    def step():
        assigned(y, "Tanh", x)
        assigned(z, "Tanh", View(y).T)
        assigned(flat, "Tanh", View(y).reshape((6, 2)))

    check(step, [x, y, z, flat], programs=1)


def test_products_of_transposed_values():
    x, w, y, g = array(5, 4), array(3, 5, seed=1), array(3, 4, seed=2), array(3, 5, seed=3)

    def step():
        assigned(y, "BatchMatmul", w, x)
        assigned(g, "BatchMatmul", y, View(x).T)
        assigned(x, "BatchMatmul", View(w).T, y)

    check(step, [x, y, g], programs=1)


def test_values_are_cast_and_broadcast_to_the_array_between():
    x, narrow, wide = array(4), NdArray.from_numpy_array(np.zeros((3, 4), np.float16)), array(3, 4, dtype=np.float64)

    def step():
        assigned(narrow, "Tanh", x)
        assigned(wide, "Exp", narrow)

    check(step, [x, narrow, wide], programs=1)


def test_python_numbers_are_assigned():
    x, y = array(3, 4), array(3, 4, seed=1)

    def step():
        d = Description()
        d.assign(y, d.number(0.5))
        d.run()
        assigned(x, "Add2", x, y)

    check(step, [x, y], programs=1)


def test_a_part_that_was_written_is_read_by_another_program():
    x, y = array(3, 4), array(3, 4, seed=1)

    def step():
        assigned(View(y)[:, 1:], "Tanh", View(x)[:, 1:])
        assigned(View(y)[:, :1], "Exp", View(x)[:, :1])  # another part: the same program
        assigned(x, "Mul2", x, y)

    check(step, [x, y], programs=2)


def test_parts_of_what_was_written_whole():
    x, y, z = array(3, 4), array(3, 4, seed=1), array(3, 2, seed=2)

    def step():
        assigned(y, "Tanh", x)
        assigned(z, "Add2", View(y)[:, 1:3], View(x)[:, ::2])
        assigned(View(y)[:, 1:3], "Exp", z)
        assigned(x, "Tanh", y)

    check(step, [x, y, z])


def test_swapped_arrays():
    x, y = array(3, 4), array(3, 4, seed=1)

    def step():
        d = Description()
        a, b = d.leaf(x), d.leaf(y)
        d.assign(a, b)
        d.assign(b, d.call("Tanh", a))
        d.run()
        assigned(x, "Add2", x, y)

    check(step, [x, y], programs=1)


def test_results_are_arrays_of_later_descriptions():
    x, y = array(3, 4), array(3, 4, seed=1)

    def step():
        d = Description()
        d.result(d.call("Tanh", d.leaf(x)))
        (made,) = d.run()
        assigned(y, "Add2", made, x)
        assigned(x, "Exp", made)

    check(step, [x, y], programs=1)


def test_loops_read_what_was_assigned():
    x, y, total = array(5, 3), array(5, 3, seed=1), array(3, seed=2)

    def step():
        assigned(y, "Tanh", x)
        d = Description()
        rows, first = d.leaf(y), d.leaf(total)
        factor = d.leaf(View(x)[0])
        made = d.loop(lambda row, s: ([d.call("Add2", s, d.call("Mul2", row, factor))], [s]), [rows], [first])
        d.assign(total, made.states[0])
        d.assign(y, made.rows[0])
        d.run()
        assigned(x, "Tanh", y)

    check(step, [x, y, total], programs=1)


def test_gradients_end_at_the_arrays_of_their_description():
    x, y, g = array(3, 4), array(3, 4, seed=1), array(3, 4, seed=2)

    def step():
        assigned(y, "Tanh", x)
        d = Description()
        a, b = d.leaf(x), d.leaf(y)
        d.assign(g, d.gradients(d.call("Mul2", a, b), [a])[0])
        d.run()
        assigned(x, "Tanh", g)

    check(step, [x, y, g], programs=3)


def test_results_of_programs_of_their_own_are_read_by_later_ones():
    x, y = array(3, 4), array(3, 4, seed=1)

    def step():
        d = Description()
        a = d.leaf(x)
        d.result(d.gradients(d.call("Mul2", a, a), [a])[0])
        (made,) = d.run()
        assigned(x, "Tanh", made)
        assigned(y, "Exp", made)

    check(step, [x, y])


def test_numbers_of_now_count():
    x = array(3, 4)
    d = Description()
    factor = d.number(2.0)
    d.assign(x, d.call("Mul2", d.leaf(x), factor))
    before = x.data.copy()
    with recorded() as recording:
        d.run()
        d.run()
    replay = recording.replay()
    d.set_number(factor, 0.5)
    replay.run()
    np.testing.assert_allclose(x.data, before, rtol=1e-6)


def test_functions_are_called_in_their_turn():
    x, seen = array(3, 4), []
    with recorded() as recording:
        assigned(x, "Tanh", x)
        repeatable(lambda: seen.append(x.data.copy()))
        assigned(x, "Exp", x)
    replay = recording.replay()
    before = x.data.copy()
    replay.run()
    assert replay.programs == 2
    np.testing.assert_allclose(seen[1], np.tanh(before), rtol=1e-5)


def test_a_description_that_was_changed_is_refused():
    x = array(3, 4)
    with recorded() as recording:
        d = assigned(x, "Tanh", x)
    replay = recording.replay()
    d.result(0)
    with pytest.raises(ValueError, match="it was changed since"):
        replay.run()


def test_a_program_that_fails_leaves_all_arrays():
    x, y = array(3, 4), NdArray.from_numpy_array(np.eye(3, dtype=np.float32))
    ones = NdArray.from_numpy_array(np.ones((3, 4), np.float32))
    with recorded() as recording:
        assigned(x, "Exp", x)
        assigned(ones, "Solve", y, x)
    replay = recording.replay()
    y.data[...] = 0
    before = [x.data.copy(), ones.data.copy()]
    with pytest.raises(ValueError, match="singular"):
        replay.run()
    assert all(np.array_equal(a.data, b) for a, b in zip((x, ones), before, strict=True))


def test_other_threads_are_not_recorded():
    x = array(3, 4)
    with recorded() as recording:
        thread = threading.Thread(target=assigned, args=(x, "Tanh", x))
        thread.start()
        thread.join()
    assert len(recording) == 0
