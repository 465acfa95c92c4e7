"""The data sources: a function, a CSV table, a folder of cache files, several sources in a row."""

from __future__ import annotations

import csv
import io
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from atled.config import whole_number
from atled.errors import four_parts, listing, shortened
from atled.files.opening import open_regular
from atled.named_tuple import NamedTuple
from atled.utils.data_files import h5_lengths, read_arrays
from atled.utils.data_source import DataSource, _drop_old, permuted_blocks
from atled.utils.data_source_loader import FileReader, load

__all__ = ["CacheDataSource", "ConcatDataSource", "CsvDataSource", "SimpleDataSource"]

_UINT_SCALES = {np.dtype(np.uint8): 1.0 / 255.0, np.dtype(np.uint16): 1.0 / 65535.0}


class SimpleDataSource(DataSource):
    """Samples from a function of their number.

    Args:
        load_func: `load_func(i)` gives the arrays of sample i, as a tuple or list; called from other threads.
        num_examples: count of samples.
        shuffle: whether each epoch has an order of its own, drawn by chance.
        rng: a numpy.random.RandomState; None: one seeded by 313, or by `atled.seed`.
    """

    def __init__(
        self,
        load_func: Callable[[int], Sequence[Any]],
        num_examples: int,
        shuffle: bool = False,
        rng: np.random.RandomState | None = None,
    ) -> None:
        super().__init__(shuffle=shuffle, rng=rng)
        self._load_func = load_func
        self._size = num_examples
        self._generation = 0
        self._variables = [f"x{number}" for number in range(len(load_func(0)))]
        self._generate_order(0)

    def _get_data(self, position: int) -> Sequence[Any]:
        return self._get_data_of_generation(position, self._generation)

    def _get_data_of_generation(self, position: int, generation: int) -> Sequence[Any]:
        order = self._slice_orders.get(generation)
        if order is None:  # not drawn yet, or dropped: the base draws it or raises
            return super()._get_data_of_generation(position, generation)
        return self._load_func(int(order[position]))

    def _generate_order(self, generation: int) -> None:
        with self._slice_lock:
            if generation > max(self._slice_orders, default=-1):
                self._slice_orders[generation] = self._permutation() if self._shuffle else np.arange(self._size)
                _drop_old(self._slice_orders)

    def apply_order(self) -> None:
        """Go on to the next order."""
        self._generation += 1
        self._generate_order(self._generation)


class _Column(NamedTuple):
    """Header of one column, "NAME[__INDEX][:LABEL]".  is_part: whether it has an index."""

    title: str
    variable: str
    is_part: bool


