"""Leaving out auxiliary outputs on request, as kernels do that cannot make them (a library's max pooling)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from atled.plugin import Call, op_spec, reload_plugins

_omitting: Counter[str] = Counter()
_unable: Counter[str] = Counter()


@contextmanager
def omit(ops: Iterable[str], always: bool = False) -> Iterator[None]:
    """Within the block, backend `sim` omits auxiliary outputs of the named ops: `with atled_sim.omit({"MaxPooling"}):`.

    Nobody stores them then where the gradient does without them. Decisions made before are made again, on entering
    and on leaving.
    always: whether it cannot make them, and refuses calls that want them.
    LookupError: an unknown op.
    """
    names = list(ops)
    for name in names:
        op_spec(name)
    _omitting.update(names)
    _unable.update(names if always else ())
    reload_plugins()
    try:
        yield
    finally:
        _omitting.subtract(names)
        _unable.subtract(names if always else ())
        reload_plugins()


def omitted(op: str) -> tuple[str, ...]:
    """The outputs that `sim` need not make."""
    return tuple(op_spec(op).auxiliary) if _omitting[op] > 0 else ()


def wants_too_much(call: Call) -> bool:
    """Whether a call asks for outputs that `sim` cannot make."""
    return _unable[call.spec.name] > 0 and all(call.wanted)
