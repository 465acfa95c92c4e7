"""Values that backward computes again: gradients are those of what the forward found, whatever happens in between."""

import gc
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.watches import WATCHES
from atled.graph.compile.plans import PLANS
from atled.graph.recompute import choice as again
from atled.graph.recompute import reads
from atled.graph.record.roots import roots_of


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    monkeypatch.setattr(again, "_STREAMED_BYTES", 0)
    monkeypatch.setattr(again, "_LEAST_BYTES", 0)
    with nn.context_scope(nn.Context(["fusing:float"], fallback="raise")):
        yield


def leaf(values, need_grad=True):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def peek(variable):
    """The values, without a view that could be written through."""
    cell = variable.value.data.cell
    return cell.storage.array(variable.shape, cell.dtype).astype(np.float64)


class Program:
    """y = tanh(a b) sigmoid(d), and what its gradients are."""

    def __init__(self):
        self.leaves = self.a, self.b, self.d = leaf([0.5, -1]), leaf([-2, 0.25]), leaf([0.1, -1.5])
        self.y = F.tanh(self.a * self.b) * F.sigmoid(self.d)

    def zero(self):
        for variable in self.leaves:
            variable.grad.zero()

    def run(self):
        self.y.forward()
        self.zero()
        self.y.backward()

    def slope(self):
        """The gradient of d, which is read through the middle alone."""
        a, b, d = map(peek, self.leaves)
        s = 1 / (1 + np.exp(-d))
        return np.tanh(a * b) * s * (1 - s)

    @property
    def stored_count(self):
        return len(self.y.plan.targets)


@pytest.fixture
def trusted():
    """A program whose forward does not store what backward computes again."""
    program = Program()
    program.run()
    assert program.stored_count == 3
    program.run()
    program.run()
    assert program.stored_count == 1
    return program


def test_gradients_are_right_when_nothing_in_the_middle_is_stored(trusted):
    for value in range(4):
        trusted.a.d = [value, 2]
        slope = trusted.slope()
        trusted.run()
        assert_allclose(trusted.d.g, slope, rtol=1e-5)


def test_what_backward_reads_and_what_it_computes_again_are_found_from_gradients_made_once(monkeypatch):
    made = []
    plan = reads._planned_gradients
    monkeypatch.setattr(reads, "_planned_gradients", lambda *given: made.append(given) or plan(*given))
    PLANS.clear()
    program = Program()
    program.run()
    assert len(made) == 1
    for _ in range(3):
        program.run()
    assert program.stored_count == 1, "the middle is computed again"
    assert len(made) == 1
    assert_allclose(program.d.g, program.slope(), rtol=1e-5)
    Program().run()
    assert len(made) == 1, "plans of one structure are found again"


def test_small_graphs_store_what_backward_reads(monkeypatch):
    monkeypatch.setattr(again, "_STREAMED_BYTES", 1 << 20)
    program = Program()
    for _ in range(4):
        program.run()
    assert program.stored_count == 3


def test_what_takes_long_to_compute_is_stored():
    x = leaf([0.5, 1])
    y = F.exp(F.sin(F.sin(x)))
    for _ in range(4):
        y.forward()
        y.backward()
    assert len(y.plan.targets) == 2


def _by_solver(variable):
    solver = S.Sgd(0.5)
    solver.set_parameters({"p": variable})
    variable.grad.fill(1)
    solver.update()


def _by_another_graph(variable):
    F.relu(variable, inplace=True).forward()


def _through_a_view(variable):
    variable.d[...] = 3


WRITERS = {
    "assignment": lambda variable: setattr(variable, "d", 3),
    "view": _through_a_view,
    "fill": lambda variable: variable.data.fill(3),
    "zero": lambda variable: variable.data.zero(),
    "operator": lambda variable: variable.data.__imul__(3),
    "another array": lambda variable: setattr(variable, "data", nn.NdArray(variable.shape)),
    "cast": lambda variable: variable.data.cast(np.float64).fill(3),
    "solver": _by_solver,
    "in-place op": _by_another_graph,
}


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("writer", WRITERS)
def test_a_write_between_forward_and_backward_does_not_change_the_gradient(trusted, writer, number):
    slope = trusted.slope()
    trusted.y.forward()
    assert trusted.stored_count == 1
    WRITERS[writer](trusted.leaves[number])
    trusted.zero()
    trusted.y.backward()
    assert_allclose(trusted.d.g, slope, rtol=1e-5)


def test_after_such_a_write_the_forward_stores_again(trusted):
    trusted.y.forward()
    trusted.a.d = 1
    trusted.zero()
    trusted.y.backward()
    for _ in range(4):
        trusted.run()
        assert trusted.stored_count == 3


