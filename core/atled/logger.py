"""`logger`, where the library and NNabla's scripts write what they have to tell.

A standard `logging.Logger` named "atled". Its level, its format and its file come from section [LOG] of the
configuration. It shows messages on stderr unless the program has set up logging of its own.

The module answers like the logger as well, for `from nnabla import logger`.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from atled.config import nnabla_config
from atled.errors import four_parts, listing

__all__ = ["logger"]

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class _Console(logging.StreamHandler[Any]):  # Any: whatever stands in for stderr
    """Writes to the present `sys.stderr`, while the program has no handlers of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            self.stream = sys.stderr
            super().emit(record)


def _level(name: str) -> int:
    text = nnabla_config.get("LOG", name)
    if text not in _LEVELS:
        raise ValueError(
            four_parts(
                f"setting {name} = {text} in section [LOG]", "no such level", "", f"use one of {listing(_LEVELS)}"
            )
        )
    level: int = getattr(logging, text)
    return level


def _make() -> logging.Logger:
    made = logging.getLogger("atled")
    if made.handlers:  # the module was imported before
        return made
    made.setLevel(_level("log_console_level"))
    console = _Console()
    console.setLevel(made.level)
    console.setFormatter(logging.Formatter(nnabla_config.get("LOG", "log_console_format")))
    made.addHandler(console)
    path = nnabla_config.get("LOG", "log_file_name")
    if path:
        file = logging.FileHandler(path, delay=True)
        file.setLevel(_level("log_file_level"))
        file.setFormatter(logging.Formatter(nnabla_config.get("LOG", "log_file_format")))
        made.addHandler(file)
        made.setLevel(min(made.level, file.level))
    return made


logger = _make()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(logger, name)


def __dir__() -> list[str]:
    return sorted(__all__)
