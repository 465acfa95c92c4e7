"""Networks with loops: written out, they compute what NNabla 1.39 computed for the same file."""

import numpy as np
import pytest

from atled.utils.load import load
from atled.utils.nnp_graph import NnpLoader


@pytest.fixture
def expected(files):
    with np.load(files / "loops.npz") as file:
        return dict(file)


@pytest.mark.parametrize("name", ["repeat", "recurrent"])
def test_values_are_those_of_nnabla(files, expected, name):
    net = NnpLoader(files / "loops.nntxt").get_network(name)
    for key, variable in net.inputs.items():
        variable.d = expected[f"{name}/in/{key}"]
    net.forward()
    np.testing.assert_allclose(net.outputs["y"].d, expected[f"{name}/out/y"], rtol=1e-5, atol=1e-6)


def test_each_turn_has_variables_of_its_own_named_by_loop_and_turn(files):
    net = NnpLoader(files / "loops.nntxt").get_network("repeat")
    assert list(net.inputs) == ["x"] and list(net.outputs) == ["y"]
    assert sorted(net.parameters) == [
        *(f"fc[{turn}]/affine/{name}" for turn in range(3) for name in "Wb"),
        "sc/W_outer[0]",
        "sc/W_outer[1]",
    ]
    assert {"o_outer[1]", "t_outer[1]_inner[2]"} <= set(net.variables)


def test_the_batch_size_stays_open(files):
    net = NnpLoader(files / "loops.nntxt").get_network("recurrent", batch_size=7)
    assert net.outputs["y"].shape == (7, 5, 4)


def test_load_writes_loops_out_as_well(files):
    assert set(load(files / "loops.nntxt").networks) == {"repeat", "recurrent"}


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ('id: "time" times: 5', 'id: "time" times: 0', "does not say how often"),
        ('id: "time" times: 5', 'id: "tine" times: 5', "did you mean 'tine'"),
        ('type: "RecurrentOutput" input: "h"', 'type: "RecurrentOutput" input: "h" input: "x"', "2 inputs, not 1"),
        ('type: "RecurrentOutput" input: "h"', 'type: "RecurrentOutput" input: "q"', "'q' is not a variable"),
        ('type: "RecurrentOutput" input: "h"', 'type: "Identity" input: "h"', "inside of the loop 'time'"),
        ('"delay" type: "Delay"', '"delay" type: "RepeatStart"', "an end of the loop '', which it is not in"),
        ('input: "xt" input: "d"', 'input: "xt" input: "h"', "what it takes depends on what it gives"),
        (
            'name: "xt" type: "Buffer" repeat_id: "time" ',
            'name: "xt" type: "Buffer" ',
            "is there already|names 1|gives",
        ),
    ],
)
def test_a_damaged_loop_is_refused(files, tmp_path, old, new, wrong):
    text = (files / "loops.nntxt").read_text()
    assert old in text
    path = tmp_path / "net.nntxt"
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=wrong):
        NnpLoader(path).get_network("recurrent")
