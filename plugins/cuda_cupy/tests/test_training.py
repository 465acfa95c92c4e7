"""Whole steps: on several devices and threads, with what only the device finds wrong."""

import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled_cuda_cupy.devices import device_ids

two_devices = pytest.mark.skipif("len(device_ids()) < 2", reason="needs two devices")


@pytest.fixture(autouse=True, params=["at once", "as late as it may be"])
def when(request):
    """When the emulator's devices work; late, a missing wait shows."""
    if request.param == "at once":
        yield
        return
    with request.getfixturevalue("emulated").deferred():
        yield


def perceptron(seed=0):
    """Data, loss and solver of a small classifier with batch normalization."""
    rng = np.random.default_rng(seed)
    x = nn.Variable.from_numpy_array(rng.standard_normal((8, 6)).astype("f"))
    target = nn.Variable.from_numpy_array(rng.integers(0, 3, (8, 1)))
    with nn.parameter_scope(f"net{seed}"):
        hidden = F.relu(PF.batch_normalization(PF.affine(x, 16, name="first")))
        loss = F.mean(F.softmax_cross_entropy(PF.affine(hidden, 3, name="second"), target))
        solver = S.Adam(0.05)
        solver.set_parameters(nn.get_parameters())
    return target, loss, solver


def trained(step, loss, context, steps=6):
    """The losses of some steps."""
    found = []
    with nn.context_scope(context):
        for _ in range(steps):
            step()
            found.append(float(loss.d))
    return found


def prepared(context, seed):
    nn.random.seed(seed)
    with nn.context_scope(context):
        _, loss, solver = perceptron(seed)
        return nn.compile_step(loss, solver), loss, context


def test_a_perceptron_trains_without_leaving_the_device(cuda):
    nn.random.seed(0)
    with nn.context_scope(cuda):
        _, loss, solver = perceptron()
        step = nn.compile_step(loss, solver)
        for _ in range(3):
            step()
        first = float(loss.d)
        for _ in range(20):
            step()
        assert float(loss.d) < first / 2
        assert "device program of" in str(step.plan)


def test_a_wrong_label_is_an_error_when_the_host_waits_and_only_once(cuda, arrays):
    x = nn.Variable.from_numpy_array(np.zeros((2, 4), np.float32))
    target = nn.Variable.from_numpy_array(np.array([[1], [4]]))
    module = nn.ext_utils.import_extension_module("cuda")
    with nn.context_scope(cuda):
        loss = F.softmax_cross_entropy(x, target)
        loss.forward()
        with pytest.raises(IndexError, match=r"SoftmaxCrossEntropy\(.*out of range"):
            module.synchronize("0")
        module.synchronize("0")
        target.d = [[1], [3]]
        loss.forward()
        np.testing.assert_allclose(loss.d, np.full((2, 1), np.log(4)), rtol=1e-6)


@pytest.mark.parametrize("runs_before", [0, 3])
def test_a_step_with_a_wrong_label_moves_no_parameter_and_no_statistic(cuda, runs_before):
    nn.random.seed(0)
    with nn.context_scope(cuda):
        target, loss, solver = perceptron()
        step = nn.compile_step(loss, solver)
        for _ in range(runs_before):
            step()
        target.d = np.full((8, 1), 7)
        step()
        with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
            nn.ext_utils.import_extension_module("cuda").synchronize("0")
        target.d = np.zeros((8, 1))
        step()
        assert np.isfinite(loss.d)


@two_devices
def test_the_second_device_computes_what_the_first_one_made(cuda):
    with nn.context_scope(cuda):
        x = nn.Variable.from_numpy_array(np.linspace(-1, 1, 6).astype("f"))
        y = F.tanh(x)
        y.forward()
    with nn.context_scope(cuda.replace(device_id="1")):
        z = F.exp(nn.Variable.from_numpy_array(np.zeros(6, "f")) + y)
        z.forward()
    np.testing.assert_allclose(z.d, np.exp(np.tanh(x.d)), rtol=1e-6)


def test_threads_train_at_once_as_one_after_the_other(cuda):
    contexts = {1: cuda, 2: cuda.replace(device_id=device_ids()[-1]), 3: cuda}
    wanted = {seed: trained(*prepared(context, seed)) for seed, context in contexts.items()}
    nn.clear_parameters()
    ready = {seed: prepared(context, seed) for seed, context in contexts.items()}
    found, wrong = {}, []

    def work(seed):
        try:
            found[seed] = trained(*ready[seed])
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert found == wanted