def test_a_view_that_was_held_before_the_forward_may_be_written_through(trusted):
    view = trusted.d.d
    trusted.y.forward()
    slope = trusted.slope()
    view[...] = 3
    trusted.zero()
    trusted.y.backward()
    assert_allclose(trusted.d.g, slope, rtol=1e-5)


def test_a_second_backward_of_one_forward_is_exact(trusted):
    slope = trusted.slope()
    trusted.run()
    trusted.y.backward()
    assert_allclose(trusted.d.g, 2 * slope, rtol=1e-5)


def test_a_second_backward_after_the_first_write_ever_is_exact_and_the_forward_gives_up_storing_once_more(trusted):
    slope = trusted.slope()
    trusted.run()
    trusted.a.d = 3
    trusted.y.backward()
    assert_allclose(trusted.d.g, 2 * slope, rtol=1e-5)
    trusted.run()
    assert trusted.stored_count == 3


def test_a_loop_that_writes_its_leaves_after_every_backward_gets_back_to_not_storing(trusted):
    for value in range(4):
        trusted.a.d = value
        slope = trusted.slope()
        trusted.run()
    assert trusted.stored_count == 1
    assert_allclose(trusted.d.g, slope, rtol=1e-5)
    trusted.a.d = 5
    assert trusted.stored_count == 1


def test_a_second_backward_after_a_write_that_was_usual_says_that_it_cannot_and_works_the_next_time(trusted):
    for value in range(4):
        trusted.a.d = value
        trusted.run()
    trusted.a.d = 3
    with pytest.raises(RuntimeError, match=r"(?s)backward once more.*compute the graph again"):
        trusted.y.backward()
    slope = trusted.slope()
    trusted.run()
    trusted.a.d = 5
    trusted.y.backward()
    assert_allclose(trusted.d.g, 2 * slope, rtol=1e-5)


@pytest.mark.parametrize(
    "disturb",
    [lambda program: setattr(program.a, "d", 3), lambda program: program.y.backward()],
    ids=["write", "second backward"],
)
def test_where_runs_are_irregular_from_the_beginning_everything_is_stored(disturb):
    program = Program()
    for _ in range(4):
        program.y.forward()
        disturb(program)
        program.y.backward()
        assert program.stored_count == 3


def test_a_loop_of_forwards_alone_stores_as_before():
    program = Program()
    for value in range(4):
        program.a.d = value
        program.y.forward()
    assert program.stored_count == 3


def test_an_array_that_took_the_place_of_a_source_is_watched_too(trusted):
    trusted.a.data = nn.NdArray.from_numpy_array(np.array([1, 2], np.float32))
    for _ in range(3):
        trusted.run()
    slope = trusted.slope()
    trusted.y.forward()
    assert trusted.stored_count == 1
    trusted.a.d = 4
    trusted.zero()
    trusted.y.backward()
    assert_allclose(trusted.d.g, slope, rtol=1e-5)


def test_another_root_that_computes_a_source_anew_does_not_change_the_gradient():
    x, w = leaf([[1, 2]], False), leaf([[0.5, 1], [1, -1]])
    h = F.affine(x, w)
    y = F.tanh(h) * F.sigmoid(h)
    other = F.sum(h)
    for _ in range(3):
        y.forward()
        w.grad.zero()
        y.backward()
    expected = w.g.copy()
    assert len(y.plan.targets) == 2  # h is held
    y.forward()
    x.d = [[5, 6]]
    other.forward()
    w.grad.zero()
    y.backward()
    slope = expected[0]
    assert_allclose(w.g, np.stack([5 * slope, 6 * slope]), rtol=1e-5)


def test_roots_that_share_what_is_computed_again_are_each_right():
    x = leaf([0.5, 1])
    t = [F.tanh(x * 2)]
    first, second = t[0] * F.sigmoid(x), F.exp(t[0]) * t[0]
    del t[0]
    for value in (0.5, 1, 1.5, 2):
        found = []
        for root in (first, second):
            x.d = value
            root.forward()
            x.grad.zero()
            root.backward()
            found.append(x.g.copy())
        h, s = np.tanh(2 * x.d.astype(np.float64)), 1 / (1 + np.exp(-x.d.astype(np.float64)))
        assert_allclose(found[0], 2 * (1 - h * h) * s + h * s * (1 - s), rtol=1e-4)
        assert_allclose(found[1], np.exp(h) * (1 + h) * 2 * (1 - h * h), rtol=1e-4)


def test_a_value_that_is_looked_at_in_between_is_there(trusted):
    trusted.y.forward()
    a, b = trusted.a.d.copy(), trusted.b.d.copy()
    assert_allclose(trusted.y.parent.inputs[0].d, np.tanh(a * b), rtol=1e-6)


