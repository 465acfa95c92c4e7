"""The benchmark against other libraries: its rows, and the cases that need no peer."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from bench_rows import chain, device, elementwise, layers, networks, solvers, starting, training
from bench_table import ROWS
from gpu_table import PARTS
from harness.command import _OURS, _VARIANTS
from harness.worker import measure
from peers import PEERS


@pytest.fixture(autouse=True)
def restored():
    """Cases set the default Context, as befits a process of their own."""
    import atled as nn
    from atled_contexts import reset_default_context

    yield
    nn.clear_parameters()
    reset_default_context()


def test_rows_for_gpus_have_distinct_names_and_cases_that_exist():
    rows = [row for part in PARTS.values() for row in part]
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        for case in {row.case, row.arguments.get("case", row.case)}:
            module, _, function = case.partition(":")
            assert callable(getattr(importlib.import_module(module), function))
        assert row.libraries[0] == "atled-gpu" and all(peer in _OURS for peer in row.libraries)


def test_rows_have_distinct_names_cases_that_exist_and_known_libraries():
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        module, _, function = row.case.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
        assert row.libraries[0] in ("atled", "cuda")
        assert all(_VARIANTS.get(peer, peer) in {*PEERS, *_OURS} for peer in row.libraries)


def test_goals_name_peers_of_their_rows():
    judged = [row for row in ROWS if row.goal is not None]
    assert len(judged) > 30
    assert all(set(row.goal.peers) <= set(row.libraries[1:]) for row in judged)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_dynamic_chain_computes_what_the_static_one_does(dynamic):
    case = chain.chain("atled", "products", backward=True, dynamic=dynamic)
    y, *gradients = case.results()
    h, w, b = (array.astype(np.float64) for array in chain.CHAINS["products"].inputs(np.random.default_rng(4)))
    for _ in range(chain.REPEATS):
        h = np.tanh(h @ w + b)
    np.testing.assert_allclose(y, h, atol=1e-5)
    assert [gradient.shape for gradient in gradients] == [(4, 4), (4, 4), (4,)] and all(map(np.any, gradients))


@pytest.mark.parametrize("case", ["fused", "total", "loss"])
def test_atled_and_numpy_compute_the_same(case):
    make = {
        "fused": lambda library: elementwise.fused(library, 1000, backward=False),
        "total": lambda library: elementwise.total(library, 0),
        "loss": layers.softmax_cross_entropy,
    }[case]
    for ours, theirs in zip(make("atled").results(), make("numpy").results(), strict=True):
        np.testing.assert_allclose(np.ravel(ours), np.ravel(theirs), rtol=1e-3, atol=1e-6)


def test_a_depthwise_convolution_has_gradients_of_the_weights_shape():
    case = layers.convolution("atled", (2, 4, 6, 6), 4, 3, 1, backward=True, groups=4)
    assert [array.shape for array in case.results()] == [(2, 4, 6, 6), (2, 4, 6, 6), (4, 1, 3, 3), (4,)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_training_lowers_the_loss(dynamic, monkeypatch):
    data = next(networks.batches(networks.NETWORKS["digits"]))
    monkeypatch.setattr(training, "batches", lambda network: iter([data] * 20))
    case = training.training_step("atled", "digits", dynamic)
    losses = [case.run() for _ in range(10)]
    assert losses[-1] < 0.9 * losses[0]


def test_shapes_of_a_network_are_found_without_a_library():
    found = networks.initial_parameters(networks.NETWORKS["lenet"])
    assert found["conv2/conv/W"].shape == (16, 16, 5, 5) and found["affine1/affine/W"].shape == (256, 50)
    residual = networks.initial_parameters(networks.NETWORKS["resnet"])
    assert sum(name.endswith("conv/W") for name in residual) == 1 + 18 + 2
    assert residual["stage2block0shortcut/bn/var"].min() == 1 and networks.is_statistic("first/bn/mean")


def test_numpys_adam_is_ours(monkeypatch):
    monkeypatch.setattr(solvers, "_PARAMETER_SIZES", [3, 7])
    for ours, theirs in zip(*(solvers.adam_update(library).results() for library in ("atled", "numpy")), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.slow
def test_a_fresh_interpreter_is_timed_and_its_memory_read():
    assert 0.005 < starting.import_time("json").run() < 60
    assert 1e6 < starting.import_memory("json").run() < 1e9


@pytest.mark.slow
def test_a_failing_interpreter_is_an_error_with_its_words():
    with pytest.raises(
        RuntimeError, match="a fresh interpreter failed: ModuleNotFoundError: No module named 'nowhere'"
    ):
        starting.import_time("nowhere")


def test_a_case_that_computes_can_be_timed():
    assert 0 < measure(elementwise.total("numpy", 1).run, 0.01) < 1


def test_an_empty_device_does_what_a_computing_one_does():
    pytest.importorskip("atled_sim")
    case = device.bound_plan("atled", 3)
    case.run()
    assert case.note == "1 launches, 1 replays"
    device._opened.close()


def test_a_device_that_does_otherwise_when_it_is_empty_fails_its_row(monkeypatch):
    pytest.importorskip("atled_sim")
    counts = iter([{"launches": 3}, {"launches": 0}])
    monkeypatch.setattr(device, "_counts", lambda sim, run: next(counts))
    with pytest.raises(AssertionError, match="does otherwise than the computing one"):
        device.addition("atled", limit_us=1)
    device._opened.close()
