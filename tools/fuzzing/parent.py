"""The process that starts children, counts what came of each attempt, and kills those that take too long."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

_CHILD = Path(__file__).with_name("child.py")
_START_S = 100  # to load the library, and to make whole files


KINDS = ("calls", "files")
OUTCOMES = ("refused", "right", "foreign", "wrong", "hanging", "crashing")


class Result(NamedTuple):
    """What came of one attempt.

    outcome: one of `judging`, or "hanging" or "crashing".
    """

    kind: str
    number: int
    text: str
    outcome: str
    detail: str


class Limits(NamedTuple):
    """What an attempt may take.

    time_s: seconds of processor time, and a fourth of the seconds of wall-clock time: it may be a busy machine.
    memory_bytes: address space beyond that of the loaded library.
    """

    time_s: int = 20
    memory_bytes: int = 1 << 30


def run(kind: str, seed: int, numbers: range, limits: Limits, tell: Callable[[Result], bool]) -> None:
    """Try the attempts of these numbers; `tell` gets each result and says whether to go on.

    A child that hangs is killed, one that died is replaced, and the attempt is counted as hanging or crashing.
    """
    first = numbers.start
    while first < numbers.stop:
        last = _one_child(kind, seed, range(first, numbers.stop, numbers.step), limits, tell)
        if last is None:
            return
        first = last + numbers.step


def _one_child(kind: str, seed: int, numbers: range, limits: Limits, tell: Callable[[Result], bool]) -> int | None:
    """Run one child to its end; the number of its last attempt, None where there is to be no other child."""
    words = [seed, numbers.start, numbers.stop, numbers.step, limits.memory_bytes, limits.time_s]
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        child = subprocess.Popen(
            [sys.executable, str(_CHILD), kind, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        begun: dict[str, Any] | None = None
        number = numbers.start - numbers.step
        line: str | None = None
        try:
            while line := _line(child, limits.time_s if begun else _START_S):
                fields = json.loads(line)
                number = fields["number"]
                if "text" in fields:
                    begun = fields
                    continue
                assert begun is not None
                result = Result(kind, number, begun["text"], fields["outcome"], fields["detail"])
                begun = None
                if not tell(result):
                    return None
        finally:
            hangs = begun is not None and line is None
            if line != "":
                child.kill()
            child.communicate()
        if begun is None and child.returncode == 0:
            return None
        complaints.seek(0)
        said = complaints.read()[-3000:]
        if begun is None:
            raise RuntimeError(f"a child failed between attempts, after {number}:\n{said}")
        name = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit status {child.returncode}"
        outcome, detail = ("hanging", said) if hangs else ("crashing", f"{name}: {said}")
        return number if tell(Result(kind, number, begun["text"], outcome, detail)) else None


def _line(child: subprocess.Popen[str], time_s: float) -> str | None:
    """The next line of a child; "" at its end, None if there is none in time."""
    assert child.stdout is not None
    last_s, most_s = time.monotonic() + 4 * time_s, _processor_s(child.pid) + time_s
    while not select.select([child.stdout], [], [], 0.5)[0]:
        if time.monotonic() > last_s or _processor_s(child.pid) > most_s:
            return None
    return child.stdout.readline()


def _processor_s(process: int) -> float:
    """Seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_shares(kind: str, seed: int, numbers: range, limits: Limits, tell: Callable[[Result], bool], jobs: int) -> None:
    """`run` in several children at a time, each with every `jobs`-th attempt; `tell` is called by one at a time."""
    lock = threading.Lock()

    def told(result: Result) -> bool:
        with lock:
            return tell(result)

    failures: list[BaseException] = []

    def share(first: int) -> None:
        try:
            run(kind, seed, numbers[first::jobs], limits, told)
        except BaseException as error:  # raised below, in the thread that asked
            failures.append(error)

    threads = [threading.Thread(target=share, args=(first,)) for first in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
