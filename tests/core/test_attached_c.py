"""Formulas that are attached to a call, as C: compiled and run, where there is a compiler, in a loop."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from atled.plugin import C99, CUDA, OPENCL, ArrayDesc, Call, op_spec, reference_run, write_attached_c

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
