"""How an inline cache launches a call: a kernel by its form, or a step in Python on the arrays of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn

from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Step
from atled.graph.run.launching import fail, running
from atled.graph.run.on_device import Key, run_by_shape, shapes_of
from atled.named_tuple import NamedTuple
from atled_contexts import native_executors

Make = Callable[[int], Callable[..., Any]]
"""Makes the function of the inline cache at an address."""


class InlineLaunch(NamedTuple):
    """What the entry of a call in an inline cache says of its launch.

    make: makes the function of the cache.  form: address of the words of `FormWord`; 0: it is a step in Python.
    run: what is called of such a step, with arrays, then floats.  fail: raises what that raised.
    keys: what `run` is given of the storages of the arrays (`DeviceStorage.address`), None for an absent one.
    """

    make: Make
    form: int = 0
    run: Callable[..., object] | None = None
    fail: Callable[[BaseException], NoReturn] | None = None
    keys: tuple[Key | None, ...] = ()


def inline_maker(executors: Iterable[object]) -> Make | None:
    """What the first of some executors that have inline caches makes a function with."""
    found = (getattr(executor, "inline_call", None) for executor in executors)
    return next((make for make in found if make is not None), None)


def on_device(plan: Plan, step: Step) -> InlineLaunch | None:
    """A step of a device: any executor compares the keys of its calls, and calls its function."""
    make = inline_maker(native_executors())
    if make is None:
        return None
    keys = tuple(shapes_of(plan, step))
    return InlineLaunch(make, run=run_by_shape(plan, step), fail=partial(_fail, running(step)), keys=keys)


def _fail(running: str, error: BaseException) -> NoReturn:
    if isinstance(error, Exception):
        fail(error, running)
    raise error
