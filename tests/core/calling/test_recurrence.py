"""F.rnn, F.lstm and F.gru: layers, directions, dropout, and what is refused."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.calling.apply import apply

T, B, DEPTH, H = 3, 2, 4, 5
KINDS = {"rnn": (1, (), ()), "lstm": (2, (4,), (4,)), "gru": (1, (3,), (4,))}


def arrays(kind, layers=2, directions=2):
    """The inputs of a call, in order."""
    rng = np.random.default_rng(0)
    states, maps, biases = KINDS[kind]
    shapes = [(T, B, DEPTH), *[(layers, directions, B, H)] * states, (directions, *maps, H, DEPTH + H)]
    shapes.append((layers - 1, directions, *maps, H, directions * H + H))
    made = [rng.standard_normal(shape).astype("f") for shape in [*shapes, (layers, directions, *biases, H)]]
    return [array if array.size else None for array in made]


def variables(inputs):
    return [None if x is None else nn.Variable.from_numpy_array(x, need_grad=True) for x in inputs]


@pytest.mark.parametrize("kind", KINDS)
def test_layers_and_directions_are_composed(kind):
    x, *inputs = arrays(kind)
    states = inputs[: KINDS[kind][0]]
    weight_l0, weight, bias = inputs[KINDS[kind][0] :]
    outputs = getattr(F, kind)(*variables([x, *inputs]), num_layers=2, bidirectional=True)
    F.sink(*outputs).forward()
    for layer in range(2):
        found = []
        for direction in range(2):
            w = (weight[0] if layer else weight_l0)[direction].reshape(-1, H, (2 * H if layer else DEPTH) + H)
            b = bias[layer, direction].reshape(-1, H)
            start = [state[layer, direction] for state in states]
            given = [nn.NdArray.from_numpy_array(v) for v in (x, *start, w, b)]
            y, *ends = apply(f"{kind.upper()}Sequence", given, {"reverse": direction == 1})
            found.append(y.data)
            for end, output in zip(ends, outputs[1:], strict=True):
                np.testing.assert_allclose(output.d[layer, direction], end.data, rtol=1e-5, atol=1e-6)
        x = np.concatenate(found, axis=2)
    np.testing.assert_allclose(outputs[0].d, x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_every_input(kind):
    inputs = variables(arrays(kind))
    y, *states = getattr(F, kind)(*inputs, num_layers=2, bidirectional=True)
    loss = F.sum(y * y) + sum(F.sum(state) for state in states)
    loss.forward()
    for v in inputs:
        v.g = 0
    loss.backward()
    before = float(loss.d)
    for v in inputs:
        # Along the gradient a small step raises the loss by the gradient's square.
        start, slope = v.d.copy(), float(np.sum(v.g.astype("d") ** 2))
        step = 1e-3 / np.sqrt(slope)
        v.d = start + step * v.g
        loss.forward()
        assert float(loss.d) - before == pytest.approx(step * slope, rel=0.1)
        v.d = start


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_computed_at_once(kind):
    inputs = arrays(kind, layers=1, directions=1)
    recorded = getattr(F, kind)(*variables(inputs))
    recorded[0].forward()
    x, *others = inputs
    at_once = getattr(F, kind)(nn.NdArray.from_numpy_array(x), *variables(others))
    assert all(isinstance(output, nn.NdArray) for output in at_once)
    np.testing.assert_allclose(at_once[0].data, recorded[0].d, rtol=1e-6)


def test_dropout_lies_between_layers_while_training():
    inputs = variables([np.abs(a) for a in arrays("rnn", directions=1)])

    def last(**arguments):
        y = F.rnn(*inputs, num_layers=2, nonlinearity="relu", **arguments)[0]
        y.forward()
        return y.d.copy()

    plain = last()
    assert np.array_equal(last(dropout=0.5, training=False), plain)
    assert not np.array_equal(last(dropout=0.5), plain)
    one = variables(arrays("rnn", layers=1, directions=1))
    y = F.rnn(*one, dropout=0.9)[0]
    y.forward()
    assert y.d.all()  # nothing lies behind the only layer


@pytest.mark.parametrize(
    ("position", "shape", "arguments", "match"),
    [
        (0, (T, DEPTH), {}, "x has 2 axes"),
        (1, (1, 2, B, H), {}, r"use \[2, 2, 2, 5\]"),
        (2, (2, 2, B, 4), {}, "c has shape"),
        (3, (2, 4, H, DEPTH), {}, "weight_l0 has shape"),
        (4, (2, 2, 4, H, 15), {}, "weight has shape"),
        (4, None, {}, "2 layers need a weight"),
        (5, (2, 2, 3, H), {}, "bias has shape"),
        (0, None, {"num_layers": 0}, "num_layers is 0"),
        (0, None, {"bidirectional": False}, "h has shape"),
    ],
)
def test_what_does_not_fit_is_refused(position, shape, arguments, match):
    inputs = variables(arrays("lstm"))
    if shape is not None or position:
        inputs[position] = None if shape is None else nn.Variable(shape)
    with pytest.raises(ValueError, match=match):
        F.lstm(*inputs, **{"num_layers": 2, "bidirectional": True, **arguments})


def test_what_is_no_array_is_refused():
    inputs = variables(arrays("gru", layers=1, directions=1))
    with pytest.raises(TypeError, match="input h"):
        F.gru(inputs[0], np.zeros((1, 1, B, H)), *inputs[2:])


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_that_nobody_holds_is_kept_for_backward(kind, is_dynamic):
    inputs = variables(arrays(kind, layers=1, directions=1))
    with nn.auto_forward(is_dynamic):
        loss = F.sum(getattr(F, kind)(*inputs)[1])
    if not is_dynamic:
        loss.forward()
    with nn.trace() as trace:
        loss.backward()
    assert f"{kind.upper()}SequenceGrad" in (ran := {row.op for row in trace.rows()})
    assert f"{kind.upper()}Sequence" not in ran
