"""Detects what an implementation does besides computing: asking others, moving data between memories."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from atled.arrays.place import ArrayClass
from atled.calling.call_tables import forget_calls
from atled.graph.run.binding import Binding
from atled.graph.run.one_call import OneCall
from atled.ops.spec import OpSpec
from atled_contexts import registry


@contextmanager
def watch(spec: OpSpec, array_class: ArrayClass | None) -> Iterator[list[str]]:
    """Within the block, collect in words: use of the op's reference, of the engine, of other backends, of transfers."""
    seen: list[str] = []
    forget_calls()  # those that are known launch kernels without the engine
    with ExitStack() as patches:

        def notice(owner: Any, name: str, words: str) -> None:
            original = getattr(owner, name)
            patches.enter_context(_replaced(owner, name, _noticing(original, seen, words)))

        notice(spec, "reference", f"called the reference of {spec.name}")
        notice(Binding, "run", "let the engine compute an op")
        notice(OneCall, "run", "let the engine compute an op")
        notice(registry.Registry, "implementations", "looked for implementations by itself")
        if array_class is not None:
            notice(type(array_class), "upload", f"uploaded to {array_class.name or 'the device'}")
            notice(type(array_class), "download", f"downloaded from {array_class.name or 'the device'}")
        yield seen


@contextmanager
def watch_queue(array_class: ArrayClass) -> Iterator[list[str]]:
    """Within the block, collect in words what is more than to put work into a queue."""
    seen: list[str] = []
    more = {
        "synchronize": "waited for the device",
        "download": "read back from the device",
        "upload": "uploaded to the device",
        "allocate": "allocated on the device",
    }
    with ExitStack() as patches:
        for name, words in more.items():
            original = getattr(type(array_class), name)
            patches.enter_context(_replaced(type(array_class), name, _noticing(original, seen, words)))
        yield seen


def bytes_in_use(array_class: ArrayClass, device: str) -> int | None:
    """By its own statistics, once the queue is empty: waiting work holds its arrays; None where it does not count."""
    gc.collect()
    array_class.synchronize(device)
    return array_class.statistics(device).get("bytes_in_use")


def _noticing(original: Callable[..., Any], seen: list[str], words: str) -> Callable[..., Any]:
    def watched(*arguments: Any, **keywords: Any) -> Any:
        if words not in seen:
            seen.append(words)
        return original(*arguments, **keywords)

    return watched


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    is_own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
