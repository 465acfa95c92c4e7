"""How long a fresh interpreter takes that imports a library and ends."""

from __future__ import annotations

import subprocess
import sys

from harness.case import Case


def importing(library: str) -> Case:
    """`python -c "import library"`, process start and end included."""
    command = [sys.executable, "-c", f"import {library}"]

    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    # Bytecode is written by the first one, files are then in memory.
    run()
    return Case(run)
