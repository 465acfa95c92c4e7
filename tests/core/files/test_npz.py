"""Parameters in .npz: without further libraries, without pickle, and safe against damaged and hostile files."""

import builtins
import io
import os
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import stored_parameters
from atled.files.parameters import load_parameters, save_parameters
from atled.parameter import clear_parameters, get_parameter, get_parameters, parameter_scope
from stored_parameters import make, state


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "params.npz")


def network():
    stored_parameters.network()
    make("ünicode/../odd name.npy", [np.nan, np.inf])


def values(found):
    """Names, shapes and values, without whether a gradient is needed."""
    return {key: rest for key, _, *rest in found}


@pytest.mark.parametrize("name", ["params.npz", "params", "PARAMS.NPZ"])
def test_a_round_trip_keeps_everything_in_order(tmp_path, name):
    network()
    expected = state()
    save_parameters(tmp_path / name)
    clear_parameters()
    load_parameters(tmp_path / name)
    assert state() == expected
    assert os.listdir(tmp_path) == [name]


def test_numpy_reads_it_and_equal_parameters_give_equal_bytes(path, tmp_path):
    network()
    save_parameters(path)
    save_parameters(tmp_path / "again.npz")
    with np.load(path, allow_pickle=False) as arrays:
        assert {key: arrays[key].tobytes() for key in arrays} == {key: content for key, *_, content in state()}
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "params.npz").read_bytes()


def test_names_are_relative_to_the_scope_and_no_parameters_are_a_file(path):
    save_parameters(path)
    load_parameters(path)
    with parameter_scope("one"):
        make("W", [1.0])
        save_parameters(path)
    with parameter_scope("two"):
        load_parameters(path)
    assert get_parameter("two/W").d.tolist() == [1.0]


def test_no_further_library_is_imported(path):
    use = f"import sys, atled as nn; nn.save_parameters({path!r}); nn.load_parameters({path!r})"
    code = f"{use}; print('h5py' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("key", ["zero\0byte", "lone\ud800", "x" * 65532])
