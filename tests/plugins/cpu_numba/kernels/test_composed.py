"""Ops composed of others, drawn from a seed; squares beyond float32, logarithms of neighbours, normal numbers."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import narrow_numbers
from atled.calling.apply import apply
from atled_cpu_numba.kernels import composed
from drawn_calls import CASES, check

NAMES = ("celu", "clip_by_norm", "crelu", "kl_multinomial", "sum_pooling", "unpooling")


def attempt(rng, config):
    name = str(rng.choice(NAMES))
    shape = tuple(int(rng.choice([1, 2, 3, 5, 8, 17, 40])) for _ in range(rng.integers(2, 5)))
    axes = tuple(sorted(rng.choice(len(shape), rng.integers(1, len(shape) + 1), replace=False).tolist()))
    kernel = tuple(int(rng.integers(1, min(size, 4) + 1)) for size in shape[-2:])
    pooled = {"kernel": kernel, "stride": tuple(rng.integers(1, 4, 2).tolist()), "pad": (kernel[0] // 2, 0)}
    pooled["ignore_border"] = bool(rng.random() < 0.7)
    build = {
        "celu": lambda x: F.celu(x, alpha=0.7, axis=axes[0]),
        "clip_by_norm": lambda x: F.clip_by_norm(x, 2.0, axis=axes),
        "crelu": lambda x: F.crelu(x, axis=axes[0]),
        "kl_multinomial": lambda p, q: F.kl_multinomial(p, q, base_axis=axes[0]),
        "sum_pooling": lambda x: F.tanh(F.sum_pooling(F.sin(x), **pooled)),
        "unpooling": lambda x: F.unpooling(x, kernel=kernel),
    }[name]
    x = rng.standard_normal(shape)
    arrays = [x + np.sign(x) / 4]  # off the kinks and from zero
    if name == "kl_multinomial":
        arrays = [rng.uniform(0.1, 1, shape) for _ in range(2)]
    check(build, [array.astype("f") for array in arrays], f"{name} of {shape} along {axes}, {pooled}", config)


@CASES
def test_values_and_gradients_on_any_count_of_threads(config, seed):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        attempt(rng, config)


def computed(function, *arrays):
    with nn.context_scope(nn.Context(["cpu:float"], fallback="raise")):
        return function(*map(nn.NdArray.from_numpy_array, arrays)).data


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_a_norm_has_squares_that_float32_has_not(size):
    x = np.random.default_rng(0).standard_normal((40, 3000)).astype("f")
    scaled = (x.astype("d") * size).astype("f")
    for axis in (0, 1, None):
        expected = 2 * x / np.sqrt((x.astype("d") ** 2).sum(axis, keepdims=True))
        np.testing.assert_allclose(
            computed(lambda x, axis=axis: F.clip_by_norm(x, 2.0, axis=axis), scaled), expected, 1e-6
        )


SIZES = {"half": (1.0, 1.5e4, 1e-6), "bf16": (1.0, 5e37, 1e-37, 1e-39)}


@pytest.mark.parametrize("config, size", [(config, size) for config, sizes in SIZES.items() for size in sizes])
@pytest.mark.parametrize("clip_norm", [2.0, 300.0])
@pytest.mark.parametrize("shape, axis", [((17, 300), 1), ((300, 17), 0), ((7, 33), None), ((5, 1), 1), ((2, 5001), 1)])
def test_norms_of_narrow_numbers_are_those_of_float64_rounded(config, size, clip_norm, shape, axis):
    dtype = narrow_numbers.DTYPES[config]
    x = (np.random.default_rng(0).standard_normal(shape) * size).astype(dtype)
    wide = x.astype("d")
    expected = clip_norm * wide / np.sqrt((wide**2).sum(axis, keepdims=True))
    found = narrow_numbers.computed(config, lambda x: F.clip_by_norm(x, clip_norm, axis=axis), x)
    assert found.dtype == dtype
    digits = {"half": 2.0**-10, "bf16": 2.0**-7}[config]
    np.testing.assert_allclose(found.astype("d"), expected, digits, 1e-7 if config == "half" else 1e-40)


@pytest.mark.parametrize("config", list(SIZES))
@pytest.mark.parametrize("among", [np.nan, np.inf, 0.0])
def test_narrow_rows_with_what_is_no_number(config, among):
    x = np.ones((4, 70))
    x[1, 3], x[2] = among, 0
    wide = x.copy()
    with np.errstate(invalid="ignore"):
        expected = 2 * wide / np.sqrt((wide**2).sum(1, keepdims=True))
    x = x.astype(narrow_numbers.DTYPES[config])
    found = narrow_numbers.computed(config, lambda x: F.clip_by_norm(x, 2.0, axis=1), x)
    np.testing.assert_allclose(found.astype("d"), expected, 2.0**-7)


def test_the_divergence_of_near_distributions_keeps_its_digits():
    p = np.random.default_rng(0).dirichlet(np.ones(1000), 4).astype("f")
    q = (p * np.float32(1 + 1e-3)).astype("f")
    wide, other = p.astype("d") + 1e-8, q.astype("d") + 1e-8
    expected = (p * np.log(wide / other)).sum(1, keepdims=True)
    np.testing.assert_allclose(computed(F.kl_multinomial, p, q), expected, 1e-5)


@pytest.mark.parametrize("quotient", [1e-6, 0.3, 0.499, 0.501, 0.9, 1, 1.1, 1.999, 2.001, 50, 1e6])
def test_the_divergence_of_any_two_outcomes_has_its_digits(quotient):
    q = np.random.default_rng(0).uniform(0.5, 1, (500, 1)).astype("f")
    p = (q * np.float32(quotient)).astype("f")
    wide, other = p.astype("d"), q.astype("d")
    expected = wide * (np.log(wide + 1e-8) - np.log(other + 1e-8))
    np.testing.assert_allclose(computed(F.kl_multinomial, p, q), expected, 5e-7, 1e-12)


def test_the_divergence_of_what_is_no_probability_is_that_of_its_logarithms():
    p = np.array([[0, np.inf, 1, np.nan, 1, 0]], "f").T
    q = np.array([[0, 1, np.inf, 1, np.nan, np.inf]], "f").T
    with np.errstate(invalid="ignore"):
        expected = p * (np.log(p + np.float32(1e-8)) - np.log(q + np.float32(1e-8)))
    np.testing.assert_allclose(computed(F.kl_multinomial, p, q), expected)


def test_outcomes_without_probability_add_nothing():
    p, q = np.array([[0, 0.25, 0.75]], "f"), np.array([[0.5, 0, 0.5]], "f")
    expected = 0.25 * (np.log(0.25) - np.log(1e-8)) + 0.75 * np.log(1.5)
    np.testing.assert_allclose(computed(F.kl_multinomial, p, q), [[expected]], 1e-6)


def test_they_are_rows_of_kernels():
    x = nn.Variable.from_numpy_array(np.ones((2, 4, 6), "f"))
    for y in (F.crelu(x), F.celu(x), F.kl_multinomial(x, x), F.clip_by_norm(x, 1.0), F.sum_pooling(x, (2, 2))):
        with nn.context_scope(nn.Context(["cpu:float"], fallback="raise")), nn.trace() as trace:
            y.forward()
        assert "kernel" in trace.rows()[0].note


@pytest.mark.parametrize("count", [2, 3, 1000, 40_000, 40_001])
def test_normal_numbers_are_those_of_the_reference(count):
    found = []
    for backend in ("cpu", "reference"):
        with nn.context_scope(nn.Context([f"{backend}:float"], fallback="raise")):
            found.append(F.randn(1.5, 2.0, shape=(count,), seed=3).data)
    np.testing.assert_array_max_ulp(*found, maxulp=1)


def local_response(x, **attributes):
    return [y.data for y in apply("LRN", (nn.NdArray.from_numpy_array(x),), attributes)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3, 5, 31])
@pytest.mark.parametrize("shape, axis", [((7, 3, 5), 0), ((3, 40, 17), 1), ((33, 9), 1), ((2, 1, 6), 1), ((5,), 0)])
def test_responses_are_divided_by_those_of_the_maps_around(shape, axis, size, dtype):
    x = np.random.default_rng(size).standard_normal(shape).astype(dtype)
    attributes = {"size": size, "axis": axis, "scale": 0.5, "power": 0.75, "bias": 2.0}
    config = {"float32": "float", "float64": "double"}[dtype]
    for among in (0, np.nan, np.inf):
        x.reshape(-1)[x.size // 2] = among
        with nn.context_scope(nn.Context([f"reference:{config}"])), np.errstate(invalid="ignore"):
            expected = local_response(x, **attributes)
        with nn.context_scope(nn.Context([f"cpu:{config}"], fallback="raise")):
            for found, value in zip(local_response(x, **attributes), expected, strict=True):
                np.testing.assert_allclose(found, value, 2e-6 if dtype == "float32" else 1e-13)


def test_responses_of_many_maps_are_refused(make_call):
    x = np.zeros((2, 70), "f")
    call = make_call("LRN", [x], [x, x], size=33, axis=1, scale=1.0, power=1.0, bias=1.0)
    assert composed.accepts(call) == "counts up to 31 maps"
