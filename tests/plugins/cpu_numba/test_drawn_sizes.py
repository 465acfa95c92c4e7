"""Every kernel on the samples of its op with other sizes, drawn from a seed: each form of it alone on guarded memory.

Sizes become 0, 1, less or more than a vector; equal ones stay equal. What the op refuses then is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from atled.conformance.cases import Case, samples_of
from atled.conformance.checks import compare, output_names
from atled.conformance.direct import Launch
from atled.conformance.running import oracle, widened
from atled.conformance.subject import Subject, find_subject
from atled.errors import RefusedError
from atled.ops.samples import Data, Exact, Ints, Sample
from atled.ops.spec import SPECS, OpSpec
from atled_contexts import Implementation
from atled_cpu_numba.computed_by import KERNELS
from atled_cpu_numba.kernels.shared import launch
from drawn_calls import THREADS, threads

COUNT = 70
MOST = 1 << 15  # elements of an array
NAMES = sorted({name for names in KERNELS.values() for name in names})


@pytest.fixture(scope="module")
def subject() -> Subject:
    return find_subject("cpu-numba")


@pytest.fixture(autouse=True)
def every_call_is_worth_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SHARE_US", 1e-9)


def drawn(rng: np.random.Generator, spec: OpSpec) -> Sample | None:
    """A sample of the op with other sizes, strides and kernels; None for one of given values."""
    sample = samples_of(spec)[rng.integers(len(samples_of(spec)))]
    others = {size: drawn_size(rng, size) for size in sizes_of(sample)}
    other = with_sizes(sample, others)
    if other is not None:
        other.attributes = {name: drawn_attribute(rng, name, value, others) for name, value in other.attributes.items()}
    return other


def sizes_of(sample: Sample) -> list[int]:
    return sorted({size for data in sample.inputs if data is not None for size in data.shape})


def with_sizes(sample: Sample, others: dict[int, int]) -> Sample | None:
    """The sample with other sizes of its inputs; None for one of given values."""
    if any(isinstance(data, Exact) for data in sample.inputs):
        return None
    other = copy.copy(sample)
    other.inputs = tuple(None if data is None else resized(data, others) for data in sample.inputs)
    return other


def drawn_size(rng: np.random.Generator, size: int) -> int:
    return 0 if rng.random() < 0.03 else int(rng.choice([size, size, 1, 2, 3, 5, 8, 16, 17, int(rng.integers(1, 70))]))


def resized(data: Data, others: dict[int, int]) -> Data:
    other = copy.copy(data)
    other.shape = renamed(data.shape, others)
    if isinstance(other, Ints) and others.get(other.high):  # labels, below the size of another array
        other.high = others[other.high]
    return other


def renamed(shape: Sequence[int], others: dict[int, int]) -> tuple[int, ...]:
    return tuple(others.get(size, size) for size in shape)


def drawn_attribute(rng: np.random.Generator, name: str, value: Any, others: dict[int, int]) -> Any:
    if name == "shape" and rng.random() < 0.7:
        return renamed(value, others)
    if name in ("stride", "kernel", "pad") and rng.random() < 0.3:
        return tuple(int(size) for size in rng.integers(name != "pad", 4, len(value)))
    return not value if isinstance(value, bool) and rng.random() < 0.3 else value


def expected_of(case: Case) -> Sequence[np.ndarray] | None:
    """What the reference gives in float64; None where the op refuses the call, or would, were it for users."""
    if any(np.prod(data.shape) > MOST for data in case.sample.inputs if data is not None):
        return None
    try:
        outputs = case.call.outputs
        found = oracle(case.spec, [widened(array) for array in case.arrays()], case.sample.attributes)[0]
    except (RefusedError, ValueError, IndexError):
        return None
    return found if [y.shape for y in found] == [desc.shape for desc in outputs] else None


def check(case: Case, made: Implementation, expected: Sequence[np.ndarray]) -> None:
    """Its forms on any count of threads, on whole arrays and on parts of larger ones, give the reference's values."""
    known: list[np.ndarray] = []
    names = (*case.spec.input_names, *case.spec.outputs)
    for skipped in (None, 3) if any(made.takes_strides((name,)) for name in names) else (None,):
        for count in THREADS:
            with threads(count):
                for form in Launch(case, made, skipped=skipped).forms:
                    what = f"{case.spec.name} {case.sample!r}, {made.note}, {form} for {count} threads, {skipped}"
                    launched = Launch(case, made, skipped=skipped)
                    launched.run(form)
                    results = launched.results()
                    assert launched.is_intact, f"wrote beside its arrays: {what}"
                    for name, want, got in zip(output_names(case.spec, expected), expected, results, strict=True):
                        compare(f"{name} of {what}", want, got, case.tolerance)
                    for one, other in zip(known, results, strict=False):
                        np.testing.assert_array_equal(one.tobytes(), other.tobytes(), what)
                    known = results


@pytest.mark.parametrize("config, seed", [("float", 0), ("float", 1), ("float", 2), ("half", 3), ("double", 4)])
def test_kernels_on_arrays_of_other_sizes(subject: Subject, config: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tried = 0
    for _ in range(COUNT):
        spec = SPECS[NAMES[rng.integers(len(NAMES))]]
        sample = drawn(rng, spec)
        if sample is None:
            continue
        case = Case(subject, spec, 0, "cpu", config, sample)
        expected = expected_of(case)
        if expected is not None:
            tried += 1
            for made in subject.accepting(case):
                check(case, made, expected)
    assert tried > COUNT // 3


def emptied(sample: Sample) -> Iterator[Sample]:
    """The sample with each of its sizes 0, in its attribute `shape` or not."""
    for size in sizes_of(sample):
        other = with_sizes(sample, {size: 0})
        if other is None:
            continue
        yield other
        if "shape" in other.attributes:
            again = copy.copy(other)
            again.attributes = {**other.attributes, "shape": renamed(other.attributes["shape"], {size: 0})}
            yield again


@pytest.mark.parametrize("name", NAMES)
def test_kernels_on_arrays_with_an_axis_of_no_elements(subject: Subject, name: str) -> None:
    for sample in samples_of(SPECS[name]):
        for other in emptied(sample):
            case = Case(subject, SPECS[name], 0, "cpu", "float", other)
            expected = expected_of(case)
            for made in subject.accepting(case) if expected is not None else ():
                check(case, made, expected)
