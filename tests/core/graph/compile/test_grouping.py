"""Groups: like steps that do not depend on each other are one step, and everything is computed as before."""

from contextlib import contextmanager

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.graph.compile.grouping import LARGEST_MEMBER, MOST_MEMBERS
from atled.plugin import (
    API_VERSION,
    BackendInfo,
    Implementation,
    PluginInfo,
    Prepared,
    adopt_reference,
    hookimpl,
)
from atled_contexts import register_plugin, unregister_plugin


@pytest.fixture(autouse=True)
def _no_parameters():
    nn.clear_parameters()
    yield
    nn.clear_parameters()


def names(variable):
    return [step.name for step in variable.plan.steps]


def trained(backend, solver, type_config="float"):
    """Loss and parameters after some compiled steps of a small network, and the steps of their plan."""
    nn.clear_parameters()
    np.random.seed(1)
    rng = np.random.default_rng(0)
    with nn.context_scope(nn.Context([f"{backend}:{type_config}"], fallback="raise")):
        x, target = nn.Variable((8, 6)), nn.Variable((8, 3))
        x.d, target.d = rng.standard_normal(x.shape), rng.standard_normal(target.shape)
        loss = F.mean(F.squared_error(PF.affine(F.tanh(PF.affine(x, 5, name="one")), 3, name="two"), target))
        solver.set_parameters(nn.get_parameters())
        step = nn.compile_step(loss, solver)
        for _ in range(4):
            step()
        steps = step.plan.steps
    return [loss.d.copy(), *(parameter.d.copy() for parameter in nn.get_parameters().values())], steps


@pytest.mark.parametrize("type_config", ["float", "half", "double"])
@pytest.mark.parametrize("solver", [S.Sgd, S.Adam, S.Nesterov])
def test_a_training_step_has_the_bits_of_one_without_groups(solver, type_config):
    expected, apart = trained("fusing", solver(0.1), type_config)
    found, steps = trained("compiling", solver(0.1), type_config)
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_array_equal(got, want)
    assert len(steps) < len(apart)


def test_updates_are_one_step_and_stay_behind_what_may_fail():
    _, steps = trained("compiling", S.Adam(0.1))
    assert [step.name for step in steps if "Update" in step.name] == ["4xAdamUpdate"]
    assert steps[-1].name == "4xAdamUpdate"


def test_the_updates_of_a_solver_are_one_step():
    with nn.context_scope(nn.Context(["compiling"])):
        parameters = {str(n): nn.Variable((n + 1, 2), need_grad=True) for n in range(5)}
        solver = S.Momentum(0.5, momentum=0.5)
        solver.set_parameters(parameters)
        for parameter in parameters.values():
            parameter.d, parameter.g = 1, 2
        with nn.trace() as trace:
            solver.update()
    assert [(row.op, row.calls) for row in trace.rows()] == [("5xMomentumUpdate", 1)]
    for parameter in parameters.values():
        np.testing.assert_array_equal(parameter.d, np.zeros(parameter.shape))


def test_floats_are_those_of_each_member():
    with nn.context_scope(nn.Context(["compiling"])):
        x = nn.Variable.from_numpy_array(np.float32([1, 2, 3]))
        y = F.concatenate(
            F.reshape(F.pow_scalar(x, 2.0), (1, 3)), F.reshape(F.pow_scalar(x.reshape((1, 3)), 3.0), (1, 3))
        )
        y.forward()
    np.testing.assert_allclose(y.d.ravel(), [1, 4, 9, 1, 8, 27])


def test_there_is_a_bound():
    with nn.context_scope(nn.Context(["compiling"])):
        parts = [F.tanh(nn.Variable((1, 1 + n))) for n in range(MOST_MEMBERS + 3)]
        y = F.concatenate(*parts, axis=1)
        assert names(y) == [f"{MOST_MEMBERS}xTanh", "3xTanh", "Concatenate"]


def test_large_arrays_wait_for_nothing():
    with nn.context_scope(nn.Context(["compiling"])):
        parts = [F.tanh(nn.Variable((1, size))) for size in (LARGEST_MEMBER + 1, 5, 6)]
        y = F.concatenate(*parts, axis=1)
        assert sorted(names(y)) == ["2xTanh", "Concatenate", "Tanh"]


def test_steps_that_depend_on_each_other_stay_apart():
    with nn.context_scope(nn.Context(["compiling"])):
        x, w = nn.Variable((2, 2)), nn.Variable((2, 2))
        y = F.tanh(F.batch_matmul(F.tanh(F.batch_matmul(F.tanh(x), w)), w))
        assert names(y) == ["Tanh", "BatchMatmul", "Tanh", "BatchMatmul", "Tanh"]


def test_an_array_that_changes_is_read_before_and_behind_that():
    results = []
    for backend in ("fusing", "compiling"):
        with nn.context_scope(nn.Context([backend])):
            rng = np.random.default_rng(0)
            x = nn.Variable.from_numpy_array(rng.standard_normal((4, 3)).astype(np.float32))
            stats = [nn.Variable.from_numpy_array(np.full((1, 3), value, np.float32)) for value in (0, 1, 0.5, 2)]
            h = F.tanh(stats[2]) + F.tanh(stats[3])
            y = F.batch_normalization(x, stats[0], stats[1], stats[2], stats[3])
            z = y + h + F.tanh(stats[2]) * F.tanh(stats[3])
            z.forward()
            results.append([z.d.copy(), stats[2].d.copy(), stats[3].d.copy()])
    for want, got in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_verification_checks_each_member():
    with nn.context_scope(nn.Context(["compiling"])), nn.verify() as checks:
        parts = [F.tanh(nn.Variable.from_numpy_array(np.ones((1, n), np.float32))) for n in (2, 3)]
        y = F.concatenate(*parts, axis=1)
        y.forward()
    assert checks.by_op == {"2xTanh": 1, "Concatenate": 1}
    np.testing.assert_allclose(y.d, np.tanh(np.ones((1, 5))), rtol=1e-6)


def test_a_group_that_diverges_is_found():
    def prepare_wrong(calls):
        return Prepared(lambda *arrays: [y.fill(2) for y in arrays[len(calls) :]])

    with registered(prepare_wrong), nn.context_scope(nn.Context(["wrong_groups"])), nn.verify():
        parts = [F.tanh(nn.Variable.from_numpy_array(np.ones((1, n), np.float32))) for n in (2, 3)]
        with pytest.raises(nn.VerificationError, match=r"^2xTanh.* 2 of 2 elements of y_0"):
            F.concatenate(*parts, axis=1).forward()


@contextmanager
def registered(prepare_group):
    """A backend that groups calls so."""

    class Plugin:
        @hookimpl
        def atled_info(self):
            backend = BackendInfo("wrong_groups", ("float",), host=True, array_classes=("CpuArray",))
            return PluginInfo("wrong-groups", API_VERSION, "test", "1", (backend,))

        @hookimpl
        def atled_register(self, registrar):
            def provide(op):
                prepare = adopt_reference(op, "wrong_groups").prepare
                return Implementation(op, "wrong_groups", prepare, op_version=None, prepare_group=prepare_group)

            registrar.family("wrong_groups", provide)

    register_plugin("wrong-groups", Plugin())
    try:
        yield
    finally:
        unregister_plugin("wrong-groups")
