"""Networks saved and loaded: what is kept, what is shared, what is refused, what never changes."""

import os
import stat
import zipfile

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.utils.load import load
from atled.utils.nnp_graph import NnpLoader
from atled.utils.save import save


def small_network(count=3):
    """x -> y = softmax(affine(x)), z = the second half of x, split."""
    x = nn.Variable((count, 4))
    y = F.softmax(PF.affine(x, 2, name="a"))
    z = F.split(x[:, 2:], axis=1)[1]
    return x, y, z


def contents_of(x, **outputs):
    return {
        "networks": [{"name": "net", "batch_size": x.shape[0], "outputs": outputs, "names": {"x": x}}],
        "executors": [{"name": "run", "network": "net", "data": ["x"], "output": list(outputs)}],
    }


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "net.nnp")


@pytest.fixture
def saved(path):
    """A saved network: its path, input values and results."""
    x, y, z = small_network()
    save(path, contents_of(x, y=y, z=z))
    x.d = np.random.RandomState(0).randn(*x.shape)
    F.sink(y, z).forward()
    values = x.d.copy(), y.d.copy(), z.d.copy()
    nn.clear_parameters()
    return path, values


def rewritten(path, change):
    """The archive with its description changed by a function of text."""
    with zipfile.ZipFile(path) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    entries["network.nntxt"] = change(entries["network.nntxt"].decode()).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in entries.items():
            file.writestr(name, data)


def assert_refused(call, wrong, *parts):
    before = {key: param.d.copy() for key, param in nn.get_parameters(grad_only=False).items()}
    with pytest.raises(ValueError, match=wrong) as caught:
        call()
    for part in (*parts, "What to do: "):
        assert part in str(caught.value)
    after = nn.get_parameters(grad_only=False)
    assert list(after) == list(before)


# Round trips.


@pytest.mark.parametrize("count", [None, 1, 3, 7])
def test_a_network_computes_what_it_did_with_any_batch_size(saved, count):
    path, (x, y, z) = saved
    net = NnpLoader(path).get_network("net", batch_size=count)
    rows = 3 if count is None else count
    data = np.resize(x, (rows, 4))
    net.inputs["x"].d = data
    net.forward()
    np.testing.assert_allclose(net.outputs["y"].d, np.resize(y, (rows, 2)), rtol=1e-6)
    np.testing.assert_array_equal(net.outputs["z"].d, np.resize(z, rows))


@pytest.mark.parametrize(
    ("suffix", "arguments"),
    [
        (".nnp", {}),
        (".nnp", {"parameter_format": ".protobuf"}),
        (".nntxt", {"include_params": True}),
        (".prototxt", {"include_params": True}),
        (".protobuf", {"include_params": True}),
    ],
)
def test_every_format_holds_the_network_and_its_parameters(tmp_path, suffix, arguments):
    x, y, _ = small_network()
    x.d = 1
    y.forward()
    save(tmp_path / f"net{suffix}", contents_of(x, y=y), **arguments)
    nn.clear_parameters()
    results = load(tmp_path / f"net{suffix}").executors["run"].forward(x=x.d)
    np.testing.assert_array_equal(results["y"], y.d)


def test_parameters_may_be_in_a_file_of_their_own(tmp_path):
    x, y, _ = small_network()
    x.d = 1
    y.forward()
    save(tmp_path / "net.nntxt", contents_of(x, y=y))
    nn.save_parameters(tmp_path / "p.h5")
    nn.clear_parameters()
    loaded = load([tmp_path / "net.nntxt", tmp_path / "p.h5"])
    np.testing.assert_array_equal(loaded.executors["run"].forward(x=x.d)["y"], y.d)


def test_a_loaded_network_is_saved_again(saved, tmp_path):
    path, (x, y, z) = saved
    net = NnpLoader(path).get_network("net")
    again = tmp_path / "again.nnp"
    save(again, contents_of(net.inputs["x"], **net.outputs))
    nn.clear_parameters()
    results = load(again).executors["run"].forward(x=x)
    np.testing.assert_allclose(results["y"], y, rtol=1e-6)
    np.testing.assert_array_equal(results["z"], z)


