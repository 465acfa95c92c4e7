"""The cases of the spec-driven tests: every op spec with its samples, and the gradient ops derived from the tables."""

from __future__ import annotations

import pytest

from atled.conformance.cases import has_gradient, samples_of
from atled.conformance.running import call, evaluate, spec_named
from atled.generators.catalogue import all_specs
from atled.graph.nodes.gradient import backpropagate

__all__ = ["all_specs", "computed", "gradients_of", "has_gradient", "refused_cases", "sample_cases"]


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


def computed(name, *arrays, context, **attributes):
    """The outputs of an op by name."""
    return call(spec_named(name), arrays, attributes, context).results


def gradients_of(name, *arrays, context, **attributes):
    """Per input the gradient of the sum of the first output; zeros where nothing flows."""

    def build(graph, values):
        made = graph.op(name, *values, **attributes)
        y = made[0] if isinstance(made, tuple) else made
        seed = graph.op("Constant", val=1.0, shape=y.shape)
        found = backpropagate(graph, list(graph.nodes), {y: seed}, values)
        return [found.get(value) or graph.op("MulScalar", value, val=0.0) for value in values]

    return evaluate(build, arrays, context).results
