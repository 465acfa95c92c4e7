"""The cases of the spec-driven tests: every op spec with its samples, and the gradient ops derived from the tables."""

from __future__ import annotations

import pytest

import atled.functions  # noqa: F401  # fills the table of op specs
from atled.ops.elementwise import Elementwise, derived_name, derived_spec
from atled.ops.samples import Refused, Sample
from atled.ops.spec import SPECS, OpSpec


def all_specs() -> list[OpSpec]:
    """Every op spec, and the first gradients of the elementwise ones."""
    specs = dict(SPECS)
    for spec in list(SPECS.values()):
        if isinstance(spec, Elementwise) and not spec.no_gradient and "Grad" not in spec.name:
            for wrt in spec.input_names:
                if spec.gradient_formula(wrt) is not None:
                    derived = derived_spec(derived_name(spec.name, wrt))
                    specs[derived.name] = derived
    return [specs[name] for name in sorted(specs)]


def sample_cases() -> list[object]:
    """One case per sample."""
    return [
        pytest.param(spec, sample, id=f"{spec.name}-{number}")
        for spec in all_specs()
        for number, sample in enumerate(spec.samples())
    ]


def refused_cases() -> list[object]:
    """One case per call that must be refused."""
    return [
        pytest.param(spec, refused, id=f"{spec.name}-refused-{number}")
        for spec in all_specs()
        for number, refused in enumerate(spec.refused())
    ]


def has_gradient(spec: OpSpec, sample: Sample | Refused) -> bool:
    """Whether gradients are compared for a sample."""
    return sample.differentiable and not spec.no_gradient
