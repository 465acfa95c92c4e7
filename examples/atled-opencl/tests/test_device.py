"""What needs an OpenCL runtime: the conformance kit, asynchrony, wrong labels, the digits network."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("atled_opencl", reason="the example is not installed")

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.keyed import Description
from atled.plugin import ArrayDesc, Usable
from atled_contexts import reload_plugins
from atled_opencl import runtime
from atled_opencl.plugin import ARRAY_CLASS, PLUGIN

_PROBED = PLUGIN.atled_probe()
pytestmark = pytest.mark.skipif(
    not isinstance(_PROBED, Usable),
    reason="" if isinstance(_PROBED, Usable) else f"{_PROBED.reason}; {_PROBED.remedy}, or make check-opencl",
)

# On a simulator: the first two samples of each op, and of ops with formulas a few.
_OPS = "Affine or Batch or Conv or Pool or Softmax or Sum or Mean or Adam or Tanh or Cast or MRG"
_FAULT = re.compile(r"(OCLGRIND|.*data race|Invalid (read|write))")
_SIMULATED = f"(test_values or test_runs) and (-0-float or -1-float) and ({_OPS})"


def is_simulator():
    """Whether the first device is a simulator, a thousand times slower than a device."""
    (first, *_) = runtime.devices()
    return "Oclgrind" in str(first.context.devices)


@pytest.fixture
def context():
    """Everything on the device, or an error."""
    with nn.context_scope(nn.get_extension_context("opencl", fallback="raise")) as made:
        yield made


def synchronize(context):
    """As a user waits for the device."""
    nn.ext_utils.import_extension_module("opencl").synchronize(context.device_id)


def python(*arguments):
    environment = {**os.environ, "OCLGRIND_DATA_RACES": "1"}  # other runtimes do not look at it
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)


def test_the_conformance_kit_finds_nothing():
    chosen = ["-s", "-k", _SIMULATED] if is_simulator() else ["--max-examples", "5"]
    done = python("-m", "pytest", "-q", "--pyargs", "atled.conformance", "--atled-plugin", "opencl", *chosen)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    # Oclgrind tells of races and bad accesses, and goes on.
    told = [line for line in (done.stdout + done.stderr).splitlines() if _FAULT.match(line)]
    assert not told, told


def test_the_manifest_is_up_to_date():
    done = python("-m", "atled", "manifest", "opencl", "--check")
    assert done.returncode == 0, done.stderr


def test_a_launch_returns_before_the_work_is_done():
    if is_simulator():
        pytest.skip("Oclgrind works when it is waited for")
    big = ARRAY_CLASS.allocate(ArrayDesc((1 << 24,)), "0")
    ARRAY_CLASS.fill(big, 1.0)
    ARRAY_CLASS.synchronize("0")
    first = ARRAY_CLASS.timestamp("0")
    for _ in range(20):
        ARRAY_CLASS.fill(big, 2.0)
    last = ARRAY_CLASS.timestamp("0")
    status = last.command_execution_status
    assert status != 0, "complete: 20 fills of 64 MiB were waited for"
    assert ARRAY_CLASS.seconds_between(first, last) > 0


def test_a_chain_is_one_launch(context):
    x = nn.Variable.from_numpy_array(np.linspace(-2, 2, 9, dtype=np.float32))
    y = F.tanh(x * 2.0) + F.sigmoid(x)
    with nn.trace() as trace:
        y.forward()
    (row,) = (row for row in trace.rows() if row.backend == "opencl")
    assert row.calls == 1
    np.testing.assert_allclose(y.d, np.tanh(2 * x.d) + 1 / (1 + np.exp(-x.d)), rtol=1e-5)


def array(*shape, seed=0):
    return nn.Variable.from_numpy_array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


ATTACHED = {
    "Convolution+Add2+ReLU": lambda x, w: F.relu(F.convolution(x, w, array(4), pad=(1, 1)) + x),
    "Affine+MulScalar+Tanh": lambda x, w: F.tanh(F.affine(x, array(100, 6)) * 0.5),
    "BatchMatmul+Sub2": lambda x, w: F.batch_matmul(x, x, transpose_b=True) - x,
    "Mean+Tanh": lambda x, w: F.tanh(F.mean(x)),
    "Sum+PowScalar": lambda x, w: F.sum(F.exp(x), axis=(0, 2, 3)) ** 0.5,
}


def test_a_kernel_reads_before_it_writes(context):
    x = nn.NdArray.from_numpy_array(np.float32([1, 2, 3]))
    d = Description()
    before = d.leaf(x)
    d.result(before)
    d.assign(x, d.call("Sub2", before, before))
    (result,) = d.run()
    assert len(d.plan.steps) == 1
    np.testing.assert_array_equal(result.data, [1, 2, 3])
    np.testing.assert_array_equal(x.data, 0)


@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.parametrize("name", ATTACHED)
def test_formulas_are_parts_of_kernels(name, size, context):
    x, w = array(3 * size, 4, 5, 5), array(4, 4, 3, 3)
    y = ATTACHED[name](x, w)
    y.forward()
    assert name in [step.name for step in y.plan.steps]
    with nn.context_scope(nn.Context(["reference"])):
        wanted = ATTACHED[name](x, w)
        wanted.forward()
    np.testing.assert_allclose(y.d, wanted.d, rtol=1e-4, atol=1e-5)


def test_a_training_step_is_one_program_that_sees_changes(context):
    def trained(observed):
        rng = np.random.default_rng(0)
        x, w = (nn.Variable.from_numpy_array(rng.standard_normal((4, 4)).astype(np.float32)) for _ in range(2))
        w.need_grad = True
        solver = S.Adam(0.1)
        solver.set_parameters({"w": w})
        step = nn.compile_step(F.mean(F.tanh(F.affine(x, w)) ** 2), solver)
        found = []
        for number in range(6):
            solver.set_learning_rate(0.1 / (1 + number // 2))
            x.d = x.d + 0.1
            if observed:
                with nn.trace():
                    step()
            else:
                step()
            found.append(w.d.copy())
        assert f"device program of {len(step.plan.steps)}" in str(step.plan)
        return found

    np.testing.assert_array_equal(trained(observed=False), trained(observed=True))


def test_a_wrong_label_is_an_error_when_the_host_waits_and_only_once(context):
    x = nn.Variable.from_numpy_array(np.zeros((2, 4), np.float32))
    target = nn.Variable.from_numpy_array(np.array([[1], [4]]))
    loss = F.softmax_cross_entropy(x, target)
    loss.forward()
    with pytest.raises(IndexError, match=r"SoftmaxCrossEntropy\(.*out of range"):
        synchronize(context)
    synchronize(context)
    target.d = [[1], [3]]
    loss.forward()
    np.testing.assert_allclose(loss.d, np.full((2, 1), np.log(4)), rtol=1e-6)


@pytest.mark.parametrize("runs_before", [0, 3])
def test_a_step_with_a_wrong_label_moves_no_parameter_and_no_statistic_behind_it(runs_before):
    context = nn.get_extension_context("opencl", fallback="quiet")  # the step's first gradient is made on the host
    nn.clear_parameters()
    with nn.context_scope(context):
        _fail_in_steps(context, runs_before)
    nn.clear_parameters()


def _fail_in_steps(context, runs_before):
    x = nn.Variable.from_numpy_array(np.random.default_rng(0).standard_normal((4, 3)).astype("f"))
    target = nn.Variable.from_numpy_array(np.array([[0], [1], [2], [1]]))
    loss = F.mean(PF.batch_normalization(F.softmax_cross_entropy(PF.affine(x, 3), target)) ** 2)
    solver = S.Adam(0.1)
    solver.set_parameters(nn.get_parameters())
    step = nn.compile_step(loss, solver)
    for _ in range(runs_before):
        step()
    before = {name: parameter.d.copy() for name, parameter in nn.get_parameters(grad_only=False).items()}
    target.d = [[0], [1], [3], [1]]
    step()
    step()
    with pytest.raises(IndexError, match="SoftmaxCrossEntropy"):
        synchronize(context)
    for name, parameter in nn.get_parameters(grad_only=False).items():
        np.testing.assert_array_equal(parameter.d, before[name], err_msg=name)


def test_what_has_no_kernel_falls_back_and_says_so():
    with nn.context_scope(nn.get_extension_context("opencl", fallback="quiet")), nn.trace() as trace:
        y = F.prod(nn.Variable.from_numpy_array(np.ones(3, np.float32)))
        y.forward()
    assert "reference" in {row.backend for row in trace.rows()}


def test_the_digits_network_learns_as_on_the_reference():
    if is_simulator():
        pytest.skip("would take hours on a simulator; make check-opencl uses a real runtime")
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    from atled.demo.digits import batches, load_digits
    from atled.demo.network import digit_scores, mean_loss

    def accuracy(name):
        nn.clear_parameters()
        np.random.seed(3)
        digits, rng = load_digits(), np.random.RandomState(3)
        with nn.context_scope(nn.get_extension_context(name)):
            images, labels = nn.Variable((32, 1, 8, 8)), nn.Variable((32, 1))
            loss, solver = mean_loss(images, labels), S.Adam(0.003)
            solver.set_parameters(nn.get_parameters())
            for _ in range(4):
                for images.d, labels.d in batches(digits.train_images, digits.train_labels, 32, rng):
                    loss.forward()
                    solver.zero_grad()
                    loss.backward()
                    solver.update()
            scores = digit_scores(nn.Variable.from_numpy_array(digits.test_images), training=False)
            scores.forward()
            return float((scores.d.argmax(1) == digits.test_labels[:, 0]).mean())

    try:
        ours, theirs = accuracy("opencl"), accuracy("reference")
    finally:
        nn.clear_parameters()
    assert theirs > 0.9
    assert abs(ours - theirs) < 0.02


def test_devices_survive_a_reload_of_the_plugins(context):
    x = nn.Variable.from_numpy_array(np.ones(3, np.float32))
    y = x + 1
    y.forward()
    reload_plugins()
    y.forward()
    np.testing.assert_array_equal(y.d, [2, 2, 2])
