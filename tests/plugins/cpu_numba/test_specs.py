"""Every op spec on backend cpu: values, gradients, refusals, and that it ran there."""

import pytest

from atled.conformance.checks import check_gradient, check_refused, check_values
from atled_contexts import Context
from spec_cases import all_specs, has_gradient, refused_cases, sample_cases


def context(type_config):
    return Context([f"cpu:{type_config}"], fallback="raise")


@pytest.mark.parametrize(("spec", "sample"), sample_cases())
def test_values(spec, sample):
    check_values(spec, sample, context("float"))


@pytest.mark.parametrize("type_config", ["half", "double", "bf16"])
@pytest.mark.parametrize("spec", all_specs(), ids=lambda spec: spec.name)
def test_values_in_other_precisions(spec, type_config):
    # One sample each: every dtype has kernels of its own, which take time to compile.
    check_values(spec, spec.samples()[0], context(type_config))


@pytest.mark.parametrize("spec", [spec for spec in all_specs() if not spec.no_gradient], ids=lambda spec: spec.name)
def test_gradient(spec):
    sample = next((sample for sample in spec.samples() if has_gradient(spec, sample)), None)
    if sample is None:
        pytest.skip("the gradient is a surrogate, which finite differences do not give")
    check_gradient(spec, sample, context("double"))


@pytest.mark.parametrize(("spec", "refused"), refused_cases())
def test_refused(spec, refused):
    check_refused(spec, refused, context("float"))
