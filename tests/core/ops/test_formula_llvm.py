"""The LLVM writer: kernels compiled by llvmlite against NumPy, over dtypes, layouts, shares and edges."""

import ctypes
import platform
import re
from typing import ClassVar

import ml_dtypes
import numpy as np
import pytest

from atled.ops import formula
from atled.ops.formula import Program
from atled.ops.formula_layout import Layout, plan_layout
from atled.ops.formula_llvm import LIBRARY, write_llvm
from atled.ops.formula_numpy import compile_numpy

llvm = pytest.importorskip("llvmlite.binding", reason="llvmlite, which builds the kernels, is not installed")

SAMPLES = [pytest.param(operation, program, id=operation.name) for operation, program in formula.sample_programs()]
CHAIN = Program(
    ("x", "g"),
    ("alpha", "beta"),
    (("y", "tanh(x * g + alpha) * sigmoid(g)"), ("x", "where(x > 0 and beta > 0, x, alpha) * (1 - beta) + g")),
)


class Kernel:
    """One compiled program."""

    built: ClassVar[dict] = {}

    def __init__(self, ir):
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features().flatten()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)
        module = llvm.parse_assembly(ir)
        module.verify()
        module.triple, module.data_layout = llvm.get_process_triple(), str(machine.target_data)
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
        builder.getModulePassManager().run(module, builder)
        self.assembly = machine.emit_assembly(module)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        address = self.engine.get_function_address("kernel")
        self.function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address)

    @classmethod
    def of(cls, program, layout, **options):
        key = program, layout, *options.items()
        if key not in cls.built:
            cls.built[key] = cls(write_llvm(program, layout, "kernel", **options))
        return cls.built[key]


def run(program, arrays, attributes=(), *, parts=1, compute=None, **options):
    """Runs the shares in reverse order on inputs, then outputs; returns the outputs."""
    plan = plan_layout(program, [a.shape for a in arrays], [a.dtype for a in arrays], compute)
    words = plan.words.copy()
    for word, array in zip(plan.address_words, arrays, strict=True):
        assert array.flags.c_contiguous
        words[word] = array.ctypes.data
    for attribute, value in zip(program.attributes, attributes, strict=True):
        words[plan.attribute_words[attribute]] = np.float64(value).view(np.int64)
    kernel = Kernel.of(program, plan.layout, **options)
    for part in reversed(range(parts)):
        assert kernel.function(words.ctypes.data, part, parts) == 0
    return arrays[len(program.inputs) :]


def one_input(text):
    return Program(("x",), (), (("y", text),))


def check(text, x, *, rtol, atol=0.0):
    """A formula in x against NumPy in float64."""
    (y,) = run(one_input(text), [x, np.full_like(x, 7)])
    with np.errstate(over="ignore"):
        expected = compile_numpy(one_input(text))(x.astype(np.float64))[0].astype(x.dtype)
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=atol, err_msg=text)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("operation", "program"), SAMPLES)
def test_every_operation_equals_numpy(operation, program, dtype):
    a, b = np.random.default_rng(7).uniform(operation.low, operation.high, (2, 203)).astype(dtype)
    b[:20] = a[:20]
    (y,) = run(program, [a, b, np.empty_like(a)])
    (expected,) = compile_numpy(program)(a.astype(np.float64), b.astype(np.float64))
    epsilon = np.finfo(dtype).eps
    # float16 is float32 rounded once: half a unit in the last place.
    rtol = 0.51 * epsilon if dtype == "float16" else 4 * epsilon
    smallest = float(np.finfo(dtype).smallest_subnormal)
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=rtol, atol=smallest)


def test_float32_functions_are_right_to_two_units_over_their_whole_range():
    tiny, huge = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    log_range = np.logspace(np.log10(float(tiny)), np.log10(float(huge)), 20001).astype(np.float32)
    both_signs = np.concatenate([-log_range, log_range])
    for text in ("exp(x)", "exp2(x)", "expm1(x)", "tanh(x)", "sigmoid(x)"):
        check(text, both_signs, rtol=2.5e-7, atol=2e-45)
        check(text, np.linspace(-150, 130, 20001, dtype=np.float32), rtol=2.5e-7, atol=2e-45)
    for text in ("log(x)", "log2(x)", "log1p(x)", "sqrt(x)"):
        check(text, log_range, rtol=2.5e-7, atol=2e-45)
    for text in ("log(x)", "log2(x)"):
        check(text, np.linspace(0.5, 2, 20001, dtype=np.float32), rtol=2.5e-7)
    check("log1p(x)", np.linspace(-0.999999, 2, 20001, dtype=np.float32), rtol=2.5e-7)
    check("log1p(x)", -log_range[log_range < 1], rtol=2.5e-7, atol=2e-45)


