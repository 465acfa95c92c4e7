"""Pooling with large windows over small planes, which are turned: the channels behind."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.keyed import Description
from drawn_pooling import computed, drawn

CASES = [
    ((3, 16, 14, 14), {"kernel": (7, 7)}),
    ((3, 9, 13, 15), {"kernel": (5, 5), "stride": (4, 4), "pad": (1, 2)}),
    ((2, 35, 16), {"kernel": (5,), "stride": (4,)}),
    ((8, 20, 20), {"kernel": (5, 6)}),
    ((2, 3, 8, 11, 11), {"kernel": (9, 9), "stride": (1, 1)}),
]
FUNCTIONS = {
    "max": (F.max_pooling, {}),
    "sum": (F.sum_pooling, {}),
    "average": (F.average_pooling, {"including_pad": False}),
}
CPU, REFERENCE, DOUBLE = (
    nn.Context([name], fallback="raise") for name in ("cpu:float", "reference:float", "cpu:double")
)
NOTE = "kernel; channels in vectors, between transposes"


def notes_of(rows):
    """What computed the poolings among the rows of a trace, in its words."""
    return {row.note for row in rows if "Pooling" in row.op}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape, geometry", CASES)
def test_values_and_gradients_are_those_of_the_reference(name, shape, geometry):
    function, given = FUNCTIONS[name]
    y, gx, rows = computed(CPU, function, drawn(shape), **geometry, **given)
    expected, theirs, _ = computed(REFERENCE, function, drawn(shape), **geometry, **given)
    assert notes_of(rows) == {NOTE}
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(gx, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape, geometry", CASES)
def test_the_first_nan_of_a_window_gets_its_gradient(shape, geometry):
    y, gx, _ = computed(CPU, F.max_pooling, drawn(shape, nan=0.05), **geometry)
    expected, theirs, _ = computed(REFERENCE, F.max_pooling, drawn(shape, nan=0.05), **geometry)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(gx, theirs)


def test_maxima_are_found_without_places_too():
    with nn.context_scope(CPU):
        y = F.max_pooling(nn.Variable.from_numpy_array(drawn((3, 16, 14, 14))), kernel=(7, 7))
        y.forward()
    assert y.plan.steps[0].note == NOTE
    np.testing.assert_array_equal(y.d, drawn((3, 16, 14, 14)).reshape(3, 16, 2, 7, 2, 7).max((3, 5)))


def test_second_gradients_are_those_of_the_reference():
    found = []
    for context in (CPU, REFERENCE):
        with nn.context_scope(context):
            x, gy = (nn.Variable.from_numpy_array(drawn((2, 16, n, n)), need_grad=True) for n in (14, 2))
            (gx,) = nn.grad([F.max_pooling(x, kernel=(7, 7))], [x], grad_outputs=[gy])
            gx.forward()
            gx.backward(drawn(gx.shape))
            found.append(gy.g.copy())
    np.testing.assert_array_equal(*found)


def test_a_place_that_no_window_has_is_refused():
    place = np.zeros((2, 8, 2, 2), np.uint8)
    place[1, 7, 1, 1] = 49
    d = Description(CPU)
    leaves = [d.leaf(nn.NdArray.from_numpy_array(array)) for array in (drawn((2, 8, 2, 2)), place)]
    d.result(d.call("MaxPoolingGrad", *leaves, kernel=(7, 7), shape=(14, 14)))
    assert d.plan.steps[0].note == NOTE
    with pytest.raises(IndexError, match="place out of range"):
        d.run()


@pytest.mark.parametrize(
    "context, shape, kernel",
    [(DOUBLE, (2, 7, 14, 14), (7, 7)), (CPU, (2, 7, 14, 14), (7, 7)), (CPU, (2, 16, 40, 40), (4, 4))],
)
def test_planes_of_few_channels_or_many_windows_stay_as_they_are(context, shape, kernel):
    _, _, rows = computed(context, F.max_pooling, drawn(shape), kernel=kernel)
    assert NOTE not in notes_of(rows)
