"""Running a plan step by step, so that a trace and a verification see each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from atled.arrays.place import TRANSFERS, Place
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Step
from atled_contexts import active_trace, active_verification
from atled_contexts.signals import handlers_wait

if TYPE_CHECKING:
    from atled.graph.run.binding import Binding, Progress
    from atled_contexts import Trace


def run_observed(binding: Binding, progress: Progress) -> None:
    """Run all steps of a binding, recording each in the trace and checking those that the verification picks.

    progress: is told that all have run before a handler of a signal raises anything behind the first update.
    """
    with ExitStack() as unparted:
        _run_steps(binding, unparted)
        progress.is_complete = True


def _run_steps(binding: Binding, unparted: ExitStack) -> None:
    trace, verification = active_trace(), active_verification()
    plan = binding.plan
    for number, step in enumerate(plan.steps):
        if number == plan.first_update:
            unparted.enter_context(handlers_wait())
        if verification is None and step.carrier is not None:
            continue
        name = step.label if verification is None else step.name
        floats = [float(binding.floats[i]) for i in step.floats]
        shadow = None
        if verification is not None:
            from atled.graph.run.shadow import shadow_of  # lazy: few programs verify

            shadow = shadow_of(verification, plan, step, binding.array, floats)
        if verification is None:
            launch = binding.launch_of(number)
        elif step.node.spec is not None and step.node.spec.by_engine:
            launch = binding.launch(step)  # so that what runs within it is verified
        else:  # the reference knows single ops, so what is verified runs one by one
            launch = binding.launch_alone(number, *([] if shadow is None else [shadow.outputs]))
        if trace is None:
            launch()
        else:
            _Stopwatch(trace, plan, step, name).run(launch)
        if shadow is not None:
            shadow.check()


class _Stopwatch:
    """Takes the time of one step, by the clock of its device where that has one."""

    def __init__(self, trace: Trace, plan: Plan, step: Step, name: str) -> None:
        self._trace = trace
        self._name = name
        self._step = step
        place: Place | None = plan.place_of(step) if step.node.spec is not None else None
        self._place = None if place is None or place.is_host else place

    def run(self, launch: Callable[[], None]) -> None:
        """Launch the step, wait for its end and record it; a step that fails is not recorded."""
        moved = TRANSFERS.bytes_moved
        begin = self._timestamp()
        start = time.perf_counter()
        launch()
        seconds, clock = self._elapsed(start, begin)
        decision = self._step.node.decision
        self._trace.record(
            self._name,
            self._step.backend,
            self._step.note,
            seconds,
            fallback=decision is not None and decision.fallback,
            bytes_moved=TRANSFERS.bytes_moved - moved,
            start=start,
            clock=clock,
        )

    def _timestamp(self) -> object:
        place = self._place
        return None if place is None or place.array_class is None else place.array_class.timestamp(place.device_id)

    def _elapsed(self, start: float, begin: object) -> tuple[float, str]:
        place = self._place
        if place is not None and place.array_class is not None:
            if begin is not None:
                seconds = place.array_class.seconds_between(begin, self._timestamp())
                place.failures.look()
                return seconds, "device"
            # Launches may return before the work is done: without this its time would be that of a later step.
            place.synchronize()
        return time.perf_counter() - start, "host"
