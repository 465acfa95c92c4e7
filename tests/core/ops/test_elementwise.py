"""Elementwise ops: the machinery that derives gradients, and what happens at kinks."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.ops import activation, arithmetic, elementary, logical, losses, quantized  # noqa: F401 - register the specs
from atled.ops.elementwise import Elementwise, derived_name, derived_spec
from atled.ops.formula import Program, derivative, multiply, name, substitute
from atled.ops.formula_numpy import compile_numpy
from atled.ops.spec import FUNCTIONS, SPECS

ROWS = [spec for spec in SPECS.values() if isinstance(spec, Elementwise) and spec.function]
DIFFERENTIABLE = [spec for spec in ROWS if not spec.no_gradient and not spec.row.surrogate]
ALPHA = object()  # a run-time attribute: rules may only hand it on


class Value:
    def __init__(self, *shape):
        self.shape = shape


class Recorder:
    """Stands in for the engine's GradientCall and writes down which ops a rule asks for."""

    def __init__(self, count, y, gy):
        self.needs = (True,) * count
        self.y = y
        self.gy = gy
        self.asked = []

    def op(self, op, *inputs, **attributes):
        self.asked.append((op, *inputs, attributes))
        return Value(*self.gy.shape)

    def sum_to(self, value, shape):
        if value.shape != shape:
            self.asked.append(("sum_to", shape))
        return value


def record(op, *shapes, **attributes):
    inputs = [Value(*shape) for shape in shapes]
    shape = np.broadcast_shapes(*shapes)
    g = Recorder(len(inputs), Value(*shape), Value(*shape))
    gradients = SPECS[op].gradient(g, *inputs, **attributes)
    return g, inputs, gradients


def gradient_at(op, wrt, gy=1.0, **values):
    """The gradient formula of a row at numbers."""
    spec = derived_spec(derived_name(op, wrt))
    values = {**values, "gy": gy}
    if "y" in spec.input_names:
        row = SPECS[op]
        arguments = [values[key] for key in (*row.input_names, *row.float_names)]
        (values["y"],) = compile_numpy(row.program)(*map(np.float64, arguments))
    arguments = [values[key] for key in (*spec.input_names, *spec.float_names)]
    return float(compile_numpy(spec.program)(*map(np.float64, arguments))[0])


# --- gradients that cost nothing, or are ops that exist -----------------------------------------------------------


def test_a_derivative_of_1_passes_the_cotangent_itself():
    g, _, gradients = record("Add2", (3, 4), (3, 4), inplace=False)
    assert gradients == [g.gy, g.gy]
    assert g.asked == []


def test_a_derivative_of_minus_1_is_a_product_with_a_number():
    g, _, gradients = record("Sub2", (3, 4), (3, 4))
    assert gradients[0] is g.gy
    assert g.asked == [("MulScalar", g.gy, {"val": -1.0})]


def test_a_derivative_that_is_an_input_is_a_product():
    g, (x0, x1), _ = record("Mul2", (3, 4), (3, 4))
    assert g.asked == [("Mul2", g.gy, x1, {}), ("Mul2", g.gy, x0, {})]


def test_a_derivative_that_is_the_output_is_a_product():
    g, _, _ = record("Exp", (3, 4))
    assert g.asked == [("Mul2", g.gy, g.y, {})]


def test_a_derivative_that_is_an_attribute_hands_it_on():
    g, _, _ = record("MulScalar", (3, 4), val=ALPHA)
    assert g.asked == [("MulScalar", g.gy, {"val": ALPHA})]


def test_other_derivatives_are_ops_with_just_what_they_use():
    g, (x,), _ = record("ELU", (3, 4), alpha=ALPHA)
    assert g.asked == [("ELUGradX", g.gy, x, {"alpha": ALPHA})]
    g, _, _ = record("ReLU", (3, 4), inplace=False)
    assert g.asked == [("ReLUGradX", g.gy, g.y, {})]


def test_gradients_of_broadcast_inputs_are_summed():
    g, _, _ = record("Add2", (3, 4), (1, 4), inplace=False)
    assert g.asked == [("sum_to", (1, 4))]


def test_nothing_is_done_for_an_input_that_needs_no_gradient():
    x0, x1 = Value(3), Value(3)
    g = Recorder(2, Value(3), Value(3))
    g.needs = (False, True)
    gradients = SPECS["Mul2"].gradient(g, x0, x1)
    assert gradients[0] is None
    assert g.asked == [("Mul2", g.gy, x0, {})]


