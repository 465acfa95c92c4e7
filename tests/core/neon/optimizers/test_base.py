"""What all optimizers do: one program per step, kept, and nothing where it fails."""

import gc
import weakref

import numpy as np
import pytest

import atled as nn
from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.optimizers import (
    Adadelta,
    Adagrad,
    Adam,
    GradientDescentMomentum,
    Optimizer,
    RMSProp,
    Schedule,
    ShiftAdaMax,
    get_param_list,
)

from .conftest import Parameters


def one(be, count=1):
    """A layer whose values are ones, and its gradients be.bsz."""
    layer = Parameters(be, [np.ones((2, 3))] * count)
    for _, g in layer.pairs:
        g[:] = be.bsz
    return layer


def programs():
    return nn.memory_statistics()["caches"]["programs by key"]


def test_parameters_are_listed_in_their_order(cpu):
    first, second = one(cpu), one(cpu, 2)

    class Without:
        def get_params(self):
            return ()

    found = get_param_list([first, Without(), second])
    assert [pair for pair, _ in found] == [*first.pairs, *second.pairs]
    assert found[2][1] is second.states[1]
    with pytest.raises(TypeError, match="int has no get_params"):
        get_param_list([first, 3])


def test_rates_and_batches_are_no_reason_for_another_program(cpu):
    layer, optimizer = one(cpu), Adam(0.5)
    optimizer.optimize([layer], 0)
    optimizer.optimize([layer], 1)
    before = programs()
    for epoch in range(2, 5):
        optimizer.learning_rate, cpu.bsz = 0.5 / epoch, epoch
        optimizer.optimize([layer], epoch)
    assert programs() == before


def test_attributes_may_be_changed_between_steps(be):
    layer, optimizer = one(be), GradientDescentMomentum(0.5, 0)
    optimizer.optimize([layer], 0)
    np.testing.assert_array_equal(layer.values()[0], 0.5)
    optimizer.learning_rate = 0.25
    optimizer.optimize([layer], 0)
    np.testing.assert_array_equal(layer.values()[0], 0.25)
    optimizer.param_clip_value = 0.125
    optimizer.optimize([layer], 0)
    np.testing.assert_array_equal(layer.values()[0], 0)
    optimizer.schedule = Schedule([0], 2.0)
    optimizer.optimize([layer], 0)
    np.testing.assert_array_equal(layer.values()[0], -0.125)


def test_networks_may_take_turns(be):
    optimizer, first, second = GradientDescentMomentum(0.5, 0.5), one(be), one(be)
    for layer in [first, second, first]:
        optimizer.optimize([layer], 0)
    np.testing.assert_array_equal(first.values()[0], 1 - 0.5 - 0.75)
    np.testing.assert_array_equal(second.values()[0], 0.5)


def test_other_states_are_taken_at_the_next_step(be):
    layer, optimizer = one(be), GradientDescentMomentum(0.5, 0.5)
    optimizer.optimize([layer], 0)
    layer.states[0][:] = [be.ones((2, 3))]
    optimizer.optimize([layer], 0)
    np.testing.assert_array_equal(layer.values()[0], 0.5)


def test_shared_weights_are_updated_twice(be):
    layer, optimizer = one(be), GradientDescentMomentum(0.5, 0.5)
    for _ in range(2):
        optimizer.optimize([layer, layer], 0)
    p, v = 1.0, 0.0
    for _ in range(4):
        v = 0.5 * v - 0.5
        p += v
    np.testing.assert_array_equal(layer.values()[0], p)
    assert len(layer.states[0]) == 1


def test_no_memory_of_tensors_that_are_gone_is_kept(cpu):
    layer, optimizer = one(cpu), Adam()
    optimizer.optimize([layer], 0)
    alive = weakref.ref(layer.pairs[0][0].view.cell)
    del layer
    gc.collect()
    assert alive() is None


def test_nothing_to_do_is_done(cpu):
    Adam().optimize([], 0)


