"""Whether all runs of a program agree: bit by bit between counts of threads, and with the plain interpreter."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np

import atled as nn
from fuzzing_programs.running import Run, UncleanError, poisoned, run_by_library, run_plainly

_TOLERANCE = 1e-3
"""Of float32: rounding grows from step to step; a value from the wrong place is off by far more."""
_NOISE = 1e-6
_NOISY_RUNS = 12


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Within, the cpu backend has so many threads, and divides small kernels as well."""
    from atled_cpu_numba import pool
    from atled_cpu_numba.kernels.shared import launch

    before = launch.SHARE_US
    pool.set_thread_count(count)
    launch.SHARE_US = 1e-3
    try:
        yield
    finally:
        launch.SHARE_US = before
        pool.set_thread_count(None)
        nn.clear_memory_cache()  # plans know how their kernels are divided


# Sizes beyond which values are computed again instead of stored, and written past the caches.
_SIZES = ("STREAMED_BYTES", "_STREAMED_BYTES", "_STREAM_BYTES")


@contextlib.contextmanager
def large_arrays() -> Iterator[None]:
    """Within, the library treats all arrays as if they were too large for caches."""
    from atled.graph.recompute import choice

    modules = [m for name, m in sorted(sys.modules.items()) if m is choice or name.startswith("atled_cpu_numba.")]
    before = [(m, name, vars(m)[name]) for m in modules for name in (*_SIZES, "_LEAST_BYTES") if name in vars(m)]
    try:
        for module, name, _ in before:
            setattr(module, name, 0)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def check(statements: Sequence[str], context: str, thread_counts: Sequence[int], as_large: bool = False) -> None:
    """Run a program in all ways; UncleanError where they disagree.

    as_large: whether small arrays are treated as large ones are.
    """
    runs: list[Run] = []
    with poisoned():
        for count in thread_counts:
            with threads(count), large_arrays() if as_large else contextlib.nullcontext():
                runs.append(run_by_library(statements, context))
    for count, run in zip(thread_counts[1:], runs[1:], strict=True):
        _equal_bits(statements, runs[0], run, f"{thread_counts[0]} and {count} threads")
    _agrees(statements, runs[0], context)


def _equal_bits(statements: Sequence[str], one: Run, other: Run, what: str) -> None:
    if one.end != other.end or len(one.seen) != len(other.seen):
        raise UncleanError("threads", f"{what}: one was refused and ended early: {one.end}, {other.end}")
    for number, ((statement, x), (_, y)) in enumerate(zip(one.seen, other.seen, strict=True)):
        if (x is None) != (y is None):
            raise UncleanError("threads", f"{what}: look {number} was refused in one: {statements[statement]}")
        if x is not None and y is not None and x.tobytes() != y.tobytes():
            where = f"look {number}, statement {statement}: {statements[statement]}"
            raise UncleanError("threads", f"{what} differ in {where}\n{x}\n{y}")


def _agrees(statements: Sequence[str], run: Run, context: str) -> None:
    plain = run_plainly(statements, run)
    wrong = [number for number in range(len(run.seen)) if not _is_close(run, plain, number, 0.0)]
    if not wrong:
        return
    # It may be the program: a program that magnifies rounding errors does so with ours as well.
    spread = [np.zeros(()) for _ in plain.seen]
    for seed in range(_NOISY_RUNS):
        noisy = run_plainly(statements, run, _NOISE, seed)
        for number in wrong:
            ours, theirs = noisy.seen[number][1], plain.seen[number][1]
            if ours is not None and theirs is not None:
                with np.errstate(invalid="ignore"):
                    spread[number] = np.maximum(spread[number], np.abs(ours - theirs.astype(np.float64)))
    for number in wrong:
        if not _is_close(run, plain, number, 20 * spread[number]):
            statement = run.seen[number][0]
            raise UncleanError(
                "wrong",
                f"look {number}, statement {statement}: {statements[statement]}\n"
                f"library: {run.seen[number][1]}\nplain: {plain.seen[number][1]}",
            )


def _is_close(run: Run, plain: Run, number: int, more: float | np.ndarray) -> bool:
    ours, theirs = run.seen[number][1], plain.seen[number][1]
    if ours is None or theirs is None:
        return (ours is None) == (theirs is None)
    if ours.shape != theirs.shape:
        return False
    theirs = theirs.astype(np.float64)
    if not np.isfinite(theirs).all() or not np.isfinite(more).all():
        return True  # beyond what can be told
    allowed = _TOLERANCE * (np.abs(theirs) + 0.1 + np.abs(theirs).max(initial=0)) + more
    with np.errstate(invalid="ignore"):
        return bool((np.abs(ours.astype(np.float64) - theirs) <= allowed).all())
