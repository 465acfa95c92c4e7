"""Formulas as parts of other steps: fewer steps, and everything is computed as before."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.plugin import (
    API_VERSION,
    BackendInfo,
    Implementation,
    PluginInfo,
    Prepared,
    adopt_reference,
    hookimpl,
    reference_run,
)
from atled_contexts import register_plugin, unregister_plugin


@pytest.fixture(autouse=True)
def _no_parameters():
    nn.clear_parameters()
    yield
    nn.clear_parameters()


@pytest.fixture
def attaching():
    with nn.context_scope(nn.Context(["attaching"], fallback="raise")):
        yield


def array(*shape, seed=0):
    return nn.Variable.from_numpy_array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def names(variable):
    return [step.name for step in variable.plan.steps]


def test_what_stands_behind_an_op_is_a_part_of_it(attaching):
    y = F.relu(F.convolution(array(2, 3, 5, 5), array(4, 3, 3, 3), array(4)))
    assert names(y) == ["Convolution+ReLU"]
    (step,) = y.plan.steps
    assert [argument < 0 for argument in step.arguments] == [False, False, False, True, False]
    assert len(y.plan.slots) == 4  # what is only in a register has no array


def test_what_stands_before_an_op_is_a_part_of_it(attaching):
    y = F.mean((array(3, 4) - array(3, 4, seed=1)) ** 2)
    assert names(y) == ["Sub2+PowScalar+Mean"]
    y.forward()
    a, b = (np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32) for seed in (0, 1))
    np.testing.assert_allclose(y.d, ((a - b) ** 2).mean(), rtol=1e-6)


def test_a_residual_is_read_by_what_makes_the_other_part(attaching):
    x, w = array(2, 4), array(4, 4)
    y = F.relu(F.affine(F.tanh(F.affine(x, w)), w) + x)
    assert names(y) == ["Affine+Tanh", "Affine+Add2+ReLU"]


def test_of_two_that_could_the_later_one_takes_the_formula(attaching):
    x, w = array(2, 4), array(4, 4)
    y = F.affine(x, w) - F.affine(x, array(4, 4, seed=1))
    assert names(y) == ["Affine", "Affine+Sub2"]


def test_a_value_that_others_read_is_stored_as_well(attaching):
    h = F.affine(array(2, 4), array(4, 4))
    y = F.concatenate(F.tanh(h), h, axis=1)
    assert names(y) == ["Affine+Tanh", "Concatenate"]
    assert all(argument >= 0 for argument in y.plan.steps[0].arguments[-2:])
    y.forward()
    np.testing.assert_allclose(y.d[:, :4], np.tanh(y.d[:, 4:]), rtol=1e-6)


def test_a_value_that_two_read_is_not_computed_twice(attaching):
    h = F.tanh(array(3, 4))
    y = F.concatenate(F.sum(h, axis=0), F.sum(h, axis=1), axis=0)
    assert names(y) == ["Tanh", "Sum", "Sum", "Concatenate"]


def test_formulas_are_on_both_sides_and_floats_in_their_order(attaching):
    x = array(3, 4)
    y = F.pow_scalar(F.sum(F.pow_scalar(F.tanh(x), 2.0), axis=1, keepdims=True), 3.0) * 0.5
    assert names(y) == ["Tanh+PowScalar+Sum+PowScalar+MulScalar"]
    y.forward()
    np.testing.assert_allclose(y.d, 0.5 * (np.tanh(x.d) ** 2).sum(1, keepdims=True) ** 3, rtol=1e-5)


def test_views_between_the_two_cost_nothing(attaching):
    h = F.reshape(F.affine(array(2, 6), array(6, 6)), (3, 4))
    y = F.sum(F.reshape(F.tanh(h), (12,)), axis=0)
    assert names(y) == ["Affine+Tanh", "Sum"]
    y.forward()


def test_what_is_broadcast_is_no_part(attaching):
    row = F.sum(array(3, 4), axis=0, keepdims=True)
    assert names(F.tanh(row + array(3, 4, seed=1))) == ["Sum", "Add2+Tanh"]


def test_no_formula_goes_where_it_would_read_what_is_not_there_yet(attaching):
    h = F.affine(array(3, 4), array(4, 4))
    y = h * F.broadcast(F.sum(h, axis=1, keepdims=True), (3, 4))
    y.forward()
    np.testing.assert_allclose(y.d, (h.d * h.d.sum(1, keepdims=True)), rtol=1e-5)


def test_no_formula_goes_behind_one_of_two_outputs_that_it_reads(attaching):
    first, second = F.split(array(2, 4))
    y = first * second
    y.forward()
    assert names(y) == ["Split", "Mul2"]
    np.testing.assert_array_equal(y.d, first.d * second.d)


def test_an_array_that_changes_in_between_is_read_before():
    results = []
    for backend in ("fusing", "attaching"):
        with nn.context_scope(nn.Context([backend])):
            mean, variance = array(1, 3), nn.Variable.from_numpy_array(np.ones((1, 3), np.float32))
            before = F.exp(mean)
            y = F.batch_normalization(array(4, 3), array(1, 3, seed=1), array(1, 3, seed=2), mean, variance)
            z = F.concatenate(F.sum(before, axis=0), F.sum(F.exp(mean), axis=0), F.sum(F.tanh(y), axis=0), axis=0)
            z.forward()
            results.append([z.d.copy(), mean.d.copy(), variance.d.copy()])
    for want, got in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


def trained(backend, type_config="float"):
    """Loss, parameters and statistics after some steps, in all ways of running them, and the count of steps."""
    results, counts = [], []
    for compiled in (False, True):
        nn.clear_parameters()
        np.random.seed(1)
        rng = np.random.default_rng(0)
        with nn.context_scope(nn.Context([f"{backend}:{type_config}"], fallback="raise")):
            x, target = nn.Variable((4, 2, 6, 6)), nn.Variable((4, 3))
            x.d, target.d = rng.standard_normal(x.shape), rng.standard_normal(target.shape)
            h = F.swish(PF.batch_normalization(PF.convolution(x, 4, (3, 3), name="a"), name="n"))
            h = F.relu(PF.convolution(h, 4, (3, 3), pad=(1, 1), name="b") + h)
            loss = F.mean(F.squared_error(F.tanh(PF.affine(h, 3, name="c")), target))
            solver = S.Adam(0.01)
            solver.set_parameters(nn.get_parameters())
            step = nn.compile_step(loss, solver)
            for _ in range(3):
                if compiled:
                    step()
                else:
                    loss.forward()
                    solver.zero_grad()
                    loss.backward()
                    solver.update()
            counts.append(len(step.plan.steps if compiled else loss.plan.steps))
        results += [loss.d.copy(), *(value.d.copy() for value in nn.get_parameters(grad_only=False).values())]
    return results, counts


@pytest.mark.parametrize("type_config", ["float", "half", "double"])
def test_training_gives_the_bits_of_steps_that_stand_alone(type_config):
    expected, apart = trained("compiling", type_config)
    found, together = trained("attaching", type_config)
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_array_equal(got, want)
    assert all(few < many for few, many in zip(together, apart, strict=True))


UNARY = (F.tanh, lambda x: F.mul_scalar(x, -0.7), lambda x: F.sum(x, axis=1, keepdims=True) * x)
BINARY = (F.add2, F.mul2, F.batch_matmul, lambda a, b: F.affine(a, F.tanh(b)), lambda a, b: F.softmax(a - b, axis=1))


@st.composite
def programs(draw):
    """A graph as a list of steps: (is it binary, which function, which earlier values)."""
    steps = []
    for count in range(2, 2 + draw(st.integers(1, 12))):
        binary = draw(st.booleans())
        function = draw(st.integers(0, len(BINARY if binary else UNARY) - 1))
        steps.append((binary, function, draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))))
    return steps


def run(program, backend, held):
    """Results and gradients of a program; held: whether handles on values in the middle are kept."""
    with nn.context_scope(nn.Context([f"{backend}:double"], fallback="raise")):
        rng = np.random.default_rng(0)
        values = [nn.Variable.from_numpy_array(rng.uniform(-1, 1, (4, 4)), need_grad=True) for _ in range(2)]
        leaves = values[:]
        for binary, function, first, second in program:
            values.append(BINARY[function](values[first], values[second]) if binary else UNARY[function](values[first]))
        loss = F.mean(F.tanh(values[-1]) * values[len(values) // 2])
        kept = values[2:] if held else []
        del values
        for _ in range(2):
            loss.forward()
            for leaf in leaves:
                leaf.grad.zero()
            loss.backward()
    return [loss.d.copy(), *(leaf.g.copy() for leaf in leaves), *(value.d.copy() for value in kept)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(programs(), st.booleans())
def test_whatever_is_attached_the_bits_are_those_of_steps_that_stand_alone(program, held):
    for want, got in zip(run(program, "compiling", held), run(program, "attaching", held), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_verification_computes_formulas_too(attaching):
    x = array(3, 4)
    with nn.verify() as checks:
        F.mean(F.tanh(F.affine(F.exp(x), array(4, 4)))).forward()
    assert checks.by_op == {"Exp+Affine+Tanh": 1, "Mean": 1}


@contextmanager
def registered(prepare, accepts=None):
    """Backend `wrong`, which attaches formulas to `x` and `y` of any op."""

    class Plugin:
        @hookimpl
        def atled_info(self):
            backend = BackendInfo("attacher", ("float",), host=True, array_classes=("CpuArray",))
            return PluginInfo("attacher", API_VERSION, "test", "1", (backend,))

        @hookimpl
        def atled_register(self, registrar):
            def provide(op):
                return Implementation(
                    op, "attacher", prepare, accepts=accepts, op_version=None, fuses=True, attaches=("x", "y")
                )

            registrar.family("attacher", provide)

    register_plugin("attacher", Plugin())
    try:
        yield
    finally:
        unregister_plugin("attacher")


def test_a_formula_that_is_left_out_is_found():
    def prepare(call):
        whole = reference_run(call)

        def run(*arrays):
            whole(*arrays)
            if call.after:
                arrays[-1][...] = 7

        return Prepared(run)

    with registered(prepare), nn.context_scope(nn.Context(["attacher"])), nn.verify():
        y = F.tanh(F.sum(array(3, 4), axis=1))
        with pytest.raises(nn.VerificationError, match=r"^Sum\(.*with Tanh\(.* 3 of 3 elements of result0"):
            y.forward()


def test_what_an_implementation_does_not_accept_stays_apart():
    asked = []

    def accepts(call):
        asked.append(call)
        return "no formulas before it" if call.before else True

    with registered(adopt_reference("Sum", "attacher").prepare, accepts), nn.context_scope(nn.Context(["attacher"])):
        y = F.tanh(F.sum(F.exp(array(3, 4)), axis=1))
        assert names(y) == ["Exp", "Sum+Tanh"]
        y.forward()
    (behind,) = (call for call in asked if call.after and not call.before)
    assert (behind.reads, behind.writes) == (behind.inputs, (None, *behind.after[0].outputs))
