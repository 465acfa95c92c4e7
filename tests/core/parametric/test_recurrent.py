"""Recurrent layers: values, state, training through time."""

import inspect

import numpy as np
import pytest

from atled import Variable, auto_forward
from atled import functions as F
from atled import parametric_functions as PF
from atled import solvers as S
from atled.parameter import get_parameters, parameter_scope


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


@pytest.mark.parametrize(("name", "maps", "states"), [("rnn", (), 1), ("lstm", (4,), 2), ("gru", (3,), 1)])
def test_layers_over_sequences_make_nnablas_parameters(name, maps, states):
    x, state = leaf(np.zeros((3, 2, 4))), leaf(np.zeros((2, 2, 2, 5)))
    y, *ends = getattr(PF, name)(x, *[state] * states, bidirectional=True, rng=np.random.RandomState(0))
    assert y.shape == (3, 2, 10) and [end.shape for end in ends] == [(2, 2, 2, 5)] * states
    biases = (4,) if maps else ()
    found = {key: param.shape for key, param in get_parameters().items()}
    assert found == {
        f"{name}/weight_l0": (2, *maps, 5, 9),
        f"{name}/weight": (1, 2, *maps, 5, 15),
        f"{name}/bias": (2, 2, *biases, 5),
    }
    weight_l0 = get_parameters()[f"{name}/weight_l0"].d
    limits = [np.sqrt(6 / (columns + 5)) for columns in (4, 5)]
    for part, limit in zip((weight_l0[..., :4], weight_l0[..., 4:]), limits, strict=True):
        assert 0.8 * limit < np.abs(part).max() <= limit
    again = getattr(PF, name)(x, *[state] * states, bidirectional=True)[0]
    assert again.shape == y.shape and len(get_parameters()) == 3


def test_an_lstm_over_a_sequence_takes_first_values():
    x, h = leaf(np.ones((2, 1, 1))), leaf(np.ones((1, 1, 1, 1)))
    w = np.full((1, 4, 1, 2), 0.5, np.float32)
    by_position = PF.lstm(x, h, h, w, name="a")[0]
    by_name = PF.lstm(x, h, h, w0_init=w, with_bias=False, name="b")[0]
    assert list(get_parameters()) == ["a/lstm/weight_l0", "a/lstm/bias", "b/lstm/weight_l0"]
    F.sink(by_position, by_name).forward()
    np.testing.assert_array_equal(by_position.d, by_name.d)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"num_layers": 2}, ValueError, "h has 1 layers"),
        ({"bidirectional": True}, ValueError, r"give h of shape \(L, 2, B, H\)"),
        ({"fix_parameters": 2}, TypeError, "num_layers and what follows it by keyword"),
        ({"state_size": 5, "dropout": 0.5}, TypeError, "one step takes no dropout"),
    ],
)
def test_calls_of_the_lstm_that_mix_its_forms_are_refused(arguments, error, match):
    x, state = Variable((3, 2, 4)), Variable((1, 1, 2, 5))
    with pytest.raises(error, match=match):
        PF.lstm(x, state, state, **arguments)
    assert not get_parameters()


def test_a_sequence_is_what_the_cell_does_step_by_step():
    rng = np.random.RandomState(0)
    w, b = rng.randn(9, 4, 5).astype("f"), rng.randn(4, 5).astype("f")
    x, h, c = (leaf(rng.randn(*shape)) for shape in ((3, 2, 4), (2, 5), (2, 5)))
    y = PF.lstm(
        x,
        F.reshape(h, (1, 1, 2, 5)),
        F.reshape(c, (1, 1, 2, 5)),
        w0_init=w.transpose(1, 2, 0)[np.newaxis, [0, 2, 3, 1]],
        b_init=b[np.newaxis, np.newaxis, [0, 2, 3, 1]],
    )[0]
    steps = []
    for t in range(3):
        h, c = PF.lstm_cell(x[t], h, c, 5, w_init=w, b_init=b)
        steps.append(h)
    stacked = F.stack(*steps)
    F.sink(y, stacked).forward()
    np.testing.assert_allclose(y.d, stacked.d, rtol=1e-5, atol=1e-6)
