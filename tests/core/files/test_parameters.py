"""Parameter files: round trips, what a load changes, and every kind of file that must be refused."""

import builtins
import errno
import os
import re
import subprocess
import sys
import weakref

import numpy as np
import pytest

from atled import NdArray, Variable
from atled import functions as F
from atled.files import parameters
from atled.files.entry import Entry
from atled.files.parameters import load_parameters, save_parameters
from atled.parameter import (
    clear_parameters,
    get_parameter,
    get_parameters,
    parameter_scope,
    set_parameter,
)
from stored_parameters import make, network, state

h5py = pytest.importorskip("h5py")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "params.h5")


# Round trips.


def test_a_round_trip_keeps_everything(path):
    network()
    expected = state()
    save_parameters(path)
    clear_parameters()
    load_parameters(path)
    assert state() == expected
    assert all(param.data.dtype == np.float32 for param in get_parameters(grad_only=False).values())


def test_the_file_is_as_nnabla_writes_it(path):
    network()
    save_parameters(path)
    with h5py.File(path, "r") as file:
        assert sorted(file) == ["a", "empty", "scalar", "z"]
        mean = file["a/bn/mean"]
        assert mean.dtype == np.float32 and mean.shape == (1, 4, 1, 1)
        assert isinstance(mean.attrs["need_grad"], np.bool_) and not mean.attrs["need_grad"]
        assert mean.attrs["index"] == 2
        assert [file[key].attrs["index"] for key in get_parameters(grad_only=False)] == [0, 1, 2, 3, 4]


def test_files_are_relative_to_the_scope(path):
    network()
    with parameter_scope("z"):
        save_parameters(path)
    with parameter_scope("copy"):
        load_parameters(path)
        assert list(get_parameters()) == ["conv/W", "conv/b"]
    np.testing.assert_array_equal(get_parameter("copy/conv/b").d, get_parameter("z/conv/b").d)


def test_no_parameters_make_an_empty_file(path):
    save_parameters(path)
    load_parameters(path)
    assert get_parameters() == {}


def test_other_dtypes_are_saved_as_float32(path):
    param = Variable((3,), need_grad=True)
    param.data = NdArray.from_numpy_array(np.array([1, 2, 3]))
    set_parameter("whole", param)
    save_parameters(path)
    assert param.data.dtype == np.int64
    clear_parameters()
    load_parameters(path)
    assert get_parameter("whole").d.dtype == np.float32


def test_a_path_object_and_an_upper_case_suffix_will_do(tmp_path):
    make("W", [1.0])
    save_parameters(tmp_path / "a.H5")
    load_parameters(tmp_path / "a.H5")
    assert os.listdir(tmp_path) == ["a.H5"]


# Loading into what is there.


def test_graphs_see_loaded_values(path):
    w = make("W", np.ones((2, 2)))
    save_parameters(path)
    x = Variable((1, 2))
    x.d = 1
    y = F.affine(x, w)
    w.d = 5
    view = w.d
    y.forward()
    np.testing.assert_array_equal(y.d, [[10, 10]])
    load_parameters(path)
    assert get_parameter("W") is w
    np.testing.assert_array_equal(view, np.ones((2, 2)))
    y.forward()
    np.testing.assert_array_equal(y.d, [[2, 2]])


def test_a_parameter_that_is_there_keeps_dtype_flag_and_place(path):
    make("a", [1.5])
    make("b", [2.5])
    save_parameters(path)
    clear_parameters()
    b = make("b", [0.0], need_grad=False)
    b.data.cast(np.float64)
    make("c", [3.0])
    load_parameters(path)
    assert get_parameter("b") is b and not b.need_grad
    assert b.d.dtype == np.float64 and b.d[0] == 2.5
    assert list(get_parameters(grad_only=False)) == ["b", "c", "a"]


