"""Ops on arrays of random shapes, by hypothesis: elementwise with broadcasting, reductions, products of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from atled.conformance.cases import Named, Topic, over
from atled.conformance.checks import check_values
from atled.conformance.subject import Subject
from atled.errors import four_parts
from atled.ops.samples import Distinct, Sample, Uniform
from atled.ops.spec import SPECS
from atled_contexts import SelectionError

_SIDE = 70  # beyond 64, so that blocks have a remainder
_ELEMENTWISE = ("Add2", "Mul2", "Sub2", "Tanh", "ReLU", "Exp")
_REDUCTIONS = ("Sum", "Mean", "Max")
_PRODUCTS = ("Affine", "BatchMatmul")


def _present(names: Sequence[str]) -> Callable[[Subject], list[Named]]:
    """Of the named ops those that the plugin implements, each on each of its backends."""

    def make(subject: Subject) -> list[Named]:
        several = len(subject.backends) > 1
        return [
            Topic(spec.name, backend, f"{spec.name}-{backend}" if several else spec.name)
            for backend, spec in subject.implemented()
            if spec.name in names
        ]

    return make


def _try(subject: Subject, case: Topic, count: int, draw_sample: Callable[[Any, Any], Sample]) -> None:
    """Check `count` samples as drawn by `draw_sample(draw, strategies)`."""
    hypothesis = pytest.importorskip(
        "hypothesis", reason='random shapes need hypothesis: pip install "atled[conformance]"'
    )
    from hypothesis import strategies

    context = subject.context(case.value, subject.type_configs(case.value)[0])
    refusals = []

    @hypothesis.settings(
        max_examples=count,
        deadline=None,  # the first call of a shape may compile
        database=None,  # leaves no folder behind
        derandomize=True,  # the same on every machine
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(data=strategies.data())
    def attempt(data: Any) -> None:
        sample = draw_sample(data.draw, strategies)
        try:
            check_values(SPECS[case.name], sample, context)
        except SelectionError as error:
            refusals.append(error)

    attempt()
    if len(refusals) == count:
        pytest.skip(
            four_parts(case.name, "every random call is refused", str(refusals[0]).splitlines()[0], "no matter")
        )


@over(_present(_ELEMENTWISE))
def test_random_elementwise(subject: Subject, case: Topic, max_examples: int) -> None:
    """Elementwise ops on any shape; those of two inputs broadcast."""
    count = len(SPECS[case.name].inputs)

    def draw_sample(draw: Any, strategies: Any) -> Sample:
        shape = draw(strategies.lists(strategies.integers(0, 9), max_size=4))
        shapes = [
            [1 if draw(strategies.booleans()) else size for size in shape][draw(strategies.integers(0, len(shape))) :]
            for _ in range(count - 1)
        ]
        return Sample(tuple(shape), *(tuple(other) for other in shapes))

    _try(subject, case, max_examples, draw_sample)


@over(_present(_REDUCTIONS))
def test_random_reductions(subject: Subject, case: Topic, max_examples: int) -> None:
    """Reductions over any axes of any shape without empty axes."""

    def draw_sample(draw: Any, strategies: Any) -> Sample:
        shape = draw(strategies.lists(strategies.integers(1, 17), min_size=1, max_size=4))
        axes = draw(strategies.sets(strategies.integers(0, len(shape) - 1), min_size=1))
        # Positive numbers: sums that cancel are as inexact as their terms are large.
        values = Distinct(tuple(shape)) if case.name == "Max" else Uniform(tuple(shape), 0.5, 1.5)
        return Sample(values, axes=tuple(sorted(axes)), keep_dims=draw(strategies.booleans()))

    _try(subject, case, max_examples, draw_sample)


@over(_present(_PRODUCTS))
def test_random_products(subject: Subject, case: Topic, max_examples: int) -> None:
    """Products of matrices of any size, thin and empty ones included."""

    def draw_sample(draw: Any, strategies: Any) -> Sample:
        m, k, n = (draw(strategies.integers(0 if i != 1 else 1, _SIDE)) for i in range(3))
        if case.name == "Affine":
            bias = (n,) if draw(strategies.booleans()) else None
            return Sample((m, k), (k, n), bias, base_axis=1)
        batch = draw(strategies.integers(1, 3))
        first, second = draw(strategies.booleans()), draw(strategies.booleans())
        a = (batch, k, m) if first else (batch, m, k)
        b = (batch, n, k) if second else (batch, k, n)
        return Sample(a, b, transpose_a=first, transpose_b=second)

    _try(subject, case, max_examples, draw_sample)
