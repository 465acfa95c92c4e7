"""`compile_formula`: programs by the functions of an array library, here NumPy's."""

import math

import numpy as np
import pytest

from atled.generators.catalogue import all_specs
from atled.ops.formula import EXPANDABLE, FormulaError, Program, sample_programs
from atled.ops.formula_numpy import compile_numpy
from atled.plugin import compile_formula

_SAME_NAMES = """ceil cos cosh exp expm1 floor log log1p sin sinh sqrt tan tanh trunc where"""
TABLE = {name: getattr(np, name) for name in _SAME_NAMES.split()}
TABLE |= {name: getattr(np, f"arc{name[1:]}") for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh")}
TABLE |= {"erf": lambda x: np.vectorize(math.erf, otypes=[x.dtype])(x)}


@pytest.mark.parametrize(("operation", "program"), sample_programs(), ids=lambda item: getattr(item, "name", ""))
def test_every_operation_agrees_with_the_reference(operation, program):
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(operation.low, operation.high, 50) for _ in "ab")
    special = np.array([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -0.5, 2.5, 0.49999999999999994])
    with np.errstate(all="ignore"):
        for inputs in ((a, b), (special, np.ones(9)), (np.ones(9), special)):
            (got,), (want,) = compile_formula(program, TABLE)(*inputs), compile_numpy(program)(*inputs)
            np.testing.assert_allclose(got, want, rtol=1e-14)


@pytest.mark.parametrize("spec", [spec for spec in all_specs() if spec.program is not None], ids=lambda spec: spec.name)
def test_every_op_agrees_with_the_reference(spec):
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(0.1, 0.9, (3, 4)) for _ in spec.program.inputs]
    attributes = [0.3 + 0.1 * number for number in range(len(spec.program.attributes))]
    kept = [x.copy() for x in inputs]
    with np.errstate(all="ignore"):
        results = compile_formula(spec.program, TABLE)(*inputs, *attributes)
    for got, want in zip(results, compile_numpy(spec.program)(*inputs, *attributes), strict=True):
        np.testing.assert_allclose(np.broadcast_to(got, (3, 4)), np.broadcast_to(want, (3, 4)), rtol=1e-13)
    np.testing.assert_array_equal(inputs, kept)


def test_what_arrays_do_not_change_never_reaches_the_library():
    seen = []

    def exp(x):
        seen.append(x)
        return np.exp(x)

    program = Program(
        ("x",), ("beta",), (("y", "x * exp(1 - beta) + exp(2) + exp(x) * where(beta > 1, 1, 1 / 0 - 1 / 0)"),)
    )
    walk = compile_formula(program, {**TABLE, "exp": exp}, literal=np.float32)
    x = np.zeros(3, np.float32)
    (y,) = walk(x, 0.999)
    assert len(seen) == 1
    assert seen[0] is x
    assert np.isnan(y).all()
    (y,) = walk(x + 1, 2.0)
    np.testing.assert_allclose(y, math.exp(-1) + math.exp(2) + math.e, rtol=1e-6)
    # 1 - beta keeps its digits: it is computed in float64, and rounded by `literal` once.
    (small,) = compile_formula(Program(("x",), ("beta",), (("y", "x * (1 - beta)"),)), TABLE, literal=np.float32)(
        np.ones(1, np.float32), 0.999
    )
    assert small.dtype == np.float32
    assert small[0] == np.float32(1 - 0.999)


def test_a_condition_on_attributes_alone_chooses():
    walk = compile_formula(
        Program(("x",), ("a",), (("y", "where(a > 0 and x > 0, x, -x)"),)), TABLE, literal=np.float64
    )
    np.testing.assert_array_equal(walk(np.array([1.0, -2.0]), 1.0)[0], [1, 2])
    np.testing.assert_array_equal(walk(np.array([1.0, -2.0]), -1.0)[0], [-1, 2])


