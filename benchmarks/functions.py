"""Benchmark of all functions: cpu against the reference and NNabla, forward and forward with backward.

    python benchmarks/functions.py                        everything, some minutes
    python benchmarks/functions.py --rows pooling split   rows with one of these texts in their name

Ratios are our time over the peer's: below 1 we are faster. Files go to a folder of benchmarks/results/ that has the
name of the processor.
"""

from __future__ import annotations

import importlib.util
import sys

from function_rows.calls import CALLS, FunctionCall
from harness.case import Row
from harness.command import run_benchmark

# Rounding of long float32 sums, relative to the largest element; NNabla sums in orders of its own.
_TOLERANCE = 1e-3

_LIBRARIES = ("atled", "reference", "nnabla")
_WITHOUT_NNABLA = _LIBRARIES[:2]
_ROUNDS = "3"
_SECONDS = "0.04"


def rows() -> list[Row]:
    """Per function one row, and one with backward where it has gradients; names the functions without a call."""
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
        spec = FUNCTIONS.get(name)  # None for functions that are made of others
        has_gradient = spec is None or not spec.no_gradient
        for backward in (False, True) if has_gradient and _asks_gradients(call) else (False,):
            found.append(
                Row(
                    f"{name}, with backward" if backward else name,
                    "function_rows.timing:function_case",
                    _LIBRARIES if name in CALLS else _WITHOUT_NNABLA,
                    {"name": name, "backward": backward},
                    unit="us",
                    tolerance=_TOLERANCE if call.comparable else None,
                )
            )
    return found


def _asks_gradients(call: FunctionCall) -> bool:
    return any(item is not None and item.grad for item in call.inputs)


if __name__ == "__main__":
    rows_there_are = rows() if importlib.util.find_spec("atled") else []
    # Fewer and shorter rounds than usual, for there are hundreds of rows; arguments that are given later win.
    arguments = ["--rounds", _ROUNDS, "--seconds", _SECONDS, *sys.argv[1:]]
    sys.exit(run_benchmark("functions", rows_there_are, (__doc__ or "").splitlines()[0], arguments))