def test_the_order_is_that_of_the_index(path):
    with h5py.File(path, "w") as file:
        for index, key in enumerate(["c", "a", "b"]):
            write(file, key, index=index)
    load_parameters(path)
    assert list(get_parameters()) == ["c", "a", "b"]


def test_packed_and_big_endian_float32_will_do(path):
    with h5py.File(path, "w") as file:
        for name, options in {"gzip": {"compression": "gzip"}, "lzf": {"compression": "lzf", "shuffle": True}}.items():
            dataset = file.create_dataset(name, data=np.arange(6, dtype=">f4").reshape(2, 3), chunks=(1, 3), **options)
            dataset.attrs["need_grad"] = 1
            dataset.attrs["index"] = np.uint8(3)
    load_parameters(path)
    for name in ("gzip", "lzf"):
        np.testing.assert_array_equal(get_parameter(name).d, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64, np.uint8, np.bool_])
def test_other_dtypes_of_numbers_become_float32(path, dtype):
    with h5py.File(path, "w") as file:
        write(file, "W", (1.5, 2), dtype=dtype)
    load_parameters(path)
    assert get_parameter("W").d.dtype == np.float32
    np.testing.assert_array_equal(get_parameter("W").d, np.array((1.5, 2), dtype))


# Files that must be refused.


def write(file, key, values=(1.0, 2.0), dtype=np.float32, **attributes):
    dataset = file.create_dataset(key, data=np.asarray(values, dtype))
    for name, value in ({"need_grad": True, "index": 0} | attributes).items():
        if value is not None:
            dataset.attrs[name] = value
    return dataset


def external(file, key):
    dataset = file.create_dataset(key, (2,), np.float32, external=[(os.path.join(os.sep, "etc", "passwd"), 0, 8)])
    dataset.attrs["need_grad"], dataset.attrs["index"] = True, 0


def virtual(file, key):
    layout = h5py.VirtualLayout((2,), np.float32)
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", (2,))
    dataset = file.create_virtual_dataset(key, layout)
    dataset.attrs["need_grad"], dataset.attrs["index"] = True, 0


def unwritten(file, key):
    dataset = file.create_dataset(key, (10**6, 10**6), np.float32, chunks=(1000, 1000))
    dataset.attrs["need_grad"], dataset.attrs["index"] = True, 0


FOREIGN = {
    "complex": ("dtype is complex64", lambda file, key: write(file, key, dtype=np.complex64)),
    "too large": ("too large for float32", lambda file, key: write(file, key, (1e300, 0), dtype=np.float64)),
    "text": ("dtype is object", lambda file, key: file.create_dataset(key, data="text")),
    "compound": ("dtype is", lambda file, key: file.create_dataset(key, data=np.zeros(2, [("a", "f4"), ("b", "f4")]))),
    "null": ("holds no array", lambda file, key: file.create_dataset(key, data=h5py.Empty("f4"))),
    "no index": ("attribute index is missing", lambda file, key: write(file, key, index=None)),
    "no need_grad": ("attribute need_grad is missing", lambda file, key: write(file, key, need_grad=None)),
    "text index": ("attribute index is not a whole number", lambda file, key: write(file, key, index="0")),
    "float index": ("attribute index is not a whole number", lambda file, key: write(file, key, index=0.0)),
    "array index": ("attribute index is not a whole number", lambda file, key: write(file, key, index=[0, 1])),
    "negative index": ("index=-1", lambda file, key: write(file, key, index=-1)),
    "need_grad 2": ("need_grad=2", lambda file, key: write(file, key, need_grad=2)),
    "text need_grad": ("attribute need_grad is not", lambda file, key: write(file, key, need_grad="yes")),
    "soft link": ("links are not followed", lambda file, key: file.__setitem__(key, h5py.SoftLink("/good"))),
    "broken link": ("links are not followed", lambda file, key: file.__setitem__(key, h5py.SoftLink("/nowhere"))),
    "external link": ("links are not followed", lambda file, key: file.__setitem__(key, h5py.ExternalLink("x", "/"))),
    "second name": ("has another name", lambda file, key: file.__setitem__(key, file["good"])),
    "named type": ("neither a group nor a dataset", lambda file, key: file.__setitem__(key, np.dtype("f4"))),
    "external values": ("in another file", external),
    "virtual values": ("in another file", virtual),
    "unwritten": ("holds 0", unwritten),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_with_something_foreign_changes_nothing(path, kind):
    wrong, put = FOREIGN[kind]
    make("good", [7.0, 7.0])
    with h5py.File(path, "w") as file:
        write(file, "good")
        write(file, "zz")
        put(file, "scope/key")
    expected = state()
    with pytest.raises(ValueError, match=re.escape(wrong)) as caught:
        load_parameters(path)
    text = str(caught.value)
    assert path in text and "What to do: " in text
    assert "'scope/key'" in text or kind == "second name"
    assert state() == expected


def test_a_group_within_itself_is_refused(path):
    with h5py.File(path, "w") as file:
        write(file, "group/good")
        file["group/again"] = file["group"]
    with pytest.raises(ValueError, match=r"'group/again'[\s\S]*has another name"):
        load_parameters(path)


def test_a_foreign_filter_is_refused_before_hdf5_looks_for_its_code(path):
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((2,))
        properties.set_filter(32015, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple((2,))
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"W", h5py.h5t.IEEE_F32LE, space, properties))
        dataset[...] = 1
        dataset.attrs["need_grad"], dataset.attrs["index"] = True, 0
    with pytest.raises(ValueError, match=r"foreign filter \(\[32015\]\)"):
        load_parameters(path)


