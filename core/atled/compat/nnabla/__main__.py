"""`python -m atled.compat.nnabla SCRIPT ARGUMENTS...`: run a script for NNabla as `python SCRIPT ...` would."""

from __future__ import annotations

import os
import runpy
import sys

from atled.errors import four_parts

_USAGE = """\
usage: python -m atled.compat.nnabla SCRIPT ARGUMENTS...
       python -m atled.compat.nnabla -m MODULE ARGUMENTS...

Run a script (or a module) that was written for NNabla on atled."""


def main() -> int | None:
    """Run what the command line names; exceptions of the script pass through. The exit status where nothing ran."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help") or words == ["-m"]:
        print(_USAGE, file=sys.stdout if words and words[0] != "-m" else sys.stderr)
        return 0 if words and words[0] != "-m" else 2
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return None
    script = words[0]
    if not os.path.exists(script):
        asked = f"python -m atled.compat.nnabla {script}"
        print(four_parts(asked, "there is no such file", "", "give the path of a script"), file=sys.stderr)
        return 2
    sys.argv = words
    if os.path.isfile(script):
        # As `python SCRIPT` has it; `python -m` put the current folder there.
        sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__main__")
    return None


if __name__ == "__main__":
    sys.exit(main())
