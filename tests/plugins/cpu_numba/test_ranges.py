"""Range kernels: any ranges of the elements together are the whole, with operands broadcast in every position."""

import ctypes
import itertools

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.ops.spec import SPECS
from atled_cpu_numba import elementwise
from atled_cpu_numba.store import TransientKernel

KERNEL_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
FULL = (3, 4, 5, 7)
SHAPES = list(itertools.product(*((1, size) for size in FULL)))


def prepared(shapes, dtypes):
    """Mul2 of arrays of such shapes, its block and its arrays."""
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape).astype(dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    descs = [ArrayDesc(x.shape, x.dtype) for x in arrays]
    native = elementwise.prepare(Call(SPECS["Mul2"], tuple(descs[:2]), (descs[2],), {})).native
    block = native.block.copy()
    for array, word in zip(arrays, native.arguments, strict=True):
        block[word] = array.ctypes.data
    return native, block, arrays


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("cuts", [(0, 420), (0, 1, 6, 7, 8, 35, 36, 140, 141, 419, 420), tuple(range(0, 421, 10))])
def test_ranges_are_the_whole(shape, cuts):
    native, block, (a, b, y) = prepared([FULL, shape, FULL], ["float32"] * 3)
    kernel = KERNEL_TYPE(native.ranges())
    for begin, end in itertools.pairwise(cuts):
        before = y.copy()
        assert kernel(block.ctypes.data, begin, end) == 0
        untouched = np.ones(y.size, bool)
        untouched[begin:end] = False
        np.testing.assert_array_equal(y.reshape(-1)[untouched], before.reshape(-1)[untouched])
    np.testing.assert_array_equal(y, a * b)


@pytest.mark.parametrize("dtypes", [("float16", "float32", "float16"), ("float64",) * 3, ("int32", "bool", "float32")])
def test_ranges_of_other_dtypes(dtypes):
    native, block, (a, b, y) = prepared([(1, 4, 1, 7), (3, 1, 5, 1), FULL], dtypes)
    kernel = KERNEL_TYPE(native.ranges())
    for begin in reversed(range(0, 420, 14)):
        kernel(block.ctypes.data, begin, begin + 14)
    compute = np.float64 if "float64" in dtypes else np.float32
    np.testing.assert_array_equal(y, (a.astype(compute) * b.astype(compute)).astype(y.dtype))


def test_an_empty_range_writes_nothing():
    native, block, (_, _, y) = prepared([FULL, (1, 4, 1, 1), FULL], ["float32"] * 3)
    before = y.copy()
    assert KERNEL_TYPE(native.ranges())(block.ctypes.data, 35, 35) == 0
    np.testing.assert_array_equal(y, before)


def test_of_a_formula_that_another_kernel_computes_only_the_form_on_ranges_is_compiled(monkeypatch):
    asked = []
    address = TransientKernel.address
    monkeypatch.setattr(TransientKernel, "address", lambda kernel: asked.append(kernel) or address(kernel))
    with nn.context_scope(nn.Context("cpu")):
        x = nn.Variable.from_numpy_array(np.full((4, 3), 0.25, np.float32))
        z = F.sum(F.asinh(F.sigmoid(F.abs(x))), axis=1)
        z.forward()
    (step,) = [step for step in z.plan.steps if step.carrier is not None]
    assert asked and step.native.owner not in asked
    assert step.native.address == address(step.native.owner)  # where it is to run by itself after all
