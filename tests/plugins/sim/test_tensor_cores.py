"""Type config tf32 on `sim`: factors of products are rounded to ten bits, and nothing else."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_sim.tensor_cores import to_tf32


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 7), (7, 3), (3,))]


def affine(type_config, *values):
    with nn.context_scope(nn.Context(f"sim:{type_config}", fallback="raise")):
        return F.affine(*map(nn.NdArray.from_numpy_array, values)).data


@pytest.mark.parametrize(
    ("number", "rounded"),
    [
        (1 + 2.0**-10, 1 + 2.0**-10),
        (1 + 2.0**-12, 1),
        (-1 - 2.0**-11, -1 - 2.0**-10),
        (0.0, 0.0),
        (np.inf, np.inf),
        (np.nan, np.nan),
        (3.4e38, 3.3995006e38),
    ],
)
def test_ten_bits_of_mantissa_are_kept(number, rounded):
    for shape in ((), (1,)):
        np.testing.assert_array_equal(to_tf32(np.full(shape, number, np.float32)), np.float32(rounded))


def test_what_is_not_float32_stays():
    integers = np.arange(3)
    assert to_tf32(integers) is integers and to_tf32(None) is None


def test_products_round_their_factors_and_add_the_bias_as_it_is():
    x, w, b = arrays()
    exact = affine("float", x, w, b)
    found = affine("tf32", x, w, b)
    assert found.dtype == np.float32
    assert not np.array_equal(found, exact)
    np.testing.assert_array_equal(found, affine("float", to_tf32(x), to_tf32(w), b))
    np.testing.assert_array_equal(exact, affine("float", *arrays()))


def test_what_is_no_product_is_computed_as_under_float():
    x, *_ = arrays()
    results = []
    for type_config in ("float", "tf32"):
        with nn.context_scope(nn.Context(f"sim:{type_config}", fallback="raise")):
            results.append(F.mean(F.tanh(nn.NdArray.from_numpy_array(x)) * 1.1, axis=1).data)
    np.testing.assert_array_equal(*results)


def test_gradients_of_products_round_their_factors_too():
    x, w, b = arrays()
    gradients = {}
    for type_config in ("float", "tf32"):
        v = nn.Variable.from_numpy_array(x, need_grad=True)
        with nn.context_scope(nn.Context(f"sim:{type_config}", fallback="raise")):
            loss = F.sum(F.affine(v, nn.Variable.from_numpy_array(w), nn.Variable.from_numpy_array(b)) ** 2)
            loss.forward()
            loss.backward()
        gradients[type_config] = v.g.copy()
    assert not np.array_equal(gradients["tf32"], gradients["float"])
    np.testing.assert_allclose(gradients["tf32"], gradients["float"], rtol=0, atol=5e-3 * abs(gradients["float"]).max())


def test_explain_tells():
    x, w, _ = map(nn.NdArray.from_numpy_array, arrays())
    assert nn.explain(F.affine, x, w, using="sim:tf32").calls[0].way == "factors in tf32"
    assert nn.explain(F.affine, x, w, using="sim:float").calls[0].way == ""
