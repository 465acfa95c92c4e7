"""The logger of programs."""

import logging

from atled.neon import logger


def test_display_is_a_level_above_errors(caplog):
    logger.display("%d of %d", 1, 2)
    (record,) = caplog.records
    assert (record.name, record.levelno, record.levelname) == ("neon", 41, "DISPLAY")
    assert record.getMessage() == "1 of 2"
    assert record.filename == "test_message_log.py"


def test_other_loggers_stay_as_they_are():
    assert isinstance(logger, logging.Logger)
    assert not hasattr(logging.getLogger("other"), "display")
