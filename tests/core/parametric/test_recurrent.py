"""The LSTM: values, state, training through time."""

import inspect

import numpy as np
import pytest

from atled import Variable, auto_forward
from atled import functions as F
from atled import parametric_functions as PF
from atled import solvers as S
from atled.parameter import clear_parameters, get_parameters, parameter_scope


@pytest.fixture(autouse=True)
def no_parameters():
    clear_parameters()
    yield
    clear_parameters()


def leaf(values):
    return Variable.from_numpy_array(np.asarray(values, np.float32))


def test_a_step_has_the_values_that_nnabla_computes():
    rng = np.random.RandomState(0)
    x, h, c = (leaf(rng.randn(2, size)) for size in (4, 3, 3))
    w, b = rng.randn(7, 4, 3), rng.randn(4, 3)
    h, c = PF.lstm(x, h, c, 3, w_init=w, b_init=b)
    F.sum(h + c).forward()
    expected_h = [[0.01207768, -0.7190448, 0.3384633], [-0.01626149, 0.7354382, 0.00777856]]
    expected_c = [[0.17455302, -0.93884444, 1.3404692], [-0.19589595, 0.94336313, 0.12345159]]
    np.testing.assert_allclose(h.d, expected_h, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(c.d, expected_c, rtol=1e-5)
    found = {key: param.shape for key, param in get_parameters().items()}
    assert found == {"lstm/affine/W": (7, 4, 3), "lstm/affine/b": (4, 3)}


def test_a_cell_is_the_step_again_and_again_with_one_set_of_parameters():
    rng = np.random.RandomState(0)
    xs = [leaf(rng.randn(2, 4)) for _ in range(3)]
    cell = PF.LSTMCell(2, 3)
    assert not cell.h.d.any() and not cell.c.d.any()
    for x in xs:
        y = cell(x)
        assert y is cell.h
    h, c = leaf(np.zeros((2, 3))), leaf(np.zeros((2, 3)))
    for x in xs:
        h, c = PF.lstm(x, h, c, 3)
    assert list(get_parameters()) == ["lstm/affine/W", "lstm/affine/b"]
    y.forward()
    h.forward()
    np.testing.assert_array_equal(y.d, h.d)


def test_a_cell_starts_at_a_given_state_and_can_be_reset():
    x, h, c = leaf(np.ones((1, 2))), leaf([[0.5]]), leaf([[2.0]])
    cell = PF.LSTMCell(1, 1, h, c)
    with auto_forward():
        cell(x)
        first = cell.h.d.copy()
        cell.reset_state()
        assert not cell.h.d.any() and not cell.c.d.any()
        cell(x)
    assert cell.h.d != first


def test_the_signature_of_the_cell_is_nnablas():
    assert list(inspect.signature(PF.LSTMCell).parameters)[:4] == ["batch_size", "state_size", "h", "c"]
    assert list(inspect.signature(PF.LSTMCell.__call__).parameters)[1:] == ["x", "w_init", "b_init", "fix_parameters"]


def test_a_cell_keeps_its_parameters_under_its_name():
    with parameter_scope("outer"):
        PF.LSTMCell(2, 3, name="memory")(leaf(np.zeros((2, 4))))
    assert list(get_parameters()) == ["outer/memory/lstm/affine/W", "outer/memory/lstm/affine/b"]


@pytest.mark.parametrize("wrong", [{"h": (2, 4)}, {"c": (3, 3)}, {"x": (4,)}])
def test_states_that_do_not_fit_are_refused(wrong):
    shapes = {"x": (2, 4), "h": (2, 3), "c": (2, 3), **wrong}
    x, h, c = (Variable(shapes[name]) for name in "xhc")
    with pytest.raises(ValueError, match="state_size"):
        PF.lstm(x, h, c, 3)
    assert not get_parameters()


def test_an_lstm_learns_to_remember_the_first_input():
    rng = np.random.RandomState(0)
    np.random.seed(0)  # of the weights
    xs = [Variable((16, 1)) for _ in range(5)]
    cell = PF.LSTMCell(16, 8)
    for x in xs:
        h = cell(x)
    loss = F.mean(F.squared_error(PF.affine(h, 1), xs[0]))
    solver = S.Adam(0.03)
    solver.set_parameters(get_parameters())
    losses = []
    for _ in range(150):
        for x in xs:
            x.d = rng.choice([-1, 1], (16, 1))
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.update()
        losses.append(float(loss.d))
    assert losses[0] > 0.5 and np.mean(losses[-10:]) < 0.05
