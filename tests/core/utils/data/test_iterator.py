"""DataIterator: batches, epochs, threads that end, errors that arrive, slices."""

import gc
import os
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

import atled as nn
from atled.utils.data_iterator import DataIterator, data_iterator, data_iterator_simple
from atled.utils.data_source import DataSource, DataSourceWithFileCache, DataSourceWithMemoryCache
from atled.utils.data_source_implements import CacheDataSource, ConcatDataSource, CsvDataSource, SimpleDataSource


def numbers(batch):
    return batch[0].ravel().tolist()


@pytest.mark.parametrize("use_thread", [False, True])
def test_batches_positions_and_epochs(sample, use_thread):
    with data_iterator_simple(sample, 7, 3, use_thread=use_thread) as batches:
        assert (batches.size, batches.batch_size, list(batches.variables)) == (7, 3, ["x0", "x1"])
        assert (batches.position, batches.epoch) == (0, 0)
        seen = []
        for _ in range(5):
            batch = batches.next()
            assert [array.shape for array in batch] == [(3, 1), (3, 1)] and batch[1].dtype == np.float32
            seen.append((numbers(batch), batches.position, batches.epoch))
    assert seen == [
        ([0, 1, 2], 3, 0),
        ([3, 4, 5], 6, 0),
        ([6, 0, 1], 2, 1),
        ([2, 3, 4], 5, 1),
        ([5, 6, 0], 1, 2),
    ]


def test_a_batch_may_be_larger_than_the_data(sample):
    with data_iterator_simple(sample, 2, 5) as batches:
        assert numbers(batches.next()) == [0, 1, 0, 1, 0]
        assert batches.epoch == 2


def test_each_epoch_has_every_sample_once(sample):
    with data_iterator_simple(sample, 10, 5, shuffle=True, rng=np.random.RandomState(0)) as batches:
        epochs = [numbers(batches.next()) + numbers(batches.next()) for _ in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_callbacks_are_called_in_the_callers_thread(sample):
    told = []

    def tell(what):
        return lambda epoch: told.append((what, epoch, threading.get_ident()))

    with data_iterator_simple(sample, 4, 2, epoch_begin_callbacks=[tell("begin")]) as batches:
        batches.register_epoch_end_callback(tell("end"))
        batches.register_epoch_begin_callback(tell("also"))
        batches.next()
        assert told == []
        for _ in range(3):
            batches.next()
    expected = [("end", 0), ("begin", 1), ("also", 1), ("end", 1), ("begin", 2), ("also", 2)]
    assert told == [(what, epoch, threading.get_ident()) for what, epoch in expected]


@pytest.mark.parametrize("use_thread", [False, True])
def test_it_can_stop_where_no_full_batch_is_left(sample, use_thread):
    with data_iterator_simple(sample, 7, 3, stop_exhausted=True, use_thread=use_thread) as batches:
        assert [numbers(batch) for batch in batches] == [[0, 1, 2], [3, 4, 5]]
        for _ in range(2):
            with pytest.raises(StopIteration):
                batches.next()


# The thread.


def test_the_next_batch_is_read_ahead():
    reached = threading.Event()

    def load(i):
        if i == 3:
            reached.set()
        return (np.array([i]),)

    with data_iterator_simple(load, 8, 2):
        pass
    assert not reached.is_set()
    with data_iterator_simple(load, 8, 2) as batches:
        batches.next()
        assert reached.wait(timeout=30)  # sample 3, although only 0 and 1 were asked for


def test_the_thread_has_the_scopes_of_the_caller():
    def load(i):
        return (np.array(nn.get_current_context().fallback),)

    context = nn.Context("reference", fallback="quiet")
    with nn.context_scope(context), data_iterator_simple(load, 4, 2) as batches:
        assert set(batches.next()[0]) == {"quiet"}


def worker(batches):
    (thread,) = batches._thread._threads
    return thread


def test_close_ends_the_thread_and_closes_the_source(sample):
    class Source(SimpleDataSource):
        closed = 0

        def close(self):
            self.closed += 1

    source = Source(sample, 4)
    batches = DataIterator(source, 2)
    thread = worker(batches)
    batches.close()
    batches.close()
    assert not thread.is_alive() and source.closed == 1
    with pytest.raises(RuntimeError, match="the iterator is closed"):
        batches.next()


def test_a_forgotten_iterator_leaves_no_thread(sample):
    batches = data_iterator_simple(sample, 4, 2)
    batches.next()
    thread = worker(batches)
    batches._ahead.result()
    del batches
    gc.collect()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_a_program_ends_with_iterators_open(tmp_path):
    code = """
import numpy as np
from atled.utils.data_iterator import data_iterator_simple
batches = data_iterator_simple(lambda i: (np.zeros(3),), 100, 10, with_file_cache=True, with_memory_cache=False)
batches.next()
print(batches._data_source._cache_dir)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""
    assert not os.path.exists(done.stdout.strip())


def test_close_waits_for_the_sample_that_is_being_read_and_no_other(monkeypatch):
    loaded, begun, go_on = [], threading.Event(), threading.Event()

    def load(i):
        if threading.current_thread() is not threading.main_thread():  # which asks for one when the source is made
            loaded.append(i)
            begun.set()
            assert go_on.wait(timeout=30)
        return (np.array([i]),)

    batches = data_iterator_simple(load, 8, 4)
    shut_down = batches._thread.shutdown

    def shutdown(**how):
        go_on.set()
        shut_down(**how)

    monkeypatch.setattr(batches._thread, "shutdown", shutdown)
    assert begun.wait(timeout=30)
    batches.close()
    assert loaded == [0]


def test_behind_an_interrupt_the_batch_that_is_being_read_is_the_next_one(monkeypatch):
    readers, go_on = [], threading.Event()

    def load(i):
        readers.append(threading.current_thread())
        assert readers[-1] is threading.main_thread() or go_on.wait(timeout=30)
        return (np.array([i]),)

    def interrupted():
        raise KeyboardInterrupt

    with data_iterator_simple(load, 8, 4) as batches:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(batches._ahead, "result", interrupted)
            batches.next()
        go_on.set()
        assert [numbers(batches.next()) for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    # The main thread asks for one sample when the source is made; later both would move it at the same time.
    assert readers.count(threading.main_thread()) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_fork_is_told_that_the_thread_is_elsewhere_and_takes_nothing_away():
    code = """
import os, sys, warnings
import numpy as np
from atled.utils.data_iterator import data_iterator_simple

warnings.simplefilter("ignore")  # newer Pythons warn of every fork while there are threads
batches = data_iterator_simple(lambda i: (np.array([i]),), 8, 2, with_memory_cache=False, with_file_cache=True)
batches.next()
batches._ahead.result()
child = os.fork()
if not child:
    try:
        batches.next()
    except RuntimeError as error:
        assert "make the iterator in the process that uses it" in str(error)
        with batches.slice(None, 2, 1) as half:
            assert half.next()[0].ravel().tolist() == [4, 5]
        batches.close()
        sys.exit(7)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print([batches.next()[0].ravel().tolist() for _ in range(4)])
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout) == ("", "[[2, 3], [4, 5], [6, 7], [0, 1]]\n")


