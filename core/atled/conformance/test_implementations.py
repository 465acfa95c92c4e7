"""Every implementation by itself: what it says, what it does, and that it does nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np

from atled.conformance import cases
from atled.conformance.cases import Case, over
from atled.conformance.checks import compare, output_names
from atled.conformance.direct import Launch, launches
from atled.conformance.formulas import may_be_grouped, run_group
from atled.conformance.skipping import accepting, skip_refused
from atled.conformance.watching import watch, watch_queue
from atled.dtypes import is_float
from atled.errors import in_words
from atled_contexts import Implementation

_THREADS = 4
_TIMEOUT_S = 60


def _title(case: Case, made: Implementation) -> str:
    return f"{case.backend} ({made.note})" if made.note else case.backend


@over(cases.samples)
def test_layout(case: Case) -> None:
    """`layout` names an order of the axes of images, or gives "", raises nothing, and says the same twice."""
    for made in case.subject.accepting(case):
        if made.layout is None:
            continue
        answers = [made.layout(case.call), made.layout(case.call)]
        known = ("channel_first", "channel_last", "")
        title = _title(case, made)
        assert answers[0] in known, f"{title}: layout gave {answers[0]!r} instead of one of {known}"
        assert answers[1] == answers[0], f"{title}: layout says {answers[0]!r}, then {answers[1]!r}, of one call"


@over(cases.samples)
def test_accepts(case: Case) -> None:
    """`accepts` gives True or a reason in words, raises nothing, and says the same twice; `prefers` gives a number."""
    for made in case.subject.implementations(case.name, case.backend):
        title = _title(case, made)
        if made.accepts is not None:
            try:
                answers = [made.accepts(case.call), made.accepts(case.call)]
            except Exception as error:
                raise AssertionError(f"{title}: accepts raised {in_words(error)} for {case.call}") from error
            answer = answers[0]
            assert answers[1] == answer, f"{title}: accepts says {answer!r}, then {answers[1]!r}, of one call"
            gives_reason = isinstance(answer, str) and answer.strip()
            assert answer is True or gives_reason, (
                f"{title}: accepts gave {answer!r} instead of True or a reason in words"
            )
        if made.prefers is not None:
            rank = made.prefers(case.call)
            assert isinstance(rank, int | float) and not math.isnan(rank), (
                f"{title}: prefers gave {rank!r}, not a number"
            )


@over(cases.samples)
def test_runs(case: Case) -> None:
    """What was accepted is prepared and runs, by every implementation that accepts it, and gives the right values."""
    expected, changed = case.expected()
    for made in accepting(case):
        title = _title(case, made)
        try:
            launch = Launch(case, made)
        except Exception as error:
            raise AssertionError(
                f"{title}: accepts said yes to {case.call}, prepare failed: {in_words(error)}"
            ) from error
        for form in launch.forms:
            launch.fill()
            try:
                launch.run(form)
            except Exception as error:
                raise AssertionError(
                    f"{title}: accepts said yes to {case.call}, its {form} failed: {in_words(error)}"
                ) from error
            assert not launch.failure, f"{title}, {form}: it wrote into the flag of failures, where nothing is wrong"
            for name, want, got in zip(output_names(case.spec, expected), expected, launch.results(), strict=True):
                compare(f"{title}, {form}: {case.name}.{name}", want, got, case.tolerance)
            for position in case.call.mutated:
                compare(
                    f"{title}, {form}: {case.name} in place",
                    changed[position],
                    launch.inputs_now()[position],
                    case.tolerance,
                )


@over(cases.samples)
def test_omissions(case: Case) -> None:
    """What an implementation `omits` are auxiliary outputs; without them the others are the same, to the last bit."""
    for made in accepting(case):
        title, auxiliary = _title(case, made), case.spec.auxiliary
        unknown = [name for name in made.omits if name not in auxiliary]
        assert not unknown, f"{title}: omits {unknown[0]!r}, which is no auxiliary output of {case.name}"
        positions = [case.spec.outputs.index(name) for name in made.omits]
        if not positions:
            continue
        whole, without = Launch(case, made), Launch(case, made, call=case.call.without(positions))
        for form in without.forms:
            whole.fill()
            whole.run(form)
            kept = [values for position, values in enumerate(whole.results()) if position not in positions]
            without.fill()
            try:
                without.run(form)
            except Exception as error:
                words = f"{title}: it omits {', '.join(made.omits)}, its {form} without failed: {in_words(error)}"
                raise AssertionError(words) from error
            _assert_equal(kept, without.results(), f"{title}, {form}: the outputs differ without {made.omits[0]}")


@over(cases.samples)
def test_heeded_failures(case: Case) -> None:
    """What says that it heeds failures changes no array in place where the device has found one."""
    for launch in _launches(case):
        made = launch.implementation
        if launch.prepared.heeds_failure:
            before = launch.inputs_now()
            launch.set_failure(1)
            launch.run("run")
            changed = _changed(launch, before)
            assert not changed, f"{_title(case, made)}: behind a failure it changed {changed}"
        if made.prepare_group is None or not may_be_grouped(case):
            continue
        group, members = made.prepare_group([case.call] * 2), [Launch(case, made) for _ in range(2)]
        if group.heeds_failure:
            known = [member.inputs_now() for member in members]
            run_group(group, members, failure=1)
            for member, before in zip(members, known, strict=True):
                changed = _changed(member, before)
                assert not changed, f"{_title(case, made)}: a group of calls changed {changed} behind a failure"


def _changed(launch: Launch, before: Sequence[np.ndarray | None]) -> str:
    """The name of an input that is no longer what it was, or ""."""
    for position, (was, now) in enumerate(zip(before, launch.inputs_now(), strict=True)):
        if was is not None and now is not None and not np.array_equal(was, now, equal_nan=is_float(was.dtype)):
            return launch.case.spec.input_at(position).name
    return ""


@over(cases.samples)
def test_queued(case: Case) -> None:
    """What says that it only goes into the device's queue does not wait, allocate, or copy from or to the host."""
    array_class = case.subject.array_class_of(case.backend)
    for launch in _launches(case):
        if launch.prepared.queued and array_class is not None:
            for form in launch.forms:
                launch.run(form)  # the first time may build what it needs
            with watch_queue(array_class) as seen:
                launch.run("run")
                if launch.bound is not None:
                    launch.bound()
            assert not seen, f"{_title(case, launch.implementation)}: it says queued=True, and {seen[0]} in a run"


