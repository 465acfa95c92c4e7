"""Running under a trace: what is recorded of steps on the host and on devices."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.arrays.place import ArrayClass
from wrong_plugin import wrong


def array(*shape):
    """Ones."""
    return nn.NdArray.from_numpy_array(np.ones(shape, np.float32))


def test_every_call_of_a_graph_and_of_an_array_is_an_event_with_its_time():
    x = nn.Variable((3, 4), need_grad=True)
    y = F.tanh(F.exp(x))
    with nn.trace() as t:
        y.forward()
        y.backward()
        F.sinh(array(2))
    events = t.events()
    names = "+".join(event.name for event in events)  # a fused step names all of its ops
    assert names.startswith("Exp") and names.endswith("Sinh") and "TanhGradX" in names
    assert all(event.seconds > 0 and event.start >= t.start for event in events)
    ends = [event.start + event.seconds for event in events]
    assert ends == sorted(ends)


def test_a_step_that_fails_is_not_recorded():
    labels = nn.NdArray.from_numpy_array(np.array([[7]]))
    with nn.trace() as t, pytest.raises(IndexError):
        F.softmax_cross_entropy(array(1, 3), labels)
    assert "SoftmaxCrossEntropy" not in {row.op for row in t.rows()}


def test_fallbacks_are_marked():
    atled_sim = pytest.importorskip("atled_sim")
    context = nn.get_extension_context("sim", fallback="quiet")
    with atled_sim.refuse({"Tanh"}), nn.context_scope(context), nn.trace() as t:
        F.tanh(F.exp(array(3)))
    found = {row.op: (row.backend, row.fallbacks) for row in t.rows()}
    assert found["Exp"] == ("sim", 0) and found["Tanh"] == ("reference", 1)
    assert sum(copied.nbytes for copied in t.transfers()) > 0


def test_a_device_without_a_clock_is_waited_for():
    atled_sim = pytest.importorskip("atled_sim")
    device = atled_sim.device("0")
    with nn.context_scope(nn.get_extension_context("sim")):
        F.exp(array(3))
        before = device.counts.synchronizations
        with nn.trace() as t:
            F.exp(array(3))
    assert device.counts.synchronizations > before
    assert {row.clock for row in t.rows()} == {"host"}


def test_a_device_with_a_clock_measures_its_own_time(monkeypatch):
    pytest.importorskip("atled_sim")
    marks = iter(range(100))
    monkeypatch.setattr(ArrayClass, "timestamp", lambda self, device_id: (device_id, next(marks)))
    monkeypatch.setattr(ArrayClass, "seconds_between", lambda self, first, last: 10.0 * (last[1] - first[1]))
    with nn.context_scope(nn.get_extension_context("sim")), nn.trace() as t:
        F.exp(array(3))
    (row,) = (row for row in t.rows() if row.op == "Exp")
    assert (row.clock, row.seconds) == ("device", 10.0)


def test_trace_and_verification_see_the_same_run():
    with wrong(), nn.trace() as t, nn.verify() as checks:
        F.exp(array(3), using="wrong")
    assert [row.op for row in t.rows()] == ["Exp"] and checks.by_op == {"Exp": 1}
