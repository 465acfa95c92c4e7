"""The cases of the spec-driven tests: every op spec with its samples, and the gradient ops derived from the tables."""

from __future__ import annotations

import pytest

from atled.conformance.cases import has_gradient, samples_of
from atled.generators.catalogue import all_specs

__all__ = ["all_specs", "has_gradient", "refused_cases", "sample_cases"]


def sample_cases() -> list[object]:
    """One case per sample."""
    return [
        pytest.param(spec, sample, id=f"{spec.name}-{number}")
        for spec in all_specs()
        for number, sample in enumerate(samples_of(spec))
    ]


def refused_cases() -> list[object]:
    """One case per call that must be refused."""
    return [
        pytest.param(spec, refused, id=f"{spec.name}-refused-{number}")
        for spec in all_specs()
        for number, refused in enumerate(spec.refused())
    ]
