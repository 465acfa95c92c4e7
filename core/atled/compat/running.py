"""Running a script or a module as `python SCRIPT ...` and `python -m MODULE ...` would."""

from __future__ import annotations

import os
import re
import runpy
import sys
from collections.abc import Sequence

from atled.errors import did_you_mean, four_parts
from atled.standard_output import OutputError, refused, told_output


def run(words: Sequence[str], usage: str, command: str) -> int | None:
    """Run what words name: SCRIPT ARGUMENTS... or -m MODULE ARGUMENTS...; exceptions of the script pass through.

    usage: shown for -h and where there are no words.  command: that the words were given to, for messages.
    The exit status where nothing ran.
    """
    words = list(words)
    if not words or words[0] in ("-h", "--help") or words == ["-m"]:
        asked_for = bool(words) and words[0] != "-m"
        return _shown(usage, command) if asked_for else _refused(usage)
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return None
    script = words[0]
    if not os.path.exists(script):
        wrong, remedy = "there is no such file", "give the path of a script"
        if script.startswith("-"):
            options = re.findall(r"--?[a-z]+", usage.partition("usage: ")[2].replace(command, ""))
            wrong = "there is no such option in front of the script"
            remedy = did_you_mean(script.partition("=")[0], options, "those of the script go behind it")
        return _refused(four_parts(f"{command} {script}", wrong, "", remedy))
    sys.argv = words
    if os.path.isfile(script):
        # As `python SCRIPT` has it; `python -m` put the current folder there.
        sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")
    return None


def _shown(text: str, command: str) -> int:
    try:
        with told_output():
            print(text)
    except OutputError as error:
        return refused(error, command)
    return 0


def _refused(text: str) -> int:
    print(text, file=sys.stderr)
    return 2