def test_equal_networks_make_equal_files(tmp_path):
    x, y, _ = small_network()
    for name in ("a.nnp", "b.nnp"):
        save(tmp_path / name, contents_of(x, y=y), parameter_format=".protobuf")
    assert (tmp_path / "a.nnp").read_bytes() == (tmp_path / "b.nnp").read_bytes()


def test_with_a_fixed_batch_size_shapes_stay(path):
    x, y, _ = small_network()
    save(path, contents_of(x, y=y), variable_batch_size=False)
    assert NnpLoader(path).get_network("net", batch_size=7).inputs["x"].shape == (3, 4)


def test_what_does_not_depend_on_the_inputs_keeps_its_size(path):
    x = nn.Variable((3, 3))
    with nn.parameter_scope("p"):
        w = nn.parameter.get_parameter_or_create("w", (3, 1), initializer=np.ones((3, 1), np.float32))
    y = F.batch_matmul(F.reshape(x, (1, 3, 3)), F.reshape(F.broadcast(w, (3, 3)), (1, 3, 3)))
    save(path, contents_of(x, y=y))
    net = NnpLoader(path).get_network("net")
    assert [f.name for f in net.functions].count("Broadcast") == 1
    with zipfile.ZipFile(path) as file:
        text = file.read("network.nntxt").decode()
    assert "dim: -1" not in text.split("broadcast_param")[1].split("}")[0]


def test_attributes_of_every_kind_are_kept(path):
    x = nn.Variable((2, 3, 6, 6))
    h = F.batch_normalization(x, *[nn.Variable((1, 3, 1, 1)) for _ in range(4)], batch_stat=False, eps=0.25)
    h = F.pad(h, (1, 2), "constant", 1.5)
    h = F.max_pooling(h, (2, 2), (1, 2), ignore_border=False)
    h = F.sum(F.leaky_relu(h, 0.3) ** 2.5, axis=(1, 2), keepdims=True)
    y = F.dropout(F.random_crop(h, (1, 2), seed=4), 0.25)
    wanted = []
    y.visit(lambda f: wanted.append((f.name, f.arguments)))
    save(path, contents_of(x, y=y))
    found = [(f.name, f.arguments) for f in NnpLoader(path).get_network("net").functions]
    assert [name for name, _ in found] == [name for name, _ in wanted]
    for (_, mine), (_, theirs) in zip(found, wanted, strict=True):
        for name, value in theirs.items():
            assert mine[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)


