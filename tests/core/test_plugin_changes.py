"""What was planned before plugins come, go or are reloaded runs as `explain` says afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled_contexts import implementations, reload_plugins
from wrong_plugin import wrong


@pytest.fixture(autouse=True)
def _asked_for_wrong() -> Iterator[None]:
    """The backend `wrong` first, which is absent until a test brings it."""
    with nn.context_scope(nn.Context(["wrong:float", "reference:float"], fallback="quiet")):
        yield


def computed_by(loss: nn.Variable, op: str) -> str:
    found = {call.op: call.chosen.backend for call in nn.explain(loss).calls}
    return found[op]


def mark(*arguments) -> None:
    """A fault that shows who computed: every output is 7."""
    arrays = [array for array in arguments if isinstance(array, np.ndarray)]
    arrays[-1][...] = 7


@pytest.fixture
def x() -> nn.Variable:
    x = nn.Variable.from_numpy_array(np.array([0.5, -1.0], "f"), need_grad=True)
    x.grad.zero()
    return x


def test_a_planned_forward_follows_plugins_that_come_and_go(x):
    y = F.tanh(x)
    y.forward()
    expected = y.d.copy()
    with wrong(Tanh=mark):
        assert computed_by(y, "Tanh") == "wrong"
        y.forward()
        assert (y.d == 7).all()
    assert computed_by(y, "Tanh") == "reference"
    y.forward()
    np.testing.assert_array_equal(y.d, expected)


def test_a_planned_backward_follows_plugins_that_come_and_go(x):
    y = F.tanh(x)
    for _ in range(2):
        y.forward()
        y.backward()
        expected = x.g.copy()
        x.grad.zero()
    with wrong():
        y.forward()
        with nn.trace() as t:
            y.backward()
        assert {row.backend for row in t.rows()} == {"wrong"}
    x.grad.zero()
    y.forward()
    y.backward()
    np.testing.assert_array_equal(x.g, expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_planned_update_follows_plugins_that_come_and_go(x, compiled):
    solver = S.Sgd(0.5)
    solver.set_parameters({"x": x})
    y = F.sum(F.tanh(x))

    def plain_step() -> None:
        y.forward()
        solver.zero_grad()
        y.backward()
        solver.update()

    step = nn.compile_step(y, solver, []) if compiled else plain_step
    step()
    step()
    with wrong(SgdUpdate=lambda *arguments: arguments[0].fill(7)):
        step()
        assert (x.d == 7).all()
    before = x.d.copy()
    step()
    assert (x.d < before).all()


def test_a_planned_graph_is_decided_again_after_a_reload(x):
    y = F.tanh(x)
    with wrong(Tanh=mark):
        y.forward()
        assert (y.d == 7).all()
        reload_plugins()
        implementations("Tanh", "wrong")[0].accepts = lambda call: "not now"
        y.forward()
        assert (y.d != 7).all()
