"""The formula language: parsing, programs, derivatives, expansion."""

import copy
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from atled.ops import formula
from atled.ops.formula import FormulaError, Program, apply, derivative, expand, name, number, parse_formula, substitute
from atled.ops.formula_numpy import compile_numpy

SAMPLES = [pytest.param(operation, program, id=operation.name) for operation, program in formula.sample_programs()]


def value(expr, **values):
    """`expr` in float64."""
    names = sorted(values)
    program = Program(names, (), (("result", expr),))
    return compile_numpy(program)(*(np.float64(values[n]) for n in names))[0]


@pytest.mark.parametrize(
    "text",
    [
        "a - (b - c)",
        "a - b - c",
        "a / (b * c)",
        "-x ** 2",
        "(-x) ** 2",
        "(-2) ** x",
        "x ** (-2)",
        "(a ** b) ** c",
        "a ** b ** c",
        "-(2)",
        "-(-2)",
        "--x",
        "2 * -x",
        "-0.0 * x",
        "x + 1e+16 + 1e-05 + 0.1",
        "where(not (a < b and c < 1) or a != b, a, -inf)",
        "where(a < b and (b < c or c == 1), maximum(a, b), inf)",
    ],
)
def test_text_of_an_expression_is_the_text_it_was_read_from(text):
    assert str(parse_formula(text)) == text


def test_numbers_read_in_every_notation():
    assert parse_formula("1_000 + 0x10 + .5 + 2e3") is parse_formula("1000.0 + 16 + 0.5 + 2000")


def test_equal_formulas_are_one_object():
    assert parse_formula("x * exp( -x )") is parse_formula("\n  x*exp(-x)\n")
    assert parse_formula("0.0 * x") is not parse_formula("-0.0 * x")


def test_equal_formulas_are_one_object_across_threads_copies_and_pickles():
    expr = parse_formula("tanh(x) * where(x > 0, x, 2)")
    found = []
    threads = [threading.Thread(target=lambda: found.append(parse_formula(str(expr)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(other is expr for other in (*found, copy.deepcopy(expr), pickle.loads(pickle.dumps(expr))))


def test_expressions_and_programs_cannot_be_changed():
    with pytest.raises(AttributeError, match="cannot be changed"):
        parse_formula("x + 1").op = "-"
    with pytest.raises(AttributeError, match="cannot be changed"):
        Program(("x",), (), (("y", "x"),)).inputs = ()


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("x + expp(x)", 5, "unknown function 'expp'.*Did you mean exp?"),
        ("x +", None, "is not an expression.*Write one expression"),
        ("2 * (x > 0)", 1, "is number, condition|number, condition.*where\\(c, 1, 0\\)"),
        ("exp(x > 0)", 1, "where\\(c, 1, 0\\)"),
        ("1 + where(x, 1, 2)", 5, "comparison such as c != 0"),
        ("not x", 1, "comparison such as c != 0"),
        ("0 < x < 1", 1, "more than two sides.*and"),
        ("exp(x, y)", 1, "Give 1 argument\\."),
        ("minimum(x)", 1, "Give 2 arguments\\."),
        ("exp", 1, "Write exp\\(\\.\\.\\.\\)"),
        ("np.exp(x)", 1, "not np.exp"),
        ("x if y else z", 1, "where\\(condition, a, b\\)"),
        ("x // y", 1, "floor\\(a / b\\)"),
        ("x % y", 1, "a - b \\* floor"),
        ("x ^ y", 1, "\\*\\* for powers"),
        ("+x", 1, "Leave the \\+ out"),
        ("x + True", 5, "Write a comparison"),
        ("x + 'one'", 5, "Write an int or a float"),
        ("x * 1e999", 5, "Write inf"),
        ("exp(x=1)", 1, "by position"),
        ("x[0]", 1, "Subscript is not in the language"),
        ("[x]", 1, "List is not in the language"),
        ("x is y", 1, "Is is not in the language"),
        ("é + fob(x)", 5, "unknown function 'fob'"),
    ],
)
def test_what_is_outside_the_language_is_refused_with_place_and_advice(text, column, message):
    with pytest.raises(FormulaError, match=f"(?s){message}") as error:
        parse_formula(text)
    assert repr(text) in str(error.value)
    if column is not None:
        assert f"at column {column}\n    {text}\n    {' ' * (column - 1)}^\n" in str(error.value)


def test_unknown_names_of_a_program_are_refused_with_the_nearest():
    with pytest.raises(FormulaError, match=r"unknown name 'alpa'.*\n.*\n.*\n.*Known: alpha, inf, pi, x.*mean alpha"):
        _ = Program(("x",), ("alpha",), (("y", "alpa * x"),)).outputs
    with pytest.raises(FormulaError, match="uses z, which the program does not have"):
        _ = Program(("x",), (), (("y", parse_formula("x * z")),)).outputs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((("exp",), (), (("y", "1"),)), "already means"),
        ((("lambda",), (), (("y", "1"),)), "already means"),
        ((("_x",), (), (("y", "1"),)), "is not a name"),
        ((("é",), (), (("y", "1"),)), "is not a name"),
        ((("",), (), (("y", "1"),)), "is not a name"),
        ((("x", "x"), (), (("y", "1"),)), "is there twice"),
        ((("x",), ("x",), (("y", "1"),)), "is there twice"),
        ((("x",), ("a",), (("a", "1"),)), "is there twice"),
        ((("x",), (), (("x", "1"), ("x", "2"))), "each once"),
        ((("x",), (), ()), "one output or more"),
        ((("x",), (), (("y", "1"),), (("y", "2"),)), "is there twice"),
    ],
)
def test_bad_names_of_a_program_are_refused_at_once(arguments, message):
    with pytest.raises(FormulaError, match=message):
        Program(*arguments)