class CsvDataSource(DataSource):
    """Samples from the lines of a table; fields are numbers, or names of files relative to the table's folder.

    The first line names the variables, as "NAME", "NAME:LABEL", or "NAME__INDEX:LABEL" for a vector of several columns;
    columns whose name begins with # are left out. A number alone is a vector of one. Files are read by
    their suffix: images as (C, H, W), `.npy`, `.csv`, `.wav`.

    Args:
        filename: of the table, UTF-8.
        shuffle: whether each epoch has an order of its own, drawn by chance.
        rng: a numpy.random.RandomState; None: one seeded by 313, or by `atled.seed`.
        normalize: whether images become numbers from 0 to 1.

    Raises:
        ValueError: a damaged table, naming file and line; later, at the sample, a damaged file that it names.
        OSError: a file cannot be read.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str],
        shuffle: bool = False,
        rng: np.random.RandomState | None = None,
        normalize: bool = False,
    ) -> None:
        super().__init__(shuffle=shuffle, rng=rng)
        self._filename = os.fspath(filename)
        self._normalize = normalize
        self._reader = FileReader(self._filename)
        self._columns, self._rows, self._lines = self._read_table()
        self._size = len(self._rows)
        self._variables = tuple(dict.fromkeys(column.variable for column in self._columns))
        self._original_source_uri = self._filename
        self._original_order = list(range(self._size))
        self._order = list(range(self._size))
        self.reset()

    def _read_table(self) -> tuple[list[_Column], list[list[str]], list[int]]:
        """Columns, fields of each line, and numbers of the lines."""
        place = f"data table {self._filename!r}"
        with self._reader.open(textmode=True) as file:
            reader = csv.reader(file, strict=True)
            rows, lines = [], []
            try:
                for row in reader:
                    if row:
                        rows.append(row)
                        lines.append(reader.line_num)
            except (csv.Error, UnicodeDecodeError) as error:
                where = f"{place}, line {reader.line_num + isinstance(error, UnicodeDecodeError)}"
                raise ValueError(four_parts(where, f"damaged: {error}", "", "save it as CSV in UTF-8")) from error
        if len(rows) < 2:
            found = "it has no line of data" if rows else "it is empty"
            raise ValueError(four_parts(place, found, "", "give a line of names, then a line per sample"))
        for row, line in zip(rows, lines, strict=True):
            if len(row) != len(rows[0]):
                raise ValueError(
                    four_parts(
                        f"{place}, line {line}",
                        f"it has {len(row)} fields, the first line has {len(rows[0])}",
                        "",
                        "give each line a field per column",
                    )
                )
        kept = [number for number, title in enumerate(rows[0]) if not title.startswith("#")]
        columns = [_column(place, rows[0][number]) for number in kept]
        self._check_columns(place, columns)
        return columns, [[row[number] for number in kept] for row in rows[1:]], lines[1:]

    @staticmethod
    def _check_columns(place: str, columns: Sequence[_Column]) -> None:
        if not columns:
            raise ValueError(four_parts(f"{place}, line 1", "all columns are comments", "", "name a column without #"))
        whole = [column.variable for column in columns if not column.is_part]
        parts = {column.variable for column in columns if column.is_part}
        for name in whole:
            if name in parts or whole.count(name) > 1:
                raise ValueError(
                    four_parts(
                        f"{place}, line 1",
                        f"several columns are variable {name!r}",
                        "",
                        f"name the parts of a vector {name}__0, {name}__1 and so on",
                    )
                )

    def _get_data(self, position: int) -> Sequence[Any]:
        number = self._order[position]
        values: dict[str, Any] = {}
        for column, text in zip(self._columns, self._rows[number], strict=True):
            value = self._value(text, column, self._lines[number])
            if column.is_part:
                values.setdefault(column.variable, []).append(value)
            else:
                values[column.variable] = [value] if isinstance(value, float) else value
        return tuple(values.values())

    def _value(self, text: str, column: _Column, line: int) -> Any:
        try:
            return float(text)
        except ValueError:
            pass  # the name of a file, then
        place = f"data table {self._filename!r}, line {line}, column {column.title!r}"
        suffix = os.path.splitext(text)[1]
        try:
            with self._reader.open(text) as file:
                return load(suffix)(file, normalize=self._normalize)
        except ValueError as error:
            raise ValueError(f"{place}: {shortened(text)}\n{error}") from error
        except OSError as error:
            reason = str(error.strerror).partition("\n")[0]
            raise type(error)(
                error.errno,
                four_parts(
                    place,
                    f"{shortened(text)} is not a number, and no file that can be read ({reason})",
                    f"looked for {shortened(self._reader.path(text))}",
                    "mend the field; names of files are relative to the table",
                ),
            ) from error

    def reset(self) -> None:
        """Begin an epoch, in a new order where it shuffles."""
        if self._shuffle:
            self._order = list(self._permutation())
        self._generation += 1
        super().reset()


def _column(place: str, title: str) -> _Column:
    name, _, _ = title.partition(":")
    variable, mark, _ = name.partition("__")
    if not variable:
        raise ValueError(
            four_parts(f"{place}, line 1, column {title!r}", "it names no variable", "", "write NAME[__INDEX][:LABEL]")
        )
    return _Column(title, variable, bool(mark))


class CacheDataSource(DataSource):
    """Samples from a folder that `DataSourceWithFileCache`, or NNabla, has written.

    The next files are read ahead by threads, as many as `cache_file_cache_num_of_threads` of the configuration says.

    Args:
        cachedir: the folder.
        shuffle: whether files, and samples within a file, come in an order drawn by chance.
        rng: a numpy.random.RandomState; None: one seeded by 313, or by `atled.seed`.
        normalize: whether uint8 and uint16 become float32 from 0 to 1.

    Raises:
        ValueError: damaged, naming file, line or variable; the files themselves are looked at when they are needed.
        OSError: a file cannot be read.
    """

    def __init__(
        self,
        cachedir: str | os.PathLike[str],
        shuffle: bool = False,
        rng: np.random.RandomState | None = None,
        normalize: bool = False,
    ) -> None:
        super().__init__(shuffle=shuffle, rng=rng)
        self._cachedir = os.fspath(cachedir)
        self._normalize = normalize
        self._lock = threading.Lock()
        self._current: tuple[int, Sequence[np.ndarray]] = (-1, ())
        self._files = self._find_files()
        threads = whole_number("DATA_ITERATOR", "cache_file_cache_num_of_threads")
        self._ahead_count = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="atled-cache") if threads else None
        self._ahead: dict[int, Future[list[np.ndarray]]] = {}
        self._original_order = [(path, index) for path, length in self._files for index in range(length)]
        self._size = len(self._original_order)
        self.reset()

    def _find_files(self) -> list[tuple[str, int]]:
        """Paths of the files with their counts of samples; finds the variables too."""
        names = [row[0] for row in self._table("cache_info.csv", 1)]
        index = self._table("cache_index.csv", 2)
        if not index:
            reader = FileReader(os.path.join(self._cachedir, ""))
            index = [[name, str(self._common_length(name))] for name in reader.listdir()]
        if not index:
            raise ValueError(
                four_parts(
                    f"data cache {self._cachedir!r}",
                    "it has neither a cache_index.csv nor .h5 files",
                    "",
                    "name the folder that DataSourceWithFileCache wrote",
                )
            )
        if not names:
            names = list(h5_lengths(self._path(index[0][0])))
        self._variables = names
        return [self._file(name, int(count)) for name, count in index]

    def _file(self, name: str, count: int) -> tuple[str, int]:
        """Path of a file and its count of samples, which cannot be more than it has bytes."""
        path = self._path(name)
        if os.path.isfile(path) and count > os.path.getsize(path):  # a missing one is an error when it is opened
            raise ValueError(
                four_parts(
                    f"cache file {path!r}",
                    f"it has {os.path.getsize(path)} bytes, and shall hold {count} samples",
                    "",
                    "remove the folder, and make the cache again",
                )
            )
        return path, count

    def _table(self, name: str, width: int) -> list[list[str]]:
        """The rows of a table of the folder; none where it is not there."""
        path = os.path.join(self._cachedir, name)
        if not os.path.exists(path):
            return []
        rows: list[list[str]] = []
        with open_regular(f"data cache, file {path!r}", path) as binary:
            reader = csv.reader(io.TextIOWrapper(binary, encoding="utf-8-sig", newline=""))
            try:
                for row in reader:
                    if len(row) != width or not row[0] or (width == 2 and not _is_count(row[1])):
                        raise ValueError(shortened(row))
                    rows.append(row)
            except (ValueError, csv.Error) as error:  # ValueError: not UTF-8, too
                raise ValueError(
                    four_parts(
                        f"data cache, file {path!r}, line {reader.line_num}",
                        f"damaged: {error}",
                        "",
                        "remove the folder, and make the cache again",
                    )
                ) from error
        return rows

    def _path(self, name: str) -> str:
        if os.path.basename(name) != name or name in (os.curdir, os.pardir):
            raise ValueError(
                four_parts(
                    f"data cache {self._cachedir!r}",
                    f"it names {name!r}, which is not in the folder",
                    "",
                    "make the cache again; its files lie in one folder",
                )
            )
        return os.path.join(self._cachedir, name)

    def _common_length(self, name: str) -> int:
        lengths = h5_lengths(self._path(name))
        if len(set(lengths.values())) != 1:
            raise ValueError(
                four_parts(
                    f"cache file {self._path(name)!r}",
                    f"its variables differ in their counts of samples: {lengths}",
                    "",
                    "remove the folder, and make the cache again",
                )
            )
        return next(iter(lengths.values()))

    def _get_data(self, position: int) -> Sequence[Any]:
        block, index = self._places[position]
        with self._lock:
            if self._current[0] != block:
                self._current = (block, self._columns(block))
            columns = self._current[1]
        return [self._scaled(column[index]) for column in columns]

    def _scaled(self, value: Any) -> Any:
        scale = _UINT_SCALES.get(value.dtype) if self._normalize else None
        return value if scale is None else value.astype(np.float32) * np.float32(scale)

    def _columns(self, block: int) -> list[np.ndarray]:
        """The arrays of the block of that number; reading of the next ones begins."""
        ready = self._ahead.pop(block, None)
        for number in [number for number in self._ahead if number < block]:
            del self._ahead[number]
        if self._pool is not None:
            for number in range(block + 1, min(block + 1 + self._ahead_count, len(self._sequence))):
                if number not in self._ahead:
                    self._ahead[number] = self._pool.submit(self._read, number)
        return self._read(block) if ready is None else ready.result()

    def _read(self, block: int) -> list[np.ndarray]:
        path, length = self._files[self._sequence[block]]
        return read_arrays(path, self._variables, length)

    def _permutation(self) -> np.ndarray:
        return permuted_blocks([self._files[file][1] for file in self._sequence], self._rng)

    def reset(self) -> None:
        """Begin an epoch, in a new order of files and within files where it shuffles."""
        with self._lock:
            places: list[tuple[int, int]] = []
            sequence = list(range(len(self._files)))
            if self._shuffle:
                sequence = [int(file) for file in self._rng.permutation(len(self._files))]
            for block, file in enumerate(sequence):
                length = self._files[file][1]
                order: Iterable[int] = self._rng.permutation(length) if self._shuffle else range(length)
                places += [(block, int(index)) for index in order]
            # Which file each block of an epoch is; samples by (block, row), so that reading ahead follows the order.
            self._sequence = sequence
            self._places = places
            self._order = [(self._files[sequence[block]][0], index) for block, index in places]
            self._current = (-1, ())
            self._ahead.clear()
        self._generation += 1
        super().reset()

    def close(self) -> None:
        """End the threads that read ahead."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        super().close()


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20  # int() refuses thousands of digits