@over(cases.samples)
def test_purity(case: Case) -> None:
    """A run changes nothing but its outputs and what the op mutates, and a second run gives the same."""
    allowed = {*case.call.mutated, *case.spec.inplace.values()}
    for launch in _launches(case):
        title = _title(case, launch.implementation)
        for form in launch.forms:
            launch.fill()
            before = launch.inputs_now()
            launch.run(form)
            first, after = launch.results(), launch.inputs_now()
            for position, (was, now) in enumerate(zip(before, after, strict=True)):
                if was is not None and now is not None and position not in allowed:
                    same = np.array_equal(was, now, equal_nan=is_float(was.dtype))
                    assert same, f"{title}, {form}: changed its input {case.spec.input_at(position).name}"
            assert launch.is_intact, f"{title}, {form}: wrote beside its arrays"
            launch.fill()
            launch.run(form)
            _assert_equal(first, launch.results(), f"{title}, {form}: a second run gives something else")


@over(cases.samples)
def test_placement(case: Case) -> None:
    """An implementation computes by itself: it asks no other one, and moves nothing between memories.

    One that is the reference says so in its note.
    """
    for launch in _launches(case):
        made = launch.implementation
        array_class = case.subject.array_class_of(case.backend)
        with watch(case.spec, array_class) as seen:
            prepared = made.prepare(case.call)
        seen_running: list[str] = []
        again = Launch(case, made, prepared)
        for form in again.forms:
            again.fill()
            with watch(case.spec, array_class) as noticed:
                again.run(form)
            seen_running += noticed
        adopted = "reference" in made.note.lower() or case.backend == "reference"
        found = [
            words for words in [*seen, *seen_running] if not (adopted and words.startswith("called the reference"))
        ]
        assert not found, f"{_title(case, made)}: while it should compute {case.name} itself, it {found[0]}"


@over(cases.first_samples)
def test_threads(case: Case) -> None:
    """Several threads run one prepared call at the same time, each on arrays of its own."""
    for made in accepting(case):
        first = Launch(case, made)
        crowd = [first, *(Launch(case, made, first.prepared) for _ in range(_THREADS - 1))]
        for form in first.forms:
            alone = []
            for seed, launch in enumerate(crowd):
                launch.fill(seed)
                launch.run(form)
                alone.append(launch.results())
            together = _run_together(crowd, form)
            for want, got in zip(alone, together, strict=True):
                _assert_equal(want, got, f"{_title(case, made)}, {form}: threads disturb each other", case.tolerance)


def _run_together(crowd: Sequence[Launch], form: str) -> list[list[np.ndarray]]:
    barrier = Barrier(len(crowd), timeout=_TIMEOUT_S)

    def work(numbered: tuple[int, Launch]) -> list[np.ndarray]:
        seed, launch = numbered
        launch.fill(seed)
        barrier.wait()
        launch.run(form)
        return launch.results()

    with ThreadPoolExecutor(len(crowd)) as pool:
        return list(pool.map(work, enumerate(crowd), timeout=_TIMEOUT_S))


def _launches(case: Case) -> list[Launch]:
    skip_refused(case)
    return launches(case)


def _assert_equal(want: Sequence[np.ndarray], got: Sequence[np.ndarray], words: str, tolerance: float = 0.0) -> None:
    """Equal bits, or equal within a tolerance, since the order of a sum over threads may differ."""
    for first, second in zip(want, got, strict=True):
        if tolerance:
            compare(words, first, second, tolerance)
        else:
            assert np.array_equal(first, second, equal_nan=is_float(first.dtype)), words
