"""Compiling formulas on request, so that tests see what plans do for a device that can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from atled.plugin import Call, op_spec, reference_run, reload_plugins

_depth = 0


@contextmanager
def compile_formulas() -> Iterator[None]:
    """Within the block, backend `sim` says that it compiles formulas: in chains, with casts, in groups, into other ops.

    Decisions made before are made again, on entering and on leaving, also for graphs that ran already.
    """
    global _depth
    _depth += 1
    reload_plugins()
    try:
        yield
    finally:
        _depth -= 1
        reload_plugins()


def compiles_formulas() -> bool:
    """Whether such a block is in force."""
    return _depth > 0


def attached_names(op: str) -> tuple[str, ...]:
    """The inputs and outputs of an op at which formulas may be: all, by their names."""
    spec = op_spec(op)
    return *spec.input_names, *spec.outputs


def group_run(calls: Sequence[Call]) -> Callable[..., None]:
    """`run(*arguments)` on NumPy arrays for a group of calls, each by the reference."""
    runs = [reference_run(call) for call in calls]
    (call, *_) = calls
    widths = len(call.inputs), len(call.outputs), len(call.spec.float_names)

    def run(*arguments: Any) -> None:
        rest = list(arguments)
        blocks = []
        for width in widths:
            block, rest = rest[: width * len(runs)], rest[width * len(runs) :]
            blocks.append([block[n * width : (n + 1) * width] for n in range(len(runs))])
        for one, inputs, outputs, floats in zip(runs, *blocks, strict=True):
            one(*inputs, *outputs, *floats)

    return run
