"""Calls that make elementwise op-trees, against NumPy."""

import numpy as np
import pytest

from atled.neon.backends.backend import OpTreeNode

SHAPES = [(3, 4), (2, 3, 4), (2, 3, 1, 4), (2, 1, 3, 2, 2)]

OF_ONE = {
    "absolute": np.abs,
    "fabs": np.abs,
    "negative": np.negative,
    "sgn": np.sign,
    "sqrt": lambda a: np.sqrt(np.abs(a)),
    "square": np.square,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": lambda a: np.log(np.abs(a)),
    "log2": lambda a: np.log2(np.abs(a)),
    "safelog": lambda a: np.log(np.maximum(a, np.exp(-50))),
    "sig": lambda a: 1 / (1 + np.exp(-a)),
    "sig2": lambda a: 1 / (1 + 2**-a),
    "tanh": np.tanh,
    "tanh2": lambda a: (2 ** (2 * a) - 1) / (2 ** (2 * a) + 1),
    "rint": np.rint,
    "finite": lambda a: np.isfinite(a).astype(float),
    "reciprocal": lambda a: 1 / a,
}
ON_POSITIVE = ("sqrt", "log", "log2")

OF_TWO = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "true_divide": np.divide,
    "power": lambda a, b: np.abs(a) ** b,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


def values(shape, seed=0):
    """Normal numbers, some of them whole, so that some are equal."""
    made = np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 2
    made.reshape(-1)[::3] = np.rint(made.reshape(-1)[::3])
    return made


