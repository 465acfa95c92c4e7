"""Winograd's convolution along one axis against the reference."""

import numpy as np
import pytest

from atled.plugin import op_spec
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.winograd import lines

GEOMETRIES = [
    # x, maps, kernel, pad, dilation
    ((3, 32, 40), 32, (3,), (1,), (1,)),
    ((2, 27, 183), 49, (3,), (7,), (5,)),  # a last turn of fewer residues
    ((1, 64, 160), 33, (3,), (0,), (16,)),
    ((7, 40, 17), 40, (3,), (2,), (1,)),  # several lines at once, the last ones fewer
    ((1, 128, 1500), 130, (3,), (1,), (1,)),  # lines in chunks, maps in two parts
    ((2, 33, 5, 21), 32, (1, 3), (0, 1), (1, 1)),
    ((2, 33, 21, 5), 32, (3, 1), (2, 0), (2, 1)),
    ((1, 32, 3, 24, 4), 40, (1, 3, 1), (0, 1, 0), (1, 1, 1)),
    ((2, 32, 30), 64, (3,), (5,), (2,)),  # padded by more than taps reach
    ((2, 33, 40), 49, (7,), (3,), (1,)),
    ((1, 24, 183), 33, (7,), (9,), (5,)),
    ((1, 40, 17, 17), 64, (1, 7), (0, 3), (1, 1)),  # as of Inception
    ((2, 40, 17, 17), 33, (7, 1), (3, 0), (1, 1)),
    ((1, 128, 700), 130, (7,), (3,), (1,)),  # lines in chunks, maps in two parts
    ((2, 32, 30), 64, (7,), (8,), (1,)),  # padded by more than taps reach
]
all_geometries = pytest.mark.parametrize(("x_shape", "maps", "kernel", "pad", "dilation"), GEOMETRIES)
TOLERANCE = {"float32": 1e-4, "float64": 1e-12}  # of the largest element


def attributes(pad, dilation):
    return {"base_axis": 1, "pad": pad, "stride": (1,) * len(pad), "dilation": dilation, "group": 1}


def drawn(x_shape, maps, kernel, dtype):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in (x_shape, (maps, x_shape[1], *kernel), (maps,))]


def referred(arrays, given):
    """The result of the reference, in float64."""
    x, weight, bias = (array.astype("d") for array in arrays)
    return op_spec("Convolution").reference(x, weight, bias, channel_last=False, **given)


@pytest.fixture
def used(monkeypatch):
    """How often the kernel was prepared."""
    problems = []

    def prepare(problem, *others, original=lines.prepare):
        problems.append(problem)
        return original(problem, *others)

    monkeypatch.setattr(lines, "prepare", prepare)
    return problems


@all_geometries
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_results_are_those_of_the_reference(run, used, x_shape, maps, kernel, pad, dilation, dtype):
    arrays, given = drawn(x_shape, maps, kernel, dtype), attributes(pad, dilation)
    wanted = referred(arrays, given)
    y = np.full(wanted.shape, np.nan, dtype)
    assert run(convolution, "Convolution", arrays, [y], **given) == 0
    assert used
    np.testing.assert_allclose(y, wanted, rtol=0, atol=TOLERANCE[dtype] * np.abs(wanted).max())


@all_geometries
def test_adjoints_are_those_of_the_reference(run, used, x_shape, maps, kernel, pad, dilation):
    arrays, given = drawn(x_shape, maps, kernel, "f"), attributes(pad, dilation)
    gy = np.random.default_rng(1).standard_normal(referred(arrays, given).shape).astype("f")
    given["shape"] = x_shape[2:]
    weight = arrays[1]
    adjoint = op_spec("ConvolutionDataGrad").reference
    wanted = adjoint(gy.astype("d"), weight.astype("d"), channel_last=False, **given)
    gx = np.full(x_shape, np.nan, "f")
    assert run(convolution, "ConvolutionDataGrad", [gy, weight], [gx], **given) == 0
    # Where the convolution pads by more than its taps reach, its adjoint would pad by less than nothing.
    is_padded = all(p <= (k - 1) * d for p, k, d in zip(pad, kernel, dilation, strict=True))
    assert bool(used) == is_padded
    np.testing.assert_allclose(gx, wanted, rtol=0, atol=TOLERANCE["float32"] * np.abs(wanted).max())


@all_geometries
def test_any_shares_give_the_same_bits(run, x_shape, maps, kernel, pad, dilation):
    arrays, given = drawn(x_shape, maps, kernel, "f"), attributes(pad, dilation)
    found, before = [], pool.thread_count()
    try:
        for count in (1, 2, 5):
            pool.set_thread_count(count)
            y = np.full(referred(arrays, given).shape, np.nan, "f")
            assert run(convolution, "Convolution", arrays, [y], **given) == 0
            found.append(y)
    finally:
        pool.set_thread_count(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_nothing_beside_the_results_is_written(run):
    arrays, given = drawn((2, 32, 45), 37, (3,), "f"), attributes((1,), (1,))
    wanted = referred(arrays, given)
    room = np.full(wanted.size + 128, 7.0, "f")
    y = room[64:-64].reshape(wanted.shape)
    assert run(convolution, "Convolution", arrays, [y], **given) == 0
    assert (room[:64] == 7).all()
    assert (room[-64:] == 7).all()


@pytest.mark.parametrize("flag", ["deterministic", "local_errors"])
def test_contexts_that_want_direct_sums_get_them(make_call, used, flag):
    arrays, given = drawn((3, 32, 40), 32, (3,), "f"), attributes((1,), (1,))
    y = np.zeros((3, 32, 40), "f")
    call = make_call("Convolution", arrays, [y], **given)
    setattr(call, flag, True)
    prepared = convolution.prepare(call)
    assert not used
    assert prepared.note.endswith(f"for {flag}")