def test_float64_exponentials_and_logarithms_are_right_over_their_whole_range():
    log_range = np.concatenate([np.logspace(-323, 308, 20001), [5e-324, np.finfo(np.float64).max]])
    both_signs = np.concatenate([-log_range, log_range, np.linspace(-760, 720, 20001), np.linspace(-2, 2, 20001)])
    for text, rtol in (("exp(x)", 4.5e-16), ("expm1(x)", 9e-16), ("tanh(x)", 9e-16), ("sigmoid(x)", 9e-16)):
        check(text, both_signs, rtol=rtol, atol=5e-324)
    near_one = np.linspace(0.5, 2, 20001)
    check("log(x)", np.concatenate([log_range, near_one]), rtol=4.5e-16)
    check(
        "log1p(x)", np.concatenate([log_range, -log_range[log_range < 1], near_one - 1.4999]), rtol=4.5e-16, atol=5e-324
    )


# As the module of these functions states them, in units in the last place.
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="NumPy has no more digits than float64 here")
@pytest.mark.parametrize(
    ("text", "function", "ulp"),
    [
        ("exp(x)", np.exp, 1.2),
        ("exp2(x)", np.exp2, 1.4),
        ("expm1(x)", np.expm1, 2.4),
        ("tanh(x)", np.tanh, 2.8),
        ("sigmoid(x)", lambda x: 1 / (1 + np.exp(-x)), 2.8),
        ("log(x)", np.log, 1.0),
        ("log2(x)", np.log2, 2.0),
        ("log1p(x)", np.log1p, 1.4),
    ],
)
def test_float64_functions_keep_their_stated_units_in_the_last_place(text, function, ulp):
    rng = np.random.default_rng(0)
    positive = 10.0 ** rng.uniform(-323, 308, 50000)
    if text.startswith("log"):
        low = -0.999 if "log1p" in text else 0.4
        x = np.concatenate([positive, rng.uniform(low, 2.5, 150000)])
    else:
        x = np.concatenate([positive, -positive, *(rng.uniform(-n, n, 100000) for n in (0.5, 5, 45, 750))])
    (y,) = run(one_input(text), [x, np.empty_like(x)])
    with np.errstate(over="ignore", under="ignore"):
        exact = function(x.astype(np.longdouble))
        nearest = exact.astype(np.float64)
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(nearest))
    x, y, exact, nearest = (array[np.isfinite(nearest)] for array in (x, y, exact, nearest))
    errors = abs(y.astype(np.longdouble) - exact) / np.spacing(abs(nearest)).astype(np.longdouble)
    assert errors.max() <= ulp, f"{errors.max()} at {x[errors.argmax()]!r}"


def test_circular_functions_are_right_to_two_units_over_their_whole_range():
    tiny, huge = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    log_range = np.logspace(np.log10(float(tiny)), np.log10(float(huge)), 20001).astype(np.float32)
    both_signs = np.concatenate([-log_range, log_range, np.linspace(-30, 30, 20001, dtype=np.float32)])
    for text in ("sin(x)", "cos(x)", "tan(x)", "atan(x)", "sinh(x)", "cosh(x)", "asinh(x)"):
        check(text, both_signs, rtol=2.5e-7, atol=2e-45)
    from_one = np.concatenate([log_range[log_range >= 1], np.linspace(1, 2, 20001, dtype=np.float32)])
    check("acosh(x)", from_one, rtol=2.5e-7)
    near_one = np.float32(1) - np.arange(1, 1001, dtype=np.float32) * np.float32(2**-24)
    unit_range = [both_signs[abs(both_signs) <= 1], near_one, np.linspace(-1, 1, 20001, dtype=np.float32)]
    unit_range = np.concatenate(unit_range)
    for text in ("asin(x)", "acos(x)", "atanh(x)"):
        check(text, unit_range, rtol=2.5e-7, atol=2e-45)


def test_float64_circular_functions_are_right_over_their_whole_range():
    log_range = np.concatenate([np.logspace(-323, 308, 20001), [5e-324, np.finfo(np.float64).max]])
    both_signs = np.concatenate([-log_range, log_range, np.linspace(-30, 30, 20001)])
    for text in ("atan(x)", "sinh(x)", "cosh(x)", "asinh(x)", "erf(x)", "exp2(x)"):
        check(text, both_signs, rtol=7e-16, atol=5e-324)
    for text in ("sin(x)", "cos(x)", "tan(x)"):
        check(text, both_signs[abs(both_signs) < 1e15], rtol=9e-16, atol=5e-324)
    check("acosh(x)", np.concatenate([log_range[log_range >= 1], np.linspace(1, 2, 20001)]), rtol=7e-16)
    check("log2(x)", np.concatenate([log_range, np.linspace(0.5, 2, 20001)]), rtol=7e-16)
    near_one = 1 - np.arange(1, 1001) * 2.0**-53
    unit_range = np.concatenate([both_signs[abs(both_signs) <= 1], near_one, np.linspace(-1, 1, 20001)])
    for text in ("asin(x)", "acos(x)", "atanh(x)"):
        check(text, unit_range, rtol=9e-16, atol=5e-324)