@pytest.mark.parametrize("name", OF_ONE)
def test_calls_of_one_operand_are_numpys(be, name):
    for shape in SHAPES:
        a = values(shape)
        if name in ON_POSITIVE:
            a = np.abs(a)
        with np.errstate(all="ignore"):
            expected = OF_ONE[name](a.astype(np.float64))
        out = be.zeros(shape)
        out[:] = getattr(be, name)(be.array(a))
        np.testing.assert_allclose(out.get(), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", OF_TWO)
def test_calls_of_two_operands_are_numpys(be, name):
    for shape in SHAPES:
        a, b = values(shape), values(shape, seed=1)
        if name == "power":
            a = np.abs(a) + np.float32(0.5)
        out = be.zeros(shape)
        out[:] = getattr(be, name)(be.array(a), be.array(b))
        np.testing.assert_allclose(out.get(), OF_TWO[name](a.astype(np.float64), b), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["tanh", "add", "finite"])
def test_out_is_assigned_and_given_back(be, name):
    x, out = be.array(values((3, 4))), be.zeros((3, 4))
    operands = (x, x) if name in OF_TWO else (x,)
    assert getattr(be, name)(*operands, out=out) is out
    np.testing.assert_allclose(out.get(), (OF_TWO | OF_ONE)[name](*[x.get()] * len(operands)), rtol=1e-5)


def test_operands_are_repeated_along_axes_of_size_1(be):
    a, b, c = values((3, 4)), values((3, 1), 1), values((1, 4), 2)
    tree = be.array(a) * be.array(b) + be.array(c) - be.array(b) * be.array(c)
    assert tree.shape == (3, 4)
    np.testing.assert_allclose(tree.asnumpyarray(), a * b + c - b * c, rtol=1e-5, atol=1e-6)


def test_operands_of_fewer_axes_broadcast_as_in_numpy(be):
    a, b = values((2, 3, 4)), values((3, 4), 1)
    np.testing.assert_allclose((be.array(a) - be.array(b)).asnumpyarray(), a - b, rtol=1e-6)


OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("number", [2, 0.5, np.float32(1.5), np.int64(3)], ids=repr)
def test_operators_take_numbers_on_either_side(cpu, sign, number):
    a = np.abs(values((3, 4))) + np.float32(0.5)
    a[0, 0] = number
    x, operator = cpu.array(a), OPERATORS[sign]
    np.testing.assert_allclose(operator(x, number).asnumpyarray(), operator(a, number), rtol=1e-5)
    np.testing.assert_allclose(operator(number, x).asnumpyarray(), operator(number, a), rtol=1e-5)
    tree = x + 1
    np.testing.assert_allclose(operator(number, tree).asnumpyarray(), operator(number, a + 1), rtol=1e-5)


def test_signs_are_operators(be):
    a = values((3, 4))
    x = be.array(a)
    np.testing.assert_array_equal((-x).asnumpyarray(), -a)
    np.testing.assert_array_equal(abs(x - 1).asnumpyarray(), np.abs(a - 1))


def test_comparisons_are_0_and_1_in_the_dtype_of_the_operands(be):
    a, b = values((3, 4)), values((3, 4), 1)
    x, y = be.array(a), be.array(b)
    twice = ((x > 0) + (y > 0)).asnumpyarray()
    np.testing.assert_array_equal(twice, (a > 0).astype(np.float32) + (b > 0))
    half = be.zeros((3, 4), dtype=np.float64)
    half[:] = (x > 0) * 0.1
    np.testing.assert_array_equal(half.get(), (a > 0) * np.float32(0.1), "computed in float32")


def test_calls_of_numbers_alone_are_of_one_element(be):
    x = be.array(values((3, 4)))
    assert be.exp(2.0).shape == (1, 1)
    np.testing.assert_allclose((x * be.sqrt(2)).asnumpyarray(), x.get() * np.sqrt(np.float32(2)), rtol=1e-6)
    np.testing.assert_allclose(be.add(2, 3).asnumpyarray(), [[5]])


@pytest.mark.parametrize("exponent", [2, 2.0, 0.5, 3, -1, 0.25])
def test_powers_by_numbers_are_numpys(be, exponent):
    a = np.abs(values((3, 4))) + np.float32(0.5)
    x = be.array(a)
    np.testing.assert_allclose((x**exponent).asnumpyarray(), a**exponent, rtol=1e-5)
    np.testing.assert_allclose(((x + 1) ** exponent).asnumpyarray(), (a + 1) ** exponent, rtol=1e-5)


def test_squares_of_integers_have_numpys_dtypes(cpu):
    a = np.array([[3, 20]], np.int8)
    x, out = cpu.array(a, dtype=np.int8), cpu.zeros((1, 2), dtype=np.float64)
    for exponent in (2, 2.0, 0.5):
        out[:] = x**exponent
        np.testing.assert_array_equal(out.get(), a**exponent)


def test_clip_is_between_two_bounds(be):
    a = values((3, 4))
    np.testing.assert_array_equal(be.clip(be.array(a), -0.5, 1).asnumpyarray(), np.clip(a, -0.5, 1))


DTYPES = [
    "float32 float32",
    "float16 float32",
    "int32 float32",
    "int8 uint8",
    "uint8 uint8",
    "uint32 int32",
    "int8 int8",
]


@pytest.mark.parametrize("dtypes", DTYPES)
def test_nodes_have_numpys_dtypes_and_the_result_is_cast(cpu, dtypes):
    first, second = dtypes.split()
    a, b = np.arange(1, 13).reshape(3, 4).astype(first), np.arange(12, 0, -1).reshape(3, 4).astype(second)
    x, y = cpu.array(a, dtype=first), cpu.array(b, dtype=second)
    out = cpu.zeros((3, 4), dtype=np.float64)
    for made, expected in ((x + y, a + b), (x * y, a * b), (x / y, a / b), (cpu.maximum(x, y), np.maximum(a, b))):
        out[:] = made
        np.testing.assert_allclose(out.get(), expected.astype(np.float64), rtol=1e-3 if out.get().max() < 13 else 1e-6)
    whole = cpu.zeros((3, 4), dtype=np.int16)
    whole[:] = x / y
    np.testing.assert_array_equal(whole.get(), (a / b).astype(np.int16))


@pytest.mark.parametrize("form", ["document", "release"])
def test_binarize_takes_the_arguments_of_both_forms(be, form):
    a = values((3, 4))
    x, out = be.array(a), be.zeros((3, 4))
    expected = 2 * (a >= 0) - 1
    if form == "document":
        assert isinstance(be.binarize(x, False), OpTreeNode)
        assert be.binarize(x, False, out) is out
        np.testing.assert_array_equal(be.binarize(a=x, stochastic=False).asnumpyarray(), expected)
    else:
        assert be.binarize(x, out, False) is out
        assert be.binarize(ary=x, out=out, stochastic=False) is out
    np.testing.assert_array_equal(out.get(), expected)


def test_binarize_draws_of_the_generator(be):
    a = values((5, 6)) / 2
    be.rng.seed(3)
    drawn = np.random.RandomState(3).uniform(size=(5, 6))
    expected = np.where(drawn < np.clip((a + 1) / 2, 0, 1), 1, -1)
    np.testing.assert_array_equal(be.binarize(be.array(a)).asnumpyarray(), expected)


def test_binarize_refuses_arguments_that_it_does_not_have(cpu):
    x = cpu.zeros((2, 2))
    with pytest.raises(TypeError, match="stochastic is given twice"):
        cpu.binarize(x, True, stochastic=False)
    with pytest.raises(TypeError, match="it takes no axis"):
        cpu.binarize(x, axis=1)


def test_shift_multiplies_by_a_power_of_two(be):
    a, b = values((3, 4)), values((3, 4), 1)
    b[0, 0] = 0
    x, y, out = be.array(a), be.array(b), be.zeros((3, 4))
    expected = a * np.sign(b) * 2 ** np.rint(np.log2(np.maximum(np.abs(b), np.exp(-50))))
    np.testing.assert_allclose(be.shift(x, y).asnumpyarray(), expected, rtol=1e-5)
    assert be.shift(x, y, value=False, out=out) is out
    np.testing.assert_allclose(out.get(), a * 2**b, rtol=1e-5)


@pytest.mark.parametrize("foreign", ["a", [1, 2], None, object()], ids=lambda each: type(each).__name__)
def test_operands_of_other_types_are_refused(cpu, foreign):
    x = cpu.zeros((2, 2))
    with pytest.raises(TypeError):
        x + foreign
    with pytest.raises(TypeError):
        foreign * (x + 1)
    if foreign is not None:
        assert OpTreeNode.build("add", x, foreign) is NotImplemented
        with pytest.raises(TypeError, match="operands are tensors, op-trees and numbers"):
            cpu.add(x, foreign)


def test_arrays_are_to_be_made_tensors_first(cpu):
    x = cpu.zeros((2, 2))
    for make in (lambda: x + np.ones((2, 2)), lambda: np.ones((2, 2)) + x, lambda: np.ones((2, 2)) < (x + 1)):
        with pytest.raises(TypeError):
            make()


def test_shapes_that_do_not_broadcast_are_told_with_the_node(cpu):
    x, y = cpu.zeros((3, 4)), cpu.zeros((2, 4))
    for make in (lambda: x + y, lambda: cpu.add(x, y), lambda: (x * 1) + (y - 1)):
        with pytest.raises(ValueError, match=r"'add' of shape \(3, 4\) and shape \(2, 4\): they do not broadcast"):
            make()
