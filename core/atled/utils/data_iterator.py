"""The functions that make iterators over the batches of data sources, caches between them included."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.utils.batch_iterator import DataIterator, EpochCallback
from atled.utils.data_source import (
    DataSource,
    DataSourceWithFileCache,
    DataSourceWithMemoryCache,
)
from atled.utils.data_source_implements import CacheDataSource, ConcatDataSource, CsvDataSource, SimpleDataSource

__all__ = [
    "DataIterator",
    "data_iterator",
    "data_iterator_cache",
    "data_iterator_concat_datasets",
    "data_iterator_csv_dataset",
    "data_iterator_simple",
]


def data_iterator(
    data_source: DataSource,
    batch_size: int,
    rng: np.random.RandomState | None = None,
    use_thread: bool = True,
    with_memory_cache: bool = True,
    with_file_cache: bool = False,
    cache_dir: str | None = None,
    epoch_begin_callbacks: Sequence[EpochCallback] = (),
    epoch_end_callbacks: Sequence[EpochCallback] = (),
    stop_exhausted: bool = False,
) -> DataIterator:
    """An iterator over any data source, with caches between.

    Args:
        data_source: of the samples.
        batch_size: samples per batch.
        rng: a numpy.random.RandomState, of the caches; None: one each, seeded by 313, or by `atled.seed`.
        use_thread: whether to read ahead.
        with_memory_cache: keep the samples in memory, if they fit.
        with_file_cache: write the samples to files first; for slow sources.
        cache_dir: the folder for them, kept; None: a temporary one.
        epoch_begin_callbacks, epoch_end_callbacks, stop_exhausted: see `DataIterator`.
    """
    source = data_source
    if with_file_cache:
        source = DataSourceWithFileCache(source, cache_dir=cache_dir, shuffle=source.shuffle, rng=rng)
    if with_memory_cache:
        source = DataSourceWithMemoryCache(source, shuffle=source.shuffle, rng=rng)
    return DataIterator(
        source,
        batch_size,
        use_thread=use_thread,
        epoch_begin_callbacks=epoch_begin_callbacks,
        epoch_end_callbacks=epoch_end_callbacks,
        stop_exhausted=stop_exhausted,
    )


def data_iterator_simple(
    load_func: Callable[[int], Sequence[Any]],
    num_examples: int,
    batch_size: int,
    shuffle: bool = False,
    rng: np.random.RandomState | None = None,
    use_thread: bool = True,
    with_memory_cache: bool = False,
    with_file_cache: bool = False,
    cache_dir: str | None = None,
    epoch_begin_callbacks: Sequence[EpochCallback] = (),
    epoch_end_callbacks: Sequence[EpochCallback] = (),
    stop_exhausted: bool = False,
) -> DataIterator:
    """An iterator over samples from a function.

        def load(i):
            return images[i], labels[i]

        batches = data_iterator_simple(load, len(images), batch_size=32, shuffle=True)
        x, t = batches.next()

    load_func, num_examples, shuffle, rng: see `SimpleDataSource`; the others: see `data_iterator`.
    """
    return data_iterator(
        SimpleDataSource(load_func, num_examples, shuffle=shuffle, rng=rng),
        batch_size,
        use_thread=use_thread,
        with_memory_cache=with_memory_cache,
        with_file_cache=with_file_cache,
        cache_dir=cache_dir,
        epoch_begin_callbacks=epoch_begin_callbacks,
        epoch_end_callbacks=epoch_end_callbacks,
        stop_exhausted=stop_exhausted,
    )


def data_iterator_csv_dataset(
    uri: str | os.PathLike[str],
    batch_size: int,
    shuffle: bool = False,
    rng: np.random.RandomState | None = None,
    use_thread: bool = True,
    normalize: bool = True,
    with_memory_cache: bool = True,
    with_file_cache: bool = True,
    cache_dir: str | None = None,
    epoch_begin_callbacks: Sequence[EpochCallback] = (),
    epoch_end_callbacks: Sequence[EpochCallback] = (),
    stop_exhausted: bool = False,
) -> DataIterator:
    """An iterator over a CSV table, whose fields are numbers or names of files.

    uri, shuffle, rng, normalize: see `CsvDataSource`; the others: see `data_iterator`.
    """
    return data_iterator(
        CsvDataSource(uri, shuffle=shuffle, rng=rng, normalize=normalize),
        batch_size,
        use_thread=use_thread,
        with_memory_cache=with_memory_cache,
        with_file_cache=with_file_cache,
        cache_dir=cache_dir,
        epoch_begin_callbacks=epoch_begin_callbacks,
        epoch_end_callbacks=epoch_end_callbacks,
        stop_exhausted=stop_exhausted,
    )


def data_iterator_cache(
    uri: str | os.PathLike[str],
    batch_size: int,
    shuffle: bool = False,
    rng: np.random.RandomState | None = None,
    use_thread: bool = True,
    normalize: bool = True,
    with_memory_cache: bool = True,
    epoch_begin_callbacks: Sequence[EpochCallback] = (),
    epoch_end_callbacks: Sequence[EpochCallback] = (),
    stop_exhausted: bool = False,
) -> DataIterator:
    """An iterator over a folder of cache files.

    uri, shuffle, rng, normalize: see `CacheDataSource`; the others: see `data_iterator`.
    """
    return data_iterator(
        CacheDataSource(uri, shuffle=shuffle, rng=rng, normalize=normalize),
        batch_size,
        use_thread=use_thread,
        with_memory_cache=with_memory_cache,
        epoch_begin_callbacks=epoch_begin_callbacks,
        epoch_end_callbacks=epoch_end_callbacks,
        stop_exhausted=stop_exhausted,
    )


def data_iterator_concat_datasets(
    data_source_list: Sequence[DataSource],
    batch_size: int,
    shuffle: bool = False,
    rng: np.random.RandomState | None = None,
    use_thread: bool = True,
    with_memory_cache: bool = True,
    with_file_cache: bool = False,
    cache_dir: str | None = None,
    epoch_begin_callbacks: Sequence[EpochCallback] = (),
    epoch_end_callbacks: Sequence[EpochCallback] = (),
    stop_exhausted: bool = False,
) -> DataIterator:
    """An iterator over several data sources as one.

    data_source_list, shuffle, rng: see `ConcatDataSource`; the others: see `data_iterator`.
    """
    return data_iterator(
        ConcatDataSource(data_source_list, shuffle=shuffle, rng=rng),
        batch_size,
        use_thread=use_thread,
        with_memory_cache=with_memory_cache,
        with_file_cache=with_file_cache,
        cache_dir=cache_dir,
        epoch_begin_callbacks=epoch_begin_callbacks,
        epoch_end_callbacks=epoch_end_callbacks,
        stop_exhausted=stop_exhausted,
    )


def __dir__() -> list[str]:
    return sorted(__all__)