@pytest.mark.parametrize("compute", [F.sum, F.mean, F.max, F.min, F.prod, F.flip])
@pytest.mark.parametrize("given", [(), ((),), ((1,),)])
def test_no_axes_are_kept_as_none_and_all_as_all(path, compute, given):
    x = nn.Variable.from_numpy_array(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    y = compute(x, *given)
    y.forward()
    save(path, contents_of(x, y=y), variable_batch_size=False)
    net = NnpLoader(path).get_network("net")
    net.inputs["x"].d = x.d
    net.outputs["y"].forward()
    np.testing.assert_array_equal(net.outputs["y"].d, y.d)


@pytest.mark.parametrize("compute", [F.logical_and_scalar, F.logical_or_scalar, F.logical_xor_scalar])
@pytest.mark.parametrize("value", [True, False, 0.5])
def test_numbers_that_are_read_as_truth_values_are_kept_as_those(path, compute, value):
    x = nn.Variable.from_numpy_array(np.array([[0, 1, 0.25]], np.float32))
    y = compute(x, value)
    y.forward()
    save(path, contents_of(x, y=y))
    net = NnpLoader(path).get_network("net")
    net.inputs["x"].d = x.d
    net.outputs["y"].forward()
    np.testing.assert_array_equal(net.outputs["y"].d, y.d)


@pytest.mark.parametrize("axis", [None, 1, (0, 1)])
@pytest.mark.parametrize("with_array", [False, True])
def test_a_clipped_norm_is_saved_as_functions_that_nnabla_has(path, axis, with_array):
    x = nn.Variable.from_numpy_array(np.arange(1, 7, dtype=np.float32).reshape(2, 3))
    norm = nn.Variable.from_numpy_array(np.full((1, 1), 1.5, np.float32)) if with_array else 1.5
    y = F.tanh(F.clip_by_norm(F.sin(x), norm, axis=axis))
    y.forward()
    contents = contents_of(x, y=y)
    if with_array:
        contents["networks"][0]["names"]["norm"] = norm
    save(path, contents)
    net = NnpLoader(path).get_network("net")
    net.inputs["x"].d = x.d
    if with_array:
        net.inputs["norm"].d = norm.d
    net.outputs["y"].forward()
    np.testing.assert_allclose(net.outputs["y"].d, y.d, rtol=1e-6)
    larger = NnpLoader(path).get_network("net", batch_size=5)
    assert larger.outputs["y"].shape == (5, 3)


def test_channel_last_is_kept(path):
    x = nn.Variable((2, 5, 6, 3))
    y = F.max_pooling(PF.convolution(x, 4, (3, 3), channel_last=True), (2, 2), channel_last=True)
    save(path, contents_of(x, y=y))
    x.d = np.random.RandomState(0).randn(*x.shape)
    y.forward()
    nn.clear_parameters()
    network = NnpLoader(path).get_network("net", batch_size=2)
    network.inputs["x"].d = x.d
    network.outputs["y"].forward()
    assert network.outputs["y"].parent.info.args["channel_last"] is True
    np.testing.assert_array_equal(network.outputs["y"].d, y.d)


def test_channel_last_is_refused_of_functions_that_have_none_in_nnabla(path):
    x = nn.Variable((2, 5, 6, 3))
    with pytest.raises(ValueError, match="format has no attribute channel_last of depthwise_convolution"):
        save(path, contents_of(x, y=PF.depthwise_convolution(x, (3, 3), channel_last=True)))


def write_into_network(path, behind, text):
    """Add text to the description in an archive, behind each place of some text."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    described = entries["network.nntxt"]
    assert behind in described
    entries["network.nntxt"] = described.replace(behind, behind + text)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def test_sizes_of_0_that_later_versions_write_say_nothing(path):
    x = nn.Variable((2, 3, 4, 4))
    y = PF.deconvolution(x, 2, (3, 3), stride=(2, 2))
    save(path, contents_of(x, y=y))
    write_into_network(path, b"deconvolution_param {", b" output_padding { dim: 0 dim: 0 }")
    assert NnpLoader(path).get_network("net").outputs["y"].shape == y.shape
    write_into_network(path, b"output_padding {", b" dim: 1")
    with pytest.raises(ValueError, match=r"deconvolution has no attribute output_padding, which is \(1, 0, 0\) here"):
        NnpLoader(path).get_network("net")


@pytest.mark.parametrize("stop", [2, 3])
def test_a_slice_of_the_last_axes_leaves_the_batch_alone(tmp_path, stop):
    path = tmp_path / "net.nntxt"
    path.write_text(
        'network { name: "net" batch_size: 3 variable { name: "x" type: "Buffer" shape { dim: -1 dim: 4 } } '
        f'variable {{ name: "y" type: "Buffer" shape {{ dim: -1 dim: {stop} }} }} function {{ name: "f" type: "Slice" '
        f'input: "x" output: "y" slice_param {{ start: 0 stop: {stop} step: 1 }} }} }}'
    )
    for batch in (3, 7):
        assert NnpLoader(path).get_network("net", batch_size=batch).outputs["y"].shape == (batch, stop)


def test_all_outputs_of_a_function_come_back(path):
    x = nn.Variable((4, 3))
    _, mean, _ = F.batch_normalization(x, *[nn.Variable((1, 3)) for _ in range(4)], output_stat=True)
    save(path, contents_of(x, mean=mean))
    net = NnpLoader(path).get_network("net")
    net.inputs["x"].d = np.arange(12).reshape(4, 3)
    net.outputs["mean"].forward()
    np.testing.assert_allclose(net.outputs["mean"].d, [[4.5, 5.5, 6.5]])


def test_graphs_of_one_loader_share_their_parameters(saved):
    path, _ = saved
    loader = NnpLoader(path)
    first, second = loader.get_network("net", 1), loader.get_network("net", 2)
    assert all(first.parameters[key] is second.parameters[key] for key in first.parameters)
    assert nn.parameter.get_parameter("a/affine/W") is first.parameters["a/affine/W"]


def test_parameters_of_another_file_do_not_disturb_a_graph(saved):
    path, (x, y, _) = saved
    first = NnpLoader(path).get_network("net")
    second = NnpLoader(path).get_network("net")
    second.parameters["a/affine/W"].d = 0
    first.inputs["x"].d = x
    first.forward()
    np.testing.assert_allclose(first.outputs["y"].d, y, rtol=1e-6)


def test_a_loaded_network_can_be_trained(saved):
    path, (x, _, _) = saved
    net = NnpLoader(path).get_network("net")
    net.inputs["x"].d = x
    loss = F.mean(F.squared_error(net.outputs["y"], nn.Variable((3, 2))))
    solver = S.Sgd(1.0)
    solver.set_parameters(nn.get_parameters())
    loss.forward()
    before = float(loss.d)
    solver.zero_grad()
    loss.backward()
    solver.update()
    loss.forward()
    assert float(loss.d) < before


def test_parameter_only_writes_into_what_is_there(saved):
    path, _ = saved
    small_network()
    w = nn.parameter.get_parameter("a/affine/W")
    w.d = 0
    assert load(path, parameter_only=True).networks == {}
    assert nn.parameter.get_parameter("a/affine/W") is w and w.d.any()


def test_exclude_parameter_takes_those_of_the_scope(saved):
    path, (x, _, _) = saved
    small_network()
    nn.parameter.get_parameter("a/affine/W").d = 0
    results = load(path, exclude_parameter=True).executors["run"].forward(x=x)
    np.testing.assert_array_equal(results["y"], np.full((3, 2), 0.5))


def test_a_whole_training_is_described(path):
    x, y, _ = small_network()
    t = nn.Variable((3, 1))
    loss = F.mean(F.softmax_cross_entropy(y, t))
    solver = S.Adam(alpha=0.5, beta1=0.25)
    solver.set_parameters(nn.get_parameters())
    names = {"x": x, "t": t}
    contents = {
        "global_config": {"default_context": nn.get_current_context()},
        "training_config": {"max_epoch": 3, "iter_per_epoch": 10, "save_best": True},
        "networks": [{"name": "training", "batch_size": 3, "outputs": {"loss": loss}, "names": names}],
        "datasets": [{"name": "data", "uri": "data.csv", "variables": names, "shuffle": True, "batch_size": 3}],
        "optimizers": [
            {"name": "o", "solver": solver, "network": "training", "dataset": "data", "weight_decay": 0.5,
             "data_variables": {"x": "x", "t": "y"}},
        ],
        "monitors": [{"name": "m", "network": "training", "dataset": ["data"]}],
    }  # fmt: skip
    save(path, contents)
    proto = load(path).proto
    assert proto.training_config.max_epoch == 3
    assert list(proto.dataset[0].variable) == ["x", "t"]
    optimizer = proto.optimizer[0]
    assert (optimizer.solver.type, optimizer.solver.adam_param.alpha) == ("Adam", 0.5)
    assert [v.variable_name for v in optimizer.loss_variable] == ["loss"]
    assert {v.variable_name: v.learning_rate_multiplier for v in optimizer.parameter_variable} == {
        "a/affine/W": 1,
        "a/affine/b": 1,
    }
    assert proto.monitor[0].dataset_name[0] == "data"


# What is saved must make sense.


def test_contents_that_do_not_hold_together_leave_the_old_file(path):
    x, y, _ = small_network()
    save(path, contents_of(x, y=y))
    with open(path, "rb") as file:
        before = file.read()
    network = {"name": "net", "batch_size": 3, "outputs": {"y": y}, "names": {"x": x}}
    for contents, wrong in (
        ({"network": []}, r"'network'\][\s\S]*did you mean 'networks'"),
        ({"networks": [{"batch_size": 3, "outputs": {}}]}, "'name' is missing"),
        ({"networks": [network], "executors": [{"name": "r", "network": "nett"}]}, "did you mean 'net'"),
        ({"networks": [network], "executors": [{"name": "r", "network": "net", "data": ["xx"]}]}, "no variable 'xx'"),
        ({"networks": [{**network, "names": {"y": x}}]}, "two Variables of the network have this name"),
    ):
        assert_refused(lambda contents=contents: save(path, contents), wrong, path)
    with open(path, "rb") as file:
        assert file.read() == before
    assert os.listdir(os.path.dirname(path)) == ["net.nnp"]


def test_what_nnabla_does_not_have_is_refused(path):
    class Twice(nn.function.PythonFunction):
        name = "Twice"

        def min_outputs(self):
            return 1

        def setup_impl(self, inputs, outputs):
            outputs[0].reset_shape(inputs[0].shape, True)

        def forward_impl(self, inputs, outputs):
            outputs[0].d = inputs[0].d * 2

        def backward_impl(self, inputs, outputs, propagate_down, accum):
            raise NotImplementedError

    x = nn.Variable((3, 4))
    assert_refused(lambda: save(path, contents_of(x, y=Twice()(x))), "no such function", "Twice")
    assert not os.path.exists(path)


@pytest.mark.parametrize("name", ["net.h5", "net.zip"])
def test_an_unknown_format_is_refused(tmp_path, name):
    x, y, _ = small_network()
    with pytest.raises(ValueError, match=r"unknown format[\s\S]*known: \.nnp"):
        save(tmp_path / name, contents_of(x, y=y))


# What is loaded must make sense.


def change(old, new):
    def apply(text):
        assert old in text
        return text.replace(old, new)

    return apply


@pytest.mark.parametrize(
    ("edit", "wrong", "part"),
    [
        (change('type: "Softmax"', 'type: "Sofmax"'), "no function Sofmax", "did you mean 'Softmax'"),
        (change('type: "Softmax"', 'type: "ConvolutionDataGrad"'), "no function ConvolutionDataGrad", "Softmax"),
        (change("softmax_param", "sofmax_param"), r'no field named "sofmax_param"', "line:column"),
        (
            change("softmax_param {\n      axis", "affine_param {\n      base_axis"),
            "attributes are those of another function",
            "Softmax",
        ),
        (change('input: "x"', 'input: "w"'), "its input 'w' is not a variable that comes before", "function"),
        (change("base_axis: 1", "base_axis: 9"), "the call does not fit", "Affine"),
        (
            change('name: "a/affine/W"', 'name: "a/affine/V"'),
            "neither in the files nor in",
            "did you mean 'a/affine/W'",
        ),
        (change("dim: 4\n      dim: 2", "dim: 4\n      dim: 3"), "the parameter has shape", "a/affine/W"),
        (change("batch_size: 3", "batch_size: 0"), "leaves the batch size open", "batch_size="),
        (change('output: "y"', 'output: "y"\n    output: "v"'), "it gives 1 outputs, the network names 2", "Softmax"),
        (change('output: "y"', 'output: "x"'), "its output 'x' is there already|never|not a variable", "damaged"),
        (lambda text: text + text, "two networks have the name 'net'", "net.nnp"),
        (
            change("batch_size: 3", "batch_size: 3\n  variable { name: 'v' repeat_id: 'r' }"),
            "it is in the loop 'r'",
            "'v'",
        ),
        (lambda text: text[: len(text) // 2], r"not one of NNabla's text format", "network.nntxt"),
        (change("batch_size: 3", "batch_size: 3\n  variable { name: 'x' }"), "another variable has this name", "'x'"),
        (change('variable_name: "z"', 'variable_name: "q"'), "no variable 'q'", "executor 'run'"),
        (change('network_name: "net"', 'network_name: "nett"'), "no network 'nett'", "did you mean 'net'"),
    ],
)
def test_a_damaged_description_is_refused_and_changes_nothing(saved, edit, wrong, part):
    path, _ = saved
    rewritten(path, edit)
    assert_refused(lambda: load(path), wrong, path, part)


def test_an_unknown_network_is_refused_with_the_nearest_one(saved):
    path, _ = saved
    assert_refused(lambda: NnpLoader(path).get_network("nett"), "no such network", "did you mean 'net'")


def test_names_in_the_way_change_nothing(saved):
    path, _ = saved
    nn.parameter.get_parameter_or_create("a", (1,))
    assert_refused(lambda: load(path), "in the way of others", "another scope")
    assert_refused(lambda: NnpLoader(path).get_network("net"), "in the way of others")


def test_datasets_are_not_opened(saved):
    path, _ = saved
    with pytest.raises(ValueError, match="loaded for inference"):
        load(path, prepare_data_iterator=True)


def test_an_executor_wants_its_inputs(saved):
    path, (x, _, _) = saved
    executor = load(path).executors["run"]
    with pytest.raises(TypeError, match=r"its inputs are x"):
        executor.forward(y=x)


# Archives.


def archive(path, entries):
    with zipfile.ZipFile(path, "w") as file:
        for entry, data in entries:
            file.writestr(entry, data)


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    "name",
    [
        "../network.nntxt",
        "a/../../b.nntxt",
        "/etc/b.nntxt",
        "\\b.nntxt",
        "C:\\b.nntxt",
        "a\\..\\..\\b.nntxt",
        "../notes",
    ],
)
def test_entries_outside_the_folder_are_refused(path, name):
    archive(path, [("parameter.protobuf", b""), (name, b"")])
    for call in (NnpLoader, load, nn.load_parameters):
        assert_refused(lambda call=call: call(path), "leads out of the archive's folder", path)


def test_links_are_refused(path):
    archive(path, [(link("network.nntxt"), "/etc/passwd")])
    assert_refused(lambda: load(path), "leads out of the archive's folder", "network.nntxt")


def test_names_that_stand_twice_are_refused(path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive(path, [("network.nntxt", b""), ("network.nntxt", b"")])
    assert_refused(lambda: load(path), "two entries have this name", "network.nntxt")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + bytes(100), b"not a zip file"])
def test_what_is_no_archive_is_refused(path, content):
    with open(path, "wb") as file:
        file.write(content)
    for call in (NnpLoader, load, nn.load_parameters):
        assert_refused(lambda call=call: call(path), "not an .nnp archive", path)


def test_a_truncated_or_damaged_archive_is_refused_or_loaded_whole(saved):
    path, _ = saved
    with open(path, "rb") as file:
        image = file.read()
    rng = np.random.RandomState(0)
    damaged = [image[:length] for length in range(0, len(image), 401)]
    for _ in range(60):
        copy = bytearray(image)
        copy[rng.randint(0, len(image))] ^= 1 + rng.randint(255)
        damaged.append(bytes(copy))
    refused = 0
    for content in damaged:
        nn.clear_parameters()
        with open(path, "wb") as file:
            file.write(content)
        try:
            load(path)
        except ValueError as error:
            refused += 1
            assert path in str(error) and "What to do: " in str(error)
            assert nn.get_parameters(grad_only=False) == {}
        else:
            assert len(nn.get_parameters(grad_only=False)) == 2
    assert refused > 30


def test_an_encrypted_entry_is_refused(saved):
    path, _ = saved
    with open(path, "rb") as file:
        image = bytearray(file.read())
    # The flag of encryption, in the local headers and in the directory.
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = image.find(magic)
        while at >= 0:
            image[at + offset] |= 1
            at = image.find(magic, at + 4)
    with open(path, "wb") as file:
        file.write(image)
    assert_refused(lambda: load(path), "the entry is encrypted")


def test_other_entries_are_left_alone(saved):
    path, (x, y, _) = saved
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("readme.txt", "hello")
        file.writestr("script.py", "raise SystemExit(1)")
    np.testing.assert_allclose(load(path).executors["run"].forward(x=x)["y"], y, rtol=1e-6)


def test_two_entries_with_one_parameter_are_refused(saved):
    path, _ = saved
    with zipfile.ZipFile(path) as file:
        h5 = file.read("parameter.h5")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("more.h5", h5)
    assert_refused(lambda: nn.load_parameters(path), "several entries hold the parameter")
    assert_refused(lambda: load(path), "another file or entry holds the parameter", "a/affine/W")


def test_a_missing_file_is_a_file_not_found_error(path):
    for call in (NnpLoader, load, nn.load_parameters):
        with pytest.raises(FileNotFoundError, match=r"could not be read[\s\S]*What to do"):
            call(path)


def test_nothing_is_written_while_loading(saved, tmp_path):
    path, _ = saved
    load(path)
    assert os.listdir(tmp_path) == ["net.nnp"]
