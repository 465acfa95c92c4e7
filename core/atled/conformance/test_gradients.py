"""Gradients, and gradients of gradients, are those of the reference in float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.conformance import cases
from atled.conformance.cases import Case, over
from atled.conformance.checks import Gradients, compare
from atled.conformance.running import widened
from atled.conformance.skipping import skip_refused

_LOOSER = 10  # gradients are compositions of several ops, whose errors add up
_LOOSER_TWICE = 50


@over(cases.differentiable)
def test_gradients(case: Case) -> None:
    """Backpropagation on the plugin gives the gradients that the reference gives.

    Those of the reference agree with finite differences, by the tests of atled itself.
    """
    ours, theirs = _both(case)
    inputs, exact = case.arrays(), [widened(a) for a in case.arrays()]
    _compare(case, ours, theirs.first(exact), ours.first(inputs), _LOOSER)


@over(cases.first_differentiable)
def test_second_gradients(case: Case) -> None:
    """Gradients of gradients likewise."""
    ours, theirs = _both(case)
    inputs, exact = case.arrays(), [widened(a) for a in case.arrays()]
    rng = np.random.default_rng(1)
    weights = [
        rng.standard_normal(x.shape) for x in (exact[position] for position in theirs.positions) if x is not None
    ]
    _compare(case, ours, theirs.second(exact, weights), ours.second(inputs, weights), _LOOSER_TWICE)


def _both(case: Case) -> tuple[Gradients, Gradients]:
    """The gradients of a case as the plugin computes them, with the reference for what it lacks, and as it should."""
    skip_refused(case)
    mixed = case.subject.mixed(case.backend, case.type_config)
    return Gradients(case.spec, case.sample, mixed), Gradients(case.spec, case.sample, case.subject.reference("double"))


def _compare(case: Case, ours: Gradients, want: Sequence[np.ndarray], got: Sequence[np.ndarray], looser: int) -> None:
    for position, expected, found in zip(ours.positions, want, got, strict=True):
        name = f"{case.name}: gradient of {case.spec.input_at(position).name}"
        compare(name, expected, found, looser * case.tolerance)