def test_the_error_function_is_right_over_its_whole_range():
    tiny, huge = np.finfo(np.float32).smallest_subnormal, np.finfo(np.float32).max
    log_range = np.logspace(np.log10(float(tiny)), np.log10(float(huge)), 20001).astype(np.float32)
    check("erf(x)", np.concatenate([-log_range, log_range, np.linspace(-5, 5, 20001, dtype=np.float32)]), rtol=2.5e-7)


@pytest.mark.parametrize("text", ["sin(x)", "cos(x)", "tan(x)"])
def test_angles_near_whole_quarter_turns_keep_their_digits(text):
    quarters = (np.arange(1, 1910) * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([quarters, np.nextafter(quarters, np.float32(0)), np.nextafter(quarters, np.float32(1e9))])
    check(text, x, rtol=2.5e-7)
    quarters = np.arange(1, 636000, 31) * (np.pi / 2)
    check(text, np.concatenate([quarters, np.nextafter(quarters, 0), np.nextafter(quarters, 1e9)]), rtol=9e-16)


@pytest.mark.parametrize("place", [0, 1023, 1024, 2999])
def test_a_large_angle_among_small_ones_is_right_and_so_are_they_even_in_place(place):
    x = np.linspace(-9, 9, 3000, dtype=np.float32)
    x[place] = 1e30
    expected = np.sin(x.astype(np.float64))
    run(Program(("x",), (), (("x", "sin(x)"),)), [x, x])
    np.testing.assert_allclose(x, expected, rtol=2.5e-7, atol=1e-9)


@pytest.mark.parametrize("parts", [1, 3])
def test_large_angles_in_rows_and_from_functions_of_angles(parts):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((5, 2500)) * 10.0 ** rng.uniform(0, 6, (5, 2500))).astype(np.float32)
    g = rng.standard_normal((5, 1)).astype(np.float32)
    program = Program(("x", "g"), ("a",), (("y", "g * sin(x) + cos(a)"), ("z", "tan(sin(x) + g)")))
    y, z = run(program, [x, g, np.empty_like(x), np.empty_like(x)], (0.7,), parts=parts)
    sine = np.sin(x.astype(np.float64))
    np.testing.assert_allclose(y, g * sine + np.cos(0.7), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.arctan(z), np.arctan(np.tan(sine + g)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("text", ["sin(x)", "cos(x)", "tan(x)", "z ** x", "sin(x) ** 2.5 + z ** sin(x)"])
def test_no_element_depends_on_its_neighbours(text, dtype):
    # Of those that have a quick form, and a whole one for the rest.
    rng = np.random.default_rng(5)
    x, z = rng.uniform(-30, 30, 6000).astype(dtype), np.exp(rng.uniform(-3, 3, 6000)).astype(dtype)
    program = Program(("x", "z"), (), (("y", text),))
    (alone,) = run(program, [x, z, np.empty_like(x)])
    places = [700, 2000, 2001, 5999]
    for array, value in ((x, 1e30), (z, -2)):
        array[places] = value
    (among,) = run(program, [x, z, np.empty_like(x)])
    alone[places] = among[places]
    np.testing.assert_array_equal(among, alone)


@pytest.mark.parametrize("text", ["sin(x)", "cos(x)", "tan(x)"])
def test_float64_angles_of_any_size_are_right_and_change_no_neighbours(text):
    x = np.random.default_rng(5).uniform(-30, 30, 3000)
    (alone,) = run(one_input(text), [x, np.empty_like(x)])
    places = [0, 700, 2000, 2001]
    x[places] = 1e30, -2e6, np.nan, 1e300
    (among,) = run(one_input(text), [x, np.empty_like(x)])
    np.testing.assert_allclose(among[places], compile_numpy(one_input(text))(x[places])[0], rtol=9e-16)
    alone[places] = among[places]
    np.testing.assert_array_equal(among, alone)


# Errors are largest where a base near 1 has a large exponent.
@pytest.mark.parametrize(("logarithms", "rtol"), [((-100, 88), 1.9e-7), ((-0.7, 0.7), 3e-7)])
def test_float32_powers_are_right_over_their_whole_range(logarithms, rtol):
    rng = np.random.default_rng(2)
    x = np.exp(rng.uniform(*logarithms, 20000)).astype(np.float32)
    y = (rng.uniform(-95, 88, 20000) / np.log(x.astype(np.float64))).astype(np.float32)
    program = Program(("x", "y"), (), (("z", "x ** y"),))
    (z,) = run(program, [x, y, np.empty_like(x)])
    with np.errstate(over="ignore"):
        expected = (x.astype(np.float64) ** y.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(z, expected, rtol=rtol, atol=2e-45)


@pytest.mark.parametrize("logarithms", [(-740, 700), (-0.7, 0.7)])
def test_float64_powers_are_right_over_their_whole_range(logarithms):
    rng = np.random.default_rng(2)
    x = np.exp(rng.uniform(*logarithms, 20000))
    y = rng.uniform(-740, 708, 20000) / np.log(x)
    program = Program(("x", "y"), (), (("z", "x ** y"),))
    (z,) = run(program, [x, y, np.empty_like(x)])
    # More digits than float64 has, or the C library's own powers.
    expected = (x.astype(np.longdouble) ** y.astype(np.longdouble)).astype(np.float64)
    np.testing.assert_allclose(z, expected, rtol=4e-16, atol=5e-324)


EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, 1e30, -1e30, 1e-40, 88.9]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("operation", "program"), SAMPLES)
def test_edges_are_as_in_numpy(operation, program, dtype):
    a, b = (edges.ravel().copy() for edges in np.meshgrid(*[np.array(EDGES, dtype)] * 2))
    (y,) = run(program, [a, b, np.empty_like(a)])
    (expected,) = compile_numpy(program)(a.astype(np.float64), b.astype(np.float64))
    with np.errstate(over="ignore"):
        expected = expected.astype(dtype)
    if operation.name in ("sin", "cos", "tan"):  # of 1e30 and its like: the error of float32 library functions
        expected[abs(a) > 1e3] = y[abs(a) > 1e3] = 0
    np.testing.assert_allclose(y, expected, rtol=4 * np.finfo(dtype).eps, atol=2e-45)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tanh_of_what_is_large_is_exactly_1(dtype):
    large = [9.02, 9.5, 10.0, 20.0, 88.9, 1e30, np.inf] if dtype == "float32" else [20.0, 88.9, 1e300, np.inf]
    x = np.resize(np.array(large, dtype), 37)  # vectors, and what is left
    (y,) = run(one_input("tanh(x)"), [x, np.empty_like(x)])
    (negative,) = run(one_input("tanh(x)"), [-x, np.empty_like(x)])
    np.testing.assert_array_equal(y, np.ones_like(x))
    np.testing.assert_array_equal(negative, -np.ones_like(x))


@pytest.mark.parametrize("parts", [1, 3, 100])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000])
def test_shares_cover_every_element_once(n, parts):
    x, g = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    expected = compile_numpy(CHAIN)(x, g, 0.25, 0.999)
    guarded = np.full(n + 32, 7, np.float32)
    y = guarded[16 : 16 + n]
    # In place: a share that ran twice would add g twice.
    run(CHAIN, [x, g, y, x], (0.25, 0.999), parts=parts)
    np.testing.assert_allclose(y, expected[0], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(x, expected[1], rtol=1e-6, atol=1e-7)
    assert (guarded[:16] == 7).all() and (guarded[16 + n :] == 7).all()


SHAPES = [
    ((), (), ()),
    ((5,), (), (5,)),
    ((1, 1), (3,), (1, 3)),
    ((4, 1), (1, 5), (4, 5)),
    ((2, 3, 4), (3, 1), (2, 3, 4)),
    ((2, 1, 4, 1), (3, 1, 5), (2, 3, 4, 5)),
    ((2, 1, 2, 1, 3, 1, 2), (1, 3, 1, 2, 1, 4, 1), (2, 3, 2, 2, 3, 4, 2)),
    ((3, 1, 70), (1, 2, 70), (3, 2, 70)),
    ((2, 1000), (2, 1), (2, 1000)),
    ((0, 3), (3,), (0, 3)),
    ((3, 1), (1, 0), (3, 0)),
    ((6, 1, 1), (1, 1, 1), (6, 1, 1)),
]


@pytest.mark.parametrize("parts", [1, 3, 7])
@pytest.mark.parametrize(("x_shape", "g_shape", "shape"), SHAPES)
def test_inputs_broadcast(x_shape, g_shape, shape, parts):
    rng = np.random.default_rng(4)
    x, g = rng.standard_normal(x_shape).astype(np.float32), rng.standard_normal(g_shape).astype(np.float32)
    program = Program(("x", "g"), ("alpha",), (("y", "alpha * x - g"), ("z", "x * g"), ("w", "alpha")))
    outputs = run(program, [x, g, *(np.empty(shape, np.float32) for _ in range(3))], (0.5,), parts=parts)
    for y, expected in zip(outputs, compile_numpy(program)(x, g, 0.5), strict=True):
        np.testing.assert_allclose(y, np.broadcast_to(expected, shape), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 2, 9, 40])
