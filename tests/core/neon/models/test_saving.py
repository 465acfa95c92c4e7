"""Models in files: what comes back, what is refused, and that nothing is half-loaded."""

import pickle

import h5py
import numpy as np
import pytest

from atled.neon.data import ArrayIterator
from atled.neon.initializers import Gaussian
from atled.neon.layers import Affine, BatchNorm, BranchNode, GeneralizedCost, Linear, MergeSum, SkipNode, Tree
from atled.neon.models import Model
from atled.neon.optimizers import GradientDescentMomentum
from atled.neon.transforms import SumSquared, Tanh

INIT = Gaussian(scale=0.3)
X, Y = np.random.RandomState(0).normal(size=(2, 4, 3))


def data():
    return ArrayIterator(X, Y, make_onehot=False)


def layers():
    branches = MergeSum([[Affine(3, INIT, bias=INIT, activation=Tanh())], SkipNode()])
    return [Affine(3, INIT, batch_norm=True), branches, Linear(3, INIT)]


def trained(epochs=2):
    model = Model(layers())
    model.fit(data(), GeneralizedCost(SumSquared()), GradientDescentMomentum(0.1, 0.9), epochs)
    return model


def values(model):
    described = model.serialize()
    arrays = []

    def gather(value):
        if isinstance(value, np.ndarray):
            arrays.append(value)
        elif isinstance(value, dict | list | tuple):
            for each in value.values() if isinstance(value, dict) else value:
                gather(each)

    gather(described)
    return arrays


