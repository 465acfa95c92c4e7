"""DataIterator: an endless iterator over batches that a thread reads ahead."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.named_tuple import NamedTuple
from atled.random import data_generator
from atled.utils.data_source import DataSource, DataSourceWithFileCache, DataSourceWithMemoryCache, SlicedDataSource
from atled_contexts import bind

__all__ = ["DataIterator", "EpochCallback"]

EpochCallback = Callable[[int], Any]


class _Batch(NamedTuple):
    """arrays: one per variable; None at the end of the data.  resets: epochs that ended in it.

    position: of the source after it.
    """

    arrays: tuple[np.ndarray, ...] | None
    resets: int
    position: int


class DataIterator:
    """Batches from a data source: `next()` gives a tuple with an array (batch_size, ...) per variable, without end.

    A batch at the end of an epoch is filled up from the beginning of the next one. While the caller works on a
    batch, a thread reads the next one; it ends with `close()`, with the `with` block, when the iterator is forgotten,
    or with the program. What goes wrong in it is raised by `next()`.

    Args:
        data_source: of the samples.
        batch_size: samples per batch.
        rng: a numpy.random.RandomState; kept for NNabla's sake, orders are drawn by the source's own.
        use_thread: whether to read ahead.
        epoch_begin_callbacks, epoch_end_callbacks: called with the number of the epoch, in the thread of the caller of
            `next()`.
        stop_exhausted: end with StopIteration where an epoch has no full batch left, instead of going on.

    Raises ValueError for a source without samples, or a batch_size below 1.
    """

    def __init__(
        self,
        data_source: DataSource,
        batch_size: int,
        rng: np.random.RandomState | None = None,
        use_thread: bool = True,
        epoch_begin_callbacks: Sequence[EpochCallback] = (),
        epoch_end_callbacks: Sequence[EpochCallback] = (),
        stop_exhausted: bool = False,
    ) -> None:
        _check(data_source, batch_size)
        self._rng = data_generator() if rng is None else rng
        self._data_source = data_source
        self._shuffle = data_source.shuffle
        self._variables = data_source.variables
        self._batch_size = batch_size
        self._size = data_source.size
        self._epoch_begin_callbacks = list(epoch_begin_callbacks)
        self._epoch_end_callbacks = list(epoch_end_callbacks)
        self._stop_exhausted = stop_exhausted
        self._current_epoch = 0
        self._position = 0
        self._closed = False
        self._lock = threading.Lock()
        data_source.reset()
        # Not a thread of our own: an executor's threads end once it is garbage, and before the program ends.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="atled-data") if use_thread else None
        self._ahead: Future[_Batch] | None = None
        self._process = os.getpid()
        self._read_ahead()

    def __iter__(self) -> DataIterator:
        return self

    def __next__(self) -> tuple[np.ndarray, ...]:
        return self.next()

    def __enter__(self) -> DataIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread and close the source; a second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._thread is not None and not self._is_forked():
                self._thread.shutdown(wait=True, cancel_futures=True)  # waits for the sample that is being read
            self._ahead = None
            self._data_source.close()

    @property
    def epoch(self) -> int:
        """How many epochs have ended, by the batches that `next()` gave."""
        return self._current_epoch

    @property
    def position(self) -> int:
        """How many samples of the present epoch `next()` gave; what was read ahead does not count."""
        return self._position

    @property
    def size(self) -> int:
        """Count of samples of an epoch."""
        return self._size

    @property
    def variables(self) -> Sequence[str]:
        """Names of the arrays of a batch."""
        return self._variables

    @property
    def batch_size(self) -> int:
        """Samples per batch."""
        return self._batch_size

    def next(self) -> tuple[np.ndarray, ...]:
        """The next batch: a tuple with an array (batch_size, ...) per variable.

        Raises:
            StopIteration: with `stop_exhausted`, where no full batch is left.
            RuntimeError: after `close()`, and in a process that was forked from the one whose thread reads ahead.
            Exception: of the source, while it read a sample; the next call goes on behind that sample.
        """
        if self._is_forked():
            raise RuntimeError(
                four_parts(
                    "DataIterator.next()",
                    f"its thread reads in process {self._process}, from which this one was forked",
                    "a fork takes no other threads along",
                    "make the iterator in the process that uses it, or with use_thread=False",
                )
            )
        with self._lock:
            if self._closed:
                raise RuntimeError(
                    four_parts(
                        "DataIterator.next()", "the iterator is closed", "", "make another one, or close it later"
                    )
                )
            ahead = self._ahead
            try:
                batch = self._read() if ahead is None else ahead.result()
            finally:  # behind an interrupt the thread still reads: nobody else may, before it is done
                if ahead is not None and ahead.done():
                    self._ahead = None
            if batch.arrays is None:
                raise StopIteration
            self._position = batch.position
            self._read_ahead()
        for _ in range(batch.resets):
            self._call(self._epoch_end_callbacks)
            self._current_epoch += 1
            self._call(self._epoch_begin_callbacks)
        return batch.arrays

    def _is_forked(self) -> bool:
        """Whether the thread reads in another process, the one from which this one was forked."""
        return self._thread is not None and self._process != os.getpid()

    def _read_ahead(self) -> None:
        if self._thread is not None:
            self._ahead = self._thread.submit(bind(self._read))

    def _read(self) -> _Batch:
        """Read a batch."""
        source = self._data_source
        if self._stop_exhausted and source.position + self._batch_size > self._size:
            return _Batch(None, 0, source.position)
        samples = []
        resets = 0
        for _ in range(self._batch_size):
            if self._closed:
                return _Batch(None, 0, source.position)  # nobody asks for it
            samples.append(self._sample())
            if source.position >= self._size and not self._stop_exhausted:
                resets += 1
                source.reset()
        if resets:
            source.apply_order()
        columns = (self._stack(number, name, samples) for number, name in enumerate(self._variables))
        return _Batch(tuple(columns), resets, source.position)

    def _sample(self) -> Sequence[Any]:
        position = self._data_source.position
        try:
            sample = self._data_source.next()
        except Exception as error:
            error.add_note(f"while reading the sample at position {position} of {type(self._data_source).__name__}")
            # A sample that cannot be read must not be the next one for ever.
            if self._data_source.position == position:
                self._data_source._position = position + 1
            if self._data_source.position >= self._size and not self._stop_exhausted:
                self._data_source.reset()
            raise
        if sample is None or len(sample) != len(self._variables):
            raise ValueError(
                four_parts(
                    f"the sample at position {position} of {type(self._data_source).__name__}",
                    f"{'None' if sample is None else f'{len(sample)} arrays'} instead of {len(self._variables)} arrays",
                    "",
                    "give a tuple of as many arrays for every sample",
                )
            )
        return sample

    def _stack(self, number: int, name: str, samples: Sequence[Sequence[Any]]) -> np.ndarray:
        values = [sample[number] for sample in samples]
        try:
            return np.array(values)
        except ValueError as error:
            shapes = ", ".join(dict.fromkeys(str(np.shape(value)) for value in values))
            raise ValueError(
                four_parts(
                    f"a batch of variable {name!r}", f"the samples differ in shape: {shapes}", "", "make them equal"
                )
            ) from error

    def slice(
        self,
        rng: np.random.RandomState | None,
        num_of_slices: int | None = None,
        slice_pos: int | None = None,
        slice_start: int | None = None,
        slice_end: int | None = None,
        cache_dir: str | None = None,
        use_cache: bool = False,
        drop_last: bool = False,
    ) -> DataIterator:
        """An iterator over a part of the data: slice number slice_pos of num_of_slices, or slice_start to slice_end.

        Slices of one iterator share its source, which must stay open, and go through its data in one order, so that
        different slices have different samples in every epoch. Do not iterate over the whole meanwhile.

        Args:
            rng: of the caches.
            num_of_slices, slice_pos: how many equal slices there are, and which one this is.
            slice_start, slice_end: a range of positions instead, end excluded.
            cache_dir: folder for a cache of the slice in files.
            use_cache: keep the slice's samples, in memory or in cache_dir; it shuffles them by `rng` then.
            drop_last: where the data does not divide: leave samples out, instead of giving some to two slices.

        Raises ValueError unless exactly one of the two ways was given, and for slices outside the data.
        """
        start, end = self._slice_range(num_of_slices, slice_pos, slice_start, slice_end, drop_last)
        with self._lock:
            if self._ahead is not None and not self._is_forked():
                self._ahead.exception()  # wait: it may move the source to another order
        sliced: DataSource = SlicedDataSource(
            self._data_source, self._data_source.shuffle, slice_start=start, slice_end=end
        )
        if use_cache:
            folder = self._cache_folder() if cache_dir is None else cache_dir
            if folder is not None:
                prefix = f"cache_sliced_{start:08d}_{end:08d}"
                sliced = DataSourceWithFileCache(
                    sliced, cache_dir=folder, cache_file_name_prefix=prefix, shuffle=self._shuffle, rng=rng
                )
            sliced = DataSourceWithMemoryCache(sliced, shuffle=self._shuffle, rng=rng)
        return DataIterator(sliced, self._batch_size)

    def _slice_range(
        self, count: int | None, number: int | None, start: int | None, end: int | None, drop_last: bool
    ) -> tuple[int, int]:
        """Start and end of a slice; where they do not divide evenly, later slices begin earlier to be as long."""
        if count is not None and number is not None and start is None and end is None and 0 <= number < count:
            if drop_last:
                length = self._size // count
                return length * number, length * (number + 1)
            length = -(-self._size // count)
            start = (length * number) % self._size
            return min(start, self._size - length), min(start + length, self._size)
        if count is None and number is None and start is not None and end is not None:
            return start, end
        raise ValueError(
            four_parts(
                f"slice(num_of_slices={count}, slice_pos={number}, slice_start={start}, slice_end={end})",
                "that does not say one slice",
                "",
                "give num_of_slices and 0 <= slice_pos < num_of_slices, or slice_start and slice_end",
            )
        )

    def _cache_folder(self) -> str | None:
        """The folder of the file cache beneath, if there is one."""
        source: Any = self._data_source
        while source is not None:
            if isinstance(source, DataSourceWithFileCache):
                return source._cache_dir
            source = getattr(source, "_data_source", None)
        return None

    def _call(self, callbacks: Sequence[EpochCallback]) -> None:
        for callback in callbacks:
            callback(self._current_epoch)

    def register_epoch_end_callback(self, callback: EpochCallback) -> None:
        """Have `callback(epoch)` called at the end of each epoch."""
        self._epoch_end_callbacks.append(callback)

    def register_epoch_begin_callback(self, callback: EpochCallback) -> None:
        """Have `callback(epoch)` called at the beginning of each epoch but the first."""
        self._epoch_begin_callbacks.append(callback)


def _check(data_source: DataSource, batch_size: int) -> None:
    if data_source.size < 1:
        raise ValueError(
            four_parts(
                f"a DataIterator over {type(data_source).__name__}",
                "it has no samples",
                "",
                "give num_examples of 1 or more; a data source of your own sets its _size",
            )
        )
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise ValueError(
            four_parts(
                f"DataIterator(batch_size={batch_size!r})", "no count of samples", "", "give a number of 1 or more"
            )
        )