@pytest.mark.parametrize("length", [3, 16, 100, 700])
def test_rows_and_pieces_of_rows_are_shared_once(rows, length, parts):
    x, g = np.zeros((rows, length), np.float32), np.arange(rows, dtype=np.float32)[:, None] + 1
    program = Program(("x", "g"), (), (("x", "x + g"),))
    run(program, [x, g, x], parts=parts)
    np.testing.assert_array_equal(x, np.broadcast_to(g, x.shape))


@pytest.mark.parametrize("compute", ["float32", "float64"])
@pytest.mark.parametrize("out", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("given", ["float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool"])
def test_dtypes_convert_at_the_borders(given, out, compute):
    x = np.array([0, 1, 1, 0, 1] if given == "bool" else [0, 1, 100, 250, 3] * 9).astype(given)
    if given not in ("uint8", "bool"):
        x[1] = -3
    (y,) = run(one_input("x * 0.25 + 1"), [x, np.empty(x.shape, out)], compute=compute)
    np.testing.assert_array_equal(y, (x.astype(np.float64) * 0.25 + 1).astype(out))


def test_bfloat16_converts_as_its_library_does_for_every_value():
    narrow = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    wide = np.empty(narrow.size, np.float32)
    run(one_input("x"), [narrow, wide])
    np.testing.assert_array_equal(wide, narrow.astype(np.float32))
    # Around every value and every middle between two, where rounding turns.
    bits = (np.arange(1 << 17, dtype=np.uint32) << 15)[:, None] + np.array([-1, 0, 1]).astype(np.uint32)
    values = bits.ravel().view(np.float32)
    (found,) = run(one_input("x"), [values, np.empty(values.size, ml_dtypes.bfloat16)])
    numbers = ~np.isnan(values)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16)
    assert np.array_equal(found[numbers].view(np.uint16), expected[numbers].view(np.uint16))
    assert np.isnan(found[~numbers]).all()