# Errors.


@pytest.mark.parametrize("use_thread", [False, True])
def test_what_goes_wrong_is_raised_by_next_and_the_rest_can_be_read(use_thread):
    def load(i):
        if i == 3:
            raise KeyError("the third")
        return (np.array([i]),)

    with data_iterator_simple(load, 6, 2, use_thread=use_thread) as batches:
        assert numbers(batches.next()) == [0, 1]
        with pytest.raises(KeyError, match="the third") as raised:
            batches.next()
        assert raised.value.__notes__ == ["while reading the sample at position 3 of SimpleDataSource"]
        assert any(frame.name == "load" for frame in traceback.extract_tb(raised.value.__traceback__))
        assert numbers(batches.next()) == [4, 5]
        assert numbers(batches.next()) == [0, 1]


def test_samples_of_different_shapes_are_refused():
    wrong = pytest.raises(ValueError, match=r"'x0': the samples differ in shape: \(1,\), \(2,\)")
    with data_iterator_simple(lambda i: (np.zeros(i + 1),), 4, 2) as batches, wrong:
        batches.next()


@pytest.mark.parametrize("wrong, words", [(None, "None instead of 1"), ((1, 2), "2 arrays instead of 1")])
def test_samples_of_another_count_of_arrays_are_refused(wrong, words):
    with data_iterator_simple(lambda i: wrong if i else (1,), 4, 2) as batches, pytest.raises(ValueError, match=words):
        batches.next()


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_a_batch_size_that_is_none_is_refused(sample, size):
    with pytest.raises(ValueError, match="no count of samples"):
        data_iterator_simple(sample, 4, size)


def test_a_source_without_samples_is_refused(sample):
    with pytest.raises(ValueError, match="it has no samples"):
        data_iterator_simple(sample, 0, 2)


def test_a_source_that_defines_nothing_says_so():
    source = DataSource()
    with pytest.raises(NotImplementedError, match="DataSource does not define _get_data"):
        source.next()


# Sources of one's own, and caches.