def test_another_shape_is_refused_before_anything_changes(path):
    make("a", [1.0])
    make("b", [1.0, 2.0])
    save_parameters(path)
    clear_parameters()
    make("a", [9.0])
    make("b", [9.0, 9.0, 9.0])
    expected = state()
    with pytest.raises(ValueError, match="the file has shape") as caught:
        load_parameters(path)
    text = str(caught.value)
    assert path in text and "'b'" in text and "(2,)" in text and "(3,)" in text and "What to do" in text
    assert state() == expected


@pytest.mark.parametrize("there", ["b/c/d", "b"])
def test_a_name_that_is_a_scope_here_or_leads_through_a_parameter_is_refused(path, there):
    make("a", [1.0])
    make("b/c", [1.0])
    save_parameters(path)
    clear_parameters()
    make(there, [9.0])
    expected = state()
    with pytest.raises(ValueError, match=r"'b/c'[\s\S]*in the way[\s\S]*load into another scope"):
        load_parameters(path)
    assert state() == expected


@pytest.mark.parametrize("content", [b"", b"not an HDF5 file", b"PK\x03\x04" + b"\0" * 500, b"\x89HDF\r\n\x1a\n"])
def test_what_is_no_hdf5_file_is_refused(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match=r"damaged or not one of parameters[\s\S]*What to do"):
        load_parameters(path)


def test_a_truncated_or_damaged_file_is_loaded_whole_or_not_at_all(path, tmp_path):
    network()
    save_parameters(path)
    with open(path, "rb") as file:
        image = file.read()
    keys = [key for key, *_ in state()]
    rng = np.random.RandomState(0)
    damaged = [image[:length] for length in range(0, len(image), 301)]
    for _ in range(60):
        copy = bytearray(image)
        for place in rng.randint(0, len(image), 8):
            copy[place] = rng.randint(256)
        damaged.append(bytes(copy))
    refused = 0
    for number, content in enumerate(damaged):
        clear_parameters()
        broken = tmp_path / f"{number}.h5"
        broken.write_bytes(content)
        try:
            load_parameters(broken)
        except ValueError as error:
            refused += 1
            assert str(broken) in str(error) and "What to do: " in str(error)
            assert get_parameters(grad_only=False) == {}
        else:
            # What HDF5 cannot notice: bytes of values or names.
            assert len(get_parameters(grad_only=False)) == len(keys)
    assert refused > len(image) // 301


