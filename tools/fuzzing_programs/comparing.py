"""Whether all runs of a program agree: bit by bit with each other, and with the plain interpreter."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np

from fuzzing_programs.running import Run, UncleanError, poisoned, run_by_library, run_plainly
from fuzzing_programs.setting import Setting
from fuzzing_programs.ways import large_arrays, ways_of

_TOLERANCE = 1e-3
"""Of float32: rounding grows from step to step; a value from the wrong place is off by far more."""
_NOISE = 1e-6
_NOISY_RUNS = 12


def check(statements: Sequence[str], setting: Setting, thread_counts: Sequence[int] = (1,)) -> None:
    """Run a program in all ways; UncleanError where they disagree."""
    runs: list[Run] = []
    ways = ways_of(setting, thread_counts)
    with poisoned(), large_arrays() if setting.as_large else contextlib.nullcontext():
        for way in ways:
            with way.surroundings():
                runs.append(run_by_library(statements, setting, way.is_faulty))
    # What cpu kernels compute in one go they round otherwise than step by step; and calls that auto_forward computes at
    # once under a trace are no chain that has its images in another order, in which sums add up otherwise.
    text = " ".join((setting.context, *setting.modes, *statements))
    is_rounded_otherwise = "cpu:" in text or ("prefer_layout" in text and "auto_forward" in text)
    has_equal_bits = not setting.is_on_device or not is_rounded_otherwise
    others = [
        run
        for way, run in zip(ways[1:], runs[1:], strict=True)
        if not has_equal_bits
        or not _are_alike(statements, runs[0], run, f"{ways[0].name} and {way.name}", setting.is_on_device)
    ]
    for run in () if setting.is_rounded else (runs[0], *others):
        _agrees(statements, run)


def _are_alike(statements: Sequence[str], one: Run, other: Run, what: str, may_store_more: bool) -> bool:
    """Whether two runs saw the same; UncleanError where they must.

    may_store_more: whether one may have values that are lost in the other; they need not agree from there on.
    """
    text = f"{what}: one was refused and ended early: {one.end}, {other.end}"
    alike = one.end == other.end and len(one.seen) == len(other.seen)
    for number, ((statement, x), (_, y)) in enumerate(zip(one.seen, other.seen, strict=False)):
        if (x is None) != (y is None):
            text = f"{what}: look {number} was refused in one: {statements[statement]}"
            alike = False
            break
        if x is not None and y is not None and x.tobytes() != y.tobytes():
            where = f"look {number}, statement {statement}: {statements[statement]}"
            raise UncleanError("bits", f"{what} differ in {where}\n{x}\n{y}")
    if not alike and not may_store_more:
        raise UncleanError("bits", text)
    return alike


def _agrees(statements: Sequence[str], run: Run) -> None:
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
