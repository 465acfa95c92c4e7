"""`python -m atled.compat.nnabla SCRIPT ARGUMENTS...`: run a script for NNabla as `python SCRIPT ...` would."""

from __future__ import annotations

import sys

from atled.compat.running import run

_USAGE = """\
usage: python -m atled.compat.nnabla SCRIPT ARGUMENTS...
       python -m atled.compat.nnabla -m MODULE ARGUMENTS...

Run a script (or a module) that was written for NNabla on atled."""

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], _USAGE, "python -m atled.compat.nnabla"))
