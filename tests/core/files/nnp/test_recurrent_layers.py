"""Recurrent layers over sequences, which are functions in NNabla's files and made of several ops here."""

import re

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.utils.nnp_graph import NnpLoader
from atled.utils.save import save

_TIMES, _BATCH, _INPUTS, _HIDDEN = 3, 2, 4, 5


def described(kind, layers, directions, names, more=""):
    """The text of a network that holds one such layer; names: of its parameters."""
    states = ["h", "c"][: 2 if kind == "LSTM" else 1]
    state = [layers, directions, _BATCH, _HIDDEN]
    shapes = {"x": [_TIMES, _BATCH, _INPUTS], **dict.fromkeys(states, state)}
    shapes |= {"y": [_TIMES, _BATCH, directions * _HIDDEN], **{f"{name}_n": state for name in states}}
    kinds = dict.fromkeys(shapes, "Buffer") | dict.fromkeys(names, "Parameter")
    shapes |= {name: param.shape for name, param in nn.get_parameters().items() if name in names}
    lines = [f'network {{ name: "net" batch_size: {_TIMES}']
    for name, shape in shapes.items():
        sizes = " ".join(f"dim: {size}" for size in shape)
        lines.append(f'variable {{ name: "{name}" type: "{kinds[name]}" shape {{ {sizes} }} }}')
    inputs = " ".join(f'input: "{name}"' for name in ("x", *states, *names))
    outputs = " ".join(f'output: "{name}"' for name in ("y", *(f"{name}_n" for name in states)))
    bidirectional = "true" if directions == 2 else "false"
    attributes = f"{kind.lower()}_param {{ num_layers: {layers} bidirectional: {bidirectional} training: true {more} }}"
    lines.append(f'function {{ name: "f" type: "{kind}" {inputs} {outputs} {attributes} }} }}')
    return "\n".join(lines)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "net.nntxt"


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (1, 2), (3, 1), (2, 2)])
@pytest.mark.parametrize(
    ("kind", "layer", "more"),
    [
        ("LSTM", PF.lstm, ""),
        ("GRU", PF.gru, ""),
        ("RNN", PF.rnn, "nonlinearity: 'tanh'"),
        ("RNN", PF.rnn, "nonlinearity: 'relu'"),
    ],
)
def test_the_layer_computes_what_the_function_does(path, kind, layer, more, layers, directions, with_bias):
    rng = np.random.RandomState(0)
    shapes = [(_TIMES, _BATCH, _INPUTS), *[(layers, directions, _BATCH, _HIDDEN)] * (2 if kind == "LSTM" else 1)]
    given = [nn.Variable.from_numpy_array(rng.randn(*shape).astype(np.float32)) for shape in shapes]
    options = {"nonlinearity": more.split("'")[1]} if more else {}
    results = layer(*given, num_layers=layers, bidirectional=directions == 2, with_bias=with_bias, **options)
    for param in nn.get_parameters().values():
        param.d = rng.randn(*param.shape) * 0.3
    F.sink(*results).forward()
    path.write_text(described(kind, layers, directions, list(nn.get_parameters()), more))
    net = NnpLoader(path).get_network("net")
    for name, values in zip(("x", "h", "c"), given, strict=False):
        net.inputs[name].d = values.d
    for name, expected in zip(("y", "h_n", "c_n"), results, strict=False):
        net.outputs[name].forward()
        np.testing.assert_array_equal(net.outputs[name].d, expected.d)


