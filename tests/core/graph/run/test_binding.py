"""Plans and what changes while they are made."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.graph import backward_plan, forward_plan
from atled.graph.record.roots import roots_of
from atled.graph.run.binding import Binding
from atled.graph.update import training_step as training


def leaf(values, need_grad=None):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def interrupt(monkeypatch, module, change):
    """Let a change happen once, right after a module bound a plan: another thread may do so."""
    changes = [change]

    def bind(*arguments, **named):
        binding = Binding(*arguments, **named)
        if changes:
            changes.pop()()
        return binding

    monkeypatch.setattr(module, "Binding", bind)


def other_values(x):
    def change():
        x.data = nn.NdArray.from_numpy_array(np.full(x.shape, 3, np.float32))

    return change


def test_forward_sees_what_changed_while_its_plan_was_made(monkeypatch):
    x = leaf(np.ones(3))
    y = x * 2
    interrupt(monkeypatch, forward_plan, other_values(x))
    for expected in (2, 6, 6):
        y.forward()
        np.testing.assert_array_equal(y.d, expected)


def test_backward_sees_what_changed_while_its_plan_was_made(monkeypatch):
    x, w = leaf(np.ones(3), True), leaf(np.full(3, 2), True)
    y = x * w
    y.forward()
    interrupt(monkeypatch, backward_plan, other_values(x))
    for expected in (1, 3, 3):
        w.grad.zero()
        y.backward()
        np.testing.assert_array_equal(w.g, expected)


def test_a_compiled_step_sees_what_changed_while_its_plan_was_made(monkeypatch):
    x, w = leaf(np.ones(3)), leaf(np.zeros(3), True)
    solver = S.Sgd(1.0)
    solver.set_parameters({"w": w})
    interrupt(monkeypatch, training, other_values(x))
    step = nn.compile_step(F.sum(x * w), solver)
    for expected in (-1, -4, -7):
        step()
        np.testing.assert_array_equal(w.d, expected)


@pytest.mark.parametrize("count", [1, 3])
def test_plans_that_nothing_changes_are_made_once(monkeypatch, count):
    made = []

    def bind(*arguments, **named):
        made.append(arguments)
        return Binding(*arguments, **named)

    x, w = leaf(np.ones((2, 3))), leaf(np.ones((3, 3)), True)
    h = x
    for _ in range(count):
        h = F.tanh(F.affine(h, w))
    y = F.sum(h)
    for module in (forward_plan, backward_plan):
        monkeypatch.setattr(module, "Binding", bind)
    for _ in range(5):
        y.forward()
        w.grad.zero()
        y.backward()
    assert len(made) == 2


def test_floats_that_are_given_again_are_those_of_the_run_with_their_signs():
    x = leaf([1, 2])
    y = F.mul_scalar(x, 2.0)
    y.forward()
    y.forward()  # graphs like an earlier one are bound at their second run
    binding = roots_of((y.value,)).forward.binding
    for given in ([3.0], [3.0], [0.0], [-0.0], [-0.0], [0.0], [3.0], np.array([4.0]), [3.0], [np.nan], [np.nan], [3.0]):
        binding.run(given)
        expected = np.float32([1, 2]) * np.float32(given[0])
        np.testing.assert_array_equal(y.d, expected)
        np.testing.assert_array_equal(np.signbit(y.d), np.signbit(expected))
    binding.floats[:] = 5
    binding.run(binding.floats)
    binding.run([3.0])
    np.testing.assert_array_equal(y.d, [3, 6])


def test_a_list_of_floats_that_the_caller_changes_is_seen():
    x = leaf([1, 2])
    y = F.mul_scalar(x, 2.0)
    y.forward()
    y.forward()  # graphs like an earlier one are bound at their second run
    binding, given = roots_of((y.value,)).forward.binding, [3.0]
    binding.run(given)
    given[0] = 4.0
    binding.run(given)
    np.testing.assert_array_equal(y.d, [4, 8])


def test_floats_whose_writing_was_interrupted_are_written_by_the_next_run(monkeypatch):
    x = leaf([1, 2])
    y = F.mul_scalar(x, 2.0)
    y.forward()
    y.forward()  # as above
    binding = roots_of((y.value,)).forward.binding
    binding.run([3.0])

    def interrupted(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Binding, "_set_floats", interrupted)
        binding.run([4.0])
    binding.run([4.0])
    np.testing.assert_array_equal(y.d, [4, 8])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Binding, "_set_floats", interrupted)
        binding.run([5.0])
    binding.run([4.0])
    np.testing.assert_array_equal(y.d, [4, 8])