@pytest.mark.parametrize(("operation", "program"), SAMPLES)
def test_every_nan_of_bfloat16_stays_one(operation, program):
    # Of which nothing but the value tells: rounded as numbers, those with other digits set would turn into numbers.
    payloads = np.concatenate([np.arange(0x7F81, 0x8000), np.arange(0xFF81, 0x10000)]).astype(np.uint16)
    a = np.concatenate([payloads.view(ml_dtypes.bfloat16), np.array(EDGES, "f").astype(ml_dtypes.bfloat16)])
    for b in (a[::-1].copy(), np.ones_like(a)):
        (y,) = run(program, [a, b, np.empty_like(a)])
        with np.errstate(invalid="ignore", over="ignore"):  # those that signal do so when they are cast
            (expected,) = compile_numpy(program)(a.astype(np.float64), b.astype(np.float64))
            np.testing.assert_array_equal(np.isnan(y), np.isnan(expected.astype(ml_dtypes.bfloat16)))


def test_an_attribute_that_is_nan_with_any_digits_stays_nan_in_bfloat16():
    x = np.arange(1, 20).astype(ml_dtypes.bfloat16)
    nan = float(np.uint64(0x7FFFFFFFFFFFFFFF).view(np.float64))
    (y,) = run(Program(("x",), ("a",), (("y", "x * a + 1"),)), [x, np.empty_like(x)], (nan,))
    assert np.isnan(y).all()


HALF_INSTRUCTIONS = platform.machine() in ("arm64", "aarch64") or llvm.get_host_cpu_features().get("f16c", False)
HALF_INSTRUCTIONS_MARK = pytest.mark.skipif(not HALF_INSTRUCTIONS, reason="no float16 instructions on this processor")


def test_powers_are_the_same_bits_without_fused_instructions():
    rng = np.random.default_rng(3)
    x = np.concatenate([np.exp(rng.uniform(-80, 80, 5000)), [0, 1, np.inf, -2, 1e-42]]).astype(np.float32)
    y = np.concatenate([rng.uniform(-30, 30, 5000), [2, -0.5, 1.5, 3, 1.01]]).astype(np.float32)
    program = Program(("x", "y"), (), (("z", "x ** y"),))
    results = [run(program, [x, y, np.empty_like(x)], fused_instructions=fused)[0] for fused in (True, False)]
    np.testing.assert_array_equal(*[result.view(np.int32) for result in results])
    text = write_llvm(program, Layout(["float32"] * 3, "float32", 0, [1, 1, 1]), "kernel", fused_instructions=False)
    assert "llvm.fma." not in text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0])