def test_a_layer_that_lacks_a_weight_or_its_attributes_is_refused(path):
    PF.lstm(nn.Variable((_TIMES, _BATCH, _INPUTS)), *[nn.Variable((2, 1, _BATCH, _HIDDEN))] * 2, num_layers=2)
    names = list(nn.get_parameters())
    whole = described("LSTM", 2, 1, names)
    for text, wrong in (
        (described("LSTM", 2, 1, names[:1]), r"\(LSTM\): the call does not fit"),
        (whole.replace("num_layers: 2", ""), r"\(LSTM\): the call does not fit"),
        (whole.replace("lstm_param {", "gru_param {"), r"\(LSTM\): the attributes are those of another function"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=wrong):
            NnpLoader(path).get_network("net")


def test_functions_that_atled_does_not_have_are_refused_by_name(path):
    path.write_text(
        'network { name: "net" batch_size: 1 variable { name: "x" type: "Buffer" shape { dim: 1 } } '
        'variable { name: "y" type: "Buffer" shape { dim: 1 } } function { name: "f" type: "Interpolate" input: "x" '
        'output: "y" interpolate_param { output_size: 2 mode: "linear" } } }'
    )
    loader = NnpLoader(path)
    assert loader.get_network_names() == ["net"]
    with pytest.raises(ValueError, match=r"function 'f' \(Interpolate\): atled has no function Interpolate"):
        loader.get_network("net")


def saved(path, results, given):
    """Save a network of what a layer gave, in its order; the network as it is loaded."""
    outputs = dict(zip(("y", "h_n", "c_n"), results, strict=False))
    names = dict(zip(("x", "h", "c"), given, strict=False))
    save(path, {"networks": [{"name": "net", "batch_size": 99, "outputs": outputs, "names": names}]})
    net = NnpLoader(path).get_network("net")
    for name, variable in names.items():
        net.inputs[name].d = variable.d
    return net


def recurrent_layer(kind, layers, directions, **options):
    """x and states, and what the layer gives for them; parameters of random numbers."""
    rng = np.random.RandomState(1)
    state = (layers, directions, _BATCH, _HIDDEN)
    shapes = [(_TIMES, _BATCH, _INPUTS), *[state] * (2 if kind == "LSTM" else 1)]
    given = [nn.Variable.from_numpy_array(rng.randn(*shape).astype(np.float32)) for shape in shapes]
    layer = {"LSTM": PF.lstm, "GRU": PF.gru, "RNN": PF.rnn}[kind]
    results = layer(*given, num_layers=layers, bidirectional=directions == 2, **options)
    for param in nn.get_parameters().values():
        param.d = rng.randn(*param.shape) * 0.3
    return given, results


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (1, 2), (3, 1), (2, 2)])
@pytest.mark.parametrize(
    ("kind", "options"), [("LSTM", {}), ("GRU", {}), ("RNN", {}), ("RNN", {"nonlinearity": "relu"})]
)
def test_what_is_saved_computes_what_the_layer_did(path, kind, options, layers, directions, with_bias):
    given, results = recurrent_layer(kind, layers, directions, with_bias=with_bias, **options)
    F.sink(*results).forward()
    net = saved(path, results, given)
    for name, expected in zip(("y", "h_n", "c_n"), results, strict=False):
        net.outputs[name].forward()
        np.testing.assert_array_equal(net.outputs[name].d, expected.d)
    assert path.read_text().count(f'type: "{kind}"') == layers * directions


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("is_state_asked_for", [True, False])
def test_one_layer_in_one_direction_is_one_function_of_its_parameters(path, kind, is_state_asked_for):
    given, results = recurrent_layer(kind, 1, 1)
    saved(path, results if is_state_asked_for else results[:1], given)
    text = path.read_text()
    assert text.count("function {") == 1
    inputs = re.findall(r'input: "(.*)"', text)
    assert inputs == [*("xhc"[: len(given)]), f"{kind.lower()}/weight_l0", f"{kind.lower()}/bias"]
    variables = re.findall(r"variable \{\s*name: \"(.*)\"", text)
    outputs = re.findall(r'output: "(.*)"', text)
    assert sorted(variables) == sorted([*inputs, *outputs])
    assert not is_state_asked_for or outputs == ["y", "h_n", "c_n"][: len(outputs)]


def test_dropout_between_layers_and_functions_around_them_are_saved(path):
    given, (y, *_) = recurrent_layer("LSTM", 2, 1, dropout=0.0)
    head = PF.affine(F.tanh(y), 3, base_axis=2)
    head.forward()
    net = saved(path, (head,), given)
    net.outputs["y"].forward()
    np.testing.assert_array_equal(net.outputs["y"].d, head.d)
    given, results = recurrent_layer("LSTM", 2, 1, dropout=0.25)
    saved(path, results, given)
    assert re.search(r'type: "Dropout"[\s\S]*?p: 0.25', path.read_text())


def test_parts_that_something_else_reads_stay(path):
    """A weight that is regularized in the shape that the op takes, a state that is read without its axes."""
    given, results = recurrent_layer("GRU", 1, 1)
    h_n = results[1]
    op = h_n.parent.inputs[0]
    weight = op.parent.inputs[2]
    read = F.sum(weight**2) + F.sum(op)
    F.sink(read, *results).forward()
    net = saved(path, (read, h_n), given)
    for name, expected in zip(("y", "h_n"), (read, h_n), strict=True):
        net.variables[name].forward()
        np.testing.assert_allclose(net.variables[name].d, expected.d, rtol=1e-6)


def test_a_network_that_was_loaded_is_saved_again(path):
    given, results = recurrent_layer("RNN", 2, 2)
    F.sink(*results).forward()
    first = saved(path, results, given)
    again = saved(path, [first.outputs[name] for name in ("y", "h_n")], [first.inputs[name] for name in ("x", "h")])
    again.outputs["y"].forward()
    np.testing.assert_array_equal(again.outputs["y"].d, results[0].d)
