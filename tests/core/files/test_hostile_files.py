"""Files that are not what they seem: refused in words, without waiting for them and without filling the memory."""

from __future__ import annotations

import os
import socket
import struct
import time
import wave
import zipfile

import numpy as np
import pytest

import atled as nn
from atled.files.parameters import FORMATS
from atled.utils.data_iterator import data_iterator_csv_dataset
from atled.utils.data_source import DataSourceWithFileCache
from atled.utils.data_source_implements import CacheDataSource, SimpleDataSource
from atled.utils.data_source_loader import load_csv, load_wav
from atled.utils.image_utils import imread
from atled_contexts.settings import forget_settings

h5py = pytest.importorskip("h5py")

PARAMETERS = [f"p{suffix}" for suffix in FORMATS]
SAMPLES = ["a.npy", "a.csv", "a.png", "a.wav"]


@pytest.fixture
def limit(monkeypatch):
    def set_to(nbytes):
        monkeypatch.setenv("ATLED_UNPACK_LIMIT", str(nbytes))
        forget_settings()

    yield set_to
    monkeypatch.undo()
    forget_settings()


def read_table(path):
    with data_iterator_csv_dataset(str(path), 1, with_file_cache=False, use_thread=False) as batches:
        return batches.next()


def make_special(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        made = socket.socket(socket.AF_UNIX)
        os.chdir(path.parent)  # the name of a socket must be short
        made.bind(path.name)
        made.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "socket"])