def test_powers_with_one_small_exponent_are_products_whatever_the_base(dtype, exponent):
    x = np.random.default_rng(0).standard_normal(3000).astype(dtype)
    x[:8] = 0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).tiny / 4, np.finfo(dtype).max, 1
    results = [np.empty_like(x) for _ in range(3)]
    program = Program(("x",), ("val", "other"), (("y", "x ** val"), ("z", "abs(x) ** other"), ("w", "sin(x) ** val")))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = {1.0: x, 2.0: x * x, 3.0: x * x * x}[exponent]
        alone = run(Program(("x",), ("val",), (("y", "x ** val"),)), [x, np.empty_like(x)], [exponent])[0].copy()
        np.testing.assert_array_equal(alone, expected)
        for other in (1.7, 2.0):  # beside another power, and a function of which some elements are computed again
            y, z, w = run(program, [x, *results], [exponent, other])
            np.testing.assert_array_equal(y, expected)
            np.testing.assert_array_equal(np.signbit(y[5:]), np.signbit(expected[5:]))
            np.testing.assert_allclose(z, np.abs(x) ** x.dtype.type(other), rtol=1e-5)
            np.testing.assert_allclose(w, np.sin(x) ** x.dtype.type(exponent), rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("exponent", [-3.0, -2.0, -1.5, -1.0, -0.5, 0.5, 1.5])
def test_powers_with_one_exponent_of_a_quotient_or_root_take_any_base(dtype, exponent):
    x = np.random.default_rng(0).standard_normal(3000).astype(dtype)
    x[:9] = 0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).tiny / 4, np.finfo(dtype).max, 1, np.finfo(dtype).tiny
    x[2000:] = np.abs(x[2000:]) * 10.0 ** np.linspace(-30, 30, 1000).astype(dtype)
    wide = np.longdouble if dtype == "float64" else np.float64
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(wide), np.full(x.shape, exponent, wide)).astype(dtype)
        alone = run(Program(("x",), ("val",), (("y", "x ** val"),)), [x, np.empty_like(x)], [exponent])[0].copy()
        # Results that are not normal have fewer digits.
        np.testing.assert_allclose(alone, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(alone[known]), np.signbit(expected[known]))
        program = Program(("x",), ("val", "other"), (("y", "x ** val"), ("z", "abs(x) ** other")))
        for other in (1.7, 2.0, -1.0, 0.5):  # beside another power
            y, z = run(program, [x, np.empty_like(x), np.empty_like(x)], [exponent, other])
            np.testing.assert_array_equal(y, alone)
            np.testing.assert_allclose(z, np.abs(x) ** x.dtype.type(other), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 3000])
def test_powers_with_one_exponent_are_the_same_in_place(dtype, count):
    given = np.random.default_rng(0).uniform(-3, 3, count).astype(dtype)
    given[::100] = np.nan
    program = Program(("x",), ("val",), (("y", "x ** val"), ("z", "x + val")))
    for exponent in (2.0, -1.0, 0.5, 1.7):
        x, z = given.copy(), np.empty_like(given)
        expected = [y.copy() for y in run(program, [given, np.empty_like(given), np.empty_like(given)], [exponent])]
        run(program, [x, x, z], [exponent], parts=3)
        np.testing.assert_array_equal(x, expected[0])
        np.testing.assert_array_equal(z, expected[1])
        x, z = given.copy(), np.empty_like(given)
        run(program, [x, z, x], [exponent])
        np.testing.assert_array_equal(z, expected[0])
        np.testing.assert_array_equal(x, expected[1])


@pytest.mark.parametrize("half_instructions", [False, pytest.param(True, marks=HALF_INSTRUCTIONS_MARK)])
@pytest.mark.parametrize("text", ["floor(x)", "ceil(x)", "trunc(x)", "rint(x)", "round(abs(x)) / 2", "rint(x + 0.25)"])
def test_float16_is_rounded_to_whole_numbers_as_float32_is(text, half_instructions):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    (y,) = run(one_input(text), [halves, np.empty_like(halves)], half_instructions=half_instructions)
    (single,) = run(one_input(text), [halves.astype(np.float32), np.empty(halves.size, np.float32)])
    with np.errstate(over="ignore"):
        expected = single.astype(np.float16)
    is_number = ~np.isnan(halves)
    assert np.isnan(y[~is_number]).all()
    np.testing.assert_array_equal(y[is_number].view(np.uint16), expected[is_number].view(np.uint16))


@pytest.mark.parametrize("half_instructions", [False, pytest.param(True, marks=HALF_INSTRUCTIONS_MARK)])
def test_float16_converts_as_numpy_does_for_every_value(half_instructions):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = np.empty(halves.size, np.float32)
    run(one_input("x"), [halves, wide], half_instructions=half_instructions)
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    # Around every value and every middle between two, where rounding turns.
    finite = wide[np.isfinite(wide)]
    middles = (finite + np.roll(finite, 1)) / 2
    values = np.concatenate([finite, middles, [np.nan, np.inf, -np.inf, 65519.99, 65520, 1e38]]).astype(np.float32)
    values = np.concatenate([values, np.nextafter(values, np.float32(9e9)), np.nextafter(values, np.float32(-9e9))])
    narrow = np.empty(values.size, np.float16)
    run(one_input("x"), [values, narrow], half_instructions=half_instructions)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(narrow, expected)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(np.signbit(narrow)[numbers], np.signbit(expected)[numbers])


