"""The cases of the kit: every op spec with its samples, and the gradient ops derived from the tables."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.conformance.running import RANDOM_KEY, oracle, typed, widened
from atled.graph.nodes.dispatch import describe_call
from atled.ops.samples import Exact, Refused, Sample
from atled.ops.spec import OpSpec

if TYPE_CHECKING:
    from atled.conformance.subject import Subject
    from atled_contexts import Context

_FORMULAS_ON_VIEWS = 8

_F = TypeVar("_F", bound=Callable[..., None])


@functools.cache
def samples_of(spec: OpSpec) -> tuple[Sample, ...]:
    """The samples of a spec, made once."""
    return tuple(spec.samples())


def has_gradient(spec: OpSpec, sample: Sample | Refused) -> bool:
    """Whether gradients are compared for a sample."""
    return sample.differentiable and not spec.no_gradient


class Named(Protocol):
    """One case of a check, with the names under which it is reported."""

    @property
    def name(self) -> str:
        """The name in lines of expected failures, mostly that of an op."""

    @property
    def id(self) -> str:
        """A name that no other case of the check has."""


class Topic:
    """A case that is no op: a dtype, a backend, a device."""

    def __init__(self, name: str, value: Any, identity: str = "") -> None:
        self.name = name
        self.value = value
        self.id = identity or name


class Case:
    """One sample of one op on one backend under one type config.

    number: of the sample among those of its spec.
    """

    def __init__(
        self, subject: Subject, spec: OpSpec, number: int, backend: str, type_config: str, sample: Sample | None = None
    ) -> None:
        self.subject = subject
        self.spec = spec
        self.number = number
        self.backend = backend
        self.type_config = type_config
        self._sample = sample

    @property
    def name(self) -> str:
        """The op's name."""
        return self.spec.name

    @property
    def id(self) -> str:
        """Op, number of the sample, type config; the backend too where the plugin has several."""
        backend = f"{self.backend}-" if len(self.subject.backends) > 1 else ""
        return f"{self.spec.name}-{self.number}-{backend}{self.type_config}"

    @property
    def sample(self) -> Sample:
        """The sample."""
        return samples_of(self.spec)[self.number] if self._sample is None else self._sample

    def resized(self, shape: tuple[int, ...]) -> Case:
        """The same with another shape of all inputs, as an elementwise op allows."""
        sample = copy.copy(self.sample)
        sample.inputs = tuple(copy.copy(data) for data in sample.inputs)
        for data in sample.inputs:
            if data is not None:
                data.shape = shape
        return Case(self.subject, self.spec, self.number, self.backend, self.type_config, sample)

    @property
    def context(self) -> Context:
        """The Context that allows nothing but the backend."""
        return self.subject.context(self.backend, self.type_config)

    def arrays(self, seed: int = 0) -> list[np.ndarray | None]:
        """The sample's inputs in the dtype of the type config."""
        return typed(self.sample.draw(seed), self.type_config)

    def inputs(self, seed: int = 0) -> list[np.ndarray | None]:
        """`arrays`, and the random state where the op draws from one, at its first call."""
        return [*self.arrays(seed), *([np.array([RANDOM_KEY, 0])] if self.spec.random else [])]

    @functools.cached_property
    def attributes(self) -> dict[str, Any]:
        """All attributes, checked."""
        return self.spec.check_attributes(self.sample.attributes, _descs(self.sample.draw()))

    @property
    def floats(self) -> list[float]:
        """The values of the run-time attributes, in the order of the spec."""
        return [self.attributes[name] for name in self.spec.float_names]

    @functools.cached_property
    def call(self) -> Call:
        """The call as an implementation sees it."""
        return describe_call(
            self.spec, _descs(self.inputs()), self.attributes, self.context, self.type_config, self.subject.device
        )

    def expected(self, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
        """Outputs by the reference in float64, and the inputs after the run. Computed once per seed.

        The reference sees inputs rounded to the type config, so that only arithmetic is judged.
        """
        assert self._sample is None, "only those of the spec have a number"
        return _expected(self.spec, self.number, self.type_config, seed)

    @property
    def tolerance(self) -> float:
        """Relative error that the spec allows."""
        return self.spec.allowed_error(self.type_config)


@functools.cache
def _expected(
    spec: OpSpec, number: int, type_config: str, seed: int
) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
    sample = samples_of(spec)[number]
    arrays = typed(sample.draw(seed), type_config)
    return oracle(spec, [widened(a) for a in arrays], sample.attributes)


def _descs(arrays: Sequence[np.ndarray | None]) -> tuple[ArrayDesc | None, ...]:
    return tuple(None if a is None else ArrayDesc(a.shape, a.dtype) for a in arrays)


class RefusedCase:
    """One call that one backend must refuse."""

    def __init__(self, subject: Subject, spec: OpSpec, refused: Refused, number: int, backend: str) -> None:
        self.spec = spec
        self.refused = refused
        self.backend = backend
        self.name = spec.name
        suffix = f"-{backend}" if len(subject.backends) > 1 else ""
        self.id = f"{spec.name}-refused-{number}{suffix}"
        self.context = subject.context(backend, subject.type_configs(backend)[0])


CaseMaker = Callable[["Subject"], Sequence[Named]]


def over(make: CaseMaker) -> Callable[[_F], _F]:
    """Run a check once per case that `make(subject)` gives, as its argument `case`."""

    def mark(check: _F) -> _F:
        check.atled_cases = make  # type: ignore[attr-defined]  # read by pytest_hooks
        return check

    return mark


def samples(subject: Subject) -> list[Case]:
    """Every sample of every op that the plugin implements, under the first type config of its backend."""
    return [
        Case(subject, spec, number, backend, subject.type_configs(backend)[0])
        for backend, spec in subject.implemented()
        for number in range(len(samples_of(spec)))
    ]


def first_samples(subject: Subject) -> list[Case]:
    """One sample of every op that the plugin implements, under the first type config."""
    return [case for case in samples(subject) if case.number == 0]


def other_precisions(subject: Subject) -> list[Case]:
    """One sample of every op that the plugin implements, under each type config but the first."""
    return [
        Case(subject, spec, 0, backend, type_config)
        for backend, spec in subject.implemented()
        if samples_of(spec)
        for type_config in subject.type_configs(backend)[1:]
    ]


def differentiable(subject: Subject) -> list[Case]:
    """The samples whose gradients are compared."""
    return [case for case in samples(subject) if has_gradient(case.spec, case.sample)]


def first_differentiable(subject: Subject) -> list[Case]:
    """Per op the first sample whose gradients are compared."""
    firsts: dict[tuple[str, str], Case] = {}
    for case in differentiable(subject):
        firsts.setdefault((case.backend, case.name), case)
    return list(firsts.values())


def elementwise(subject: Subject) -> list[Case]:
    """One sample of every op with a scalar formula, of those whose values do not fix its shape."""
    return [
        case
        for case in first_samples(subject)
        if case.spec.program is not None and not any(isinstance(data, Exact) for data in case.sample.inputs)
    ]


def on_views(subject: Subject) -> list[Case]:
    """One sample of every op without a scalar formula, and of some with one: those are alike, and each is compiled."""
    several = [case for case in elementwise(subject) if len(case.spec.inputs) > 1]
    return [*several[:_FORMULAS_ON_VIEWS], *(case for case in first_samples(subject) if case.spec.program is None)]


def refused(subject: Subject) -> list[RefusedCase]:
    """The calls that must be refused, of every op that the plugin implements."""
    return [
        RefusedCase(subject, spec, item, number, backend)
        for backend, spec in subject.implemented()
        for number, item in enumerate(spec.refused())
    ]


def backends(subject: Subject) -> list[Topic]:
    """The plugin's backends."""
    return [Topic(info.name, info) for info in subject.backends]


def array_classes(subject: Subject) -> list[Topic]:
    """The array classes that the plugin's backends compute on, those of host memory left out."""
    return [Topic(name, array_class) for name, array_class in sorted(subject.device_array_classes().items())]
