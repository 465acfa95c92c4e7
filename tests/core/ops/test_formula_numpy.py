"""The NumPy writer: every operation against Python's math, dtypes, edges."""

import math

import numpy as np
import pytest

from atled.ops import formula
from atled.ops.formula import Program
from atled.ops.formula_numpy import compile_numpy, write_numpy

SAMPLES = [pytest.param(operation, program, id=operation.name) for operation, program in formula.sample_programs()]

# What is not in Python's math under the same name.
ORACLES = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a if a < b else b,
    "<=": lambda a, b: a if a <= b else b,
    ">": lambda a, b: a if a > b else b,
    ">=": lambda a, b: a if a >= b else b,
    "==": lambda a, b: a if a == b else b,
    "!=": lambda a, b: a if a != b else b,
    "and": lambda a, b: a if a < b and a > 1 else b,
    "or": lambda a, b: a if a < b or a > 1 else b,
    "not": lambda a, b: b if a < b else a,
    "where": lambda a, b: b if a < b else a,
    "neg": lambda a, b: -a,
    "abs": lambda a, b: abs(a),
    "minimum": min,
    "maximum": max,
    "sign": lambda a, b: (a > 0) - (a < 0),
    "round": lambda a, b: math.copysign(math.floor(abs(a) + 0.5), a),
    "sigmoid": lambda a, b: 1 / (1 + math.exp(-a)),
    "rint": lambda a, b: round(a),
}


@pytest.mark.parametrize(("operation", "program"), SAMPLES)
def test_every_operation_equals_pythons_math(operation, program):
    rng = np.random.default_rng(3)
    a, b = rng.uniform(operation.low, operation.high, (2, 100))
    a[:4] = np.round(a[:4])
    a[:4] = np.clip(a[:4], operation.low, operation.high)
    b[:4] = a[:4]
    oracle = ORACLES.get(operation.name) or (lambda x, y: getattr(math, operation.name)(x))
    expected = [oracle(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    np.testing.assert_allclose(compile_numpy(program)(a, b)[0], expected, rtol=1e-15 * 4, atol=1e-300)


@pytest.mark.parametrize(("operation", "program"), SAMPLES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_every_operation_keeps_shape_and_dtype(operation, program, shape):
    a = np.full(shape, (operation.low + operation.high) / 2 + 0.1)
    for dtype, expected in ((np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64)):
        (y,) = compile_numpy(program)(a.astype(dtype), a.astype(dtype))
        assert isinstance(y, np.ndarray) and y.shape == shape and y.dtype == expected


def test_integers_follow_the_floats_beside_them():
    run = compile_numpy(Program(("x", "y"), (), (("z", "x / y"),)))
    assert run(np.int64(1), np.float32(3))[0].dtype == np.float32
    assert run(np.uint8(200), True)[0] == 200.0
    assert run(np.int32(1), np.int32(3))[0].dtype == np.float64


def test_attributes_do_not_widen_the_result_and_keep_their_digits():
    program = Program(("x",), ("beta",), (("y", "(1 - beta) * x"), ("z", "where(beta > 0, beta, 0)"), ("w", "1 / 0")))
    y, z, w = compile_numpy(program)(np.ones(3, np.float32), 0.999)
    assert (y.dtype, z.dtype, w.dtype) == (np.float32, np.float32, np.float32)
    assert y[0] == np.float32(1 - 0.999) and z.shape == () and w == np.inf


def test_infinities_and_nan_come_and_go_without_warnings():
    x = np.array([0.0, -1.0, np.inf, -np.inf, np.nan, 1e300])
    names = [operation.name for operation in formula.OPERATIONS.values() if operation.arguments == (formula.NUMBER,)]
    for function in names:
        program = Program(("x",), (), (("y", formula.apply(function, formula.name("x"))),))
        assert compile_numpy(program)(x)[0].shape == x.shape
        assert np.isnan(compile_numpy(program)(x)[0][4])
    (y,) = compile_numpy(Program(("x",), ("alpha",), (("y", "1e300 * x + alpha"),)))(x[:5].astype(np.float32), 1e300)
    assert np.isnan(y[0]) and y[2] == np.inf


def test_the_negative_infinity_of_a_formula_keeps_its_sign():
    (y,) = compile_numpy(Program(("x",), (), (("y", "where(x < 0, -inf, inf)"),)))(np.array([-1.0, 1.0]))
    np.testing.assert_array_equal(y, [-np.inf, np.inf])


def test_sigmoid_keeps_its_digits_in_both_tails():
    (y,) = compile_numpy(Program(("x",), (), (("y", "sigmoid(x)"),)))(np.array([-700.0, -40.0, 40.0, 800.0]))
    np.testing.assert_allclose(y, [math.exp(-700), math.exp(-40) / (1 + math.exp(-40)), 1.0, 1.0], rtol=1e-15)


def test_minimum_and_maximum_pass_nan_on():
    x, y = np.array([np.nan, 1.0, np.nan]), np.array([1.0, np.nan, np.nan])
    for function in ("minimum", "maximum"):
        program = Program(("x", "y"), (), (("z", f"{function}(x, y)"),))
        assert np.isnan(compile_numpy(program)(x, y)[0]).all()


def test_shared_parts_are_computed_once():
    text = write_numpy(Program(("x",), (), (("y", "exp(x)"), ("z", "exp(x) * exp(x)"))))
    assert text.count("exp") == 1


def test_inputs_are_not_changed_and_outputs_broadcast():
    x, y = np.arange(3.0), np.arange(2.0)[:, None]
    run = compile_numpy(Program(("x", "y"), (), (("x", "x + y"), ("y", "x"))))
    total, copied = run(x, y)
    assert total.shape == (2, 3) and copied.shape == (3,)
    np.testing.assert_array_equal(x, np.arange(3.0))


def test_compiling_again_gives_the_same_function():
    assert compile_numpy(Program(("x",), (), (("y", "x"),))) is compile_numpy(Program(("x",), (), (("y", "x"),)))


def test_fused_chains_of_any_length_compile():
    expr = formula.name("x")
    for i in range(500):
        expr = formula.apply("+", formula.apply("sin", expr), formula.number(i % 3))
    (y,) = compile_numpy(Program(("x",), (), (("y", expr),)))(np.ones(2))
    expected = 1.0
    for i in range(500):
        expected = math.sin(expected) + i % 3
    np.testing.assert_allclose(y, expected, rtol=1e-12)
