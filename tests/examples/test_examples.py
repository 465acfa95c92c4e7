"""The examples run, in short form, and come out as they promise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the examples draw with matplotlib")

pytestmark = pytest.mark.usefixtures("no_parameters")

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
PNG = b"\x89PNG\r\n\x1a\n"


def load(name):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, folder, *arguments, context="reference"):
    outcome = load(name).main([*map(str, arguments), "--out", str(folder / "new"), "--context", context])
    assert outcome.picture.parent == folder / "new"
    assert outcome.picture.read_bytes().startswith(PNG)
    return outcome


@pytest.mark.parametrize("name", NAMES)
def test_help_describes_the_example(name, capsys):
    module = load(name)
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert module.__doc__.splitlines()[0] in shown
    assert f"python examples/{name}.py" in shown


@pytest.mark.slow
def test_logistic_regression_separates_the_moons(tmp_path, capsys):
    outcome = run("logistic_regression", tmp_path, "--steps", 300)
    assert outcome.losses[-1] < 0.1 < 0.6 < outcome.losses[0]
    assert outcome.accuracy > 0.98
    assert str(outcome.picture) in capsys.readouterr().out


@pytest.mark.slow
def test_logistic_regression_with_a_straight_line_cannot(tmp_path):
    outcome = run("logistic_regression", tmp_path, "--steps", 300, "--degree", 1)
    assert 0.8 < outcome.accuracy < 0.95


@pytest.mark.slow
def test_static_and_dynamic_graphs_have_the_same_losses(tmp_path, capsys):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = run("cnn_static_and_dynamic", tmp_path, "--steps", 15)
    assert outcome.static.losses == outcome.dynamic.losses
    assert np.mean(outcome.static.losses[-5:]) < np.mean(outcome.static.losses[:5])
    assert outcome.static.step_ms > 0
    assert "largest difference: 0" in capsys.readouterr().out


@pytest.mark.slow
def test_vector_length_is_learned(tmp_path):
    outcome = run("vector_length", tmp_path, "--steps", 500)
    assert np.mean(outcome.losses[-20:]) < 0.05 * np.mean(outcome.losses[:20])
    assert outcome.error < 0.5


@pytest.mark.slow
def test_a_multi_layer_perceptron_reads_digits(tmp_path):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = run("mlp", tmp_path, "--epochs", 4, "--hidden", 64, 32)
    assert outcome.losses[-1] < 0.25 * outcome.losses[0]
    assert outcome.errors[-1] < 0.1


@pytest.mark.slow
def test_an_elman_network_knows_more_the_more_rows_it_has_read(tmp_path, capsys):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = run("elman_rnn", tmp_path, "--epochs", 3)
    assert outcome.losses[-1] < 0.85 * outcome.losses[0]
    assert outcome.accuracies[0] < 0.3 < 0.5 < outcome.accuracies[5]
    assert "right after row 8" in capsys.readouterr().out


@pytest.mark.slow
def test_a_siamese_network_maps_equal_digits_close_together(tmp_path):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = run("siamese", tmp_path, "--steps", 50)
    assert np.mean(outcome.losses[-10:]) < 0.8 * np.mean(outcome.losses[:5])
    assert outcome.accuracy > 0.4  # by chance it is 0.1


@pytest.mark.slow
def test_mixed_precision_learns_and_finds_its_loss_scale(tmp_path, capsys):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = run("mixed_precision", tmp_path, "--steps", 30, "--interval", 10, "--batch-size", 32)
    assert outcome.half.dtype == np.float16 and outcome.single.dtype == np.float32
    for training in (outcome.single, outcome.half):
        assert np.mean(training.losses[-5:]) < 0.5 * np.mean(training.losses[:3])
    assert set(outcome.single.scales) == {1.0}
    assert outcome.half.scales[0] < 2.0**20 and np.max(np.diff(outcome.half.scales)) > 0
    assert "float16" in capsys.readouterr().out


@pytest.mark.slow
def test_op_trees_of_neon_learn_digits(tmp_path, capsys):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = run("neon_optree", tmp_path, "--epochs", 8)
    assert outcome.costs[-1] < 0.3 * outcome.costs[0]
    assert outcome.accuracy > 0.9
    assert "a tree: ({'op': 'add', 'shape': (2, 2)}, x0," in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("context", ["cpu", "sim"])
def test_a_model_of_neon_learns_digits(context, tmp_path, capsys):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = load("neon_mlp").main(["--epochs", "10", "--out", str(tmp_path / "new"), "--context", context])
    assert outcome.picture.read_bytes().startswith(PNG)
    assert outcome.costs[-1] < 0.3 * outcome.costs[0]
    assert outcome.accuracy == pytest.approx(1 - outcome.errors[-1]) and outcome.accuracy > 0.92
    lines = capsys.readouterr().out.splitlines()  # one per epoch where there is no terminal
    assert len([line for line in lines if line.startswith("epoch ")]) == 10 and "\r" not in "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["cpu", "sim"])
def test_a_recurrent_network_of_neon_puts_spaces_back(tmp_path, capsys, context):
    outcome = run("neon_birnn", tmp_path, "--epochs", 2, "--lines", 600, "--units", 24, context=context)
    assert outcome.costs[-1] < 0.85 * outcome.costs[0]
    assert 0 <= outcome.f1 < 1
    told = capsys.readouterr().out
    assert "  read: " in told and "\nepoch   2  cost" in told and "\r" not in told


@pytest.mark.slow
@pytest.mark.parametrize("context", ["cpu", "sim"])
def test_a_convolutional_network_of_neon_sees_what_is_up(tmp_path, capsys, context):
    pytest.importorskip("sklearn", reason="the photographs come with scikit-learn")
    outcome = run("neon_conv", tmp_path, "--pieces", 256, "--epochs", 2, context=context)
    assert outcome.costs[1] < outcome.costs[0]
    assert len(outcome.accuracies) == 2
    assert "epoch  2 of 2" in capsys.readouterr().out


@pytest.mark.slow
def test_a_restricted_boltzmann_machine_learns_digits_and_annealing_measures_it(tmp_path, capsys):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = run("rbm", tmp_path, "--epochs", 3, "--hidden", 30, "--temperatures", 300, context="cpu")
    assert outcome.errors[-1] < 0.9 * outcome.errors[0]
    assert outcome.small == pytest.approx(outcome.exact, abs=0.1)
    assert -64 * np.log(2) < outcome.likelihood < 0
    assert "log-likelihood of held-out digits" in capsys.readouterr().out


@pytest.mark.slow
def test_a_deep_boltzmann_machine_reconstructs_digits_better_than_a_flat_one(tmp_path, capsys):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    outcome = run("dbm", tmp_path, "--epochs", 8, "--hidden", 100, 30, context="cpu")
    assert outcome.error == outcome.errors[-1] < outcome.flat < 0.1
    assert 2 <= outcome.sweeps < 100
    assert "sweeps of mean field until nothing moves" in capsys.readouterr().out


@pytest.mark.slow
def test_a_recurrence_by_hand_learns_to_add_fifty_numbers(tmp_path, capsys):
    outcome = run("scan_rnn", tmp_path, "--batches", 400, context="cpu")
    assert np.mean(outcome.losses[-20:]) < 0.1 * np.mean(outcome.losses[:5])
    assert outcome.error < 0.05
    assert "sums of 50 numbers that it never saw" in capsys.readouterr().out