# Paths.


def test_a_missing_file_is_a_file_not_found_error(path):
    with pytest.raises(FileNotFoundError, match=r"could not be read[\s\S]*What to do"):
        load_parameters(path)


@pytest.mark.parametrize("call", [save_parameters, load_parameters])
@pytest.mark.parametrize("name", ["params.npy", ".h5", "params.h5.bak"])
def test_an_unknown_suffix_is_refused(call, name, tmp_path):
    make("W", [1.0])
    with pytest.raises(ValueError, match=r"suffix[\s\S]*known: \.npz[\s\S]*What to do"):
        call(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_told(tmp_path):
    make("W", [1.0])
    with pytest.raises(FileNotFoundError, match=r"could not be written[\s\S]*check that the folder exists"):
        save_parameters(tmp_path / "nowhere" / "params.h5")


def test_saving_over_a_folder_is_refused_without_remains(tmp_path):
    make("W", [1.0])
    (tmp_path / "params.h5").mkdir()
    with pytest.raises(OSError, match="could not be written"):
        save_parameters(tmp_path / "params.h5")
    assert os.listdir(tmp_path) == ["params.h5"]


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(path, tmp_path, monkeypatch):
    make("W", [1.0])
    save_parameters(path)
    with open(path, "rb") as file:
        before = file.read()

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[:100])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    plain = open
    monkeypatch.setattr(builtins, "open", lambda name, mode="r", *a, **k: Full(plain(name, mode, *a, **k)))
    get_parameter("W").d = 2
    with pytest.raises(OSError, match=r"No space left[\s\S]*What to do") as caught:
        save_parameters(path)
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == ["params.h5"]
    with open(path, "rb") as file:
        assert file.read() == before


def test_a_symbolic_link_stays_one(tmp_path):
    make("W", [1.0])
    (tmp_path / "link.h5").symlink_to(tmp_path / "real.h5")
    save_parameters(tmp_path / "link.h5")
    assert (tmp_path / "link.h5").is_symlink() and (tmp_path / "real.h5").is_file()


@pytest.mark.parametrize("key", ["a/./W", "a\0b", "\ud800"])
def test_a_name_that_hdf5_cannot_hold_is_refused(path, tmp_path, key):
    make(key, [1.0])
    with pytest.raises(ValueError, match=r"HDF5 cannot hold this name[\s\S]*What to do"):
        save_parameters(path)
    assert os.listdir(tmp_path) == []


def test_names_need_not_be_english(path):
    make("ä b/重み..", [1.0])
    save_parameters(path)
    clear_parameters()
    load_parameters(path)
    assert list(get_parameters()) == ["ä b/重み.."]


def test_without_h5py_the_pip_line_is_given(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    for call in (save_parameters, load_parameters):
        with pytest.raises(ImportError, match=r"h5py cannot be imported[\s\S]*pip install 'atled\[h5\]'"):
            call(path)


def test_importing_atled_does_not_import_h5py():
    code = "import sys, atled.files.parameters; assert 'h5py' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_what_was_read_of_a_parameter_is_free_before_the_next_is_made(monkeypatch):
    make("there", [0.0])
    loaded = [Entry(order, key, np.float32([order]), True) for order, key in enumerate(["a", "there", "b", "c"])]
    alive = [weakref.ref(item.values) for item in loaded]
    counts = []

    def counted(item, variable=parameters._variable):
        counts.append(sum(each() is not None for each in alive))
        return variable(item)

    monkeypatch.setattr(parameters, "_variable", counted)
    parameters.take("load", loaded)
    assert counts == [4, 3, 2] and not loaded
    assert {key: param.d.tolist() for key, param in get_parameters().items()} == {
        "there": [1.0],
        "a": [0.0],
        "b": [2.0],
        "c": [3.0],
    }
