"""`python -m atled.compat.keras_backend SCRIPT ARGUMENTS...`: run a script for a Keras-style backend on atled."""

from __future__ import annotations

import sys

from atled.compat.keras_backend import install, uninstall
from atled.compat.running import run
from atled.errors import four_parts

_COMMAND = "python -m atled.compat.keras_backend"
_USAGE = f"""\
usage: {_COMMAND} [--as NAME] [--context BACKEND] SCRIPT ARGUMENTS...
       {_COMMAND} [--as NAME] [--context BACKEND] -m MODULE ARGUMENTS...

Run a script (or a module) that was written for a Keras-style functional backend on atled.

  --as NAME          what the script imports the backend by, such as keras.backend (default: natural_bm.backend)
  --context BACKEND  the atled backend that computes, such as opencl (default: the best one that is installed)"""
_MEANT = {"--as": "no module is named", "--context": "no backend is named"}
_SUCH_AS = {"--as": "keras.backend", "--context": "cpu"}


def main() -> int | None:
    """Run what the command line names, and give the exit status where nothing ran."""
    words = sys.argv[1:]
    try:
        options = _options(words)
        if options:
            uninstall()  # of the name that importing the package took over
            given = {"name": options.get("--as"), "context": options.get("--context")}
            install(**{key: value for key, value in given.items() if value is not None})
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return run(words, _USAGE, _COMMAND)


def _options(words: list[str]) -> dict[str, str]:
    """Options in front of the script, which are taken from the words; ValueError for one without its value."""
    found = {}
    while words and words[0].partition("=")[0] in _MEANT:
        option, equals, value = words.pop(0).partition("=")
        if not equals and words:
            value = words.pop(0)
        if not value:
            raise ValueError(four_parts(option, _MEANT[option], "", f"give its name, such as {_SUCH_AS[option]}"))
        found[option] = value
    return found


if __name__ == "__main__":
    sys.exit(main())