def test_an_output_must_be_a_number():
    with pytest.raises(FormulaError, match=r"output 'y' is the condition x > 0.*where"):
        _ = Program(("x",), (), (("y", "x > 0"),)).outputs


def test_in_place_outputs_are_computed_at_the_same_time():
    program = Program(("a", "b"), (), (("a", "a + b"), ("b", "a - b")))
    assert program.in_place == ((0, 0), (1, 1))
    assert [str(expression) for expression in program.expressions] == ["a + b", "a - b"]


def test_a_name_that_is_no_input_stands_for_the_earlier_output():
    program = Program(("x", "gy"), (), (("y", "exp(x)"), ("gx", "gy * y")))
    assert str(program.expressions[1]) == "gy * exp(x)"
    assert program.in_place == ()


def test_lets_are_values_or_conditions():
    lets = (("t", "exp(x)"), ("big", "t > 1"))
    program = Program(("x",), (), (("y", "where(big, t, 1)"),), lets=lets)
    assert str(program.expressions[0]) == "where(exp(x) > 1, exp(x), 1)"
    assert eval(repr(program)) == program


def test_programs_are_equal_where_their_meaning_and_names_are():
    one = Program(("x",), ("alpha",), (("y", "alpha*x + alpha*x"),))
    two = Program(["x"], ["alpha"], [("y", parse_formula("t + t"))], lets=[("t", "alpha * x")])
    assert one == two and hash(one) == hash(two) and one.key == "x;alpha;%0=*(alpha,x);%1=+(%0,%0);y=%1"
    assert one != Program(("x",), (), (("y", "x"),)) and one != "x"
    assert pickle.loads(pickle.dumps(two)) == one


def test_keys_do_not_depend_on_the_process():
    program = Program(("x", "y"), ("a",), (("z", "where(x < y and x != a, x ** y, pi)"),))
    code = f"from atled.ops.formula import Program; print({program!r}.key)"
    for seed in ("1", "2"):
        environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.strip() == program.key


