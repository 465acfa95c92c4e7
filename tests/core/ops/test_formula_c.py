"""The C writer: every operation, compiled by the system's C compiler, against NumPy."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from atled.ops import formula
from atled.ops.formula import Program
from atled.ops.formula_c import C99, CUDA, OPENCL, Dialect, write_c, write_c_hoisted, write_c_loop
from atled.ops.formula_numpy import compile_numpy

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc or clang) on this machine")
SAMPLES = [pytest.param(operation, program, id=operation.name) for operation, program in formula.sample_programs()]
IN_PLACE = Program(
    ("x", "g"),
    ("alpha", "beta"),
    (("x", "where(x > 0 and g != alpha, x, alpha * expm1(x)) * (1 - beta)"), ("g", "minimum(x, inf) - x ** beta")),
)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """All programs of this file in one library: function `float_3` is the third sample in float."""
    folder = tmp_path_factory.mktemp("formula_c")
    programs = [program for _, program in formula.sample_programs()] + [IN_PLACE]
    parts = []
    for real in ("float", "double"):
        parts += [write_c_loop(program, f"{real}_{i}", real=real) for i, program in enumerate(programs)]
    (folder / "programs.c").write_text("\n".join(parts))
    command = [COMPILER, "-std=c99", "-O1", "-Wall", "-Werror", "-pedantic", "-shared", "-fPIC", "-o", "programs.so"]
    done = subprocess.run([*command, "programs.c", "-lm"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "programs.so"))


def call(function, arrays, attributes=()):
    function.restype = None
    inputs, outputs = arrays
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*inputs, *outputs)]
    values = [ctypes.c_double(value) for value in attributes]
    function(ctypes.c_longlong(inputs[0].size), *pointers[: len(inputs)], *values, *pointers[len(inputs) :])


@needs_compiler
@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize(("operation", "program"), SAMPLES)
def test_every_operation_equals_numpy(library, operation, program, real):
    dtype = np.dtype(np.float32 if real == "float" else np.float64)
    a, b = np.random.default_rng(7).uniform(operation.low, operation.high, (2, 200)).astype(dtype)
    b[:20] = a[:20]
    y = np.empty_like(a)
    index = list(formula.OPERATIONS).index(operation.name)
    call(getattr(library, f"{real}_{index}"), ((a, b), (y,)))
    (expected,) = compile_numpy(program)(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(y, expected, rtol=8 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)


@needs_compiler
@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("operation", ["minimum", "maximum", "sign", "sigmoid", "exp", "log", "round", "<", "!="])
def test_nan_and_infinity_are_as_in_numpy(library, operation, real):
    dtype = np.float32 if real == "float" else np.float64
    edges = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0, 0.5, 2.5], dtype)
    a, b = (array.ravel().copy() for array in np.meshgrid(edges, edges))
    y = np.empty_like(a)
    index = list(formula.OPERATIONS).index(operation)
    call(getattr(library, f"{real}_{index}"), ((a, b), (y,)))
    (expected,) = compile_numpy(formula.sample_programs()[index][1])(a, b)
    np.testing.assert_allclose(y, expected, rtol=8 * np.finfo(dtype).eps)


@needs_compiler
def test_outputs_may_be_the_inputs_and_attributes_keep_their_digits(library):
    x, g = np.random.default_rng(1).uniform(0.1, 2, (2, 100)).astype(np.float32)
    expected = compile_numpy(IN_PLACE)(x, g, 0.3, 0.999)
    call(getattr(library, f"float_{len(formula.OPERATIONS)}"), ((x, g), (x, g)), (0.3, 0.999))
    np.testing.assert_allclose(x, expected[0], rtol=1e-6)
    np.testing.assert_allclose(g, expected[1], rtol=1e-6, atol=1e-6)


def test_dialects_differ_in_qualifiers_pointers_functions_and_infinity():
    program = Program(("x",), ("alpha",), (("y", "where(x < inf, abs(x) * exp(alpha), -inf)"),))
    c99, cuda, opencl = (write_c(program, "f", dialect=dialect) for dialect in (C99, CUDA, OPENCL))
    assert c99.startswith("static inline void f(float in_x, double attr_alpha, float *out_y)\n{")
    assert "fabsf(in_x)" in c99 and "(float)exp(attr_alpha)" in c99 and "(-INFINITY)" in c99
    assert cuda.startswith("static __device__ __forceinline__ void f(") and "__int_as_float(0x7f800000)" in cuda
    assert opencl.startswith("static inline void f(float in_x, float attr_alpha, __private float *out_y)")
    assert "fabs(in_x) * exp(attr_alpha)" in opencl and "double" not in opencl


def test_qualifiers_and_types_can_be_chosen():
    program = Program(("x",), ("alpha",), (("y", "x * alpha"),))
    assert write_c(program, "f", qualifiers="", real="double").startswith("void f(double in_x, double attr_alpha")
    assert write_c(program, "f", attribute_real="float").count("double") == 0
    own = Dialect("own", qualifiers="kernel", pointer="__global", suffixes={"float": ""}, infinities={"float": "INF"})
    assert "__global float *out_y" in write_c(program, "f", dialect=own, attribute_real="float")
    with pytest.raises(ValueError, match="as own in 'double': use one of float"):
        write_c(program, "f", dialect=own)
    with pytest.raises(AttributeError, match="cannot be changed"):
        own.name = "other"


def test_literals_that_float_cannot_hold_become_infinity():
    text = write_c(Program(("x",), (), (("y", "x * 1e300"),)), "f")
    assert re.search(r"in_x \* INFINITY", text)


@needs_compiler
def test_long_chains_stay_within_the_compilers_depth_of_parentheses(tmp_path):
    expr = formula.name("x")
    for i in range(400):
        expr = formula.apply("+", formula.apply("sin", expr), formula.number(i % 3))
    source = tmp_path / "chain.c"
    source.write_text(write_c_loop(Program(("x",), (), (("y", expr),)), "chain"))
    done = subprocess.run([COMPILER, "-std=c99", "-fsyntax-only", str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert max(line.count("(") for line in source.read_text().splitlines()) < 100


HOISTED_LOOP = """
#include <math.h>
{function}
void loop_{i}(long long n{inputs}{attributes}{outputs})
{{
    struct f_{i}_uniforms uniforms = f_{i}_prepare({given});
    for (long long i = 0; i < n; i++)
        f_{i}({loads}, uniforms, {stores});
}}
"""


def hoisted_loop(program, i):
    """As `write_c_loop`, with what follows from attributes computed once."""
    return HOISTED_LOOP.format(
        i=i,
        function=write_c_hoisted(program, f"f_{i}"),
        inputs="".join(f", const float *in_{n}" for n in program.inputs),
        attributes="".join(f", double attr_{n}" for n in program.attributes),
        outputs="".join(f", float *out_{n}" for n in program.output_names),
        given=", ".join(f"attr_{n}" for n in program.attributes),
        loads=", ".join(f"in_{n}[i]" for n in program.inputs),
        stores=", ".join(f"&out_{n}[i]" for n in program.output_names),
    )


@needs_compiler
def test_what_follows_from_attributes_alone_is_computed_once(tmp_path):
    condition = Program(
        ("x",), ("alpha", "beta"), (("y", "where(alpha > 1, x, beta) * (1 - beta) + sqrt(alpha * beta) * x"),)
    )
    programs = [IN_PLACE, condition, Program(("x",), (), (("y", "x * x"),))]
    (tmp_path / "loops.c").write_text("\n".join(hoisted_loop(program, i) for i, program in enumerate(programs)))
    command = [COMPILER, "-std=c99", "-O1", "-Wall", "-Werror", "-pedantic", "-shared", "-fPIC", "-o", "loops.so"]
    done = subprocess.run([*command, "loops.c", "-lm"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(tmp_path / "loops.so"))
    for i, program in enumerate(programs):
        arrays = np.random.default_rng(3).uniform(0.1, 2, (len(program.inputs), 50)).astype(np.float32)
        attributes = (1.5, 0.999)[: len(program.attributes)]
        expected = compile_numpy(program)(*arrays, *attributes)
        outputs = np.empty((len(program.output_names), 50), np.float32)
        call(getattr(library, f"loop_{i}"), (list(arrays), list(outputs)), attributes)
        np.testing.assert_allclose(outputs, expected, rtol=1e-6, atol=1e-6)
    _, _, element = write_c_hoisted(IN_PLACE, "f").partition("void f(")
    assert "double" not in element and "attr_" not in element  # nothing of it is left to be done per element


WHOLE = Program(
    ("a", "b"),
    ("v",),
    (("y", "where(a > b and a != v, maximum(a + b, v) * 3, floor(a) - a * b)"), ("z", "minimum(-abs(a) + sign(b), a)")),
)
TRUTH = Program(
    ("a", "b"),
    ("v",),
    (("y", "where(a > b, v * a, a + b)"), ("z", "maximum(a * b, not_a)")),
    [("not_a", "where(a == 0, 1, 0)")],
)
WHOLES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@needs_compiler
def test_integers_wrap_around_as_in_numpy(tmp_path):
    parts = [write_c_loop(WHOLE, f"of_{dtype}", real=dtype) for dtype in WHOLES]
    parts.append(write_c_loop(TRUTH, "of_bool", real="bool"))
    (tmp_path / "wholes.c").write_text("\n".join(parts))
    command = [COMPILER, "-std=c99", "-O2", "-Werror", "-shared", "-fPIC", "-o", "wholes.so", "wholes.c", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(tmp_path / "wholes.so"))
    rng = np.random.default_rng(3)
    for dtype in map(np.dtype, [*WHOLES, "bool"]):
        bounds = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        kind = np.dtype(np.uint8) if dtype == np.bool_ else dtype
        a, b = rng.integers(*bounds, (2, 300), kind, endpoint=True).astype(dtype)
        b[:20] = a[:20]
        y, z = np.empty_like(a), np.empty_like(a)
        program = TRUTH if dtype == np.bool_ else WHOLE
        call(getattr(library, f"of_{dtype.name}"), ((a, b), (y, z)), (1.0,))
        for found, expected in zip((y, z), compile_numpy(program, dtype)(a, b, 1.0), strict=True):
            np.testing.assert_array_equal(found, expected, dtype.name)


def test_the_types_of_integers_are_those_of_the_dialect():
    source = write_c(WHOLE, "f", real="uint8", dialect=OPENCL)
    assert "void f(uchar in_a, uchar in_b, float attr_v, __private uchar *out_y" in source
    hoisted = write_c_hoisted(WHOLE, "f", real="int64", dialect=CUDA)
    assert "long long u0;" in hoisted and "uniforms.u0 = (long long)(long long)attr_v;" in hoisted


def test_powers_of_integers_are_refused():
    with pytest.raises(ValueError, match=r"\*\* of integers is not written"):
        write_c(Program(("a", "b"), (), (("y", "a ** b"),)), "f", real="int32")
