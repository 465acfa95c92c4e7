"""`logger`, where programs written for neon tell what they do."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import cast

DISPLAY = 41
"""The level of what is to be read in any case: above that of errors."""


class NeonLogger(logging.Logger):
    """A logger with one method more.

    display: as `info`, at level 41.
    """

    display: Callable[..., None]


def _make() -> NeonLogger:
    """The logger "neon". The method is one of this object: other loggers, whose class is Python's, have none."""
    logging.addLevelName(DISPLAY, "DISPLAY")
    made = cast(NeonLogger, logging.getLogger("neon"))
    made.display = functools.partial(made.log, DISPLAY)
    return made


logger = _make()