# --- derived specs ------------------------------------------------------------------------------------------------


def test_a_name_is_enough_in_a_fresh_process():
    code = (
        "import sys, atled.ops.activation\n"
        "assert 'atled.ops.formula_parser' not in sys.modules, 'a table was parsed at import'\n"
        "from atled.ops.elementwise import derived_spec\n"
        "print(derived_spec('TanhGradXGradY').program.key)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == derived_spec("TanhGradXGradY").program.key


def test_threads_that_ask_at_the_same_time_get_the_same_spec():
    asked = "SwishGradXGradXGradGy"
    SPECS.pop(asked, None)
    found = []
    barrier = threading.Barrier(8)

    def ask():
        barrier.wait()
        found.append(derived_spec(asked))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {SPECS[asked]}


def test_names_of_inputs_and_output_never_meet():
    names = ["SELU", "Pow2", "TanhGradX"]
    for _ in range(3):
        specs = [derived_spec(derived_name(op, x)) for op in names for x in SPECS[op].input_names
                 if SPECS[op].gradient_formula(x) is not None]  # fmt: skip
        for spec in specs:
            taken = [*spec.input_names, *spec.outputs, *spec.attribute_names, spec.cotangent_name]
            assert len(set(taken)) == len(taken), spec
        names = [spec.name for spec in specs]


def test_a_gradient_keeps_the_broadcast_shape():
    spec = derived_spec("Pow2GradX0")
    assert spec.input_names == ("gy", "x0", "x1")
    (desc,) = spec.infer(ArrayDesc((3, 4)), ArrayDesc((3, 1)), ArrayDesc((4,)))
    assert desc.shape == (3, 4)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ("Sigmoyd", "the nearest is Sigmoid"),
        ("TanhGradQ", "gradients of Tanh: TanhGradX"),
        ("ReLUGradXGradY", "whose derivative is not zero"),
        ("EqualGradX0", "gradients of Equal: none"),
    ],
)
def test_an_unknown_name_is_an_error_that_says_what_there_is(asked, match):
    with pytest.raises(LookupError, match=match):
        derived_spec(asked)


@pytest.mark.parametrize("spec", DIFFERENTIABLE, ids=lambda spec: spec.name)
def test_the_gradient_formulas_of_a_row_are_its_derivatives(spec):
    sample = spec.samples()[0]
    given = {**{a.name: a.default for a in spec.attributes}, **sample.attributes}
    arrays = sample.draw()
    gy = np.random.default_rng(1).standard_normal(arrays[0].shape)
    y_formula = spec.program.expressions[0]
    inputs = ("gy", *spec.input_names)
    values = [gy, *arrays, *(given[key] for key in spec.float_names)]
    for wrt in spec.input_names:
        if wrt in spec.row.raises:
            continue
        stated = substitute(spec.gradient_formula(wrt), {"y": y_formula})
        derived = multiply(name("gy"), derivative(y_formula, wrt))
        program = Program(inputs, spec.float_names, (("stated", stated), ("derived", derived)))
        got, expected = compile_numpy(program)(*values)
        np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-12, atol=1e-14)


# --- kinks, ties, special values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "wrt", "values", "expected"),
    [
        ("Abs", "x", {"x": 0.0}, 1),
        ("ReLU", "x", {"x": 0.0}, 0),
        ("LeakyReLU", "x", {"x": 0.0, "alpha": 0.1}, 1),
        ("ELU", "x", {"x": 0.0, "alpha": 0.5}, 1),
        ("Maximum2", "x0", {"x0": 2.0, "x1": 2.0}, 0),
        ("Maximum2", "x1", {"x0": 2.0, "x1": 2.0}, 1),
        ("Minimum2", "x0", {"x0": 2.0, "x1": 2.0}, 0),
        ("Minimum2", "x1", {"x0": 2.0, "x1": 2.0}, 1),
        ("MaximumScalar", "x", {"x": 1.0, "val": 1.0}, 0),
        ("MinimumScalar", "x", {"x": 1.0, "val": 1.0}, 0),
        ("AbsoluteError", "x0", {"x0": 2.0, "x1": 2.0}, -1),
        ("AbsoluteError", "x1", {"x0": 2.0, "x1": 2.0}, 1),
        ("EpsilonInsensitiveLoss", "x0", {"x0": 1.0, "x1": 0.5, "epsilon": 0.5}, 0),
        ("PowScalar", "x", {"x": -3.0, "val": 2.0}, -6),
        ("Sign", "x", {"x": 0.0, "alpha": 0.0}, 1),
        ("Round", "x", {"x": 0.3}, 1),
        ("BinarySigmoid", "x", {"x": 0.3}, 0.5),
        ("BinarySigmoid", "x", {"x": -1.0}, 0),
        ("BinaryTanh", "x", {"x": 0.3}, 1),
        ("BinaryTanh", "x", {"x": 1.5}, 0),
    ],
)
def test_the_gradient_at_a_kink(op, wrt, values, expected):
    assert gradient_at(op, wrt, gy=2.0, **values) == 2.0 * expected


