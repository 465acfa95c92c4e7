"""Verification by the reference: what is found, what is no error, what is left out."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.conformance.running import call, typed
from atled.graph.run import shadow
from late_handler import interrupted, needs_signals, raises_late
from spec_cases import all_specs
from wrong_plugin import off_by_one, wrong

pytestmark = pytest.mark.usefixtures("no_parameters")


def array(*shape, seed=0):
    """Standard normal numbers."""
    return nn.NdArray.from_numpy_array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_an_op_that_diverges_is_named_with_plugin_call_and_error():
    x = array(2, 3)
    with wrong(ReLU=off_by_one), nn.verify(), pytest.raises(nn.VerificationError) as caught:
        F.relu(x, using="wrong")
    error = caught.value
    assert (error.op, error.backend, error.plugin) == ("ReLU", "wrong", "wrong-plugin")
    assert error.error == pytest.approx(1.0) and "ReLU(float32[2, 3]" in error.call
    assert str(error).startswith(
        "ReLU(float32[2, 3], inplace=False) by wrong of plugin wrong-plugin: 6 of 6 elements of y"
    )
    assert "What to do: report it to the authors of plugin wrong-plugin" in str(error)


def test_the_first_op_of_a_graph_that_diverges_is_the_one_reported_and_arrays_stay_as_computed():
    x = nn.Variable((2, 3), need_grad=True)
    x.d = 1.0
    with wrong(Exp=off_by_one, Sinh=off_by_one), nn.using("wrong"):
        y = F.exp(F.relu(x))
        z = F.sinh(y)
        with nn.verify(), pytest.raises(nn.VerificationError, match=r"^Exp"):
            z.forward()
        np.testing.assert_allclose(y.d, np.e + 1, rtol=1e-6)
        z.forward()  # unverified: the wrong value, as before


def test_gradients_are_verified_too():
    x = nn.Variable((2, 3), need_grad=True)
    x.d = 0.5
    with wrong(TanhGradX=off_by_one), nn.using("wrong"):
        y = F.tanh(x)
        with nn.verify() as checks:
            y.forward()
            with pytest.raises(nn.VerificationError, match=r"^TanhGradX"):
                y.backward()
    assert checks.by_op["Tanh"] == 1


def test_solver_updates_in_place_are_compared_with_what_was_there_before():
    w = nn.get_parameter_or_create("w", (3,), np.ones(3, np.float32), True)
    solver = S.Momentum(0.1)
    solver.set_parameters(nn.get_parameters())
    with wrong(), nn.using("wrong"):
        loss = F.sum(F.mul2(w, w))
        with nn.verify() as checks:
            for _ in range(3):
                loss.forward()
                solver.zero_grad()
                loss.backward()
                solver.update()
    assert checks.checked == checks.calls > 0 and checks.by_op["MomentumUpdate"] == 3


def test_a_wrong_solver_update_is_found():
    nn.get_parameter_or_create("w", (3,), np.ones(3, np.float32), True)
    (w,) = nn.get_parameters().values()
    solver = S.Sgd(0.1)

    def stands_still(w, *rest):
        w += 0.05

    with wrong(SgdUpdate=stands_still), nn.using("wrong"):
        solver.set_parameters(nn.get_parameters())
        loss = F.sum(w)
        loss.forward()
        solver.zero_grad()
        loss.backward()
        with nn.verify(), pytest.raises(nn.VerificationError, match=r"^SgdUpdate"):
            solver.update()


def test_changed_inputs_are_compared():
    def forgets_statistics(x, beta, gamma, mean, variance, *outputs):
        mean[...] = 0

    x = nn.Variable((4, 2, 3, 3))
    x.d = np.random.default_rng(1).standard_normal(x.shape)
    with wrong(BatchNormalization=forgets_statistics), nn.using("wrong"):
        y = PF.batch_normalization(x)
        with nn.verify(), pytest.raises(nn.VerificationError, match="changed mean"):
            y.forward()


def test_an_input_that_the_op_leaves_alone_is_compared_too():
    def clips_its_input(x, y):
        np.maximum(x, 0, out=x)

    x = array(2, 3)
    with wrong(ReLU=clips_its_input), nn.verify(), pytest.raises(nn.VerificationError) as caught:
        F.relu(x, using="wrong")
    assert "it changes its input x, which the op does not" in str(caught.value)


@pytest.mark.parametrize(
    ("first", "where"),
    [(-1, "1 bytes before its beginning"), (6, "1 bytes after its end"), (8, "9 bytes after its end")],
)
def test_a_write_beside_an_output_is_found(first, where):
    def writes_beside(x, y):
        np.lib.stride_tricks.as_strided(y, (10,), (4,))[first:][:1] = 0

    def writes_before(x, y):
        whole = y.base
        start = y.ctypes.data - whole.ctypes.data
        whole[start - 4 : start] = 0

    x = array(2, 3)
    fault = writes_before if first < 0 else writes_beside
    with wrong(ReLU=fault), nn.verify(), pytest.raises(nn.VerificationError) as caught:
        F.relu(x, using="wrong")
    assert f"it writes beside its output y, {where}" in str(caught.value)


def test_what_is_not_written_is_found_though_the_memory_held_the_right_values():
    def forgets_the_last(x, y):
        y.flat[:-1] = np.maximum(x.ravel()[:-1], 0)

    x = nn.Variable((4,))
    x.d = [1, -2, 3, 4]
    with wrong(), nn.using("wrong"):
        y = F.relu(x)
        y.forward()
    forgets_the_last.instead = True
    with wrong(ReLU=forgets_the_last), nn.verify(), pytest.raises(nn.VerificationError, match="1 of 4 elements"):
        y.forward()


def test_random_ops_are_compared_on_the_same_numbers():
    x = nn.Variable((50,))
    x.d = 1.0
    with wrong(), nn.using("wrong"), nn.verify() as checks:
        y = F.dropout(x, 0.5)
        draws = []
        for _ in range(3):
            y.forward()
            draws.append(y.d.copy())
        F.rand(shape=(10,), seed=3).forward()
    assert checks.by_op == {"Dropout": 3, "Rand": 1}
    assert not np.array_equal(draws[0], draws[1])


def test_a_device_is_verified_and_its_arrays_stay_there():
    pytest.importorskip("atled_sim")
    x = array(4, 3)
    with nn.context_scope(nn.get_extension_context("sim", fallback="raise")), nn.verify() as checks, nn.trace() as t:
        y = F.softmax(F.exp(x), axis=1)
    assert checks.by_op == {"Exp": 1, "Softmax": 1}
    assert {row.backend for row in t.rows() if row.op in checks.by_op} == {"sim"}
    np.testing.assert_allclose(y.data.sum(axis=1), 1.0, rtol=1e-5)


def test_half_is_judged_by_the_tolerance_of_half():
    with wrong(), nn.using("wrong:half"), nn.verify() as checks:
        F.affine(array(8, 64), array(64, 16, seed=1), array(16, seed=2))
    assert checks.by_op["Affine"] == 1


def test_overflow_in_the_dtype_of_the_call_is_no_error():
    with wrong(), nn.verify():
        y = F.exp(nn.NdArray.from_numpy_array(np.array([1.0, 100.0, -np.inf, np.nan], np.float32)), using="wrong")
    np.testing.assert_array_equal(np.isinf(y.data), [False, True, False, False])


def test_sums_that_cancel_are_no_error_in_any_order_but_wrong_ones_are():
    def adds_one_by_one(x, y):
        y[...] = np.add.accumulate(x.ravel())[-1]

    def forgets_one(x, y):
        y[...] = x.ravel()[:-1].sum()

    rng = np.random.default_rng(2)
    values = rng.standard_normal(4096).astype(np.float32) * 100
    values[-1] -= values.astype(np.float64).sum()
    x = nn.NdArray.from_numpy_array(values)
    with wrong(Sum=adds_one_by_one), nn.verify() as checks:
        F.sum(x, using="wrong")
    assert checks.checked == 1
    with wrong(Sum=forgets_one), nn.verify(), pytest.raises(nn.VerificationError):
        F.sum(x, using="wrong")


def test_what_only_the_narrow_dtype_decides_is_no_error():
    # 0.1 equals itself in float32; in float64 the 0.1 that was rounded to float32 is another number.
    x = nn.NdArray.from_numpy_array(np.full(4, 0.1, np.float32))
    with wrong(), nn.verify() as checks:
        assert not F.not_equal_scalar(x, 0.1, using="wrong").data.any()
    assert checks.checked == 1


def test_a_reference_that_refuses_what_the_implementation_computes_is_a_divergence():
    def takes_any_label(x, labels, loss, *rest):
        loss[...] = 0

    takes_any_label.instead = True
    labels = nn.NdArray.from_numpy_array(np.array([[7]]))
    with wrong(SoftmaxCrossEntropy=takes_any_label), nn.verify(), pytest.raises(nn.VerificationError) as caught:
        F.softmax_cross_entropy(array(1, 3), labels, using="wrong")
    assert "it gave a result, where the reference raises IndexError" in str(caught.value)
    assert isinstance(caught.value.__cause__, IndexError)


@needs_signals
def test_what_a_handler_of_a_signal_raises_amid_the_reference_is_no_divergence(monkeypatch):
    monkeypatch.setattr(shadow.Shadow, "_in_float64", interrupted)
    with wrong(), nn.verify(), raises_late():
        F.relu(array(2, 3), using="wrong")


def test_the_reference_and_adopted_references_are_left_out():
    with nn.verify() as checks:
        F.relu(array(2, 3), using="reference")
    assert (checks.calls, checks.checked) == (0, 0)


def test_a_share_of_the_calls_is_checked():
    x = array(4)
    with wrong(), nn.verify(0.25) as checks:
        for _ in range(200):
            F.relu(x, using="wrong")
    assert checks.calls == 200 and 25 < checks.checked < 75


def test_the_environment_asks_for_it(monkeypatch):
    from atled_contexts import get_current_context, reload_plugins

    with wrong(ReLU=off_by_one):
        monkeypatch.setenv("ATLED_VERIFY", "1")
        reload_plugins()
        get_current_context()
        try:
            with pytest.raises(nn.VerificationError):
                F.relu(array(2), using="wrong")
        finally:
            monkeypatch.delenv("ATLED_VERIFY")
            reload_plugins()
            get_current_context()
        F.relu(array(2), using="wrong")


def test_results_of_one_step_in_one_array_are_compared_before_the_later_one_is_there():
    x, w = nn.Variable((2, 8)), nn.Variable((2, 8))
    x.d, w.d = np.linspace(-1, 1, 16).reshape(2, 8), 0.5
    first = F.tanh(x)
    second = F.sigmoid(first + w, outputs=[first.data])
    third = F.mean(F.mul_scalar(second, 0.5, outputs=[second.data]))
    with nn.verify():
        third.forward()
    np.testing.assert_allclose(third.d, np.mean(0.5 / (1 + np.exp(-np.tanh(x.d) - 0.5))), rtol=1e-5)


def test_a_gradient_that_is_added_to_in_place_is_no_changed_input():
    x = nn.Variable((2, 3), need_grad=True)
    x.d = 1
    with nn.verify() as checks:
        for y in F.split(x, axis=0):
            y.forward()
            y.backward()
    assert np.array_equal(x.g, np.ones((2, 3)))
    assert checks.checked


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_samples_pass_on_the_default_backend(spec):
    # What the spec promises must not be called a divergence: the same tolerances, another comparison.
    backend = nn.get_current_context().backends[0][0]
    samples = spec.samples()
    runs = [(sample, "float") for sample in samples] + [(sample, "half") for sample in samples[:1]]
    with nn.verify() as checks:
        for sample, type_config in runs:
            call(spec, typed(sample.draw(), type_config), sample.attributes, nn.Context([f"{backend}:{type_config}"]))
    assert checks.checked == checks.calls
