"""The folder for the demo's files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from atled.errors import CommandError, four_parts, in_words


def open_folder(path: str) -> Path:
    """Make the folder if it is not there, and see that files can be written to it; CommandError if they cannot."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise CommandError(
            four_parts(
                f"--out {path}",
                "no files can be written there",
                in_words(error),
                "name another folder, or make this one writable",
            )
        ) from error
    return folder
