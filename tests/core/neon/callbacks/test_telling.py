"""What people see."""

import io
import logging
import sys

import pytest

from atled.neon.callbacks import Callbacks


def test_there_is_a_line_per_epoch_where_there_is_no_terminal(fitted, losses, metric, capsys):
    fitted(progress_bar=True, eval_set=losses, eval_freq=1, metric=metric)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("epoch 1/3  train cost 0.5000  loss 1.0000  Accuracy 0.2500  [")


def test_terminal_has_a_bar(fitted, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    fitted(progress_bar=True)
    shown = terminal.getvalue()
    assert "epoch 3/3" in shown
    assert "2/2" in shown
    assert shown.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_logger_tells_the_numbers(fitted, caplog):
    with caplog.at_level(logging.INFO, "neon"):
        fitted(epochs=1)
    assert "Epoch 0 complete.  train cost 0.5000" in caplog.text


def test_log_token_is_warned_of(model, caplog):
    with caplog.at_level(logging.WARNING, "neon"):
        Callbacks(model, log_token="x")
    assert "log_token has no effect" in caplog.text


@pytest.mark.parametrize("bar", [True, False])
def test_bar_is_chosen(model, bar):
    kinds = [type(each).__name__ for each in Callbacks(model, progress_bar=bar).callbacks]
    assert ("ProgressBarCallback" in kinds) == bar