def test_parsing_is_not_part_of_the_import():
    code = """
import sys
from atled.ops.formula import Program
before = set(sys.modules)
program = Program(('x',), (), (('y', 'exp(x'),))
assert set(sys.modules) == before and 'atled.ops.formula_parser' not in before
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_long_chains_need_no_recursion():
    expr = name("x")
    for i in range(3000):
        expr = apply("+", apply("sin", expr), number(i % 7))
    program = Program(("x",), (), (("y", expr), ("dx", derivative(expr, "x"))))
    assert len(expand(substitute(expr, {"x": name("z")}), frozenset(("sign",))).names) == 1
    assert len(program.key) > 3000


def test_shared_parts_do_not_multiply():
    expr = name("x")
    for _ in range(200):
        expr = apply("*", expr, expr)
    assert len(Program(("x",), (), (("y", expr),)).key) < 5000
    assert len(formula.postorder((derivative(expr, "x"),))) < 1000


def test_substitute_replaces_all_names_at_once():
    assert substitute(parse_formula("x - y"), {"x": parse_formula("y * 2"), "y": name("x")}) is parse_formula(
        "y * 2 - x"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "1"),
        ("a", "0"),
        ("a * x + a", "a"),
        ("x * x", "x + x"),
        ("x ** 2", "2 * x"),
        ("x ** a", "a * x ** (a - 1)"),
        ("2 ** x", "2 ** x * 0.6931471805599453"),
        ("a ** x", "a ** x * log(a)"),
        ("-x", "-1"),
        ("a / x", "-(a / x / x)"),
        ("x / a", "1 / a"),
        ("exp(a * x)", "exp(a * x) * a"),
        ("log(x)", "1 / x"),
        ("a * log(x)", "a / x"),
        ("abs(x)", "where(x >= 0, 1, -1)"),
        ("minimum(x, a)", "where(x < a, 1, 0)"),
        ("maximum(x, a)", "where(x > a, 1, 0)"),
        ("maximum(a, x)", "where(a > x, 0, 1)"),
        ("where(x > 0, x, a * x)", "where(x > 0, 1, a)"),
        ("where(x > 0, 1, a)", "0"),
        ("floor(x) + ceil(x) + trunc(x) + round(x) + sign(x)", "0"),
        ("tanh(x)", "1 - tanh(x) * tanh(x)"),
    ],
)
def test_derivative_is_simplified(text, expected):
    assert str(derivative(parse_formula(text), "x")) == expected


def test_a_condition_has_no_derivative():
    with pytest.raises(FormulaError, match="no derivative"):
        derivative(parse_formula("x > 0"), "x")


@pytest.mark.parametrize(("operation", "program"), SAMPLES)
@pytest.mark.parametrize("wrt", ["a", "b"])
def test_first_and_second_derivatives_match_differences(operation, program, wrt):
    rng = np.random.default_rng(11)
    expr = program.expressions[0]
    h = 1e-5
    margin = 0.02 * (operation.high - operation.low)
    low, high = max(operation.low, -3.0) + margin, min(operation.high, 3.0) - margin
    for a, b in rng.uniform(low, high, (5, 2)):
        point = {"a": a, "b": b}
        for _ in range(2):
            d = derivative(expr, wrt)
            above, below = (value(expr, **{**point, wrt: point[wrt] + step}) for step in (h, -h))
            np.testing.assert_allclose(value(d, **point), (above - below) / (2 * h), rtol=2e-5, atol=2e-5)
            expr = d
        expr = program.expressions[0]


def test_a_power_with_constant_exponent_is_differentiable_at_negative_bases():
    assert value(derivative(parse_formula("x ** 3"), "x"), x=-2.0) == 12
    assert value(derivative(parse_formula("x ** a"), "x"), x=-2.0, a=2.0) == -4


def test_powers_with_small_exponents_expand():
    none = frozenset()
    assert str(expand(parse_formula("exp(x) ** 3"), none)) == "exp(x) * exp(x) * exp(x)"
    assert (
        str(expand(parse_formula("x ** -1 + x ** 0.5 + x ** a + x ** 7"), none)) == "1 / x + sqrt(x) + x ** a + x ** 7"
    )


@pytest.mark.parametrize("op", ["sigmoid", "sign", "minimum", "maximum", "round"])
def test_expansions_compute_the_same(op):
    x, y = np.random.default_rng(5).uniform(-3, 3, (2, 50))
    x[:8] = [0.5, -0.5, 2.5, 0.49999999999999994, np.nan, np.inf, 0.0, 1.0]
    y[8:11] = [np.nan, np.inf, x[10]]
    names = ("x", "y")[: len(formula.OPERATIONS[op].arguments)]
    expr = apply(op, *map(name, names))
    results = []
    for formula_ in (expr, expand(expr, frozenset((op,)))):
        results.append(compile_numpy(Program(("x", "y"), (), (("z", formula_),)))(x, y)[0])
    np.testing.assert_allclose(*results, rtol=5e-16)


def test_samples_cover_the_language_within_their_domain():
    operations = [operation.name for operation, _ in formula.sample_programs()]
    assert operations == list(formula.OPERATIONS)
    for operation, program in formula.sample_programs():
        a, b = np.linspace(operation.low, operation.high, 20), np.linspace(operation.high, operation.low, 20)
        assert np.isfinite(compile_numpy(program)(a, b)[0]).all()
