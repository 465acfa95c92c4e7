"""The process that says what comes of programs; it reads and writes JSON.

`python checker.py CONTEXT THREADS AS_LARGE`, such as `cpu:float 1,3 0`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzzing_programs.comparing import check  # after the path is set
from fuzzing_programs.running import UncleanError, run_plainly


def outcome(statements: list[str], context: str, counts: list[int], as_large: bool) -> str:
    """The kind of outcome, with the type of a foreign exception; "invalid" where the program itself is at fault."""
    try:
        run_plainly(statements)
    except Exception:
        return "invalid"
    try:
        check(statements, context, counts, as_large)
    except UncleanError as error:
        if error.kind != "foreign":
            return error.kind
        text = re.sub(r"[0-9(\[].*", "", str(error.__cause__))  # without shapes and numbers, which shrinking changes
        return f"foreign {type(error.__cause__).__name__} {text}".strip()
    return "right"


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    context, counts = sys.argv[1], [int(word) for word in sys.argv[2].split(",")]
    as_large = sys.argv[3] == "1"
    for line in sys.stdin:
        print(json.dumps(outcome(json.loads(line), context, counts, as_large)), file=answers)


if __name__ == "__main__":
    main()
