"""Launching steps on a device without a binding: on the arrays of storages that are others at every run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Step
from atled.graph.run.launching import fail, running, watch

Shape = tuple[int, ...]


def shapes_of(plan: Plan, step: Step) -> list[Shape | None]:
    """The shapes of all arrays that a step gets, its workspace included; None for an absent one."""
    shapes = [None if slot < 0 else plan.slots[slot].desc.shape for slot in step.arguments]
    assert step.prepared is not None
    return [*shapes, (step.prepared.workspace,)] if step.prepared.workspace else shapes


def launch_by_shape(plan: Plan, step: Step) -> Callable[..., int]:
    """`launch(form, *arrays, *floats)`, which gives 0 for the status, as machine code does where all is well.

    form: what machine code needs, and this does not.  arrays: each by shape (`DeviceStorage.address`), anything for an
        absent one.
    """
    assert step.prepared is not None
    shapes = shapes_of(plan, step)
    make = _maker(tuple(shape is not None for shape in shapes), len(step.floats))
    run = step.prepared.run
    if step.has_flag or step.waits_for_failures:
        run = _watched_run(plan, step, len(shapes))
    launch: Callable[..., int] = make(run, fail, running(step), *shapes)
    return launch


def _watched_run(plan: Plan, step: Step, array_count: int) -> Callable[..., None]:
    """The function of a step that may fail on its device, or heeds failures, or must not run behind one."""
    assert step.prepared is not None and step.prepared.run is not None
    run, failures, culprit = step.prepared.run, plan.place_of(step).failures, step.culprit
    flag = failures.flag() if step.has_flag else None
    extra = [] if flag is None else [flag.array]
    extra += [] if culprit is None else [culprit.number]
    expected = {} if culprit is None or flag is None else {culprit.number: (culprit, flag)}

    def watched(*arguments: Any) -> None:
        assert flag is not None or not extra  # it has to live as long as this
        run(*arguments[:array_count], *extra, *arguments[array_count:])

    return watch(watched, failures, expected, step.waits_for_failures)


# With arguments of their own, and each array named, it takes a third of the time.
_TEXT = """
def make(run, fail, running, {shapes}):
    def launch(form, {given}):
        try:
            run({passed})
        except Exception as error:
            fail(error, running)
        return 0
    return launch
"""


@functools.lru_cache(256)
def _maker(is_there: tuple[bool, ...], float_count: int) -> Callable[..., Any]:
    """What makes the launch of a step with these arrays and so many floats."""
    arrays, floats = range(len(is_there)), range(float_count)
    given = [*(f"a{n}" for n in arrays), *(f"f{n}" for n in floats)]
    passed = [*(f"a{n}[s{n}]" if is_there[n] else "None" for n in arrays), *(f"float(f{n})" for n in floats)]
    text = _TEXT.format(shapes=", ".join(f"s{n}" for n in arrays), given=", ".join(given), passed=", ".join(passed))
    namespace: dict[str, Any] = {}
    exec(compile(text, f"<{__name__}>", "exec"), namespace)  # text made just here
    make: Callable[..., Any] = namespace["make"]
    return make
