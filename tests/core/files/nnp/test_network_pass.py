"""Callbacks that change a network of a file before it is built."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.utils.nnp_graph import NnpLoader, NnpNetworkPass
from atled.utils.save import save

X = np.random.RandomState(0).randn(2, 3, 8, 8).astype(np.float32)


@pytest.fixture
def path(tmp_path):
    """x -> conv -> batch normalization -> relu -> average pooling -> affine -> y, of two samples."""
    x = nn.Variable((2, 3, 8, 8))
    h = PF.batch_normalization(PF.convolution(x, 4, (3, 3), name="c"), name="b", batch_stat=False)
    h = F.average_pooling(F.relu(h), (6, 6))
    y = PF.affine(h, 5, name="a")
    path = tmp_path / "net.nnp"
    save(path, {"networks": [{"name": "net", "batch_size": 2, "outputs": {"y": y}, "names": {"x": x}}]})
    nn.clear_parameters()
    return path


@pytest.fixture
def callback():
    return NnpNetworkPass()


def named(path, kind):
    """The names of the function of a type, its first input and its output."""
    (found,) = [f for f in NnpLoader(path)._message.network[0].function if f.type == kind]
    return found.name, found.input[0], found.output[0]


def network(path, callback, **arguments):
    return NnpLoader(path).get_network("net", callback=callback, **arguments)


def types(net):
    return [function.name for function in net.functions]


def test_nothing_asked_for_changes_nothing(path, callback):
    plain, same = network(path, None), network(path, callback)
    assert types(plain) == types(same)
    for net in (plain, same):
        net.inputs["x"].d = X
        net.forward()
    np.testing.assert_array_equal(plain.outputs["y"].d, same.outputs["y"].d)


def test_a_dropped_function_ends_the_network_before_it(path, callback):
    name, before, _ = named(path, "Affine")
    callback.drop_function(name)
    net = network(path, callback)
    assert list(net.outputs) == [before]
    assert "a/affine/W" not in net.parameters


def test_a_dropped_function_in_the_midst_leaves_its_result_to_be_fed(path, callback):
    name, before, after = named(path, "ReLU")
    callback.drop_function(name)
    net = network(path, callback)
    assert set(net.inputs) == {"x", after}
    assert set(net.outputs) == {"y", before}


def test_use_up_to_stops_after_a_variable(path, callback):
    _, before, _ = named(path, "ReLU")
    callback.use_up_to(before)
    net = network(path, callback)
    assert list(net.outputs) == [before]
    assert types(net) == ["Convolution", "BatchNormalization"]


def test_remove_and_rewire_takes_a_function_out(path, callback):
    name, _, _ = named(path, "ReLU")
    callback.remove_and_rewire(name)
    net = network(path, callback)
    assert types(net) == ["Convolution", "BatchNormalization", "AveragePooling", "Affine"]
    assert list(net.inputs) == ["x"]


def test_an_input_may_be_a_variable_of_another_size_with_pooling_made_global(path, callback):
    x = nn.Variable.from_numpy_array(np.ones((1, 3, 10, 12), np.float32))
    callback.set_variable("x", x)
    name, before, _ = named(path, "AveragePooling")

    @callback.on_generate_variable(before)
    def larger(v):
        v.proto.shape.dim[:] = (1, 4, 8, 10)
        return v

    callback.force_average_pooling_global("AveragePooling", by_type=True)
    callback.check_average_pooling_global(name)
    net = network(path, callback)
    assert net.inputs["x"] == x
    net.forward()
    assert net.outputs["y"].shape == (1, 5)


def test_pooling_that_is_not_global_is_told(path, callback):
    name, before, _ = named(path, "AveragePooling")

    @callback.on_generate_variable(before)
    def larger(v):
        v.proto.shape.dim[:] = (1, 4, 8, 10)
        return v

    callback.check_average_pooling_global(name)
    with pytest.raises(ValueError, match=r"pools \[6, 6\], its input has \[8, 10\]"):
        network(path, callback)


def test_batch_statistics_are_switched(path, callback):
    callback.set_batch_normalization_batch_stat_all(True)
    net = network(path, callback)
    found = [f for f in net.functions if f.name == "BatchNormalization"]
    assert [f.info.args["batch_stat"] for f in found] == [True]
    assert not next(f for f in network(path, None).functions if f.name == "BatchNormalization").info.args["batch_stat"]


def test_fixed_parameters_get_no_gradient_and_share_their_values(path, callback):
    callback.fix_parameters()
    loader = NnpLoader(path)
    fixed, free = loader.get_network("net", callback=callback), loader.get_network("net")
    assert not any(parameter.need_grad for parameter in fixed.parameters.values())
    assert free.parameters["a/affine/W"].need_grad
    free.parameters["a/affine/W"].d = 3
    assert (fixed.parameters["a/affine/W"].d == 3).all()


def test_functions_are_seen_by_name_and_by_type_with_variables_and_parameters(path, callback, capsys):
    loud = NnpNetworkPass(verbose=1)
    name, before, after = named(path, "ReLU")
    seen = []

    @loud.on_function_pass_by_type("ReLU")
    def see(f, variables, scope):
        seen.append((f.name, [v.name for v in f.inputs], [v.name for v in f.outputs], "c/conv/W" in scope))

    loud.drop_function(name, "no such function")
    network(path, loud)
    assert seen == [(name, [before], [after], True)]
    assert f"{name} is left out" in capsys.readouterr().out


def test_parameters_go_to_a_scope_of_the_users(path):
    scope = {}
    loader = NnpLoader(path, scope=scope)
    assert "c/conv/W" in scope
    net = loader.get_network("net")
    assert net.parameters["c/conv/W"] == scope["c/conv/W"]
