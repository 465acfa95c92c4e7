"""`python -m atled.compat.neon SCRIPT ARGUMENTS...`: run a script for neon as `python SCRIPT ...` would."""

from __future__ import annotations

import sys

from atled.compat.neon import install
from atled.compat.running import run
from atled.errors import four_parts

_COMMAND = "python -m atled.compat.neon"
_USAGE = f"""\
usage: {_COMMAND} [--context BACKEND] SCRIPT ARGUMENTS...
       {_COMMAND} [--context BACKEND] -m MODULE ARGUMENTS...

Run a script (or a module) that was written for neon on atled.

  --context BACKEND  the atled backend that "cpu", "mkl", "gpu" and the default of gen_backend mean, such as opencl"""


def main() -> int | None:
    """Run what the command line names, and give the exit status where nothing ran."""
    words = sys.argv[1:]
    if words and words[0].partition("=")[0] == "--context":
        _, equals, name = words.pop(0).partition("=")
        if not equals and words:
            name = words.pop(0)
        try:
            if not name:
                raise ValueError(four_parts("--context", "no backend is named", "", "give its name, such as cpu"))
            install(name)
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
    return run(words, _USAGE, _COMMAND)


if __name__ == "__main__":
    sys.exit(main())
