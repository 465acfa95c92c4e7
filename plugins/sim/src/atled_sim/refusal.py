"""Refusing ops on request, so that tests see what happens to ops that a device does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from atled.plugin import Call, op_spec, reload_plugins
from atled_sim.omission import wants_too_much

_refused: Counter[str] = Counter()


@contextmanager
def refuse(ops: Iterable[str]) -> Iterator[None]:
    """Within the block, backend `sim` does not accept calls of the named ops: `with atled_sim.refuse({"Tanh"}):`.

    Decisions made before are made again, on entering and on leaving, also for graphs that ran already.
    LookupError: an unknown op.
    """
    names = list(ops)
    for name in names:
        op_spec(name)
    _refused.update(names)
    reload_plugins()  # what was decided before is decided again, also for graphs that ran already
    try:
        yield
    finally:
        _refused.subtract(names)
        reload_plugins()


def accepts(call: Call) -> bool | str:
    """What `sim` answers to every call: True, or the reason in words why it does not compute it."""
    if wants_too_much(call):
        return f"omit({call.spec.name!r}, always=True) is in force"
    return f"refuse({call.spec.name!r}) is in force" if _refused[call.spec.name] > 0 else True
