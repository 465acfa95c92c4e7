"""Processes of the Python that a library compared is installed in."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_TIMEOUT_S = 600


def run_in(library: str, command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder; PYTHONPATH is for atled alone, since NNabla's Python is another one.

    Raises subprocess.TimeoutExpired after ten minutes.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" or library == "atled"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
