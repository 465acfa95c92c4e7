"""`nn.explain`: every candidate of a call or a graph, without running anything."""

import json

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import implementations
from late_handler import interrupted, needs_signals, raises_late
from wrong_plugin import wrong


@pytest.fixture
def image():
    """One image with three channels."""
    return nn.Variable((1, 3, 8, 8))


@pytest.fixture
def weights():
    """Weights of a convolution."""
    return nn.Variable((4, 3, 3, 3))


def states(call):
    """(backend, state) of all candidates."""
    return [(candidate.backend, candidate.state) for candidate in call.candidates]


def test_a_call_is_explained_with_the_arguments_it_would_get(image, weights):
    with nn.using("reference"):
        (call,) = nn.explain(F.convolution, image, weights, pad=(1, 1), stride=(2, 2)).calls
    assert call.op == "Convolution" and "pad=(1, 1), stride=(2, 2)" in call.call
    assert states(call) == [("reference", "chosen")] and call.chosen.backend == "reference"


def test_nothing_runs_and_nothing_is_counted(image):
    def fails(*arguments):
        raise AssertionError("it ran")

    nn.reset_fallback_counts()
    with wrong(ReLU=fails), nn.trace() as t:
        nn.explain(F.relu, image, using="wrong")
        nn.explain(F.relu(image, using="wrong"))
    assert t.rows() == () and nn.fallback_counts() == {}


def test_a_graph_is_explained_call_by_call_in_order(image, weights):
    y = F.relu(F.convolution(image, weights))
    assert [call.op for call in nn.explain(y).calls] == ["Convolution", "ReLU"]


def test_every_call_is_under_the_context_it_was_recorded_in(image):
    with wrong():
        y = F.tanh(F.relu(image, using="wrong"), using="reference")
        assert [call.chosen.backend for call in nn.explain(y).calls] == ["wrong", "reference"]


def test_reasons_and_fallbacks_are_told(image):
    with wrong():
        (made,) = implementations("ReLU", "wrong")
        made.accepts = lambda call: "the moon is full"
        shown = nn.explain(F.relu, image, using="wrong")
    (call,) = shown.calls
    assert states(call) == [("wrong", "refused"), ("reference", "chosen")]
    text = str(shown)
    assert "the moon is full" in text and "a fallback: backend 'reference' is not listed" in text
    assert max(map(len, text.splitlines()[2:])) <= 80


def test_a_call_that_nobody_would_compute_is_told(image):
    with wrong():
        (made,) = implementations("ReLU", "wrong")
        made.accepts = lambda call: "the moon is full"
        with nn.using("wrong", fallback="raise"):
            shown = nn.explain(F.relu, image)
    assert shown.calls[0].chosen is None
    assert "the call would raise SelectionError" in str(shown)


def test_an_implementation_for_another_version_of_the_spec_is_named(image):
    with wrong():
        (made,) = implementations("ReLU", "wrong")
        made.op_version = 7
        (call,) = nn.explain(F.relu, image, using="wrong").calls
    assert states(call)[0] == ("wrong", "incompatible")
    assert call.candidates[0].reason == "atled-wrong wrote it for version 7 of op spec ReLU, here it is at version 1"


def test_a_view_needs_nobody(image):
    (call,) = nn.explain(F.reshape, image, (1, 192)).calls
    assert call.is_view and "nothing is computed" in str(nn.explain(F.reshape, image, (1, 192)))


def test_arrays_and_optional_inputs_are_taken():
    x = nn.NdArray.from_numpy_array(np.ones((2, 3), np.float32))
    (call,) = nn.explain(F.affine, x, nn.Variable((3, 4)), outputs=None).calls
    assert call.op == "Affine"
    (call,) = nn.explain(F.concatenate, x, x, axis=0).calls
    assert call.op == "Concatenate"


def test_it_is_json():
    found = json.loads(json.dumps(nn.explain(F.relu, nn.Variable((2,)), using="reference").to_json()))
    assert found[0]["op"] == "ReLU" and found[0]["context"] == ["reference:float"]
    assert found[0]["candidates"] == [
        {
            "backend": "reference",
            "type_config": "float",
            "implementation": "NumPy",
            "state": "chosen",
            "reason": "",
            "remedy": "",
            "fallback": False,
        }
    ]


def test_what_the_call_would_refuse_is_refused(image, weights):
    with pytest.raises(ValueError, match="Convolution"):
        nn.explain(F.convolution, image, nn.Variable((4, 5, 3, 3)))
    with pytest.raises(TypeError, match=r"explain\(F.affine, x, w\)"):
        nn.explain(max, image)


def test_a_missing_or_foreign_input_is_refused_as_by_the_call():
    with pytest.raises(TypeError, match="the input x is missing"):
        nn.explain(F.relu)
    with pytest.raises(TypeError, match="pass a Variable or an NdArray"):
        nn.explain(F.relu, 3)


def test_the_way_that_an_implementation_takes_is_shown(monkeypatch):
    pytest.importorskip("atled_cpu_numba")
    x, w = nn.Variable((4, 16, 28, 28)), nn.Variable((32, 16, 3, 3))
    for flag in ("", "deterministic", "local_errors"):
        with nn.context_scope(nn.Context("cpu", **({flag: True} if flag else {}))):
            explained = nn.explain(F.convolution, x, w, pad=(1, 1))
        way = explained.calls[0].way
        assert way.startswith("direct") and way.endswith(f", for {flag}") if flag else way.startswith("winograd")
        assert f"the way: {way}" in str(explained)
        assert explained.to_json()[0]["way"] == way
    explained = nn.explain(F.convolution, x, w, pad=(1, 1))
    implementation = explained.calls[0].chosen.implementation

    def fails(call):
        raise OSError("no room")

    monkeypatch.setattr(implementation, "prepare", fails, raising=False)
    assert explained.calls[0].way == "preparing it fails: OSError: no room"


@needs_signals
def test_what_a_handler_of_a_signal_raises_is_no_answer_of_a_plugin(monkeypatch):
    explained = nn.explain(F.tanh, nn.Variable((2, 3)))
    monkeypatch.setattr(explained.calls[0].chosen.implementation, "prepare", interrupted, raising=False)
    with raises_late():
        str(explained)
