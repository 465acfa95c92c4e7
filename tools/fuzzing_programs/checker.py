"""The process that says what comes of programs; it reads and writes JSON.

`python checker.py SETTING THREADS`, such as `'["cpu:float", false, []]' 1,3`.
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
from fuzzing_programs.setting import Setting


def outcome(statements: list[str], setting: Setting, counts: list[int]) -> str:
    """The kind of outcome, with the type of a foreign exception; "invalid" where the program itself is at fault."""
    try:
        run_plainly(statements)
    except Exception:
        return "invalid"
    try:
        check(statements, setting, counts)
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
    context, as_large, modes = json.loads(sys.argv[1])
    setting = Setting(context, as_large, tuple(modes))
    counts = [int(word) for word in sys.argv[2].split(",")]
    for line in sys.stdin:
        print(json.dumps(outcome(json.loads(line), setting, counts)), file=answers)


if __name__ == "__main__":
    main()
