"""Formulas that are attached to a call, as C: compiled and run, where there is a compiler, in a loop."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from atled.plugin import C99, CUDA, OPENCL, ArrayDesc, Call, Stored, op_spec, reference_run, write_attached_c

LOOP = """
#include <math.h>
%s
void kernel(const %s *x, %s *y, long n OPERANDS)
{
    for (long i = 0; i < n; i++)
        STORE_0(y, i, READ_0(x, i));
}
"""
WORDS = {"float32": "float", "float64": "double"}


def formula(op, inputs, dtype="float32", **attributes):
    """The call of a formula on arrays of these shapes."""
    shape = np.broadcast_shapes(*inputs)
    descs = tuple(ArrayDesc(item, dtype) for item in inputs)
    return Call(op_spec(op), descs, (ArrayDesc(shape, dtype),), attributes)


def identity(shape, dtype="float32", before=None, after=None, wanted=True):
    """A call that copies, with formulas before and behind it."""
    desc = ArrayDesc(shape, dtype)
    plain = Call(op_spec("Identity"), (desc,), (desc,), {})
    return plain.attached({0: before} if before else {}, {0: after} if after else {}, (wanted,))


def run_c(call, arrays, floats, folder, in_array=False):
    """Compile the loop with the formulas of a call and run it; in_array: the floats are elements of one."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    kind = WORDS[call.inputs[0].dtype.name]
    numbers = ("const double *numbers", "numbers[{}]") if in_array else None
    source = LOOP % (write_attached_c(call, reads=(0,), stores=(0,), real=kind, numbers=numbers), kind, kind)
    (folder / "kernel.c").write_text(source)
    library = folder / "kernel.so"
    flags = ["-std=c99", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC"]
    done = subprocess.run(
        [compiler, *flags, "kernel.c", "-o", str(library), "-lm"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr + source
    own, attached, rest = call.split([*arrays, *floats])
    addresses = [None if item is None else ctypes.c_void_p(item.ctypes.data) for item in (*own, *attached)]
    given = [ctypes.c_double(item) for item in rest]
    if in_array and rest:
        given = [(ctypes.c_double * len(rest))(*rest)]
    size = ctypes.c_long(call.outputs[0].size)
    ctypes.CDLL(str(library)).kernel(*addresses[:2], size, *addresses[2:], *given)


CASES = {
    "plain": identity((3, 4)),
    "before": identity((3, 4), before=formula("Sub2", [(3, 4), (3, 4)])),
    "before, a row": identity((3, 4), before=formula("Sub2", [(3, 4), (4,)])),
    "before, a column": identity((3, 4), before=formula("Mul2", [(3, 1), (3, 4)])),
    "before, axes in the middle": identity((2, 3, 4, 5), before=formula("Add2", [(1, 3, 1, 5), (2, 1, 4, 1)])),
    "before, one element": identity((3, 4), before=formula("Add2", [(1, 1), (3, 4)])),
    "before, another shape": identity((12,), before=formula("Add2", [(3, 4), (3, 1)])),
    "behind": identity((3, 4), after=formula("Tanh", [(3, 4)]), wanted=False),
    "behind, stored as well": identity((3, 4), after=formula("Add2", [(3, 4), (3, 4)])),
    "with a float": identity((3, 4), after=formula("MulScalar", [(3, 4)]), wanted=False),
    "both, with floats": identity(
        (3, 4), before=formula("PowScalar", [(3, 4)]), after=formula("AddScalar", [(3, 4)]), wanted=False
    ),
    "double": identity((3, 4), "float64", after=formula("Mul2", [(3, 4), (1, 4)], "float64"), wanted=False),
}


def present(arrays):
    return [array for array in arrays if array is not None]


@pytest.mark.parametrize("in_array", [False, True])
@pytest.mark.parametrize("call", CASES.values(), ids=CASES)
def test_it_computes_what_the_reference_does(call, in_array, tmp_path):
    if in_array and not call.float_count:
        pytest.skip("no floats")
    rng = np.random.default_rng(0)
    reads = [None if desc is None else rng.uniform(1, 2, desc.shape).astype(desc.dtype) for desc in call.reads]
    floats = [0.5 + number for number in range(call.float_count)]
    wanted, found = (
        [None if desc is None else np.full(desc.shape, 7, desc.dtype) for desc in call.writes] for _ in range(2)
    )
    reference_run(call)(*reads, *wanted, *floats)
    run_c(call, [*reads, *found], floats, tmp_path, in_array)
    for want, got in zip(present(wanted), present(found), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(("dialect", "words"), [(OPENCL, "__global const float *"), (CUDA, "static __device__")])
def test_the_text_is_that_of_the_dialect(dialect, words):
    text = write_attached_c(CASES["before"], reads=(0,), stores=(0,), dialect=dialect)
    assert words in text and "#define OPERANDS , " in text and "#define STORE_0(y, at, value) (y)[at] = (value)" in text


def test_a_formula_at_another_place_is_an_error():
    with pytest.raises(ValueError, match="not all at inputs"):
        write_attached_c(CASES["behind"], reads=(0,))


def test_a_dtype_that_c_has_not_is_an_error():
    with pytest.raises(ValueError, match="no float16 here"):
        write_attached_c(identity((3,), "float16", after=formula("Tanh", [(3,)], "float16")), stores=(0,), dialect=C99)


HALVES = {
    "float32": Stored("float"),
    "float16": Stored("half", "as_float({})", "as_half({})"),
}
HALF_LOOP = """
#include <stdint.h>
#include <string.h>
typedef uint16_t half; /* of whole numbers of eighths: enough to see what is converted where */
static inline float as_float(half x) { return x / 8.0f; }
static inline half as_half(float x) { return (half)(x * 8.0f); }
""" + LOOP.replace("long n", "long long n").replace("const %s", "const half").replace("%s *y", "half *y")


def test_elements_are_converted_where_they_are_kept_otherwise(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    call = identity(
        (3, 4), "float16", formula("Add2", [(3, 4), (4,)], "float16"), formula("Mul2", [(3, 4), (3, 1)], "float16")
    )
    text = write_attached_c(call, reads=(0,), stores=(0,), storage=HALVES, index="long long")
    assert "long long at" in text and "half *y" in text
    (tmp_path / "kernel.c").write_text(HALF_LOOP % text)
    command = [compiler, "-std=c99", "-Wall", "-Werror", "-shared", "-fPIC", "kernel.c", "-o", "kernel.so", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    a, b, c = (np.arange(1, 1 + size, dtype=np.uint16) * 8 for size in (12, 4, 3))
    y, z = np.zeros(12, np.uint16), np.zeros(12, np.uint16)
    given = [ctypes.c_void_p(array.ctypes.data) for array in (a, b, c, z)]
    kernel = ctypes.CDLL(str(tmp_path / "kernel.so")).kernel
    kernel(None, ctypes.c_void_p(y.ctypes.data), ctypes.c_longlong(12), *given)
    first = a.reshape(3, 4) // 8 + b // 8
    np.testing.assert_array_equal(y.reshape(3, 4) // 8, first)
    np.testing.assert_array_equal(z.reshape(3, 4) // 8, first * (c.reshape(3, 1) // 8))


def test_macros_without_formulas_convert_as_well():
    text = write_attached_c(identity((3,), "float16"), reads=(0,), stores=(0,), storage=HALVES, dialect=CUDA)
    assert "#define READ_0(x, at) as_float((x)[at])" in text
    assert "#define STORE_0(y, at, value) (y)[at] = as_half((value))" in text


def test_floats_that_a_kernel_has_in_any_case_are_not_declared():
    text = write_attached_c(CASES["with a float"], reads=(0,), stores=(0,), numbers=("", "number({})"))
    assert "#define OPERANDS , float *STORE_0_out0\n" in text and "number(0)" in text
