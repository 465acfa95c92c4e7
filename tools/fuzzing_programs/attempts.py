"""Programs as attempts of a child process, `python fuzzing/child.py fuzzing_programs.attempts SEED ...`.

The environment variable FUZZ_THREADS says with which counts of threads each program runs, such as "1,3"; FUZZ_BACKEND
on what: "cpu", or "sim" for the simulated device.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

import atled as nn
import atled.functions as F
from fuzzing.calls import Attempt
from fuzzing.judging import FOREIGN, RIGHT, WrongError
from fuzzing_programs import drawing
from fuzzing_programs.comparing import check
from fuzzing_programs.running import UncleanError, script

THREADS, BACKEND = "FUZZ_THREADS", "FUZZ_BACKEND"
_FEATURES = "# features: "


def thread_counts() -> Sequence[int]:
    """With which counts of threads programs run."""
    return tuple(map(int, os.environ.get(THREADS, "1,3").split(",")))


def draw(seed: int, number: int) -> Attempt:
    """The program of a number, the same for equal seeds."""
    program = drawing.draw(seed, number, os.environ.get(BACKEND, "cpu"))
    text = script(program.setting, program.statements, f"seed {seed}, program {number}")
    first, rest = text.split("\n", 1)
    features = json.dumps(program.features)
    counts = thread_counts()
    return Attempt(
        f"{first}\n{_FEATURES}{features}\n{rest}",
        lambda: check(program.statements, program.setting, counts),
    )


def features_of(text: str) -> dict[str, int]:
    """How often each feature was drawn, of the text of an attempt."""
    lines = [line for line in text.splitlines() if line.startswith(_FEATURES)]
    found: dict[str, int] = json.loads(lines[0][len(_FEATURES) :])
    return found


def judged(attempt: Callable[[], None]) -> tuple[str, str]:
    """The outcome of a program, and what was wrong with it."""
    try:
        attempt()
    except UncleanError as error:
        return error.kind, str(error)
    except Exception as error:
        return FOREIGN, f"while comparing: {type(error).__name__}: {error}"
    return RIGHT, ""


def after() -> None:
    """Whether the library still computes; WrongError if not."""
    y = F.relu(nn.NdArray.from_numpy_array([-1.0, 2.0]))
    if y.data.tolist() != [0.0, 2.0]:
        raise WrongError(f"afterwards relu([-1, 2]) is {y.data}")
