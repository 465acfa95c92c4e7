"""What needs PyTorch: the conformance kit, formulas, DLPack, a network that learns."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("atled_torch", reason="the example is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed; make check-torch does it")

import torch

import atled as nn
import atled.functions as F
import atled.solvers as S

README = Path(__file__).parents[1] / "README.md"


@pytest.fixture
def context():
    """Everything on torch, or an error."""
    with nn.context_scope(nn.get_extension_context("torch", fallback="raise")) as made:
        yield made


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_the_conformance_kit_finds_nothing():
    done = python(
        "-m", "pytest", "-q", "--pyargs", "atled.conformance", "--atled-plugin", "torch", "--max-examples", "5"
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


def test_a_chain_of_formulas_is_one_step(context):
    x = nn.Variable.from_numpy_array(np.linspace(-2, 2, 9, dtype=np.float32))
    y = F.tanh(x * 2.0) + F.sigmoid(x)
    with nn.trace() as trace:
        y.forward()
    (row,) = (row for row in trace.rows() if row.backend == "torch")
    assert row.calls == 1
    np.testing.assert_allclose(y.d, np.tanh(2 * x.d) + 1 / (1 + np.exp(-x.d)), rtol=1e-5)


def test_attributes_are_as_exact_as_float64(context):
    x = nn.NdArray.from_numpy_array(np.ones(1, np.float32))
    got = F.pow_scalar(F.add_scalar(x, -1.0) + (1 - 0.999), 1.0).data
    np.testing.assert_allclose(got, [1 - 0.999], rtol=1e-6)


def test_a_wrong_label_or_place_is_an_index_error(context):
    x = nn.NdArray.from_numpy_array(np.zeros((2, 4), np.float32))
    with pytest.raises(IndexError, match="target 1 to 4 is out of range: there are 4"):
        F.softmax_cross_entropy(x, nn.NdArray.from_numpy_array(np.array([[1], [4]])))


def test_what_is_not_here_falls_back_and_says_so():
    with nn.context_scope(nn.get_extension_context("torch", fallback="quiet")), nn.trace() as trace:
        F.prod(nn.Variable.from_numpy_array(np.ones(3, np.float32))).forward()
    assert "reference" in {row.backend for row in trace.rows()}


def test_the_example_of_the_readme_shares_memory():
    (code,) = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    done = python("-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[2. 2. 2.]\n"


def test_the_digits_network_learns_as_on_the_reference():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    from atled.demo.digits import batches, load_digits
    from atled.demo.network import digit_scores, mean_loss

    def accuracy(context):
        nn.clear_parameters()
        np.random.seed(3)
        digits, rng = load_digits(), np.random.RandomState(3)
        with nn.context_scope(context):
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

    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)  # the arrays are small, and other tests run beside this one
        # No other backend is in the list: whatever torch did not compute would be an error.
        ours = accuracy(nn.Context("torch:float", fallback="raise"))
        theirs = accuracy(nn.Context("reference:float", fallback="raise"))
    finally:
        torch.set_num_threads(threads)
        nn.clear_parameters()
    assert theirs > 0.9
    assert abs(ours - theirs) < 0.02