def test_a_write_by_another_thread_waits_for_the_backward_that_runs(trusted):
    trusted.y.forward()
    done = threading.Event()

    def write():
        trusted.a.d = 3
        done.set()

    writer = threading.Thread(target=write)

    def run():
        writer.start()
        assert not done.wait(0.05)

    assert trusted.y.value.roots.forward.trust.run_backward(run, recomputes=True)
    writer.join()
    assert done.is_set()


def test_a_graph_that_is_dropped_before_its_backward_watches_nothing(trusted):
    trusted.y.forward()
    assert WATCHES
    trusted.y = None
    gc.collect()
    assert not WATCHES


def test_a_compiled_step_stores_what_it_made_the_forward_store():
    a, d = leaf([0.5, -1]), leaf([0.1, -1.5])
    middle = F.tanh(a)
    value = middle.value
    y = middle * F.sigmoid(d)
    del middle
    solver = S.Sgd(0.1)
    solver.set_parameters({"d": d})
    for _ in range(4):
        y.forward()
        y.backward()
    y.forward()
    assert value.data.cell.is_unstored
    step = nn.compile_step(y, solver)
    step()
    for number in range(1, 3):
        a.d = [number, 2]
        step()
        tanh = np.tanh([number, 2])
        assert_allclose(peek(nn.Variable.on(value)), tanh, rtol=1e-6)
        sigmoid = peek(y) / tanh
        d.grad.zero()
        y.backward()
        assert_allclose(d.g, tanh * sigmoid * (1 - sigmoid), rtol=1e-5)


def both_planned(program, other):
    """The plan of two roots."""
    return roots_of([program.y.value, other.value]).forward


def test_a_backward_of_two_roots_computes_values_again_too():
    program = Program()
    other = F.sum(program.y)
    for value in range(5):
        program.a.d = [value, 2]
        nn.forward_all([program.y, other])
        program.zero()
        nn.backward_all([program.y, other], [1, 2])
        assert_allclose(program.d.g, 3 * program.slope(), rtol=1e-5)
    assert len(both_planned(program, other).binding.plan.targets) == 2  # the roots


def test_a_backward_of_one_of_two_roots_is_right_however_often_both_were_computed():
    program = Program()
    other = F.sum(program.y)
    for _ in range(4):
        nn.forward_all([program.y, other])
        program.zero()
        nn.backward_all([program.y, other])
    nn.forward_all([program.y, other])
    program.zero()
    other.backward(2)
    assert_allclose(program.d.g, 2 * program.slope(), rtol=1e-5)
    program.y.backward()
    assert_allclose(program.d.g, 3 * program.slope(), rtol=1e-5)


def long_chain(x, w):
    """Of these values those that backward reads are other ones once x asks for no gradient."""
    y = F.sigmoid(x * 0.5) * w + F.tanh(x)
    for other in (x, x, w):
        y = F.huber_loss(y, other)
    return F.sum(F.tanh(y * w) * F.sigmoid(y))


@pytest.mark.parametrize("look", [lambda y: None, lambda y: y.plan], ids=["forward", "plan between"])
def test_another_choice_of_values_replaces_the_trust(look):
    x, w = leaf([0.5, -1, 0.25]), leaf([-2, 0.25, 1])
    y = long_chain(x, w)
    for _ in range(5):
        y.forward()
        y.backward()
    y.forward()
    expected = peek(y)
    x.need_grad = False
    look(y)
    w.grad.zero()
    y.backward()
    slope = w.g.copy()
    y.forward()
    w.grad.zero()
    y.backward()
    assert_allclose(peek(y), expected, rtol=1e-5)
    assert_allclose(w.g, slope, rtol=1e-5)


def test_another_choice_of_values_after_backward_replaces_the_trust():
    x, w = leaf([0.5, -1, 0.25]), leaf([-2, 0.25, 1])
    y = long_chain(x, w)
    for _ in range(5):
        y.forward()
        y.backward()
    expected = peek(y)
    x.need_grad = False
    y.forward()
    assert_allclose(peek(y), expected, rtol=1e-5)


def test_another_root_that_stores_some_of_the_values_has_the_others_stored_first():
    x, w = leaf([0.5, -1, 0.25], False), leaf([-2, 0.25, 1])
    with nn.context_scope(nn.Context(["fusing:double"])):  # casts: the gradient reads other values than backward
        first = F.exp(F.tanh(x)) * F.tanh(w - x)
        second = F.swish(F.relu(F.elu(F.swish(F.selu(1.0 - first + 0.25)))))
        third = second / (F.exp(x) + 0.5)
        y = F.mean(third * third)
        del first, second, third
        for _ in range(4):
            y.forward()
            w.grad.zero()
            y.backward()
        slope, _ = nn.grad(y, [w, x])
        slope.forward()
    assert_allclose(slope.d, w.g, rtol=1e-5)
