"""Parameters in NNabla's protobuf format: round trips, the wire format, and every kind of file that must be refused."""

import os
import subprocess
import sys

import numpy as np
import pytest

import stored_parameters
from atled.files import protobuf
from atled.files.parameters import load_parameters, save_parameters
from atled.parameter import (
    clear_parameters,
    get_parameter,
    get_parameters,
    parameter_scope,
)
from stored_parameters import make, state

pytest.importorskip("google.protobuf")

SUFFIXES = [".protobuf", ".nntxt", ".prototxt"]


def network():
    stored_parameters.network()
    make("ä b/重み", [np.inf, -np.inf, np.nan, 1e-45, 3.4028235e38, 1 / 3])


def assert_refused(path, wrong, part=""):
    """Loading fails with the words, the file's name and a remedy, and changes nothing."""
    before = state()
    with pytest.raises(ValueError, match=wrong) as caught:
        load_parameters(path)
    assert str(path) in str(caught.value) and part in str(caught.value) and "What to do: " in str(caught.value)
    assert state() == before


def varint(value):
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number, content):
    """A length-delimited field of protobuf's wire format."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def parameter(name=b"W", dims=(2,), values=(1.0, 2.0), more=b""):
    shape = field(20, field(1, b"".join(varint(dim) for dim in dims)))
    data = field(100, np.asarray(values, "<f4").tobytes())
    return field(200, field(1, name) + shape + data + varint(101 << 3) + b"\1" + more)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_round_trip_keeps_values_order_shapes_and_flags(suffix, tmp_path):
    network()
    expected = state()
    save_parameters(tmp_path / f"p{suffix}")
    clear_parameters()
    load_parameters(tmp_path / f"p{suffix}")
    assert state() == expected


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_are_relative_to_the_scope(suffix, tmp_path):
    network()
    with parameter_scope("z"):
        save_parameters(tmp_path / f"p{suffix}")
    with parameter_scope("copy"):
        load_parameters(tmp_path / f"p{suffix}")
        assert list(get_parameters()) == ["conv/W", "conv/b"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_parameters_make_a_file_that_loads(suffix, tmp_path):
    save_parameters(tmp_path / f"p{suffix}")
    load_parameters(tmp_path / f"p{suffix}")
    assert get_parameters() == {}


def test_the_wire_format_has_nnablas_field_numbers(tmp_path):
    make("W", [1.0, 2.0])
    save_parameters(tmp_path / "p.protobuf")
    assert (tmp_path / "p.protobuf").read_bytes() == parameter()


@pytest.mark.parametrize("count", [0, 1, 31, 32, 4095, 4096, 2**19 + 1])
def test_the_size_of_values_is_written_with_as_many_bytes_as_it_takes(count, tmp_path):
    values = np.random.randn(count).astype(np.float32)
    make("W", values)
    save_parameters(tmp_path / "p.protobuf")
    image = (tmp_path / "p.protobuf").read_bytes()
    if count:  # an empty field is left out
        assert image == parameter(dims=(count,), values=values)
    get_parameter("W").d = 0
    load_parameters(tmp_path / "p.protobuf")
    assert get_parameter("W").d.tobytes() == values.tobytes()


def test_values_beyond_protobufs_limit_are_refused_before_the_file_is_touched(tmp_path, monkeypatch):
    make("W", [1.0, 2.0])
    save_parameters(tmp_path / "p.protobuf")
    before = (tmp_path / "p.protobuf").read_bytes()
    make("x", np.ones(9))
    monkeypatch.setattr(protobuf, "_LIMIT_BYTES", 32)
    with pytest.raises(ValueError, match=r"p\.protobuf.*it takes at most 2 GiB, these values are 36 bytes") as caught:
        save_parameters(tmp_path / "p.protobuf")
    assert "save as .h5" in str(caught.value)
    assert (tmp_path / "p.protobuf").read_bytes() == before


def test_data_that_is_not_packed_will_do(tmp_path):
    values = b"".join(varint(100 << 3 | 5) + np.float32(value).tobytes() for value in (3, 4))
    content = field(200, field(1, b"W") + field(20, field(1, b"\2")) + values)
    (tmp_path / "p.protobuf").write_bytes(content)
    load_parameters(tmp_path / "p.protobuf")
    assert not get_parameter("W").need_grad
    np.testing.assert_array_equal(get_parameter("W").d, [3, 4])


def test_a_parameter_that_is_there_takes_the_values(tmp_path):
    w = make("W", [1.0, 2.0])
    save_parameters(tmp_path / "p.protobuf")
    w.d = 0
    load_parameters(tmp_path / "p.protobuf")
    assert get_parameter("W") is w
    np.testing.assert_array_equal(w.d, [1, 2])


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"", "the file is empty"),
        (b"\x89HDF\r\n\x1a\n" + bytes(500), "not one of NNabla's protobuf format"),
        (b"PK\x03\x04" + bytes(500), "not one of NNabla's protobuf format"),
        (parameter()[:-5], "not one of NNabla's protobuf format"),
        (field(999, b"abc"), "a field 999, which NNablaProtoBuf has not"),
        (parameter(more=field(5, b"x")), "a field 5, which Parameter has not"),
        (parameter(name=b"\xff\xfe"), "not one of NNabla's protobuf format"),
        (parameter(name=b""), "has no name"),
        (parameter() + parameter(b"V") + parameter(), r"parameter 2 \('W'\)[\s\S]*has the same name"),
        (parameter(dims=(3,)), r"its shape is \(3,\), and it holds 2 values"),
        (parameter(dims=(2**64 - 1, 2**64 - 2)), r"its shape is \(-1, -2\)"),
        (parameter(dims=(2**40, 2**40)), "and it holds 2 values"),
    ],
)
def test_a_damaged_or_foreign_binary_file_is_refused(content, wrong, tmp_path):
    make("W", [7.0, 7.0])
    path = tmp_path / "p.protobuf"
    path.write_bytes(content)
    assert_refused(path, wrong)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b" \n", "the file is empty"),
        (b'parameter {\n  variable_name: "W"\n', r"line:column[\s\S]*2:18"),
        (b'parameter {\n  variable_nam: "W"\n}\n', r'2:3[\s\S]*no field named "variable_nam"'),
        (b'parameter { variable_name: "W" shape { dim: 2 } data: 1 }', r"its shape is \(2,\), and it holds 1 values"),
        (b"\xff\xfe", "not one of NNabla's text format"),
    ],
)
def test_a_damaged_text_file_is_refused_with_its_place(content, wrong, tmp_path):
    path = tmp_path / "p.nntxt"
    path.write_bytes(content)
    assert_refused(path, wrong)


def test_damage_anywhere_is_loaded_whole_or_not_at_all(tmp_path):
    network()
    count = len(state())
    save_parameters(tmp_path / "p.protobuf")
    image = (tmp_path / "p.protobuf").read_bytes()
    rng = np.random.RandomState(0)
    refused = 0
    for _ in range(150):
        clear_parameters()
        copy = bytearray(image)
        for place in rng.randint(0, len(image), 3):
            copy[place] = rng.randint(256)
        (tmp_path / "b.protobuf").write_bytes(bytes(copy))
        try:
            load_parameters(tmp_path / "b.protobuf")
        except ValueError as error:
            refused += 1
            assert "b.protobuf" in str(error) and "What to do: " in str(error)
            assert get_parameters(grad_only=False) == {}
        else:
            assert len(state()) == count  # values, names or shapes of the same size changed
    assert refused > 20


def test_a_name_that_is_no_text_is_refused(tmp_path):
    make("\ud800", [1.0])
    with pytest.raises(ValueError, match=r"protobuf cannot hold this name[\s\S]*What to do"):
        save_parameters(tmp_path / "p.protobuf")
    assert os.listdir(tmp_path) == []


def test_parameters_alone_are_not_saved_as_an_archive(tmp_path):
    make("W", [1.0])
    with pytest.raises(ValueError, match=r"not parameters alone[\s\S]*What to do"):
        save_parameters(tmp_path / "p.nnp")
    assert os.listdir(tmp_path) == []


def test_without_protobuf_the_pip_line_is_given(tmp_path, monkeypatch):
    (tmp_path / "p.protobuf").write_bytes(parameter())
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    for call in (save_parameters, load_parameters):
        with pytest.raises(
            ImportError, match=r"protobuf library cannot be imported[\s\S]*pip install 'atled\[protobuf\]'"
        ):
            call(tmp_path / "p.protobuf")


def test_importing_atled_imports_neither_protobuf_nor_zipfile():
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import atled\n"
        "new = set(sys.modules) - before\n"
        "assert not any(name.startswith('google.protobuf') or name == 'atled.files.nnp.archive' for name in new), new\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
