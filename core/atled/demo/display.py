"""The display while the demo trains: a live bar in a terminal, else a line per epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Protocol

from atled.demo.training import Display, Epoch
from atled_contexts import Preparation

_LINE_EVERY_S = 5.0  # between lines about preparation, where there is no bar


class Screen(Display, Protocol):
    """A display that shows preparation as well."""

    def say(self, text: str) -> None:
        """Show a line and leave it there."""

    def prepare(self, report: Preparation, count: int) -> None:
        """A plugin reports preparation; `count` pieces are ready so far."""


@contextmanager
def open_screen(stream: IO[str], epochs: int, steps: int) -> Iterator[Screen]:
    """A bar if the stream is a terminal, else lines.

    epochs: count of epochs.  steps: count of steps in each.
    """
    # Lazy: rich is an optional library.
    from rich.console import Console

    console = Console(file=stream, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        yield Lines(lambda text: print(text, file=stream, flush=True), epochs)
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console) as progress:
        yield Bar(progress, epochs, steps)


class Lines:
    """One line per epoch, and one now and then while something is prepared.

    write: takes a line without its end.
    """

    def __init__(self, write: Callable[[str], None], epochs: int) -> None:
        self._write = write
        self._epochs = epochs
        self._said_at: float | None = None

    def say(self, text: str) -> None:
        self._write(text)

    def prepare(self, report: Preparation, count: int) -> None:
        now = time.monotonic()
        if self._said_at is None:
            self._write(f"{report.plugin} prepares its kernels, starting with {report.name} ...")
        elif now - self._said_at >= _LINE_EVERY_S:
            self._write(f"{report.plugin} prepares {report.name}, {count} done ...")
        else:
            return
        self._said_at = now

    def step(self, epoch: int, loss: float, images_per_second: float) -> None:
        pass

    def epoch(self, number: int, epoch: Epoch) -> None:
        title = f"epoch {number:{len(str(self._epochs))}}/{self._epochs}"
        self._write(f"{title}  {_figures(epoch.loss, epoch.accuracy, epoch.images_per_second)}")


class Bar:
    """A bar over all steps, and a second one while something is prepared.

    progress: a rich.progress.Progress whose columns show the field `figures`.
    """

    # `Any`: the type is that of an optional library.
    def __init__(self, progress: Any, epochs: int, steps: int) -> None:
        self._progress = progress
        self._epochs = epochs
        self._accuracy: float | None = None
        self._training = progress.add_task(self._title(1), total=epochs * steps, figures="")
        self._preparing = progress.add_task("preparing", total=None, figures="", visible=False)
        self._shows_preparation = False

    def _title(self, epoch: int) -> str:
        return f"epoch {epoch:{len(str(self._epochs))}}/{self._epochs}"

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, soft_wrap=True)

    def prepare(self, report: Preparation, count: int) -> None:
        self._shows_preparation = True
        self._progress.update(
            self._preparing,
            description="preparing",
            figures=f"{report.plugin}: {report.name}, {count} done",
            visible=True,
        )
        # At once: the thread that draws gets few chances while a compiler works.
        self._progress.refresh()

    def step(self, epoch: int, loss: float, images_per_second: float) -> None:
        if self._shows_preparation:
            self._shows_preparation = False
            self._progress.update(self._preparing, visible=False)
        figures = _figures(loss, self._accuracy, images_per_second)
        self._progress.update(self._training, advance=1, description=self._title(epoch), figures=figures)

    def epoch(self, number: int, epoch: Epoch) -> None:
        self._accuracy = epoch.accuracy
        figures = _figures(epoch.loss, epoch.accuracy, epoch.images_per_second)
        self._progress.update(self._training, figures=figures)


def _figures(loss: float, accuracy: float | None, images_per_second: float) -> str:
    shown = "" if accuracy is None else f"  accuracy {accuracy:.1%}"
    return f"loss {loss:.4f}{shown}  {images_per_second:,.0f} images/s"
