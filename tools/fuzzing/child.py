"""The process that tries attempts one after the other and writes a line before and after each.

KIND is `calls`, `files`, or the name of a module with `draw` and `after` as these have them, and its own `judged` where
its attempts end in other ways than these.
`python child.py KIND SEED FIRST LAST STEP MEMORY_BYTES TIME_S`: lines of JSON on the standard output.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def main() -> None:
    """Try the attempts first, first + step, ... below last."""
    kind = sys.argv[1]
    seed, first, last, step, memory_bytes, time_s = map(int, sys.argv[2:])
    # The lines keep the standard output for themselves.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    attempts = importlib.import_module(f"fuzzing.{kind}" if kind in ("calls", "files") else kind)
    from fuzzing import judging

    judged = getattr(attempts, "judged", judging.judged)
    attempts.after()  # loads what is loaded at first need
    _limit(memory_bytes)
    for number in range(first, last, step):
        attempt = attempts.draw(seed, number)
        print(json.dumps({"number": number, "text": attempt.text}), file=lines)
        faulthandler.dump_traceback_later(0.9 * time_s)
        outcome, detail = judged(attempt.run)
        if outcome != "wrong":
            later, reason = judging.judged(attempts.after)
            if later != "right":
                outcome, detail = "wrong", f"afterwards: {reason}"
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"number": number, "outcome": outcome, "detail": detail}), file=lines)


def _limit(memory_bytes: int) -> None:
    """Allow so many bytes of address space beyond those that are taken by now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main()