def equal(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_gives_parameters_and_states_back(be, tmp_path, when):
    first, second = trained(), Model(layers())
    first.save_params(tmp_path / "model.h5")
    if when == "after":
        second.initialize(data())
    second.load_params(tmp_path / "model.h5")
    second.initialize(data())
    assert second.epoch_index == 2
    assert equal(values(first), values(second))
    np.testing.assert_array_equal(first.get_outputs(data()), second.get_outputs(data()))


def test_a_model_is_made_of_a_file_or_a_description(be, tmp_path):
    first = trained()
    first.save_params(tmp_path / "model.h5")
    for source in (tmp_path / "model.h5", first.serialize()):
        second = Model(source, dataset=data())
        np.testing.assert_array_equal(first.get_outputs(data()), second.get_outputs(data()))


def test_training_goes_on_from_a_file_as_if_it_had_not_ended(be, tmp_path):
    first = trained()
    first.save_params(tmp_path / "model.h5")
    second = Model(tmp_path / "model.h5")
    for each in (first, second):
        each.fit(data(), GeneralizedCost(SumSquared()), GradientDescentMomentum(0.1, 0.9), 4)
    assert equal(values(first), values(second))


def test_states_may_be_left_out(cpu, tmp_path):
    trained().save_params(tmp_path / "model.h5")
    model = Model(tmp_path / "model.h5", weights_only=True)
    assert all(not each.states for each in model.layers_to_optimize if isinstance(each, Linear))


def test_trees_are_saved_with_their_nodes(be, tmp_path):
    node = BranchNode("saved node")
    first = Model(Tree([[Linear(3, INIT), node, Linear(2, INIT)], [node, Linear(1, INIT)]]), dataset=data())
    first.save_params(tmp_path / "model.h5")
    wanted = first.get_outputs(data())
    second = Model(tmp_path / "model.h5", dataset=data())
    for one, other in zip(wanted, second.get_outputs(data()), strict=True):
        np.testing.assert_array_equal(one, other)


def as_neon(value):
    """A description with neon's names of modules."""
    if isinstance(value, dict):
        named = {name: as_neon(each) for name, each in value.items()}
        if isinstance(value.get("type"), str):
            name = value["type"].rpartition(".")[2]
            module = "container" if name in ("Sequential", "MergeSum") else "layer"
            named["type"] = f"neon.layers.{module}.{name}"
        return named
    return [as_neon(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_parameters_of_a_pickle_are_read(be, tmp_path, protocol):
    first, second = trained(), Model(layers())
    (tmp_path / "model.prm").write_bytes(pickle.dumps(as_neon(first.serialize()), protocol))
    second.load_params(tmp_path / "model.prm")
    second.initialize(data())
    assert equal(values(first), values(second))


class Attack:
    def __reduce__(self):
        return (eval, ("1 / 0",))


def test_a_pickle_that_calls_something_is_refused(cpu, tmp_path):
    model = trained()
    before = values(model)
    (tmp_path / "model.prm").write_bytes(pickle.dumps({**model.serialize(), "more": Attack()}))
    with pytest.raises(ValueError, match=r"builtins\.eval"):
        model.load_params(tmp_path / "model.prm")
    assert equal(before, values(model))


@pytest.mark.parametrize("content", [b"", b"text", b"\x89HDF\r\n\x1a\n" + bytes(100), pickle.dumps([1])])
def test_foreign_files_are_refused(cpu, tmp_path, content):
    (tmp_path / "model.h5").write_bytes(content)
    with pytest.raises(ValueError, match="What to do"):
        trained(0).load_params(tmp_path / "model.h5")


def test_a_missing_file_is_an_error_of_the_system(cpu, tmp_path):
    with pytest.raises(FileNotFoundError):
        trained(0).load_params(tmp_path / "none.h5")


def test_damaged_files_are_refused_and_nothing_is_loaded(cpu, tmp_path):
    model, path = trained(), tmp_path / "model.h5"
    model.save_params(path)
    content = path.read_bytes()
    other = trained(1)
    before = values(other)
    for end in range(10, len(content) - 1, len(content) // 12):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match="What to do"):
            other.load_params(path)
    assert equal(before, values(other))


def test_parameters_of_other_shapes_leave_the_model_as_it_was(be, tmp_path):
    model = trained()
    before = values(model)
    described = trained(1).serialize()
    described["model"]["config"]["layers"][-1]["params"]["W"] = np.ones((2, 2))
    with pytest.raises(ValueError, match=r"Linear.*\[2, 2\]"):
        model.deserialize(described)
    assert equal(before, values(model))
    del described["model"]["config"]["layers"][-1]["params"]["W"]
    with pytest.raises(ValueError, match="missing"):
        model.deserialize(described)
    assert equal(before, values(model))


@pytest.mark.parametrize(
    ("number", "wrong", "message"),
    [
        (0, {"states": [np.zeros((9, 9))]}, r"Linear.*\[9, 9\], its parameter \[3, 3\]"),
        (0, {"states": "abc"}, r"Linear.*of type str"),
        (1, {"states": [np.zeros((3, 1))]}, r"BatchNorm.*2 parameters"),
        (0, {"type": None}, r"file has None where the model has Linear"),
    ],
)
def test_states_and_layers_that_do_not_fit_leave_the_model_as_it_was(be, number, wrong, message):
    model, described = trained(), trained(1).serialize()
    before = values(model)
    described["model"]["config"]["layers"][number].update(wrong)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        model.deserialize(described)
    assert equal(before, values(model))


def test_what_has_the_parameters_of_some_layers_only_is_refused(cpu):
    model, described = trained(), trained(1).serialize()
    before, rows = values(model), described["model"]["config"]["layers"]
    for wrong in ({name: rows[-1][name] for name in ("type", "config")}, "text"):
        rows[-1] = wrong
        with pytest.raises(ValueError, match="layers"):
            model.deserialize(described)
        assert equal(before, values(model))


@pytest.mark.parametrize("epoch", ["2", -1])
def test_a_count_of_epochs_that_is_none_is_refused(cpu, epoch):
    model = trained()
    before = values(model)
    with pytest.raises(ValueError, match=f"epoch_index is '?{epoch}"):
        model.deserialize({**trained(1).serialize(), "epoch_index": epoch})
    assert equal(before, values(model))


def test_training_goes_on_from_a_file_without_states(be, tmp_path):
    model = trained()
    model.save_params(tmp_path / "model.h5", keep_states=False)
    model.load_params(tmp_path / "model.h5")
    model.fit(data(), GeneralizedCost(SumSquared()), GradientDescentMomentum(0.1, 0.9), 3)
    assert model.epoch_index == 3


def test_files_of_other_layers_are_refused(cpu, tmp_path):
    trained().save_params(tmp_path / "model.h5")
    with pytest.raises(ValueError, match=r"(?s)4 layers.* of 1 layers"):
        Model([Linear(3, INIT)]).load_params(tmp_path / "model.h5")
    with pytest.raises(ValueError, match=r"Linear where the model has BatchNorm"):
        Model([BatchNorm(), BatchNorm(), *layers()[1:]]).load_params(tmp_path / "model.h5")


def test_what_no_file_holds_is_refused_and_the_old_file_stays(cpu, tmp_path):
    path = tmp_path / "model.h5"
    trained(0).save_params(path)
    before = path.read_bytes()
    model = Model([Linear(3, init=lambda: None)])
    model.layers.layers[0].W = cpu.ones((3, 3))
    with pytest.raises(TypeError, match="type function"):
        model.save_params(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["model.h5"]


def test_a_file_has_its_arrays_as_datasets(cpu, tmp_path):
    model = trained(0)
    model.save_params(tmp_path / "model.h5")
    with h5py.File(tmp_path / "model.h5") as file:
        assert set(file) == {"description", "arrays"}
        assert len(file["arrays"]) == len(values(model))