@pytest.mark.parametrize("name", [*PARAMETERS, *SAMPLES, "table.csv"])
def test_what_is_no_regular_file_is_refused_at_once(name, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    make_special(kind, path)
    with pytest.raises(OSError, match=r"(not a regular file|could not be read)[\s\S]*What to do"):
        if name in PARAMETERS:
            nn.load_parameters(path)
        elif name == "table.csv":
            read_table(path)
        else:
            (tmp_path / "table.csv").write_text(f"x\n{name}\n", "utf-8")
            read_table(tmp_path / "table.csv")
    if name == "a.png":
        with pytest.raises(OSError, match=r"(not a regular file|could not be read)[\s\S]*What to do"):
            imread(path)


def archive_of_zeros(path, nbytes, lies=False):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("network.nntxt", b" " * nbytes)
    if lies:
        image = bytearray(path.read_bytes())
        start = image.rindex(b"PK\1\2")
        image[start + 24 : start + 28] = struct.pack("<L", 1000)
        path.write_bytes(bytes(image))


def test_an_archive_unpacks_to_no_more_than_the_limit(tmp_path, limit):
    path = tmp_path / "net.nnp"
    archive_of_zeros(path, 2 << 20)
    limit(1 << 20)
    with pytest.raises(ValueError, match=r"unpack to more than 1 MiB\n.*16 times.*\n.*set ATLED_UNPACK_LIMIT"):
        nn.load_parameters(path)
    limit(4 << 20)
    nn.load_parameters(path)  # there are no parameters in spaces


def test_what_an_archive_says_of_the_size_of_an_entry_is_not_trusted(tmp_path):
    path = tmp_path / "net.nnp"
    archive_of_zeros(path, 10 << 20, lies=True)
    with pytest.raises(ValueError, match=r"the entry is damaged[\s\S]*What to do"):
        nn.load_parameters(path)


def test_a_packed_dataset_unpacks_to_no_more_than_the_limit(tmp_path, limit):
    path = tmp_path / "p.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("w", data=np.zeros(1 << 20, np.float32), compression="gzip")
        data.attrs["need_grad"] = True
        data.attrs["index"] = 0
    limit(1 << 20)
    with pytest.raises(ValueError, match="unpack to more than 1 MiB"):
        nn.load_parameters(path)
    limit(8 << 20)
    nn.load_parameters(path)
    assert nn.get_parameter("w").size == 1 << 20


@pytest.mark.parametrize("text", ["-1", "much"])
def test_a_limit_that_is_no_count_of_bytes_is_refused(text, limit, tmp_path):
    archive_of_zeros(tmp_path / "net.nnp", 10)
    limit(text)
    with pytest.raises(ValueError, match="not a count of bytes"):
        nn.load_parameters(tmp_path / "net.nnp")


@pytest.mark.parametrize("method", [1, 9, 12, 14, 93, 97, 99])
def test_an_archive_packed_by_another_method_is_refused(method, tmp_path):
    path = tmp_path / "net.nnp"
    archive_of_zeros(path, 100)
    image = bytearray(path.read_bytes())
    start = image.rindex(b"PK\1\2")
    image[start + 10 : start + 12] = image[8:10] = struct.pack("<H", method)
    path.write_bytes(bytes(image))
    with pytest.raises(ValueError, match=rf"packed by method {method} of the zip format[\s\S]*What to do"):
        nn.load_parameters(path)


def test_an_archive_of_a_later_version_of_zip_is_refused(tmp_path):
    path = tmp_path / "net.nnp"
    archive_of_zeros(path, 100)
    image = bytearray(path.read_bytes())
    start = image.rindex(b"PK\1\2")
    image[start + 6 : start + 8] = struct.pack("<H", 99)
    path.write_bytes(bytes(image))
    with pytest.raises(ValueError, match=r"not an \.nnp archive[\s\S]*What to do"):
        nn.load_parameters(path)


TABLES = {
    "zero byte": (b"1,2\n3,\0\n", "line 2"),
    "ragged": (b"1,2\n3\n", "line 2: 1 numbers, the first line has 2"),
    "long field": (b"1,2\n" + b"3" * 200_000 + b",4\n", "field limit|field larger|too large|line 2"),
    "no UTF-8": (b"1,2\n3,\xff\n", "line 1.*utf-8"),
    "text": (b"x,y\n", "line 1.*could not convert"),
}


@pytest.mark.parametrize(("image", "wrong"), TABLES.values(), ids=TABLES)
def test_a_table_that_is_none_names_the_line(image, wrong, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(image)
    with path.open("rb") as file, pytest.raises(ValueError, match=rf"({wrong})[\s\S]*What to do"):
        load_csv(file)


def test_a_sound_whose_chunks_do_not_end_is_refused(tmp_path):
    path = tmp_path / "s.wav"
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(160))
    image = bytearray(path.read_bytes())
    image[16:20] = struct.pack("<L", 200)  # its chunk of the format reaches beyond the end
    path.write_bytes(bytes(image))
    with path.open("rb") as file, pytest.raises(ValueError, match=r"damaged, or not plain PCM[\s\S]*What to do"):
        load_wav(file)


@pytest.fixture
def cache(tmp_path):
    source = SimpleDataSource(lambda i: (np.full((2,), i, np.float32),), 5)
    DataSourceWithFileCache(source, cache_dir=str(tmp_path / "cache")).close()
    return tmp_path / "cache"


@pytest.mark.parametrize("count", ["9" * 400, str(10**18), "\u0665", "-1", "5.0"])
def test_a_count_of_samples_that_its_file_cannot_have_is_refused(cache, count):
    name = (cache / "cache_index.csv").read_text("utf-8").split(",")[0]
    (cache / "cache_index.csv").write_text(f"{name},{count}\n", "utf-8")
    with pytest.raises(ValueError, match=r"(line 1: damaged|shall hold 10{18} samples).*\nWhat to do"):
        CacheDataSource(str(cache))


def test_tables_of_a_cache_that_are_no_text_are_refused(cache):
    (cache / "cache_info.csv").write_bytes(b"\xff\xfe,\0\n")
    with pytest.raises(ValueError, match=r"cache_info.csv', line 0: damaged[\s\S]*What to do"):
        CacheDataSource(str(cache))


def test_a_cache_without_one_of_its_files_says_which(cache):
    for path in cache.glob("*.npy"):
        path.unlink()
    source = CacheDataSource(str(cache))
    with pytest.raises(FileNotFoundError, match=r"cache file '.*npy'[\s\S]*What to do: remove the cache folder"):
        source.next()
    source.close()


def test_a_save_removes_what_killed_saves_left_and_nothing_else(tmp_path):
    old, new = tmp_path / f".atled-{'0' * 16}.tmp", tmp_path / f".atled-{'1' * 16}.tmp"
    other, link = tmp_path / ".atled-notes.tmp", tmp_path / f".atled-{'2' * 16}.tmp"
    for path in (old, new, other):
        path.write_bytes(b"x")
    link.symlink_to(other)
    past = time.time() - 7200
    for path in (old, other):
        os.utime(path, (past, past))
    os.utime(link, (past, past), follow_symlinks=False)
    nn.save_parameters(tmp_path / "p.npz")
    assert not old.exists()
    assert new.exists() and other.exists() and link.is_symlink()


def test_a_save_goes_into_a_folder_that_lists_nothing(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    w = nn.Variable.from_numpy_array(np.float32([3]))
    nn.parameter.set_parameter("W", w)
    nn.save_parameters(tmp_path / "p.npz")
    w.d = 0
    nn.load_parameters(tmp_path / "p.npz")
    assert nn.get_parameters(grad_only=False)["W"].d == 3


def test_a_file_of_many_parameters_is_read_without_a_look_at_the_others(tmp_path, monkeypatch):
    # Counted, not timed: as many calls of HDF5 for each parameter, however many there are.
    from atled.files import hdf5 as parameter_h5

    counts = []
    reading = parameter_h5.reading
    asked = []
    monkeypatch.setattr(parameter_h5, "reading", lambda text: asked.append(text) or reading(text))
    for size in (50, 400):
        for number in range(size):
            nn.parameter.set_parameter(f"p{number}/W", nn.Variable((1,)))
        nn.save_parameters(tmp_path / "p.h5")
        nn.clear_parameters()
        asked.clear()
        nn.load_parameters(tmp_path / "p.h5")
        nn.clear_parameters()
        counts.append(len(asked) / size)
    assert counts[1] <= counts[0]
