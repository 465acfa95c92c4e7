"""GraphProfiler: one entry per function, whole graph, training; the CSV file has all of it."""

import csv
import io

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.utils.profiler import GraphProfiler, GraphProfilerCsvWriter


@pytest.fixture
def graph():
    nn.clear_parameters()
    np.random.seed(0)
    x, t = nn.Variable((4, 3)), nn.Variable((4, 1))
    x.d = np.random.randn(4, 3)
    with nn.parameter_scope("net"):
        h = F.relu(PF.affine(x, 5, name="one"))
        loss = F.mean(F.softmax_cross_entropy(PF.affine(h, 2, name="two"), t))
    yield loss
    nn.clear_parameters()


@pytest.mark.parametrize("name", ["reference", "sim"])
def test_every_function_is_measured_where_it_runs(graph, name):
    if name not in nn.available_contexts:
        pytest.skip(f"no extension {name}")
    profiler = GraphProfiler(graph, device_id=0, ext_name=name, n_run=2, time_scale="u")
    with nn.context_scope(nn.get_extension_context("reference")):
        profiler.run()
    result = profiler.get_result()
    for kind in ("forward", "backward"):
        stats = result[kind]
        assert [stat.function_name for stat in stats] == ["Affine", "ReLU", "Affine", "SoftmaxCrossEntropy", "Mean"]
        assert [stat.parameter_scope for stat in stats] == ["net/one/affine", None, "net/two/affine", None, None]
        assert all(stat.n_run == 2 and float(stat.mean_time) > 0 for stat in stats)
        assert all(stat.backend == nn.get_current_context().backends[0][0] for stat in stats)
    assert result["forward"][0].inputs_shape == [(4, 3), (3, 5), (5,)]
    assert dict(result["forward"][0].args_info) == {"base_axis": 1}
    assert float(result["forward_all"]) > 0 and result["n_run_backward_all"] == 2
    assert "training" not in result


def test_a_function_keeps_its_context_and_the_profile_says_so():
    with nn.context_scope(nn.Context("reference")):
        y = F.exp(nn.Variable((2,)))
    profiler = GraphProfiler(F.relu(y), 0, "reference", n_run=1)
    profiler.run()
    assert profiler.result["forward"][0].backend == "reference"


def test_training_moves_the_parameters(graph):
    solver = S.Sgd(0.1)
    solver.set_parameters(nn.get_parameters())
    before = nn.get_parameters()["net/one/affine/W"].d.copy()
    profiler = GraphProfiler(graph, "0", "reference", solver=solver, n_run=3)
    profiler.run()
    assert {"update", "training", "n_run_training", "n_run_update"} <= set(profiler.result)
    assert np.abs(nn.get_parameters()["net/one/affine/W"].d - before).max() > 0


def test_functions_without_gradient_are_left_alone():
    x = nn.Variable((3, 2))
    profiler = GraphProfiler(F.greater_scalar(x, 0.0), 0, "reference", n_run=1)
    profiler.run()
    assert float(profiler.result["backward"][0].mean_time) == 0 and profiler.result["backward"][0].backend == ""


def test_time_is_limited(graph):
    profiler = GraphProfiler(graph, 0, "reference", n_run=10**6, max_measure_execution_time=0.0)
    profiler.run()
    assert all(stat.n_run == 1 for stat in profiler.result["forward"])


def test_the_results_as_text_and_as_csv(graph, capsys):
    solver = S.Sgd()
    solver.set_parameters(nn.get_parameters())
    profiler = GraphProfiler(graph, 0, "reference", solver=solver, n_run=1)
    profiler.run()
    profiler.print_result()
    shown = capsys.readouterr().out
    assert "time scale: m" in shown and "SoftmaxCrossEntropy" in shown and "training: " in shown
    file = io.StringIO(newline="")
    GraphProfilerCsvWriter(profiler, file=file).write()
    rows = list(csv.reader(io.StringIO(file.getvalue())))
    assert rows[:5] == [
        ["num. of run", "1"],
        ["device id", "0"],
        ["ext name", "reference"],
        ["time scale", "m"],
        ["atled version", nn.__version__],
    ]
    assert rows[6][:4] == ["parameter_scope", "function_name", "inputs_shape", "args_info"]
    assert [row[1] for row in rows[7:12]] == ["Affine", "ReLU", "Affine", "SoftmaxCrossEntropy", "Mean"]
    titles = [row[0] for row in rows[12:] if row]
    assert titles[::2] == ["forward all", "backward all", "update", "training(forward + backward + update)"]
    GraphProfilerCsvWriter(profiler)
    assert capsys.readouterr().out.startswith("num. of run,1")


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"n_run": 0}, ValueError, "give 1 or more"),
        ({"time_scale": "s"}, ValueError, "use one of m, u, n"),
        ({"ext_name": "nonesuch"}, ImportError, "usable are"),
        ({"graph": nn.Variable(())}, ValueError, "give the result of a graph"),
    ],
)
def test_bad_arguments_are_refused(graph, change, error, words):
    with pytest.raises(error, match=words):
        GraphProfiler(**{"graph": graph, "device_id": 0, "ext_name": "reference", **change})