def test_a_name_that_zip_cannot_hold_is_refused_before_anything_is_written(path, key, tmp_path):
    make(key, [1.0])
    with pytest.raises(ValueError, match=r"zip file cannot hold this name[\s\S]*What to do"):
        save_parameters(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", [save_parameters, load_parameters])
@pytest.mark.parametrize("name", [".h5", ".npz", ".hidden", "params.h5.bak"])
def test_a_name_that_is_only_a_suffix_or_has_an_unknown_one_is_refused(call, name, tmp_path):
    make("W", [1.0])
    with pytest.raises(ValueError, match=r"suffix[\s\S]*known: \.npz[\s\S]*What to do"):
        call(tmp_path / name)
    assert os.listdir(tmp_path) == []


# What save_parameters would not have written.


def array_image(values, version=(1, 0)):
    image = io.BytesIO()
    np.lib.format.write_array(image, np.asarray(values), version, allow_pickle=True)
    return image.getvalue()


def put(path, *members, flag=b"need_grad=True", method=zipfile.ZIP_STORED):
    """A file of (name, bytes) members."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, image in members:
            info = zipfile.ZipInfo(name)
            info.comment, info.compress_type = flag, method
            archive.writestr(info, image)


GOOD = array_image(np.float32([1, 2]))


def lying(**fields):
    """An array whose header says something else."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (2,), **fields}
    text = repr(header).encode().ljust(118 - 10 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"\0" * 8


@pytest.mark.parametrize(
    ("members", "options", "wrong"),
    [
        ([("a.npy", array_image(np.array([{}], object)))], {}, "its dtype is object"),
        ([("a.npy", array_image(np.array(["a"])))], {}, "its dtype is <U1"),
        ([("a.npy", array_image(np.array([1j])))], {}, "its dtype is complex128"),
        ([("a.npy", array_image(np.array([1e300])))], {}, "too large for float32"),
        ([("a.npy", lying(shape=(1 << 60,)))], {}, "it holds 8 bytes"),
        ([("a.npy", lying(shape=(-2,)))], {}, "its shape is"),
        ([("a.npy", lying(shape=(3,)))], {}, "it holds 8 bytes"),
        ([("a.npy", lying(descr="<f4; import os"))], {}, "damaged"),
        ([("a.npy", GOOD[:20])], {}, "damaged"),
        ([("a.npy", b"")], {}, "damaged"),
        ([("a", GOOD)], {}, "it is the file 'a', not an array"),
        ([(".npy", GOOD)], {}, "not an array"),
        ([("a.npy", GOOD)], {"flag": b""}, "does not say whether the parameter is trained"),
        ([("a.npy", bytes(10**7))], {"method": zipfile.ZIP_DEFLATED}, "compressed or encrypted"),
    ],
)
def test_what_is_no_parameter_is_refused_with_its_key(path, members, options, wrong):
    put(path, ("W.npy", GOOD), *members, **options)
    with pytest.raises(ValueError, match=wrong) as caught:
        load_parameters(path)
    assert "What to do" in str(caught.value) and not get_parameters()


def test_arrays_of_one_shape_are_told_apart_by_dtype_order_and_version_of_their_headers(path):
    wanted = np.arange(6.0).reshape(2, 3)
    forms = [
        np.asarray(wanted + add, dtype, order)
        for add, dtype, order in [
            (0, "<f4", "C"),
            (10, "<f4", "F"),
            (20, ">f8", "C"),
            (30, "<f4", "C"),
            (40, "|i1", "F"),
        ]
    ]
    members = [(f"{number}.npy", array_image(form)) for number, form in enumerate(forms)]
    members += [(f"v{version}.npy", array_image(forms[0], (version, 0))) for version in (2, 3)]
    put(path, *members)
    load_parameters(path)
    for number in range(len(forms)):
        assert get_parameter(str(number)).d.tolist() == (wanted + 10 * number).tolist()
    for version in (2, 3):
        assert get_parameter(f"v{version}").d.tolist() == wanted.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (3,), (1, 0, 2), (2, 3, 1, 5)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_all_shapes_come_as_they_went(path, shape, order):
    wanted = np.random.default_rng(0).standard_normal(shape).astype(np.float32, order)
    put(path, ("a.npy", array_image(wanted)), ("b.npy", array_image(wanted + 1)))
    load_parameters(path)
    for key, values in (("a", wanted), ("b", wanted + 1)):
        assert get_parameter(key).shape == shape and get_parameter(key).d.tolist() == values.tolist()
    get_parameter("a").d[...] = 7
    assert get_parameter("b").d.tolist() == (wanted + 1).tolist()


@pytest.mark.parametrize("name", ["\xfcber/W.npy", "W.npy", "\u6f22/W.npy"])
def test_an_entry_with_fields_of_its_own_and_any_name_is_read(path, name):
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.comment = b"need_grad=True"
        with archive.open(info, "w", force_zip64=True) as entry:  # as numpy.savez does
            entry.write(GOOD)
    load_parameters(path)
    assert get_parameter(name.removesuffix(".npy")).d.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("place", "byte", "wrong"),
    [
        (0, 0, "the directory and the entry differ"),  # the signature
        (30, ord("X"), "the directory and the entry differ"),  # the name
        (-1, 0xFF, "the bytes are not those that were written"),
    ],
)
def test_an_entry_that_is_not_what_the_directory_says_is_refused(path, place, byte, wrong):
    put(path, ("a.npy", GOOD))
    with open(path, "rb") as file:
        image = bytearray(file.read())
    image[place if place >= 0 else image.find(b"PK\x01\x02") + place] = byte
    with open(path, "wb") as file:
        file.write(image)
    with pytest.raises(ValueError, match=rf"key 'a'[\s\S]*{wrong}"):
        load_parameters(path)
    assert not get_parameters()


@pytest.mark.parametrize("length", [0, 1, 117, 119, 65535])
def test_a_header_that_is_not_as_long_as_it_says_is_refused(path, length):
    image = bytearray(array_image(np.float32([[1, 2]])))
    struct.pack_into("<H", image, 8, length)
    put(path, ("W.npy", array_image(np.float32([[1, 2]]))), ("a.npy", bytes(image)))
    with pytest.raises(ValueError, match=r"key 'a'[\s\S]*(damaged|its shape is)"):
        load_parameters(path)
    assert not get_parameters()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_of_one_name_are_refused(path):
    put(path, ("W.npy", GOOD), ("W.npy", GOOD))
    with pytest.raises(ValueError, match="another parameter of the file has the same name"):
        load_parameters(path)


def test_entries_that_share_their_bytes_are_refused_before_they_are_read(path):
    put(path, *((f"W{i}.npy", GOOD) for i in range(9)))
    with open(path, "rb") as file:
        image = bytearray(file.read())
    place = image.find(b"PK\x01\x02")
    while place >= 0:  # every entry of the directory claims the first one's place, and a size of its own
        struct.pack_into("<II", image, place + 20, 10**9, 10**9)
        struct.pack_into("<I", image, place + 42, 0)
        place = image.find(b"PK\x01\x02", place + 1)
    with open(path, "wb") as file:
        file.write(image)
    with pytest.raises(ValueError, match=r"entries claim more than the \d+ bytes that the file has"):
        load_parameters(path)


def test_every_truncation_and_many_flipped_bytes_are_refused_or_harmless(path):
    make("W", [[1.0, 2.0], [3.0, 4.0]])
    make("b", [5.0], need_grad=False)
    save_parameters(path)
    expected = state()
    with open(path, "rb") as file:
        image = file.read()
    rng = np.random.default_rng(0)
    damaged = [image[:length] for length in range(len(image))]
    for place in rng.integers(0, len(image), 400):
        flipped = bytearray(image)
        flipped[place] ^= int(rng.integers(1, 256))
        damaged.append(bytes(flipped))
    refused = 0
    for bad in damaged:
        with open(path, "wb") as file:
            file.write(bad)
        clear_parameters()
        try:
            load_parameters(path)
        except ValueError:
            refused += 1
            assert not get_parameters(grad_only=False)
        else:
            assert values(state()) == values(expected)
    assert refused > len(image)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_fifo_a_folder_and_a_missing_file_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo.npz")
    (tmp_path / "folder.npz").mkdir()
    for name in ("fifo.npz", "folder.npz"):
        with pytest.raises(OSError, match="not a regular file"):
            load_parameters(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"could not be read[\s\S]*What to do"):
        load_parameters(tmp_path / "missing.npz")


def test_saving_that_fails_leaves_the_old_file(path, tmp_path, monkeypatch):
    make("W", [1.0])
    save_parameters(path)
    opened = builtins.open

    def full(name, mode="r", *arguments, **keywords):
        if "x" in mode:
            raise OSError(28, "No space left on device")
        return opened(name, mode, *arguments, **keywords)

    get_parameter("W").d = 2
    monkeypatch.setattr(builtins, "open", full)
    with pytest.raises(OSError, match="could not be written"):
        save_parameters(path)
    monkeypatch.undo()
    load_parameters(path)
    assert get_parameter("W").d.tolist() == [1.0] and os.listdir(tmp_path) == ["params.npz"]
