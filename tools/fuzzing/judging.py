"""What came of one try, seen from within the process that made it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

REFUSED, RIGHT, FOREIGN, WRONG = "refused", "right", "foreign", "wrong"
"""Outcomes. refused: an error in four parts. right: a result, checked where that can be. foreign: another exception.
wrong: a result that is none. A parent process adds `hanging` and `crashing`."""

_REMEDY = "\nWhat to do: "
# What Python itself says where both operands give an operator up, as they have to.
_PYTHON = "unsupported operand type(s) for "


class WrongError(Exception):
    """A call gave a result that cannot be right."""


def judged(attempt: Callable[[], None]) -> tuple[str, str]:
    """The outcome of an attempt, and in which words and where it failed."""
    try:
        attempt()
    except WrongError as error:
        return WRONG, f"{error}"
    except Exception as error:
        text = str(error)
        kind = type(error).__name__
        if type(error).__name__ == "VerificationError":
            return WRONG, text
        if _REMEDY in text or text.startswith(_PYTHON):
            return REFUSED, f"{kind}: {text.splitlines()[0][:200]}"
        return FOREIGN, f"{kind}: {text[:300]} | {_place(error)}"
    return RIGHT, ""


def _place(error: BaseException) -> str:
    """The last frames of the library on the way to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "atled" in frame.filename and "fuzzing" not in frame.filename]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(ours[-4:]))
