"""Running a script or a module as `python SCRIPT ...` and `python -m MODULE ...` would."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence

from atled.errors import four_parts


def run(words: Sequence[str], usage: str, command: str) -> int | None:
    """Run what words name: SCRIPT ARGUMENTS... or -m MODULE ARGUMENTS...; exceptions of the script pass through.

    usage: shown for -h and where there are no words.  command: that the words were given to, for messages.
    The exit status where nothing ran.
    """
    words = list(words)
    if not words or words[0] in ("-h", "--help") or words == ["-m"]:
        asked_for = bool(words) and words[0] != "-m"
        print(usage, file=sys.stdout if asked_for else sys.stderr)
        return 0 if asked_for else 2
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return None
    script = words[0]
    if not os.path.exists(script):
        text = four_parts(f"{command} {script}", "there is no such file", "", "give the path of a script")
        print(text, file=sys.stderr)
        return 2
    sys.argv = words
    if os.path.isfile(script):
        # As `python SCRIPT` has it; `python -m` put the current folder there.
        sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")
    return None
