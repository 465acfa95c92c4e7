"""CsvDataSource: numbers, vectors, files by name; damaged tables and files are named with their line."""

import io
import re
import wave

import numpy as np
import pytest

from atled.utils.data_source_implements import CsvDataSource
from atled.utils.data_source_loader import FileReader, load, load_image
from atled.utils.image_utils import imsave


def rows(source):
    return [source.next() for _ in range(source.size)]


def test_numbers_vectors_and_comments(table):
    path = table("x:first,#no,y__0:a,y__1:b\n1,zz,2,3.5\n\n4,zz,-5,1e3\n")
    source = CsvDataSource(path)
    assert source.variables == ("x", "y") and source.size == 2
    assert rows(source) == [([1.0], [2.0, 3.5]), ([4.0], [-5.0, 1000.0])]


def test_a_byte_order_mark_and_quotes(table):
    source = CsvDataSource(table('\ufeffx,"y:a, b"\r\n"1",2\r\n'))
    assert source.variables == ("x", "y") and rows(source) == [([1.0], [2.0])]


def test_files_are_relative_to_the_table(tmp_path, table, monkeypatch):
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "a.npy", np.eye(2))
    table("1,2\n3,4\n", name="data/b.csv")
    with wave.open(str(tmp_path / "data" / "c.wav"), "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(np.array([1, -2, 3, -4], "<i2").tobytes())
    monkeypatch.chdir("/")
    path = table("x,y,z\ndata/a.npy,data\\b.csv,data/c.wav\n")
    x, y, z = CsvDataSource(path).next()
    np.testing.assert_array_equal(x, np.eye(2))
    np.testing.assert_array_equal(y, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(z, [[1, -2], [3, -4]])
    assert z.dtype == np.int16


@pytest.mark.parametrize("shape, expected", [((4, 5), (1, 4, 5)), ((4, 5, 3), (3, 4, 5))])
@pytest.mark.parametrize("normalize", [False, True])
def test_images_are_channels_first(tmp_path, table, shape, expected, normalize):
    pytest.importorskip("PIL")
    image = np.random.RandomState(0).randint(0, 256, shape).astype(np.uint8)
    imsave(tmp_path / "a.png", image)
    (read,) = CsvDataSource(table("x\na.png\n"), normalize=normalize).next()
    assert read.shape == expected and read.dtype == (np.float64 if normalize else np.uint8)
    np.testing.assert_allclose(read * (255.0 if normalize else 1), image.reshape(4, 5, -1).transpose(2, 0, 1))


def test_of_images_of_sixteen_bits_the_upper_eight_are_read(tmp_path, table):
    pytest.importorskip("PIL")
    image = np.random.RandomState(0).randint(0, 65536, (4, 5)).astype(np.uint16)
    imsave(tmp_path / "a.png", image, as_uint16=True)
    (read,) = CsvDataSource(table("x\na.png\n"), normalize=True).next()
    np.testing.assert_allclose(read * 255.0, (image >> 8)[np.newaxis])


def test_an_image_can_be_read_in_another_size(tmp_path):
    pytest.importorskip("PIL")
    imsave(tmp_path / "a.png", np.full((4, 4, 3), 7, np.uint8))
    with open(tmp_path / "a.png", "rb") as file:
        assert (load_image(file, (3, 2, 6)) == 7).all()
        with pytest.raises(ValueError, match="it has 3 channels"):
            load_image(file, (1, 2, 6))


# Bad input: file, line, what to do.


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "it is empty"),
        ("x,y\n", "it has no line of data"),
        ("x,y\n1,2\n3\n", "line 3: it has 1 fields, the first line has 2"),
        ("x,y\n\n\n1,2,3\n", "line 4: it has 3 fields"),
        ("x,x\n1,2\n", "several columns are variable 'x'"),
        ("x,x__0\n1,2\n", "several columns are variable 'x'"),
        ("#x\n1\n", "all columns are comments"),
        ("x,\n1,2\n", "column '': it names no variable"),
        ('x\n"1\n', "line 2: damaged"),
    ],
)
def test_a_damaged_table_is_refused(table, text, words):
    path = table(text)
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        CsvDataSource(path)
    assert repr(path) in str(raised.value) and "What to do: " in str(raised.value)


