"""What one sees of the demo: lines in a file, a bar in a terminal, preparation in both."""

from __future__ import annotations

import io
import time

import pytest

pytest.importorskip("rich", reason="the demo's display needs rich")

from atled.demo import display
from atled.demo.display import Lines, open_screen
from atled.demo.preparing import PreparationLog
from atled.demo.training import Epoch
from atled_contexts import Preparation


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def run(stream):
    with open_screen(stream, epochs=2, steps=1) as screen:
        screen.say("hello [world]")
        screen.prepare(Preparation("some-plugin", 0, 1, "kernel_7"), 3)
        for number in (1, 2):
            screen.step(number, 1.25, 1000.0)
            screen.epoch(number, Epoch(1.0 / number, 0.5, 2000.0))
    return stream.getvalue()


def test_a_file_gets_a_line_per_epoch():
    assert run(io.StringIO()).splitlines() == [
        "hello [world]",
        "some-plugin prepares its kernels, starting with kernel_7 ...",
        "epoch 1/2  loss 1.0000  accuracy 50.0%  2,000 images/s",
        "epoch 2/2  loss 0.5000  accuracy 50.0%  2,000 images/s",
    ]


def test_a_terminal_gets_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    shown = run(Terminal())
    assert "hello [world]" in shown
    assert "preparing" in shown
    assert "some-plugin: kernel_7, 3 done" in shown
    assert "epoch 2/2" in shown
    assert "accuracy 50.0%" in shown
    assert "100%" in shown


def test_lines_about_long_preparation_come_now_and_then(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    written = []
    lines = Lines(written.append, epochs=1)
    for second in range(12):
        now[0] = float(second)
        lines.prepare(Preparation("p", second, 12, f"kernel_{second}"), second)
    assert written == [
        "p prepares its kernels, starting with kernel_0 ...",
        "p prepares kernel_5, 5 done ...",
        "p prepares kernel_10, 10 done ...",
    ]


def test_the_log_counts_pieces_and_their_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    log = PreparationLog()
    for at, done, total in ((1.0, 0, 2), (3.0, 1, 2), (7.0, 2, 2), (20.0, 0, 1), (21.0, 1, 1)):
        now[0] = at
        log(Preparation("p", done, total, "kernel"))
    assert (log.count, log.seconds()) == (3, 7.0)
