"""The process of one library: makes cases and times them, as lines of JSON on standard input ask for.

Started by `process.py` as `python -m harness.worker`; imported by every library's interpreter, the oldest of which is
Python 3.10. What libraries print to standard output goes to standard error, so that it cannot disturb the answers.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import platform
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from harness.case import Case

# A sample is many times longer than the clock's own cost, and short enough for some hundred of them in a round.
_SAMPLE_S = 500e-6

_WARM_UP_CALLS = 3
_WARM_UP_S = 1.0

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

# Arrays are compared by at most this many of their elements, evenly spaced.
_COMPARED_ELEMENTS = 4096


class Worker:
    """Answers requests; keeps at most one case."""

    def __init__(self) -> None:
        self.case: Case | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request; what goes wrong is raised."""
        if request["do"] == "describe":
            return _describe(request["module"])
        if request["do"] == "make":
            return self._make(request)
        if request["do"] == "measure":
            assert self.case is not None
            if self.case.is_reading:
                return {"figure": self.case.run()}
            finish = self.case.finish
            return {"figure": measure(self.case.run, request["seconds"], mean=request["mean"], finish=finish)}
        if request["do"] == "drop":
            self.case = None
            gc.unfreeze()
            gc.collect()
            return {}
        raise ValueError(f"unknown request {request['do']!r}")

    def _make(self, request: dict[str, Any]) -> dict[str, Any]:
        module, function = request["case"].split(":")
        make = getattr(importlib.import_module(module), function)
        self.case = make(library=request["library"], **request["arguments"])
        compared = [] if self.case.results is None else [_sample(array) for array in self.case.results()]
        run_s = None if self.case.is_reading else _warm_up(self.case.run, self.case.finish or _nothing)
        # What a library has made by now is set apart: looking through it before each round takes longer than the round.
        gc.collect()
        gc.freeze()
        return {"note": self.case.note, "results": compared, "run_s": run_s}


def measure(
    run: Callable[[], object], seconds: float, *, mean: bool = False, finish: Callable[[], object] | None = None
) -> float:
    """Seconds that one run takes: the median over samples of about half a millisecond, for about `seconds` in all.

    mean: over all of that time instead. The median leaves out what a busy neighbour takes, for it takes whole slices
    of some milliseconds, and most samples fall between them.
    finish: as of a `Case`; samples are ten times longer then, as waiting costs some microseconds.
    """
    gc.collect()
    finished, sample_s = (_nothing, _SAMPLE_S) if finish is None else (finish, 10 * _SAMPLE_S)
    finished()
    start = time.perf_counter()
    run()
    finished()
    once = time.perf_counter() - start
    if once > seconds:
        return once
    calls = max(1, int(sample_s / max(once, 1e-9)))
    samples: list[float] = []
    end = start + seconds
    while not samples or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        finished()
        samples.append((time.perf_counter() - begin) / calls)
    return statistics.mean(samples) if mean else statistics.median(samples)


def _nothing() -> None:
    """There is nothing to wait for."""


def _warm_up(run: Callable[[], object], finish: Callable[[], object]) -> float:
    """Compilation on first use is not timed; some libraries compile at the second call as well.

    Returns the seconds of the last run.
    """
    start = time.perf_counter()
    for _ in range(_WARM_UP_CALLS):
        begin = time.perf_counter()
        run()
        finish()
        now = time.perf_counter()
        if now - start > _WARM_UP_S:
            break
    return now - begin


def _describe(module: str) -> dict[str, Any]:
    numpy = importlib.import_module("numpy")
    library = importlib.import_module(module)
    return {"version": library.__version__, "numpy": numpy.__version__, "python": platform.python_version()}


def _sample(array: Any) -> dict[str, Any]:
    numpy = importlib.import_module("numpy")
    values = numpy.asarray(array)
    flat = values.reshape(-1).astype(numpy.float64)
    chosen = numpy.linspace(0, max(flat.size - 1, 0), min(flat.size, _COMPARED_ELEMENTS)).astype(numpy.int64)
    return {"shape": list(values.shape), "elements": flat[chosen].tolist()}


def main() -> None:
    """Answer until standard input ends."""
    # Stopped between requests, it would not see that input has ended with a benchmark that was killed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except Exception as error:  # the other process reports it, beside the row that failed
            summary = f"{type(error).__name__}: {error}".splitlines()[0]
            answer = {"error": traceback.format_exc(), "summary": summary}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