class Recorded:
    """What a library records of an array: no values, only how they are to be computed."""

    def __init__(self, compute):
        self.compute = compute

    def __sub__(self, other):
        return Recorded(lambda *given: self.compute(*given) - other.compute(*given))

    def __mul__(self, other):
        return Recorded(lambda *given: self.compute(*given) * other.compute(*given))

    def __ne__(self, number):
        return Recorded(lambda *given: self.compute(*given) != number)


def _recorded_where(condition, a, b):
    return Recorded(lambda *given: np.where(condition.compute(*given), a.compute(*given), b.compute(*given)))


def test_a_library_records_the_calls_once_for_all_attributes():
    program = Program(("w", "g"), ("lr", "beta"), (("w", "where(beta > 1, w, w - lr * (1 - beta) * g)"),))
    walk = compile_formula(program, {"where": _recorded_where})
    count = len(walk.numbers(0.5, 0.9))
    given = [Recorded(lambda *values, place=place: values[place]) for place in range(2 + count)]
    (recorded,) = walk.compute(*given)
    w, g = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    for lr, beta in ((0.5, 0.9), (0.25, 0.0), (0.25, 2.0)):
        (expected,) = compile_numpy(program)(w, g, lr, beta)
        np.testing.assert_allclose(recorded.compute(w, g, *walk.numbers(lr, beta)), expected, rtol=1e-14)


def test_outputs_may_be_inputs_or_numbers_and_earlier_outputs_are_seen():
    program = Program(("x", "g"), ("lr",), (("x", "g"), ("n", "lr + 1"), ("z", "x * 2 + n")))
    x, g = np.array([1.0]), np.array([5.0])
    first, number, z = compile_formula(program, TABLE)(x, g, 0.5)
    assert first is g
    assert number == 1.5
    assert z == [3.5]


def test_shared_parts_are_computed_once_and_let_go_after_their_last_use():
    alive = []

    class Array(np.ndarray):
        def __del__(self):
            alive.remove(id(self))

    def made(function):
        def call(*arguments):
            result = function(*(np.asarray(x) for x in arguments)).view(Array)
            alive.append(id(result))
            most.append(len(alive))
            return result

        return call

    most = []
    table = {name: made(TABLE[name]) for name in ("exp", "sin", "cos")}
    text = "exp(sin(cos(exp(sin(cos(x))))))"
    (y,) = compile_formula(Program(("x",), (), (("y", text),)), table)(np.ones(3))
    assert len(most) == 6
    assert max(most) == 2  # an argument and a result
    del y
    assert alive == []


def test_a_table_that_lacks_something_is_refused_with_what():
    with pytest.raises(FormulaError, match=r"the table has no erf, tanh(.|\n)*What to do"):
        compile_formula(Program(("x",), (), (("y", "erf(tanh(x))"),)), {"where": np.where})
    with pytest.raises(FormulaError, match=r"no operation 'than'(.|\n)*'tan'"):
        compile_formula(Program(("x",), (), (("y", "x"),)), {"than": np.tanh})
    text = "sigmoid(x) + sign(x) + minimum(x, 1) + maximum(x, 1) + round(x) + rint(x) + exp2(x) + log2(x)"
    assert all(name in text for name in EXPANDABLE)
    needed = {name: TABLE[name] for name in ("where", "exp", "trunc", "floor", "log")}
    assert compile_formula(Program(("x",), (), (("y", text),)), needed)(np.array([2.0]))[0] == pytest.approx(13.880797)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64])
def test_integers_are_those_of_the_reference(dtype):
    formula = "where(a > b, maximum(a + b, v) * 3, round(a) - a * b) + sign(b)"
    program = Program(("a", "b"), ("v",), (("y", formula),))
    bounds = np.iinfo(dtype)
    a, b = np.random.default_rng(2).integers(bounds.min, bounds.max, (2, 100), dtype, endpoint=True)
    walk = compile_formula(program, TABLE, literal=lambda value: np.asarray(int(value)).astype(dtype), whole=True)
    (y,) = walk(a, b, 7.0)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, compile_numpy(program, np.dtype(dtype))(a, b, 7.0)[0])
