"""Caches in files: what is written can be read, also NNabla's; damage is named."""

import csv
import os

import numpy as np
import pytest

from atled.utils.data_files import read_arrays, write_arrays
from atled.utils.data_iterator import data_iterator_cache
from atled.utils.data_source import DataSourceWithFileCache, DataSourceWithFileCacheError
from atled.utils.data_source_implements import CacheDataSource, ConcatDataSource, CsvDataSource, SimpleDataSource


@pytest.fixture(params=[".npy", ".h5"])
def suffix(request, config):
    if request.param == ".h5":
        pytest.importorskip("h5py")
    config(cache_file_format=request.param, data_source_file_cache_size=4)
    return request.param


@pytest.fixture
def folder(tmp_path, suffix, sample):
    path = str(tmp_path / "cache")
    DataSourceWithFileCache(SimpleDataSource(sample, 10), cache_dir=path).close()
    return path


def test_the_files_are_as_nnabla_names_them(folder, suffix):
    with open(os.path.join(folder, "cache_index.csv")) as file:
        assert list(csv.reader(file)) == [
            [f"cache_00000000_00000003{suffix}", "4"],
            [f"cache_00000004_00000007{suffix}", "4"],
            [f"cache_00000008_00000009{suffix}", "2"],
        ]
    assert os.path.exists(os.path.join(folder, "cache_info.csv")) == (suffix == ".npy")


@pytest.mark.parametrize("threads", [0, 2])
def test_what_was_written_is_read(folder, config, threads):
    config(cache_file_cache_num_of_threads=threads)
    with CacheDataSource(folder) as source:
        assert list(source.variables) == ["x0", "x1"] and source.size == 10
        for _ in range(2):
            found = [source.next() for _ in range(10)]
            assert [int(x[0]) for x, _ in found] == list(range(10))
            assert [int(y[0]) for _, y in found] == [i * i for i in range(10)]
            assert found[0][1].dtype == np.float32
            source.reset()


def test_files_are_read_ahead(folder):
    with CacheDataSource(folder) as source:
        source.next()
        assert sorted(source._ahead) == [1, 2]
        for _ in range(4):
            source.next()
        assert sorted(source._ahead) == [2]


def test_a_cache_of_a_table_has_the_table_and_its_order(tmp_path, table):
    path = table("x\n1\n2\n3\n")
    source = CsvDataSource(path, shuffle=True, rng=np.random.RandomState(1))
    DataSourceWithFileCache(source, cache_dir=str(tmp_path / "cache")).close()
    assert (tmp_path / "cache" / "original.csv").read_text() == "x\n1\n2\n3\n"
    with open(tmp_path / "cache" / "order.csv") as file:
        assert [int(new) for _, new in csv.reader(file)] == list(source.order)


def test_lists_become_float32(tmp_path, table):
    source = DataSourceWithFileCache(CsvDataSource(table("x__0,x__1\n1,2\n")), cache_dir=str(tmp_path / "cache"))
    (x,) = source.next()
    assert x.dtype == np.float32 and x.tolist() == [1, 2]


def test_small_numbers_are_scaled_on_request(tmp_path):
    def load(i):
        return np.full(2, 255, np.uint8), np.full(2, 65535, np.uint16), np.full(2, 7, np.int32)

    DataSourceWithFileCache(SimpleDataSource(load, 2), cache_dir=str(tmp_path)).close()
    with data_iterator_cache(str(tmp_path), 2) as batches:
        a, b, c = batches.next()
    assert a.dtype == b.dtype == np.float32 and c.dtype == np.int32
    assert a.max() == b.max() == 1 and c.max() == 7
    with CacheDataSource(str(tmp_path)) as source:
        assert [int(x.max()) for x in source.next()] == [255, 65535, 7]