class ConcatDataSource(DataSource):
    """Several sources as one.

    Args:
        data_source_list: the sources, of equal variables; their own order stays as it is.
        shuffle: whether each epoch has an order of its own, drawn by chance over all samples.
        rng: a numpy.random.RandomState; None: one seeded by 313, or by `atled.seed`.

    Raises ValueError for no sources, or sources of different variables.
    """

    def __init__(
        self, data_source_list: Sequence[DataSource], shuffle: bool = True, rng: np.random.RandomState | None = None
    ) -> None:
        super().__init__(shuffle=shuffle, rng=rng)
        self._data_sources = list(data_source_list)
        known = [list(source.variables) for source in self._data_sources]
        if not known or any(names != known[0] for names in known):
            raise ValueError(
                four_parts(
                    f"{len(known)} data sources as one",
                    "there is none" if not known else "their variables differ",
                    [listing(names) for names in known],
                    "give sources of equal variables",
                )
            )
        self._starts = np.cumsum([0, *(source.size for source in self._data_sources)])
        self._size = int(self._starts[-1])
        self._variables = self._data_sources[0].variables
        self.reset()

    def _get_data(self, position: int) -> Sequence[Any]:
        index = int(self._indexes[position])
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self._data_sources[number]._get_data(index - int(self._starts[number]))

    def reset(self) -> None:
        """Begin an epoch, in a new order where it shuffles."""
        self._indexes = self._permutation() if self._shuffle else np.arange(self._size)
        super().reset()

    def close(self) -> None:
        """Close all of them."""
        if not self._closed:
            for source in self._data_sources:
                source.close()
        super().close()


def __dir__() -> list[str]:
    return sorted(__all__)