class Counted(DataSource):
    """Counts how often each sample is read."""

    def __init__(self, count, shuffle=False, rng=None):
        super().__init__(shuffle=shuffle, rng=rng)
        self._size = count
        self._variables = ("x",)
        self.read = []
        self.reset()

    def _get_data(self, position):
        self.read.append(position)
        return (np.array([position], np.float32),)


def test_the_memory_cache_reads_each_sample_once():
    source = Counted(6)
    with data_iterator(source, 4, use_thread=False) as batches:
        for _ in range(6):
            batches.next()
    assert sorted(source.read) == [0, 0, 1, 2, 3, 4, 5]  # 0 once more, for its size


def test_data_that_does_not_fit_stays_in_the_source(config):
    config(data_source_buffer_max_size=23)  # bytes; the data has 24
    source = Counted(6)
    with data_iterator(source, 6, use_thread=False) as batches:
        for _ in range(3):
            assert numbers(batches.next()) == [0, 1, 2, 3, 4, 5]
    assert len(source.read) == 19


def test_data_that_does_not_fit_is_shuffled_all_the_same(config, sample):
    config(data_source_buffer_max_size=1)
    source = SimpleDataSource(sample, 8, shuffle=True, rng=np.random.RandomState(0))
    with DataIterator(DataSourceWithMemoryCache(source, shuffle=True), 8, use_thread=False) as batches:
        first, second = numbers(batches.next()), numbers(batches.next())
    assert sorted(first) == sorted(second) and first != second


def test_a_temporary_cache_goes_away(sample):
    source = DataSourceWithFileCache(SimpleDataSource(sample, 5))
    folder = source._cache_dir
    assert os.path.isdir(folder)
    source.close()
    assert not os.path.exists(folder)


# Slices.


def test_slices_are_disjoint_in_every_epoch_whatever_the_source(tmp_path, table, sample):
    folder = str(tmp_path / "cache")
    DataSourceWithFileCache(SimpleDataSource(sample, 9), cache_dir=folder).close()
    path = table("x\n" + "".join(f"{i}\n" for i in range(9)))
    for make in (
        lambda: SimpleDataSource(sample, 9, shuffle=True),
        lambda: CsvDataSource(path, shuffle=True),
        lambda: DataSourceWithMemoryCache(CsvDataSource(path, shuffle=True), shuffle=True),
        lambda: DataSourceWithFileCache(CsvDataSource(path, shuffle=True), shuffle=True),
        lambda: CacheDataSource(folder, shuffle=True),
        lambda: ConcatDataSource([SimpleDataSource(sample, 4), SimpleDataSource(sample, 5)], shuffle=True),
    ):
        with DataIterator(make(), 3) as whole:
            parts = [whole.slice(None, num_of_slices=3, slice_pos=number) for number in range(3)]
            epochs = []
            for _ in range(4):
                found = [numbers(part.next()) for part in parts]
                epochs.append(tuple(map(tuple, found)))
                is_concat = isinstance(whole._data_source, ConcatDataSource)
                # The two sources of that have samples 0 to 3 and 0 to 4.
                expected = [0, 0, 1, 1, 2, 2, 3, 3, 4] if is_concat else list(range(9))
                assert sorted(value for values in found for value in values) == expected
            assert len(set(epochs)) > 1
            for part in parts:
                part.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"num_of_slices": 3},
        {"num_of_slices": 3, "slice_pos": 3},
        {"num_of_slices": 3, "slice_pos": 0, "slice_start": 1, "slice_end": 2},
        {"slice_start": 4},
        {"slice_start": 4, "slice_end": 4},
        {"slice_start": -1, "slice_end": 4},
        {"slice_start": 4, "slice_end": 10},
    ],
)
def test_a_slice_that_is_none_is_refused(sample, arguments):
    with data_iterator_simple(sample, 9, 3) as whole, pytest.raises(ValueError, match="What to do: "):
        whole.slice(None, **arguments)


def test_slices_too_far_apart_say_so(sample):
    with data_iterator_simple(sample, 4, 2, shuffle=True) as whole:
        slow, quick = (whole.slice(None, num_of_slices=2, slice_pos=number) for number in range(2))
        for _ in range(20):
            quick.next()
        with pytest.raises(RuntimeError, match="epochs ahead"):
            for _ in range(3):
                slow.next()
        slow.close()
        quick.close()


def test_a_slice_may_be_cached_in_files(tmp_path, sample):
    with data_iterator_simple(sample, 9, 2) as whole:
        part = whole.slice(
            np.random.RandomState(0), slice_start=3, slice_end=7, use_cache=True, cache_dir=str(tmp_path)
        )
        assert numbers(part.next()) == [3, 4]
        part.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cache_index.csv",
        "cache_info.csv",
        "cache_sliced_00000003_00000007_00000000_00000003.npy",
    ]