def test_large_integers_keep_their_digits_in_float64():
    x = np.array([2**40 + 1, -(2**50) - 1], np.int64)
    (y,) = run(one_input("x + 1"), [x, np.empty(2, np.float64)])
    np.testing.assert_array_equal(y, x + 1.0)


def test_attributes_keep_their_digits():
    program = Program(("x",), ("beta", "unused"), (("y", "x * (1 - beta) + sqrt(beta - beta)"),))
    (y,) = run(program, [np.ones(40, np.float32), np.empty(40, np.float32)], (0.999, 5.0))
    assert (y == np.float32(1 - 0.999)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_attributes_are_computed_once_in_float64(dtype):
    program = Program((), ("a",), (("y", "sigmoid(a) + exp(a)"),))
    (y,) = run(program, [np.empty(5, dtype)], (0.75,))
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-0.75)) + np.exp(0.75), rtol=np.finfo(dtype).eps)


def test_constant_programs_fill():
    program = Program((), ("value",), (("y", "value"), ("z", "pi")))
    y, z = run(program, [np.empty((3, 5), np.float32), np.empty((3, 5), np.float16)], (2.5,))
    assert (y == 2.5).all() and (z == np.float16(np.pi)).all()


def test_neighbouring_axes_become_one():
    program = Program(("x", "b"), (), (("y", "x + b"),))

    def layout(x, b, y):
        plan = plan_layout(program, [x, b, y], ["float32"] * 3)
        return plan.layout.rank, plan.layout.inner_strides, plan.words[0]

    assert layout((2, 3, 4), (2, 3, 4), (2, 3, 4)) == (0, (1, 1, 1), 24)
    assert layout((2, 3, 4), (), (2, 3, 4)) == (0, (1, 0, 1), 24)
    assert layout((8, 16, 5, 5), (1, 16, 1, 1), (8, 16, 5, 5)) == (2, (1, 0, 1), 25)
    assert layout((8, 16, 5, 5), (5, 5), (8, 16, 5, 5)) == (1, (1, 1, 1), 25)
    assert layout((1, 1), (), (1, 1)) == (0, (1, 1, 1), 1)
    assert layout((4, 0), (1, 1), (4, 0)) == (0, (1, 1, 1), 0)


def test_block_words_are_where_the_plan_says():
    program = Program(("x", "b"), ("alpha", "beta"), (("y", "x + b"),))
    plan = plan_layout(program, [(4, 6), (4, 1), (4, 6)], ["float32"] * 3)
    assert plan.words.tolist() == [6, 4, 0, 0, 0, 6, 1, 6, 0, 0] and plan.words.dtype == np.int64
    assert plan.address_words == (2, 3, 4) and plan.attribute_words == {"alpha": 8, "beta": 9}


@pytest.mark.parametrize(
    ("shapes", "dtypes", "error", "message"),
    [
        ([(3,), (4,), (3,)], ["f4"] * 3, ValueError, "input shape \\(4,\\) does not fit the output shape \\(3,\\)"),
        ([(3,), (2, 3), (3,)], ["f4"] * 3, ValueError, "input shape \\(2, 3\\) does not fit"),
        ([(3,), (3,)], ["f4"] * 2, ValueError, "Give one for each of 2 inputs and 1 outputs"),
        ([(3,)] * 3, ["f4", "c8", "f4"], TypeError, "no complex64 here. Cast to one of float16"),
    ],
)
def test_what_does_not_fit_is_refused(shapes, dtypes, error, message):
    with pytest.raises(error, match=message):
        plan_layout(Program(("x", "b"), (), (("y", "x + b"),)), shapes, dtypes)


def test_layouts_are_values():
    one, two = (Layout(["float32"] * 2, "float32", 1, [1, 1]) for _ in range(2))
    assert one == two and hash(one) == hash(two) and one != Layout(["float32"] * 2, "float64", 1, [1, 1])
    assert eval(repr(one)) == one
    with pytest.raises(AttributeError, match="cannot be changed"):
        one.rank = 2
    with pytest.raises(ValueError, match="Use one of float32, float64"):
        Layout(["float32"], "float16", 0, [1])
    with pytest.raises(ValueError, match="give 0, 1 or 2"):
        Layout(["float32"], "float32", 0, [3])
    with pytest.raises(ValueError, match="give a layout of 2 operands"):
        write_llvm(one_input("x"), Layout(["float32"], "float32", 0, [1]), "kernel")


def test_text_is_the_same_every_time():
    layout = Layout(["float32"] * 4, "float32", 1, [1, 0, 1, 1])
    assert write_llvm(CHAIN, layout, "kernel") == write_llvm(CHAIN, layout, "kernel")


