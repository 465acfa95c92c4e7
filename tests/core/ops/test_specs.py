"""Every op spec on the reference: values, dtypes, gradients, gradients of gradients, refusals."""

import warnings

import numpy as np
import pytest

from atled.conformance.checks import (
    check_gradient,
    check_refused,
    check_second_gradient,
    check_unusual_arrays,
    check_values,
)
from atled.conformance.running import call, typed, widened
from atled.dtypes import is_float
from atled_contexts import Context
from spec_cases import all_specs, has_gradient, refused_cases, sample_cases


def context(type_config):
    return Context([f"reference:{type_config}"], fallback="raise")


@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_every_op_has_samples_and_a_docstring(spec):
    assert spec.samples()
    assert spec.doc


@pytest.mark.parametrize("type_config", ["float", "half", "double", "bf16", "tf32"])
@pytest.mark.parametrize(("spec", "sample"), sample_cases())
def test_values(spec, sample, type_config):
    check_values(spec, sample, context(type_config))


@pytest.mark.parametrize(("spec", "sample"), sample_cases())
def test_bf16_is_float_rounded_once(spec, sample):
    arrays = [None if a is None else scattered(a) for a in sample.draw()]
    narrow = typed(arrays, "bf16")
    single = [a.astype(np.float32) if a is not None and is_float(a.dtype) else a for a in narrow]
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of NumPy, about what is not finite
        outcome, wide = (
            call(spec, x, sample.attributes, context(name)) for x, name in ((narrow, "bf16"), (single, "float"))
        )
    pairs = zip([*outcome.results, *outcome.inputs], [*wide.results, *wide.inputs], strict=True)
    for number, (found, wanted) in enumerate(pairs):
        if found is not None:
            with np.errstate(over="ignore"):
                rounded = wanted.astype(found.dtype)
            np.testing.assert_array_equal(widened(found), widened(rounded), err_msg=f"array {number}")


def scattered(array):
    """The numbers in another magnitude, with special ones among them."""
    if array.dtype.kind != "f":
        return array
    rng = np.random.default_rng(0)
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, 1e-40, 3.39e38], array.shape)
    return np.where(rng.random(array.shape) < 0.1, special, array * 10.0 ** rng.uniform(-4, 4))


@pytest.mark.parametrize(("spec", "sample"), sample_cases())
def test_strided_and_read_only_arrays(spec, sample):
    check_unusual_arrays(spec, sample)


@pytest.mark.parametrize(("spec", "sample"), sample_cases())
def test_gradient(spec, sample):
    if not has_gradient(spec, sample):
        pytest.skip("the spec has no gradient to compare here")
    check_gradient(spec, sample, context("double"))


@pytest.mark.parametrize(("spec", "sample"), sample_cases())
def test_second_gradient(spec, sample):
    if not has_gradient(spec, sample):
        pytest.skip("the spec has no gradient to compare here")
    check_second_gradient(spec, sample, context("double"))


@pytest.mark.parametrize(("spec", "refused"), refused_cases())
def test_refused(spec, refused):
    check_refused(spec, refused, context("float"))
