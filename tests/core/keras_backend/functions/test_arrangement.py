"""What functions of shapes refuse, and the forms in which they take sizes."""

import numpy as np
import pytest

import atled.keras_backend as B

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: B.reshape(x, (-1, -1)), ValueError, "-1 more than once"),
        (lambda x: B.permute_dimensions(x, (0, 0)), ValueError, r"permute_dimensions\(x.*not a permutation"),
        (lambda x: B.concatenate([x, B.flatten(x)]), ValueError, r"concatenate\(x: float32, 2 axes, flatten"),
        (lambda x: B.concatenate(x), TypeError, "is no list"),
        (lambda x: B.stack([]), ValueError, "the list is empty"),
        (lambda x: B.repeat(B.flatten(x), 2), ValueError, "x has 1 axis"),
        (lambda x: B.repeat_elements(x, 2, 2), ValueError, "axis 2 is out of range"),
        (lambda x: B.squeeze(x, -3), ValueError, r"squeeze\(x: float32, 2 axes\): axis -3"),
        (lambda x: B.reverse(x, 2), ValueError, r"reverse\(x"),
        (lambda x: B.reverse(x, None), TypeError, "axes is None"),
        (lambda x: B.one_hot(x, 3), TypeError, "indices of float32"),
        (lambda x: B.arange(x), ValueError, "is no number"),
        (lambda x: B.tile(x, (1.5, 2)), TypeError, r"a size of tile: 1\.5"),
        (lambda x: B.dot(x, "x"), TypeError, "dot of a str"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_written(call, error, text):
    with pytest.raises(error, match=text):
        call(B.placeholder(ndim=2, name="x"))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: B.reshape(x, (4, 2)), r"reshape\(x: float32 \(2, 3\)\), written at .*has 8 elements"),
        (lambda x: B.squeeze(x, 0), r"squeeze\(x: float32 \(2, 3\)\), written at .*axis 0 has 2 elements"),
        (lambda x: B.concatenate([x, x.T]), r"concatenate\(x: float32 \(2, 3\), x\.T: float32 \(3, 2\)\)"),
        (lambda x: B.arange(0, 3, x.shape[0] - 2), r"arange\(\), written at .*the step is 0"),
        (lambda x: B.tile(x, (x.shape[0] - 3, 1)), "negative"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_at_the_call(backend, call, text):
    x = B.placeholder(ndim=2, name="x")
    f = B.function([x], call(x))
    with pytest.raises(ValueError, match=rf"(?s){text}"):
        f(X)


def test_an_index_beyond_the_classes_is_refused(backend):
    k = B.placeholder(ndim=1, dtype="int32")
    with pytest.raises(IndexError):
        B.function([k], B.one_hot(k, 2))([0, 2])


def test_counts_are_expressions_as_well(backend):
    x = B.placeholder(ndim=2)
    rows, columns = x.shape
    found = B.function(
        [x],
        [
            B.repeat(x, rows),
            B.repeat_elements(x, columns, 0),
            B.tile(x, (rows, columns)),
            B.one_hot(x.shape, columns + 1),
        ],
    )(X)
    np.testing.assert_array_equal(found[0], np.repeat(X[:, None], 2, 1))
    np.testing.assert_array_equal(found[1], np.repeat(X, 3, 0))
    np.testing.assert_array_equal(found[2], np.tile(X, (2, 3)))
    np.testing.assert_array_equal(found[3], np.eye(4)[[2, 3]])


@pytest.mark.parametrize("bounds", [(5,), (-2,), (2, 5), (5, 2), (5, -3, -2), (0, 1, 0.25), (7, 7)])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_arange_counts_as_numpys(bounds, dtype):
    if dtype == "float32" or not any(isinstance(each, float) for each in bounds):
        np.testing.assert_array_equal(B.eval(B.arange(*bounds, dtype=dtype)), np.arange(*bounds, dtype=dtype))
        assert B.arange(*bounds, dtype=dtype).dtype == dtype


def test_a_list_of_expressions_is_an_operand(backend):
    x = B.placeholder(ndim=2)
    np.testing.assert_array_equal(B.function([x], B.sum([x, 2 * x], axis=0))(X), 3 * X)
