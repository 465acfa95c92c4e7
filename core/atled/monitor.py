"""Monitors: training progress as text files and pictures in one folder, in NNabla's formats."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.errors import did_you_mean, four_parts
from atled.logger import logger
from atled.utils.image_utils import imsave
from atled.variable import Variable

__all__ = [
    "Monitor",
    "MonitorImage",
    "MonitorImageTile",
    "MonitorSeries",
    "MonitorTimeElapsed",
    "plot_series",
    "plot_time_elapsed",
    "tile_images",
]

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Monitor:
    """The folder for the files of monitors; made if it is not there."""

    def __init__(self, save_path: str | os.PathLike[str]) -> None:
        self._save_path = os.fspath(save_path)
        os.makedirs(self._save_path, exist_ok=True)

    @property
    def save_path(self) -> str:
        """The path of the folder."""
        return self._save_path


class _Text:
    """What series and timer share: a text file, empty at first, and a line in every interval.

    interval: a line is due when the index is that much above the one of the last line.
    """

    _suffix = ""

    def __init__(self, name: str, monitor: Monitor | None, interval: int, verbose: bool) -> None:
        self.name = name
        self.interval = interval
        self.verbose = verbose
        self.flush_at = -1
        self.sp: str | None = None
        if monitor is not None:
            self.sp = os.path.join(monitor.save_path, _file_name(name)) + self._suffix
            with open(self.sp, "w", encoding="utf-8"):
                pass

    def _is_due(self, index: int) -> bool:
        return index - self.flush_at >= self.interval

    def _write(self, index: int, line: str, message: str) -> None:
        if self.verbose:
            logger.info("iter=%s {%s}=%s", index, self.name, message)
        if self.sp is not None:
            with open(self.sp, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        self.flush_at = index


class MonitorSeries(_Text):
    """A series of numbers: lines "index value" in `<name>.series.txt`, spaces in the name becoming "-".

        loss_series = MonitorSeries("training loss", Monitor("out"), interval=10)
        loss_series.add(i, loss.d)

    Args:
        name: of the series.
        monitor: the folder; None: no file.
        interval: values are averaged over that many indices.
        verbose: write to the log too.
    """

    _suffix = ".series.txt"

    def __init__(self, name: str, monitor: Monitor | None = None, interval: int = 1, verbose: bool = True) -> None:
        super().__init__(name, monitor, interval, verbose)
        self.buf: list[Any] = []

    def add(self, index: int, value: Any) -> None:
        """Add a value; an array counts by its mean. With the last one of an interval, the mean of all is written."""
        # A copy: `loss.d` would show the values of later steps when the interval ends.
        self.buf.append(np.mean(value))
        if self._is_due(index):
            mean = np.mean(self.buf)
            self._write(index, f"{index} {mean:g}", str(mean))
            self.buf = []


class MonitorTimeElapsed(_Text):
    """Elapsed time: lines "index seconds iterations total" in `<name>.timer.txt`.

    seconds: since the last line.  iterations: between the two indices.  total: seconds since the monitor was made.

    Args: as of `MonitorSeries`.
    """

    _suffix = ".timer.txt"

    def __init__(self, name: str, monitor: Monitor | None = None, interval: int = 100, verbose: bool = True) -> None:
        super().__init__(name, monitor, interval, verbose)
        self.start = time.perf_counter()
        self.lap = self.start

    def add(self, index: int) -> None:
        """Tell that an index is reached; writes at the end of an interval."""
        if self._is_due(index):
            now = time.perf_counter()
            elapsed, total, count = now - self.lap, now - self.start, index - self.flush_at
            self.lap = now
            self._write(index, f"{index} {elapsed} {count} {total}", f"{elapsed}[sec/{count}iter] {total}[sec]")


class MonitorImage:
    """Pictures of a batch of images, each in a file `<name>/<index>-<number>.png`.

    Args:
        name: of the series, and of the folder of its files.
        monitor: the folder around that.
        interval: pictures are written at index 0 and at the last index of each interval.
        verbose: write to the log too.
        num_images: how many of the batch.
        normalize_method: maps a batch (N, C, H, W) to numbers from 0 to 1; None: by its least and greatest number.
    """

    def __init__(
        self,
        name: str,
        monitor: Monitor,
        interval: int = 1000,
        verbose: bool = True,
        num_images: int = 16,
        normalize_method: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.name = name
        self.interval = interval
        self.verbose = verbose
        self.num_images = num_images
        self.normalize_method = normalize_method or self.default_normalize_method
        self.save_dir = os.path.join(monitor.save_path, _file_name(name))
        os.makedirs(self.save_dir, exist_ok=True)

    @staticmethod
    def default_normalize_method(x: np.ndarray) -> np.ndarray:
        """Least number to 0, greatest to 1; all to 0 where they are equal."""
        least, greatest = x.min(), x.max()
        return (x - least) / (greatest - least) if greatest > least else np.zeros_like(x, np.float32)

    def add(self, index: int, var: Variable | NdArray | np.ndarray) -> None:
        """Write pictures of a batch (N, ..., C, H, W) if they are due.

        Of more than three channels the first three are shown; two are shown as red and green on full blue.
        ValueError for less than three axes; TypeError for what is no array.
        """
        if index != 0 and (index + 1) % self.interval != 0:
            return
        written = self._save(index, self._images(var))
        if self.verbose:
            logger.info("iter=%s {%s} are written to %s.", index, self.name, written)

    def _images(self, var: Variable | NdArray | np.ndarray) -> np.ndarray:
        """The pictures, (N, C, H, W) from 0 to 1 with C 1 or 3."""
        values = var.d if isinstance(var, Variable) else var.data if isinstance(var, NdArray) else var
        asked = f"{type(self).__name__} {self.name!r}"
        if not isinstance(values, np.ndarray):
            raise TypeError(four_parts(asked, f"got {type(var).__name__}", "", "give a Variable or an array"))
        if values.ndim < 3:
            raise ValueError(four_parts(asked, f"got shape {values.shape}", "", "give images as (N, ..., C, H, W)"))
        images = self.normalize_method(values.reshape(-1, *values.shape[-3:])[: self.num_images].copy())
        channels = images.shape[1]
        if channels == 2:
            blue = np.ones((len(images), 1, *images.shape[2:]), images.dtype)
            return np.concatenate([images, blue], axis=1)
        return images[:, :3]

    def _save(self, index: int, images: np.ndarray) -> str:
        """Write the files; what to call them in the log."""
        path = os.path.join(self.save_dir, f"{index:06d}-")
        for number, image in enumerate(images):
            imsave(f"{path}{number:03d}.png", image, channel_first=True)
        return f"{path}*.png"


class MonitorImageTile(MonitorImage):
    """Pictures of a batch of images as tiles of one file, `<name>/<index>.png`. Arguments: as of `MonitorImage`."""

    def _save(self, index: int, images: np.ndarray) -> str:
        path = os.path.join(self.save_dir, f"{index:06d}.png")
        imsave(path, tile_images(images))
        return path


def tile_images(data: np.ndarray, padsize: int = 1, padval: float = 0) -> np.ndarray:
    """Images side by side as one: a square of as many rows as columns, row by row.

    Args:
        data: (N, C, H, W).
        padsize: pixels right of and below each tile.
        padval: their value; places without an image hold it too.

    Returns (n (H + padsize), n (W + padsize), C), n * n being the first square that holds N; for C 1 without that axis.

    Raises ValueError for another count of axes.
    """
    if data.ndim != 4:
        raise ValueError(
            four_parts(f"tile_images of shape {data.shape}", "not a batch of images", "", "give (N, C, H, W)")
        )
    count, channels, height, width = data.shape
    side = int(np.ceil(np.sqrt(count)))
    tiles = np.full((side * side, channels, height + padsize, width + padsize), padval, data.dtype)
    tiles[:count, :, :height, :width] = data
    grid = tiles.reshape(side, side, *tiles.shape[1:]).transpose(0, 3, 1, 4, 2)
    picture = grid.reshape(side * tiles.shape[2], side * tiles.shape[3], channels)
    return picture[..., 0] if channels == 1 else picture


def plot_series(
    filename: str | os.PathLike[str],
    plot_kwargs: Mapping[str, Any] | None = None,
    *,
    save: str | os.PathLike[str] | None = None,
) -> Any:
    """Draw what a `MonitorSeries` wrote.

    Args:
        filename: the `.series.txt`.
        plot_kwargs: for matplotlib's `plot`.
        save: a file to write the picture to, such as a `.png`; None: draw into matplotlib's present figure.

    Raises ValueError, naming the line, for a damaged file; ImportError where matplotlib is missing.
    """
    table = _read_table(filename, 2)
    return _plot(filename, table[:, 0], table[:, 1], "value", plot_kwargs, save)


def plot_time_elapsed(
    filename: str | os.PathLike[str],
    elapsed: bool = False,
    unit: str = "s",
    plot_kwargs: Mapping[str, Any] | None = None,
    *,
    save: str | os.PathLike[str] | None = None,
) -> Any:
    """Draw what a `MonitorTimeElapsed` wrote.

    Args:
        filename: the `.timer.txt`.
        elapsed: the total time instead of that of each interval.
        unit: "s", "m", "h" or "d".
        plot_kwargs, save: as of `plot_series`, and so are the errors.
    """
    if unit not in _SECONDS:
        raise ValueError(
            four_parts(
                f"plot_time_elapsed(unit={unit!r})",
                "no such unit",
                "known are s, m, h and d",
                did_you_mean(unit, _SECONDS, "use one of those"),
            )
        )
    table = _read_table(filename, 4)
    seconds = table[:, 3 if elapsed else 1]
    return _plot(filename, table[:, 0], seconds / _SECONDS[unit], f"time [{unit}]", plot_kwargs, save)


def _read_table(filename: str | os.PathLike[str], width: int) -> np.ndarray:
    """The numbers of a monitor's file, (lines, width) float64."""
    rows = []
    with open(filename, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = [float(word) for word in line.split()]
            except ValueError:
                row = []
            if len(row) != width:
                raise ValueError(
                    four_parts(
                        f"monitor file {os.fspath(filename)!r}, line {number}",
                        f"{line.strip()!r} is not {width} numbers",
                        "",
                        "name a file that a monitor of this kind wrote",
                    )
                )
            rows.append(row)
    return np.array(rows).reshape(-1, width)


def _plot(
    filename: str | os.PathLike[str],
    x: np.ndarray,
    y: np.ndarray,
    label: str,
    options: Mapping[str, Any] | None,
    save: str | os.PathLike[str] | None,
) -> Any:
    try:
        import matplotlib  # noqa: F401  # lazily: an optional library; here only to say what is missing
    except ImportError as error:
        raise ImportError(
            four_parts(
                f"drawing {os.fspath(filename)!r}",
                f"matplotlib cannot be imported ({error})",
                "",
                "pip install matplotlib",
            )
        ) from error
    if save is None:
        import matplotlib.pyplot as plt

        return plt.plot(x, y, **(options or {}))
    # Without pyplot, whose state belongs to the program.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((7, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    lines = axes.plot(x, y, **(options or {}))
    axes.set_title(os.path.basename(filename))
    axes.set_xlabel("iteration")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)
    figure.savefig(save, dpi=120)
    return lines


def _file_name(name: str) -> str:
    return name.replace(" ", "-")


def __dir__() -> list[str]:
    return sorted(__all__)
