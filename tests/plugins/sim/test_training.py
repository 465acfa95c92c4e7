"""Training on the simulated device: the reference's numbers, bit for bit, and no copy that nobody asked for."""

import gc
import os
import sys

import numpy as np
import pytest

import atled as nn
import atled_sim
from atled.arrays.place import TRANSFERS
from atled_contexts import fallback_counts

sys.path.append(os.path.dirname(__file__))  # for network: pytest's importlib mode leaves this folder off the path

from network import BATCH, BATCH_BYTES, Training, assert_same_bits, predict


def reference(type_config="float"):
    return nn.Context([f"reference:{type_config}"])


def on_sim(type_config="float", **options):
    return nn.get_extension_context("sim", type_config=type_config, fallback="raise", **options)


@pytest.mark.parametrize("type_config", ["float", "half", "double", "bf16"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_training_gives_the_numbers_of_the_reference(type_config, dynamic):
    wanted = Training(reference(type_config)).run(5, dynamic)
    assert_same_bits(Training(on_sim(type_config)).run(5, dynamic), wanted)


def test_only_the_batch_and_what_is_read_is_moved(device):
    training = Training(on_sim())
    training.run(3)
    training.step()  # reading the parameters, as `run` does at its end, makes the next step fetch them
    for _ in range(3):
        TRANSFERS.reset()
        device.reset_counts()
        with nn.trace() as trace:
            training.step()
        assert (TRANSFERS.calls, TRANSFERS.bytes_moved) == (3, BATCH_BYTES + 4)
        assert (device.counts.uploads, device.counts.uploaded_bytes) == (2, BATCH_BYTES)
        assert (device.counts.downloads, device.counts.downloaded_bytes) == (1, 4)
        moves = {(row.source, row.destination): (row.count, row.nbytes) for row in trace.transfers()}
        assert moves == {("host", "SimArray:0"): (2, BATCH_BYTES), ("SimArray:0", "host"): (1, 4)}
        assert {row.backend for row in trace.rows()} == {"sim", "engine"}
        assert sum(row.bytes_moved for row in trace.rows()) == BATCH_BYTES
    assert fallback_counts() == {}


def test_a_step_that_is_repeated_allocates_nothing(device):
    training = Training(on_sim())
    for _ in range(3):
        training.step()
    device.reset_counts()
    for _ in range(3):
        training.step()
    assert device.counts.allocations == 0


@pytest.mark.slow
def test_rebuilding_the_graph_needs_no_more_memory_with_time(device):
    training = Training(on_sim())
    used = []
    for _ in range(10):
        training.dynamic_step()
        gc.collect()
        used.append(device.memory.bytes_in_use)
    assert len(set(used[6:])) == 1  # until then calls become known, and keep small results to be used again


def test_dropping_a_model_gives_its_memory_back(device):
    before = device.memory.bytes_in_use
    training = Training(on_sim())
    training.step()
    assert device.memory.bytes_in_use > before
    del training
    nn.clear_parameters()
    gc.collect()
    assert device.memory.bytes_in_use == before


def test_parameters_moments_and_statistics_live_on_the_device():
    training = Training(on_sim())
    training.step()
    for name, variable in nn.get_parameters(grad_only=False).items():
        assert repr(variable.data.cell.place) == "SimArray:0", name
    for parameter in training.solver._parameters.values():
        assert all(repr(cell.place) == "SimArray:0" for cell in (parameter.gradient, *parameter.states))


def test_half_keeps_single_precision_master_weights():
    training = Training(on_sim("half"))
    training.step()
    assert {v.data.dtype for v in nn.get_parameters().values()} == {np.dtype(np.float32)}


def test_evaluation_shares_the_parameters_on_the_device():
    results = []
    for context in (reference(), on_sim()):
        training = Training(context)
        for _ in range(3):
            training.step()
        x = nn.Variable((BATCH, 1, 8, 8))
        with nn.context_scope(context):
            y = predict(x, train=False)
        x.d = np.random.default_rng(1).standard_normal(x.shape)
        TRANSFERS.reset()
        y.forward()
        if context.backends[0][0] == "sim":
            assert (TRANSFERS.calls, TRANSFERS.bytes_moved) == (1, x.size * 4)
        results.append(y.d.copy())
    np.testing.assert_array_equal(*results)


def test_the_second_device_is_another_memory():
    other = atled_sim.device("1")
    training = Training(on_sim(device_id="1"))
    training.step()
    assert other.counts.launches > 0
    assert atled_sim.device("0").counts.launches == 0


def test_the_solver_may_be_elsewhere():
    wanted = Training(reference()).run(4)
    training = Training(on_sim(), solver_context=reference())
    assert_same_bits(training.run(4), wanted)
    parameters = nn.get_parameters()
    for _ in range(2):
        training.step()
    TRANSFERS.reset()
    training.step()
    # Down come the gradients and the loss; up go the batch, the parameters and, with the decay in them, no gradients.
    assert TRANSFERS.calls == 2 * len(parameters) + 3


def test_reading_and_changing_parameters_between_steps_is_seen():
    results = []
    for context in (reference(), on_sim()):
        training = Training(context)
        norms = []
        for step in range(4):
            training.step()
            weight = nn.get_parameters()["conv1/conv/W"]
            norms.append(float(np.square(weight.d).sum()))
            if step == 1:
                weight.d *= 0.5
            if step == 2:
                nn.get_parameters()["fc1/affine/b"].d = 1.0
        results.append((norms, training.run(1)))
    assert results[0][0] == results[1][0]
    assert_same_bits(results[1][1], results[0][1])


def test_a_held_view_of_a_parameter_shows_updates_and_takes_changes():
    results = []
    for context in (reference(), on_sim()):
        training = Training(context)
        training.step()
        view = nn.get_parameters()["fc2/affine/W"].d
        seen = []
        for _ in range(3):
            training.step()
            seen.append(view.copy())
            view[0, :] = 0.25
        results.append((seen, training.run(1)))
    np.testing.assert_array_equal(results[1][0], results[0][0])
    assert_same_bits(results[1][1], results[0][1])
