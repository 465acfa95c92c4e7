"""Files that NNabla 1.39 wrote load, and compute what it computed."""

import zipfile

import numpy as np
import pytest

import atled as nn
from atled.utils.load import load
from atled.utils.nnp_graph import NnpLoader


@pytest.fixture
def expected(files):
    with np.load(files / "nnabla_1_39.npz") as file:
        return dict(file)


def test_parameters(files):
    nn.load_parameters(files / "nnabla_1_39.protobuf")
    found = nn.get_parameters(grad_only=False)
    assert [(key, param.shape, param.need_grad) for key, param in found.items()] == [
        ("net/c1/conv/W", (4, 2, 3, 3), True),
        ("net/c1/conv/b", (4,), True),
        ("net/b1/bn/beta", (1, 4, 1, 1), True),
        ("net/b1/bn/gamma", (1, 4, 1, 1), True),
        ("net/b1/bn/mean", (1, 4, 1, 1), False),
        ("net/b1/bn/var", (1, 4, 1, 1), False),
        ("net/a1/affine/W", (32, 5), True),
        ("net/a1/affine/b", (5,), True),
    ]
    values = {key: param.d.copy() for key, param in found.items()}
    nn.clear_parameters()
    nn.load_parameters(files / "nnabla_1_39.nnp")
    for key, param in nn.get_parameters(grad_only=False).items():
        np.testing.assert_array_equal(param.d, values.pop(key))
    assert not values


@pytest.mark.parametrize("count", [None, 4, 1])
def test_the_network(files, expected, count):
    net = NnpLoader(files / "nnabla_1_39.nnp").get_network("net", batch_size=count)
    rows = 4 if count is None else count
    assert net.inputs["x"].shape == (rows, 2, 9, 8)
    net.inputs["x"].d = expected["x"][:rows]
    net.forward()
    np.testing.assert_allclose(net.outputs["y"].d, expected["y"][:rows], rtol=1e-5, atol=1e-6)


def test_the_executor(files, expected):
    executor = load(files / "nnabla_1_39.nnp").executors["runtime"]
    np.testing.assert_allclose(executor.forward(x=expected["x"])["y"], expected["y"], rtol=1e-5, atol=1e-6)
    assert list(nn.get_parameters()) == [
        "net/c1/conv/W",
        "net/c1/conv/b",
        "net/b1/bn/beta",
        "net/b1/bn/gamma",
        "net/a1/affine/W",
        "net/a1/affine/b",
    ]


def test_sections_for_training_are_kept_in_proto_and_do_nothing(files, tmp_path):
    path = files / "nnabla_1_39_trained.nnp"
    with np.load(files / "nnabla_1_39_trained.npz") as expected:
        loaded = load(path)
        y = loaded.executors["runtime"].forward(x=expected["x"])["y"]
        np.testing.assert_allclose(y, expected["y"], rtol=1e-5, atol=1e-6)
    assert loaded.proto.dataset[0].uri == "TRAIN.csv"
    assert loaded.proto.optimizer[0].solver.type == "AdamW"
    # What later versions of NNabla write about solvers, schedulers and their states.
    more = (
        "adamw_param { alpha: 0.5 wd: 0.25 } lr_scheduler_type: 'Cosine' cosine_scheduler_param { max_iter: 3 } "
        "states { key: 'a' value { t: 3 state_parameter { key: 'm' value { shape { dim: 1 } data: 2 } } } }"
    )
    with zipfile.ZipFile(path) as archive:
        text = archive.read("network.nntxt").decode()
    described = tmp_path / "net.nntxt"
    described.write_text(text.replace('type: "AdamW"', f'type: "AdamW" {more}'))
    solver = load(described).proto.optimizer[0].solver
    assert (solver.adamw_param.wd, solver.states[0].value.t) == (0.25, 3)
