"""Every op spec on the reference: values, dtypes, gradients, gradients of gradients, refusals."""

import pytest

from atled.conformance.checks import (
    check_gradient,
    check_refused,
    check_second_gradient,
    check_unusual_arrays,
    check_values,
)
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