def left(layer, optimizer, error, match, layers=None):
    """Check that a step is refused, and that it changed nothing."""
    before = layer.values()
    with pytest.raises(error, match=match):
        optimizer.optimize([layer] if layers is None else layers, 0)
    for found, wanted in zip(layer.values(), before, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert all(len(states) == 0 for states in layer.states)


def test_layers_without_memory_are_named(cpu):
    layer, other = one(cpu), one(cpu)
    other.name, other.pairs = "second", [(None, None)]
    match = r"(?s)optimize of Adam .*layer 'second'.*no memory yet.*allocate"
    left(layer, Adam(), ValueError, match, layers=[layer, other])


def test_gradients_of_another_shape_are_refused(cpu):
    layer, other = one(cpu), one(cpu)
    other.pairs = [(other.pairs[0][0], cpu.ones((3, 2)))]
    left(layer, RMSProp(), ValueError, r"its gradient has shape \[3, 2\]", layers=[layer, other])


def test_states_of_another_optimizer_are_refused(cpu):
    layer, other = one(cpu), one(cpu)
    GradientDescentMomentum(0.5, 0.5).optimize([other], 0)
    left(layer, Adam(), ValueError, "(?s)it has 1 states.*empty the list", layers=[layer, other])


def test_parameters_that_are_gone_are_refused(cpu):
    layer, kept, optimizer = one(cpu), one(cpu), GradientDescentMomentum(0.5, 0)
    optimizer.optimize([kept], 0)
    cleanup_backend()
    for each in layer, kept:
        with pytest.raises(RuntimeError, match="there is no backend"):
            optimizer.optimize([each], 0)
    gen_backend("reference", batch_size=4)
    for each in layer, kept:
        left(each, optimizer, ValueError, r"(?s)layer 'layer'.*cleaned up.*make the layers anew")


def test_a_step_that_fails_leaves_parameters_and_states(cpu, monkeypatch):
    layer, optimizer = one(cpu, 2), Adam()
    monkeypatch.setattr("atled.neon.trees.assignment.Description.run", lambda self: 1 / 0)
    left(layer, optimizer, ZeroDivisionError, "division")
    assert optimizer.t == 0


def test_a_backend_without_a_batch_size_is_refused(cpu):
    layer, cpu.bsz = one(cpu), 0
    left(layer, Adam(), ValueError, "(?s)be.bsz is 0.*batch_size")


def test_descriptions_make_the_same_optimizer_again():
    for optimizer in (
        GradientDescentMomentum(0.1, 0.9, wdecay=0.5, schedule=Schedule([1, 2], 0.5), nesterov=True),
        RMSProp(0.5, gradient_clip_norm=2.0),
        Adagrad(0.5, param_clip_value=1.0),
        Adadelta(0.5, gradient_clip_value=2.0),
        Adam(0.5, 0.25),
        ShiftAdaMax(schedule=Schedule(2, 0.5)),
    ):
        described = optimizer.get_description()
        again = type(optimizer).gen_class(described["config"])
        assert again.get_description() == described
        assert type(again.schedule) is Schedule


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match=r"(?s)nesterov=True.*nothing to look ahead for"):
        GradientDescentMomentum(0.1, 0, nesterov=True)
    with pytest.raises(TypeError, match=r"(?s)schedule=0.5.*pass a Schedule"):
        GradientDescentMomentum(0.1, 0.9, schedule=0.5)
    with pytest.raises(ValueError, match="gradient_clip_norm is 0"):
        Adam(gradient_clip_norm=0)
    with pytest.raises(ValueError, match="learning_rate is nan"):
        Adam(float("nan"))
    with pytest.raises(ValueError, match="beta_1 is 1"):
        Adam(beta_1=1)
    with pytest.raises(TypeError, match=r"(?s)decay_rate is a bool.*stochastic_round=True"):
        RMSProp(True)
    with pytest.raises(TypeError, match="learning_rate is of type str"):
        Adagrad("0.1")
    with pytest.raises(NotImplementedError, match="define optimize in Optimizer"):
        Optimizer().optimize([], 0)