def test_only_listed_library_functions_are_called():
    called = set()
    for _, program in formula.sample_programs():
        for dtype in ("float32", "float64"):
            text = write_llvm(program, Layout([dtype] * 3, dtype, 0, [1] * 3), "kernel")
            once = Program((), program.inputs, program.outputs)  # of attributes: in float64, once per call
            text += write_llvm(once, Layout([dtype], dtype, 0, [1]), "kernel")
            called |= set(re.findall(r"@([a-z]\w*)\(", text.replace("@kernel", ""))) - {"llvm"}
    assert called == set(LIBRARY)


def called_by_element(assembly):
    """The functions called, but for the one that copies whole pieces of rows."""
    return set(re.findall(r"\$([a-z_]\w*)", assembly)) - {"memcpy"}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="looks for the vector registers of x86")
@pytest.mark.parametrize(
    "text",
    [
        *("tanh(exp(x) + 1)", "sigmoid(x)", "log(x) + log1p(x)", "expm1(x)", "x ** 1.7", "round(exp(x))"),
        *("exp2(x) + log2(x)", "rint(exp2(x))", "maximum(x, 0)", "sin(x) + tan(x)", "acos(x)", "asinh(x)"),
        "erf(x)",
    ],
)
@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_float32_kernels_are_vectorized_without_calls(text, rank, dtype):
    features = llvm.get_host_cpu_features()
    if not features.get("avx2") or not features.get("f16c"):
        pytest.skip("this processor has no AVX2")
    program = Program(("x",), (), (("x", text), ("y", "x")))
    assembly = Kernel.of(program, Layout([dtype] * 3, "float32", rank, [1, 1, 1])).assembly
    packed = re.findall(r"\bv\w+p[sdh]\s.*[yz]mm", assembly)
    assert len(packed) > 3 and called_by_element(assembly) == set()


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="looks for the vector registers of x86")
@pytest.mark.parametrize(
    "text",
    [
        *("tanh(exp(x) + 1)", "sigmoid(x)", "log(x) + log1p(x)", "expm1(x)", "exp2(x) + log2(x)", "erf(x)"),
        "x ** 1.7",
        *("asin(x) + acos(x)", "atan(x)", "sinh(x) + cosh(x)", "asinh(x)", "acosh(x)", "atanh(x)"),
    ],
)
def test_float64_kernels_are_vectorized_without_calls(text):
    if not llvm.get_host_cpu_features().get("avx2"):
        pytest.skip("this processor has no AVX2")
    assembly = Kernel.of(one_input(text), Layout(["float64"] * 2, "float64", 0, [1, 1])).assembly
    assert len(re.findall(r"\bv\w+pd\s.*[yz]mm", assembly)) > 3 and called_by_element(assembly) == set()


def test_scalar_programs_vectorize_over_broadcast_inputs():
    program = Program(("x", "b"), (), (("y", "exp(x) * b"),))
    x, b = np.linspace(-1, 1, 4000, dtype=np.float32).reshape(4, 1000), np.arange(4, dtype=np.float32)[:, None]
    (y,) = run(program, [x, b, np.empty_like(x)])
    np.testing.assert_allclose(y, np.exp(x) * b, rtol=3e-7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp2_and_log2_of_powers_of_two_are_exact_and_rint_rounds_halves_to_even(dtype):
    powers = np.arange(-126, 128, dtype=dtype)
    (y,) = run(one_input("exp2(x)"), [powers, np.empty_like(powers)])
    np.testing.assert_array_equal(y, np.ldexp(np.ones_like(powers), powers.astype(int)))  # NumPy's exp2 rounds
    (back,) = run(one_input("log2(x)"), [y, np.empty_like(y)])
    np.testing.assert_array_equal(back, powers)
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0, -np.inf], dtype)
    (rounded,) = run(one_input("rint(x)"), [halves, np.empty_like(halves)])
    np.testing.assert_array_equal(rounded, np.rint(halves))


@pytest.mark.parametrize("formula", ["sign(x) * abs(x)", "maximum(x, z) * x", "where(x > 0, z * x, sqrt(abs(x)) - x)"])
@pytest.mark.parametrize("half_instructions", [True, False])
def test_float16_that_is_compared_and_computed_with_has_the_results_of_float32(formula, half_instructions):
    if half_instructions and not llvm.get_host_cpu_features().get("f16c", platform.machine() == "aarch64"):
        pytest.skip("this processor has no instructions for float16")
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    z = np.random.default_rng(0).permutation(x)
    program = Program(("x", "z"), (), (("y", formula),))
    with np.errstate(invalid="ignore", over="ignore"):  # of signalling NaN, too
        (wide,) = run(program, [x.astype("f"), z.astype("f"), np.empty(x.size, "f")])
        expected = wide.astype(np.float16)
    (found,) = run(program, [x, z, np.empty(x.size, np.float16)], half_instructions=half_instructions)
    is_nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~is_nan], expected.view(np.uint16)[~is_nan])
