"""What an inference refuses, and what it says."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.errors import RefusedError


@pytest.fixture(autouse=True)
def no_parameters():
    nn.clear_parameters()
    with nn.auto_forward(False):
        yield
    nn.clear_parameters()


def layer():
    x = nn.Variable((2, 4))
    return x, F.relu(PF.affine(x, 3))


def test_another_count_of_arrays_is_refused():
    x, y = layer()
    with pytest.raises(TypeError, match=r"an inference of 1 inputs: 2 arrays were given"):
        nn.inference(y, x)(1, 2)


def test_another_shape_is_refused_by_name_with_what_fits():
    x, y = layer()
    with pytest.raises(
        RefusedError, match=r"inputs\[0\] of shape \(2, 5\)(?s:.*)recorded with \(2, 4\)(?s:.*)\(N, 4\)"
    ):
        nn.inference(y, x)(np.zeros((2, 5), np.float32))


@pytest.mark.parametrize("record", [lambda x: F.reshape(x, (4, 2)), lambda x: PF.affine(x, 3)])
def test_a_refused_shape_is_told_in_one_message(record):
    x = nn.Variable((2, 4))
    y = record(x)
    with pytest.raises(RefusedError) as caught:
        nn.inference(y, x)(np.zeros((3, 5), np.float32))
    text = str(caught.value)
    assert [text.count(part) for part in ("What to do:", "Considered:")] == [1, 1]
    assert text.index("Considered:") < text.index("What to do:") and "recorded with (2, 4)" in text


def test_integers_are_taken_as_indices_whatever_the_input_held():
    x = nn.Variable((2, 3))
    x.d = 0  # float32
    infer = nn.inference(PF.embed(x, 10, 4), x)
    wanted = infer(np.full((2, 3), 7, np.float32))
    for dtype in (np.int64, np.int32, np.uint8):
        np.testing.assert_array_equal(infer(np.full((2, 3), 7, dtype)), wanted)


def test_integers_are_refused_where_the_input_is_read_as_numbers_too():
    x = nn.Variable((2, 3))
    x.d = 0
    infer = nn.inference([PF.embed(x, 10, 4), F.exp(x)], x)
    with pytest.raises(TypeError, match=r"of dtype int64(?s:.*)input is float32"):
        infer(np.zeros((2, 3), np.int64))


def test_another_count_of_axes_is_refused():
    x, y = layer()
    with pytest.raises(RefusedError, match=r"inputs\[0\] of shape \(4,\)(?s:.*)2 axes(?s:.*)\(N, 4\)"):
        nn.inference(y, x)(np.zeros(4, np.float32))


def test_a_dtype_that_would_lose_digits_is_refused():
    x, y = layer()
    with pytest.raises(TypeError, match=r"inputs\[0\] of dtype float64(?s:.*)the input is float32(?s:.*)astype"):
        nn.inference(y, x)(np.zeros((2, 4)))


@pytest.mark.parametrize("config", ["float", "half", "bf16"])
def test_the_cast_that_a_refused_dtype_names_is_one(config):
    pytest.importorskip("ml_dtypes", reason="bf16 needs it")
    with nn.context_scope(nn.Context([f"reference:{config}"])):
        x, y = layer()
    infer, array = nn.inference(y, x), np.zeros((2, 4))
    with pytest.raises(TypeError, match="of dtype float64") as caught:
        infer(array)
    assert infer(eval(str(caught.value).rpartition(": ")[2])).shape == (2, 3)


class NotHere:
    """Refuses to become an array, as tensors of other libraries that need gradients do."""

    dtype = np.dtype(np.float32)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array: it needs gradients")


@pytest.mark.parametrize("given", ["abc", None, [[1, 2], [3]], [object()], [[10**400] * 4], NotHere()])
def test_what_is_no_array_of_numbers_is_refused_by_name_with_what_fits(given):
    x, y = layer()
    words = rf"inputs\[0\] of type {type(given).__name__}(?s:.*)no[t ](?s:.*)float32(?s:.*)shape \(N, 4\)"
    with pytest.raises((TypeError, RefusedError), match=words if given is not None else r"inputs\[0\]"):
        nn.inference(y, x)(given)


def test_a_refused_call_leaves_the_inference_usable():
    x, y = layer()
    infer = nn.inference(y, x)
    wanted = infer(np.ones((2, 4), np.float32))
    with pytest.raises(ValueError, match="cannot be computed"):
        infer(np.zeros((2, 5), np.float32))
    np.testing.assert_array_equal(infer(np.ones((2, 4), np.float32)), wanted)


@pytest.mark.parametrize(
    ("outputs", "inputs", "error", "words"),
    [
        (lambda x, y: 1, lambda x, y: x, TypeError, "outputs=...\\)(?s:.*)got int"),
        (lambda x, y: [y, 2], lambda x, y: x, TypeError, "of Variable, int"),
        (lambda x, y: x, lambda x, y: x, ValueError, r"outputs\[0\] is a leaf"),
        (lambda x, y: y, lambda x, y: y, ValueError, r"inputs\[0\] is a result"),
        (lambda x, y: y, lambda x, y: [x, x], ValueError, r"inputs\[1\] is named twice"),
        (lambda x, y: y, lambda x, y: [x, nn.Variable((2,))], ValueError, r"inputs\[1\] is read by no output"),
        (lambda x, y: [], lambda x, y: x, ValueError, "no outputs"),
    ],
)
def test_what_is_no_graph_of_these_is_refused(outputs, inputs, error, words):
    x, y = layer()
    with pytest.raises(error, match=words):
        nn.inference(outputs(x, y), inputs(x, y))


def test_random_numbers_are_refused():
    x, y = layer()
    with pytest.raises(ValueError, match=r"Dropout(?s:.*)draws random numbers"):
        nn.inference(F.dropout(y), x)


def test_statistics_that_move_are_refused():
    x, y = layer()
    with pytest.raises(ValueError, match=r"BatchNormalization(?s:.*)mean, variance(?s:.*)batch_stat=False"):
        nn.inference(PF.batch_normalization(y), x)
