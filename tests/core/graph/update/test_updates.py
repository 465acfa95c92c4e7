"""Updates of parameters that have arrays in common."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.solvers as S
from atled.graph.compile.plan import Plan

pytestmark = pytest.mark.usefixtures("backend")


def pair(first: type = np.float32, second: type = np.float32) -> tuple[nn.Variable, nn.Variable, S.Solver]:
    w, u = (nn.Variable.from_numpy_array(np.array([1, 2], dtype), need_grad=True) for dtype in (first, second))
    solver = S.Sgd(1.0)
    solver.set_parameters({"w": w, "u": u})
    return w, u, solver


def plan_of(solver: S.Solver) -> Plan:
    (binding,) = solver._plans.values()
    return binding.plan


def test_parameters_of_one_array_have_a_plan_of_their_own() -> None:
    w, u, apart = pair()
    w.g, u.g = [1, 1], [2, 2]
    apart.update()
    w, u, tied = pair()
    u.data = w.data
    w.g, u.g = [1, 1], [2, 2]
    tied.update()
    assert plan_of(tied) is not plan_of(apart)
    assert_array_equal(w.d, [-2, -1])
    _, second = plan_of(tied).steps
    read, written = (plan_of(tied).slots[slot].memory for slot in (second.arguments[0], second.written[0]))
    assert read == written == plan_of(tied).slots[plan_of(tied).steps[0].written[0]].memory


def test_a_gradient_that_would_change_in_two_dtypes_is_refused_and_left_alone() -> None:
    w, u, solver = pair(np.float64, np.float32)
    u.grad = w.grad
    w.g = [1, 1]
    with pytest.raises(RuntimeError, match=r"changes that array as float64.*\n.*\n.*give each an array of its own"):
        solver.weight_decay(0.5)
    assert_array_equal(w.g, [1, 1])