def test_samples_of_different_shapes_are_refused(tmp_path):
    source = SimpleDataSource(lambda i: (np.zeros(2 if i < 2 else 3),), 4)
    with pytest.raises(DataSourceWithFileCacheError, match=r"sample 2 has shape \(3,\), sample 0 has shape \(2,\)"):
        DataSourceWithFileCache(source, cache_dir=str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_an_unknown_format_is_refused(config, sample, tmp_path):
    config(cache_file_format=".zip")
    with pytest.raises(ValueError, match=r"no such format as '.zip'"):
        DataSourceWithFileCache(SimpleDataSource(sample, 2), cache_dir=str(tmp_path))


@pytest.mark.parametrize("value", ["ten", "0", "-3", "1.5"])
def test_a_setting_that_is_no_count_is_refused(config, sample, value):
    config(data_source_file_cache_size=value)
    with pytest.raises(ValueError, match=r"data_source_file_cache_size = .* it is not a whole number of at least 1"):
        DataSourceWithFileCache(SimpleDataSource(sample, 2))


# Damage.


def spoil(folder, suffix, change):
    path = os.path.join(folder, f"cache_00000000_00000003{suffix}")
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(change(content))
    return path


@pytest.mark.parametrize("change", [lambda c: c[:100], lambda c: c[: len(c) // 2], lambda c: b"", lambda c: b"\0" * 99])
def test_a_damaged_file_is_named(folder, suffix, change, config):
    config(cache_file_cache_num_of_threads=0)
    path = spoil(folder, suffix, change)
    with pytest.raises(ValueError, match="make the cache again") as raised:
        CacheDataSource(folder).next()
    assert repr(path) in str(raised.value)


def test_damage_found_by_a_thread_is_told_by_the_sample(folder, suffix):
    path = os.path.join(folder, f"cache_00000004_00000007{suffix}")
    with open(path, "wb") as file:
        file.write(b"nothing")
    with data_iterator_cache(folder, 4, with_memory_cache=False) as batches:
        batches.next()
        with pytest.raises(ValueError, match="cache_00000004"):
            batches.next()


def test_more_than_the_arrays_is_damage(tmp_path):
    path = str(tmp_path / "a.npy")
    write_arrays(path, {"x": np.zeros(3), "y": np.zeros(3)})
    assert len(read_arrays(path, ["x", "y"], 3)) == 2
    with pytest.raises(ValueError, match="there is more in it than 1 arrays"):
        read_arrays(path, ["x"], 3)
    with pytest.raises(ValueError, match="variable 'x': it holds 3 samples instead of 4"):
        read_arrays(path, ["x", "y"], 4)


@pytest.mark.parametrize(
    "row, words",
    [
        ("cache_00000000_00000003.npy", "line 1: damaged"),
        ("a.npy,x", "line 1: damaged"),
        ("../a.npy,4", "not in the folder"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path, sample, row, words):
    folder = str(tmp_path / "cache")
    DataSourceWithFileCache(SimpleDataSource(sample, 3), cache_dir=folder).close()
    with open(os.path.join(folder, "cache_index.csv"), "w") as file:
        file.write(row + "\n")
    with pytest.raises(ValueError, match=words):
        CacheDataSource(folder)


def test_a_folder_that_is_no_cache_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"it has neither a cache_index\.csv nor \.h5 files"):
        CacheDataSource(tmp_path)


def test_h5_files_without_an_index_are_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    for name in ("b", "a"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["x"] = np.full((2, 1), ord(name))
    with CacheDataSource(tmp_path) as source:
        assert [int(source.next()[0][0]) for _ in range(4)] == [97, 97, 98, 98]
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["x"], file["y"] = np.zeros(2), np.zeros(3)
    with pytest.raises(ValueError, match="differ in their counts of samples"):
        CacheDataSource(tmp_path)


def test_links_out_of_an_h5_file_are_not_followed(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "other.hdf", "w") as file:
        file["x"] = np.zeros(2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink("other.hdf", "/x")
    with pytest.raises(ValueError, match="not an array in this file"):
        read_arrays(str(tmp_path / "a.h5"), ["x"], 2)


# Several sources as one.


def test_sources_of_different_variables_are_refused(sample):
    with pytest.raises(ValueError, match="their variables differ"):
        ConcatDataSource([SimpleDataSource(sample, 2), SimpleDataSource(lambda i: (i,), 2)])
    with pytest.raises(ValueError, match="there is none"):
        ConcatDataSource([])


def test_closing_several_closes_each(sample):
    sources = [SimpleDataSource(sample, 2), SimpleDataSource(sample, 3)]
    with ConcatDataSource(sources, shuffle=False) as one:
        assert [int(one.next()[0][0]) for _ in range(5)] == [0, 1, 0, 1, 2]
    assert all(source._closed for source in sources)