def reference(op, *inputs, **attributes):
    (y,) = SPECS[op].reference(*(np.asarray(x, np.float64) for x in inputs), **attributes)
    return y


def test_round_takes_halves_away_from_zero():
    np.testing.assert_array_equal(reference("Round", [-1.5, -0.5, 0.5, 1.5, 2.5]), [-2, -1, 1, 2, 3])


def test_sign_of_zero_is_alpha():
    np.testing.assert_array_equal(reference("Sign", [-3.0, 0.0, 2.0], alpha=0.25), [-1, 0.25, 1])


def test_logical_xor_is_a_true_xor():
    np.testing.assert_array_equal(reference("LogicalXor", [0, 0, 2, 2], [0, 3, 0, 3]), [0, 1, 1, 0])
    np.testing.assert_array_equal(reference("LogicalXorScalar", [0, 2], val=True), [1, 0])


def test_huber_loss_has_no_factor_of_one_half():
    np.testing.assert_array_equal(reference("HuberLoss", [0.5, 3.0, -3.0], [0.0, 0.0, 0.0], delta=1.0), [0.25, 5, 5])


def test_extrema_pass_nan_on():
    for op in ("Maximum2", "Minimum2"):
        assert np.isnan(reference(op, [np.nan, 1.0], [1.0, np.nan])).all()
    assert np.isnan(reference("ReLU", np.nan, inplace=False))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_slope_of_swish_is_1_and_0_far_from_0(dtype):
    x = np.array([40, 2.0**24 + 2, 2.0**31, 2.0**60, 1e30, -200, -(2.0**31), -1e30], dtype)
    (y,) = compile_numpy(SPECS["Swish"].program)(x)
    spec = derived_spec("SwishGradX")
    values = {"gy": np.ones_like(x), "x": x, "y": y}
    (gx,) = compile_numpy(spec.program)(*(values[name] for name in spec.input_names))
    np.testing.assert_allclose(gx, [1] * 5 + [0] * 3, rtol=0, atol=1e-15)


def test_the_gradient_of_swish_has_its_digits_in_float32():
    x = np.concatenate([np.linspace(-80, 80, 4001), np.geomspace(80, 3e38, 200)]).astype("f")
    (y,) = compile_numpy(SPECS["Swish"].program)(x)
    (gx,) = compile_numpy(derived_spec("SwishGradX").program)(np.ones_like(x), x, y)
    exact_x = x.astype("d")
    s, rest = 1 / (1 + np.exp(-exact_x)), 1 / (1 + np.exp(np.minimum(exact_x, 700)))
    np.testing.assert_allclose(gx, s + exact_x * s * rest, rtol=0, atol=2e-6)


def test_cross_entropies_stay_finite_at_the_ends():
    y = reference("SigmoidCrossEntropy", [1000.0, -1000.0, 1000.0, -1000.0], [1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(y, [0, 0, 1000, 1000])
    assert np.isfinite(reference("BinaryCrossEntropy", [0.0, 1.0], [1.0, 0.0])).all()


def test_a_narrow_dtype_stays_and_the_result_is_a_new_array():
    x = np.ones(3, np.float32)
    for op, attributes in (("Floor", {}), ("AddScalar", {"val": 0.1}), ("Sigmoid", {})):
        (y,) = SPECS[op].reference(x, **attributes)
        assert y.dtype == np.float32
        assert not np.shares_memory(x, y)


def test_shapes_that_do_not_broadcast_are_both_named():
    with pytest.raises(ValueError, match=r"\(3, 4\) and \(3, 5\) do not broadcast"):
        SPECS["Mul2"].infer(ArrayDesc((3, 4)), ArrayDesc((3, 5)))


def test_every_row_is_a_function_with_formula_and_arguments_in_its_page():
    for spec in ROWS:
        assert FUNCTIONS[spec.function] is spec
        assert f"y = {spec.row.y}" in spec.doc
        assert "Args:" in spec.doc