def test_a_table_that_is_not_utf_8_is_refused(table):
    with pytest.raises(ValueError, match="line 1: damaged"):
        CsvDataSource(table("x:\xe4\n1\n", encoding="latin-1"))


def test_a_missing_table_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        CsvDataSource(tmp_path / "none.csv")


@pytest.mark.parametrize("address", ["http://example.org/a.csv", "s3://bucket/a.csv", "HTTPS://example.org/a.csv"])
def test_addresses_are_refused(address):
    with pytest.raises(ValueError, match="atled reads local files only"):
        CsvDataSource(address)
    with pytest.raises(ValueError, match="atled reads local files only"):
        FileReader("table.csv").path(address)


def test_a_file_that_is_not_there_is_named_with_its_line(table):
    source = CsvDataSource(table("x,y:pic\n1,2\n3,none.png\n"))
    source.next()
    with pytest.raises(FileNotFoundError) as raised:
        source.next()
    for words in ("line 3, column 'y:pic'", "'none.png' is not a number, and no file", "looked for", "What to do: "):
        assert words in str(raised.value)


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("a.png", b"\x89PNG\r\n\x1a\nno", "the image is damaged"),
        ("a.npy", b"\x93NUMPY\x01\x00", "damaged, or not an array of numbers"),
        ("a.npy", b"PK\x03\x04", "damaged, or not an array of numbers"),
        ("a.csv", b"1,2\n3,x\n", "line 2: could not convert string to float: 'x'"),
        ("a.csv", b"1,2\n3\n", "line 2: 1 numbers, the first line has 2"),
        ("a.wav", b"RIFF", "damaged, or not plain PCM"),
        ("a.xyz", b"", "no loader reads it"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, table, name, content, words):
    if name.endswith(".png"):
        pytest.importorskip("PIL")
    (tmp_path / name).write_bytes(content)
    source = CsvDataSource(table(f"x\n1\n{name}\n"))
    source.next()
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        source.next()
    assert "line 3, column 'x'" in str(raised.value) and name in str(raised.value)


def test_a_truncated_image_is_refused(tmp_path, table):
    pytest.importorskip("PIL")
    imsave(tmp_path / "a.png", np.random.RandomState(0).randint(0, 256, (40, 40, 3)).astype(np.uint8))
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:2000])
    with pytest.raises(ValueError, match="the image is damaged"):
        CsvDataSource(table("x\na.png\n")).next()


class Trap:
    """Shows if it is ever unpickled."""

    def __reduce__(self):
        return exec, ("raise SystemExit('code from a file was run')",)


def test_arrays_of_objects_are_never_loaded(tmp_path, table):
    np.save(tmp_path / "a.npy", np.array([Trap()], object), allow_pickle=True)
    with pytest.raises(ValueError, match="not an array of numbers"):
        CsvDataSource(table("x\na.npy\n")).next()


@pytest.mark.parametrize("width, dtype", [(1, np.uint8), (2, np.int16), (3, np.int32), (4, np.int32)])
def test_sounds_of_all_widths(width, dtype):
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(width)
        sound.setframerate(8000)
        sound.writeframes(bytes(range(4 * width)))
    file.seek(0)
    values = load(".WAV")(file)
    assert values.shape == (4, 1) and values.dtype == dtype
    if width == 3:
        assert values[1, 0] == (3 << 8) + (4 << 16) + (5 << 24)


def test_an_unknown_suffix_names_the_known_ones():
    with pytest.raises(ValueError, match=r"did you mean '.jpeg'\?"):
        load(".jpegg")
