"""Pooling with the channels behind the axes of windows, against the reference."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import narrow_numbers
from atled.keyed import Description
from atled_cpu_numba.kernels.pooling import planes
from atled_cpu_numba.kernels.shared.launch import narrow_dtypes
from drawn_pooling import computed, drawn

CASES = [
    ((2, 6, 6, 8), {"kernel": (2, 2)}),  # a vector, or its half or two
    ((3, 7, 9, 19), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
    ((9, 5, 6, 75), {"kernel": (3, 2), "stride": (1, 1), "pad": (1, 0)}),  # several vectors and a rest; many images
    ((2, 8, 7, 64), {"kernel": (3, 3), "stride": (2, 2), "ignore_border": False}),
    ((2, 9, 33), {"kernel": (4,), "stride": (3,), "pad": (2,)}),
    ((1, 20, 20, 8), {"kernel": (16, 16), "stride": (2, 2)}),  # as many places as a byte counts
    ((2, 8, 8, 9), {"kernel": (3, 3), "stride": (4, 4)}),  # elements between windows
    ((0, 5, 6, 40), {"kernel": (3, 2)}),
]
FUNCTIONS = {
    "max": (F.max_pooling, {}),
    "sum": (F.sum_pooling, {}),
    "average": (F.average_pooling, {"including_pad": False}),
    "average with padding": (F.average_pooling, {"including_pad": True}),
}
CPU, REFERENCE = (nn.Context([f"{backend}:float"], fallback="raise") for backend in ("cpu", "reference"))
VECTORS = {"kernel; channels in vectors", "kernel; images in vectors"}


def computed_last(context, function, x, **attributes):
    return computed(context, function, x, channel_last=True, **attributes)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape, geometry", CASES)
def test_values_and_gradients_are_those_of_the_reference(name, shape, geometry):
    function, given = FUNCTIONS[name]
    y, gx, _ = computed_last(CPU, function, drawn(shape), **geometry, **given)
    expected, theirs, _ = computed_last(REFERENCE, function, drawn(shape), **geometry, **given)
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(gx, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape, geometry", [*CASES[:4], ((2, 6, 6, 19), {"kernel": (2, 2)})])
def test_float64_is_computed_in_vectors_of_its_own(name, shape, geometry):
    function, given = FUNCTIONS[name]
    double = [nn.Context([f"{backend}:double"], fallback="raise") for backend in ("cpu", "reference")]
    x = drawn(shape).astype(np.float64) / 3
    y, gx, rows = computed_last(double[0], function, x, **geometry, **given)
    expected, theirs, _ = computed_last(double[1], function, x, **geometry, **given)
    assert y.dtype == np.float64 and {row.note for row in rows if row.backend == "cpu"} <= VECTORS
    np.testing.assert_allclose(y, expected, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(gx, theirs, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_images_of_eight_channels_and_more_are_computed_as_they_are(name):
    function, given = FUNCTIONS[name]
    _, _, rows = computed_last(CPU, function, drawn((2, 6, 6, 8)), kernel=(2, 2), **given)
    assert {row.note for row in rows if row.backend == "cpu"} <= VECTORS
    _, _, rows = computed_last(CPU, function, drawn((2, 6, 6, 7)), kernel=(2, 2), **given)
    assert "Transpose" in {row.op for row in rows}


@pytest.mark.parametrize("shape, geometry", CASES)
def test_the_first_nan_of_a_window_is_its_maximum_and_gets_its_gradient(shape, geometry):
    x = drawn(shape, nan=0.1)
    y, gx, _ = computed_last(CPU, F.max_pooling, x, **geometry)
    expected, theirs, _ = computed_last(REFERENCE, F.max_pooling, x, **geometry)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(gx, theirs)


def test_second_gradients_are_those_of_the_reference():
    found = []
    for context in (CPU, REFERENCE):
        with nn.context_scope(context):
            x, gy = (nn.Variable.from_numpy_array(drawn((2, n, n, 16)), need_grad=True) for n in (6, 3))
            (gx,) = nn.grad([F.max_pooling(x, kernel=(2, 2), channel_last=True)], [x], grad_outputs=[gy])
            gx.forward()
            gx.backward(drawn(gx.shape))
            found.append(gy.g.copy())
    np.testing.assert_array_equal(*found)


def test_a_place_that_no_window_has_is_refused():
    place = np.zeros((2, 8, 3, 3), np.uint8)
    place[1, 7, 2, 2] = 4
    d = Description(CPU)
    leaves = [d.leaf(nn.NdArray.from_numpy_array(array)) for array in (drawn((2, 3, 3, 8)), place)]
    d.result(d.call("MaxPoolingGrad", *leaves, kernel=(2, 2), shape=(6, 6), channel_last=True))
    assert d.plan.steps[0].note == "kernel; channels in vectors"
    with pytest.raises(IndexError, match="place out of range"):
        d.run()


@pytest.mark.parametrize("function", [F.max_pooling, F.average_pooling])
def test_behind_a_convolution_images_stay_as_it_makes_them(function):
    with nn.context_scope(CPU):
        x, w = (nn.Variable.from_numpy_array(drawn(shape)) for shape in ((2, 9, 9, 8), (16, 3, 3, 8)))
        y = function(F.relu(F.convolution(x, w, channel_last=True)), kernel=(2, 2), channel_last=True)
        y.forward()
    *_, pooling, last = y.plan.steps
    assert (pooling.name.split("+")[-1], last.name) == (function.spec.name, "Transpose")


@pytest.mark.parametrize("config", narrow_numbers.DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape, geometry", CASES)
def test_half_and_bf16_have_what_float32_has_rounded_once(config, name, shape, geometry):
    function, given = FUNCTIONS[name]

    def pooled(x):
        return function(x, channel_last=True, **geometry, **given)

    rng = np.random.default_rng(3)
    x = narrow_numbers.any_numbers(rng, shape, narrow_numbers.DTYPES[config])
    found = narrow_numbers.computed(config, pooled, x)
    narrow_numbers.check_rounded(found, narrow_numbers.computed("float", pooled, x.astype("f")))
    gradient = rng.standard_normal(found.shape).astype(found.dtype)
    found = narrow_numbers.computed(config, pooled, x, gradient)
    expected = narrow_numbers.computed("float", pooled, x.astype("f"), gradient.astype("f"))
    if any(n > m for n, m in zip(geometry["kernel"], geometry.get("stride", geometry["kernel"]), strict=True)):
        # Sums of what several windows give: in which order hangs on how many images are computed at a time.
        np.testing.assert_allclose(found.astype("f"), expected, rtol=1e-2, atol=1e-2)
    else:
        narrow_numbers.check_rounded(found, expected)


@pytest.mark.parametrize("config", narrow_numbers.DTYPES)
@pytest.mark.parametrize(
    "op, kernel, stride, is_taken",
    [
        ("MaxPooling", 3, 1, True),
        ("MaxPoolingGrad", 2, 2, True),
        ("MaxPoolingGrad", 2, 3, True),  # elements between windows get nothing
        ("MaxPoolingGrad", 3, 2, False),  # sums of what several windows give are rounded once
        ("AveragePoolingGrad", 2, 2, True),
        ("AveragePoolingGrad", 2, 3, False),
        ("SumPoolingGrad", 3, 2, False),
    ],
)
def test_half_and_bf16_are_taken_as_they_are_where_results_are_stored_once(
    make_call, config, op, kernel, stride, is_taken
):
    dtype = narrow_numbers.DTYPES[config]
    large = np.zeros((2, 12, 12, 16), dtype)
    small = np.zeros((2, *[(12 - kernel) // stride + 1] * 2, 16), dtype)
    place = [np.zeros(small.shape, np.uint8)] if op.startswith("Max") else []
    inputs, outputs = ([small, *place], [large]) if op.endswith("Grad") else ([large], [small, *place])
    call = make_call(
        op, inputs, outputs, kernel=(kernel, kernel), stride=(stride, stride), pad=(0, 0), channel_last=True
    )
    floats = (0, len(inputs))
    assert planes.narrow_arguments(call) == (floats if is_taken and dtype.name in narrow_dtypes() else ())
