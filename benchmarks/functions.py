"""Benchmark of all functions: cpu against torch, the reference and NNabla, forward and forward with backward.

    python benchmarks/functions.py                        everything, some minutes
    python benchmarks/functions.py --rows pooling split   rows with one of these texts in their name
    python benchmarks/functions.py --peers torch          against torch alone, in a third of the time

Each function is called with about a million elements, in further layouts where axes or broadcasting matter, and as a
small call: made anew each time, with about a thousand elements.

Ratios are our time over the peer's: below 1 we are faster. Files go to a folder of benchmarks/results/ that has the
name of the processor.
"""

from __future__ import annotations

import importlib.util
import sys

from function_rows.calls import CALLS, SMALL_CALLS
from function_rows.inputs import FunctionCall
from function_rows.layouts import LAYOUTS
from function_rows.timing import SMALL
from function_rows.torch_calls import FORWARD_ONLY, TORCH_CALLS, WITHOUT_TORCH
from harness.case import Row
from harness.command import run_benchmark

# Rounding of long float32 sums, relative to the largest element; NNabla sums in orders of its own.
_TOLERANCE = 1e-3

_ROUNDS = "3"
_SECONDS = "0.04"


def rows() -> list[Row]:
    """Per function and layout one row, and one with backward where it has gradients; names what is not compared."""
    # Imported here: without atled, `run_benchmark` says what to do.
    from atled import functions
    from atled.ops.spec import FUNCTIONS
    from function_rows.own_calls import call_of

    found = []
    for name in dir(functions):
        call = call_of(name)
        if call is None:
            print(f"not measured: {name} has no call in benchmarks/function_rows/calls.py", file=sys.stderr)
            continue
        if name in WITHOUT_TORCH:
            print(f"not compared with torch: {name}: {WITHOUT_TORCH[name]}", file=sys.stderr)
        spec = FUNCTIONS.get(name)  # None for functions that are made of others
        has_gradient = spec is None or not spec.no_gradient
        calls = {"": call, **({SMALL: SMALL_CALLS[name]} if name in SMALL_CALLS else {}), **LAYOUTS.get(name, {})}
        for layout, made in calls.items():
            for backward in (False, True) if has_gradient and _asks_gradients(made) else (False,):
                found.append(_row(name, layout, made, backward))
    return found


def _row(name: str, layout: str, call: FunctionCall, backward: bool) -> Row:
    return Row(
        ", ".join((name, *([layout] if layout else []), *(["with backward"] if backward else []))),
        "function_rows.timing:function_case",
        _libraries(name, layout, backward),
        {"name": name, "backward": backward, "layout": layout},
        unit="us",
        tolerance=_TOLERANCE if call.comparable else None,
    )


def _libraries(name: str, layout: str, backward: bool) -> tuple[str, ...]:
    """Who computes it; the reference and NNabla the usual calls alone."""
    torch = ("torch",) if name in TORCH_CALLS and not (backward and name in FORWARD_ONLY) else ()
    others = () if layout else ("reference", *(("nnabla",) if name in CALLS else ()))
    return "atled", *torch, *others


def _asks_gradients(call: FunctionCall) -> bool:
    return any(item is not None and item.grad for item in call.inputs)


if __name__ == "__main__":
    rows_there_are = rows() if importlib.util.find_spec("atled") else []
    # Fewer and shorter rounds than usual, for there are hundreds of rows; arguments that are given later win.
    arguments = ["--rounds", _ROUNDS, "--seconds", _SECONDS, *sys.argv[1:]]
    sys.exit(run_benchmark("functions", rows_there_are, (__doc__ or "").splitlines()[0], arguments))
