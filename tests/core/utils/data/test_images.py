"""Images: PNG files written without a library are read by one; sizes, channels, refusals."""

import sys

import numpy as np
import pytest

from atled.utils.image_utils import imread, imresize, imsave


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4), (1, 1)])
def test_png_files_round_trip(tmp_path, rng, shape):
    pytest.importorskip("PIL")
    image = rng.randint(0, 256, shape).astype(np.uint8)
    imsave(tmp_path / "a.png", image)
    np.testing.assert_array_equal(imread(tmp_path / "a.png"), image[..., 0] if shape[2:] == (1,) else image)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_sixteen_bits_are_written(tmp_path, rng):
    pillow = pytest.importorskip("PIL.Image")
    image = rng.randint(0, 65536, (5, 7)).astype(np.uint16)
    imsave(tmp_path / "a.png", image, as_uint16=True)
    with pillow.open(tmp_path / "a.png") as read:
        np.testing.assert_array_equal(np.asarray(read), image)
    np.testing.assert_array_equal(imread(tmp_path / "a.png", as_uint16=True), image)
    np.testing.assert_array_equal(imread(tmp_path / "a.png"), image >> 8)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 2), (5, 7, 3), (5, 7, 4)])
def test_of_sixteen_bits_the_upper_eight_are_read(tmp_path, rng, shape):
    pytest.importorskip("PIL")
    image = rng.randint(0, 65536, shape).astype(np.uint16)
    imsave(tmp_path / "a.png", image, as_uint16=True)
    read = imread(tmp_path / "a.png")
    assert read.dtype == np.uint8
    if shape[2:] == (2,):  # grey and alpha: Pillow makes RGBA of it
        image = image[..., [0, 0, 0, 1]]
    np.testing.assert_array_equal(read, image >> 8)
    if len(shape) == 3:
        with pytest.raises(ValueError, match="of colours of 16 bits Pillow reads 8"):
            imread(tmp_path / "a.png", as_uint16=True)
        with open(tmp_path / "a.png", "rb") as file, pytest.raises(ValueError, match="Pillow reads 8"):
            imread(file, as_uint16=True)


def test_grey_of_sixteen_bits_is_scaled_to_what_is_asked_for(tmp_path, rng):
    pytest.importorskip("PIL")
    image = rng.randint(0, 65536, (6, 4)).astype(np.uint16)
    imsave(tmp_path / "a.png", image, as_uint16=True)
    np.testing.assert_array_equal(imread(tmp_path / "a.png", grayscale=True), image >> 8)
    np.testing.assert_array_equal(imread(tmp_path / "a.png", num_channels=3), np.stack([image >> 8] * 3, axis=2))
    assert (imread(tmp_path / "a.png", num_channels=4)[..., 3] == 255).all()
    assert (imread(tmp_path / "a.png", as_uint16=True, num_channels=4)[..., 3] == 65535).all()
    assert imread(tmp_path / "a.png", size=(2, 3)).dtype == np.uint8
    small = imread(tmp_path / "a.png", size=(2, 3), as_uint16=True)
    assert small.shape == (3, 2) and small.dtype == np.uint16 and small.max() > 255


def test_eight_bits_as_sixteen_are_multiplied_as_in_nnabla(tmp_path, rng):
    pytest.importorskip("PIL")
    image = rng.randint(0, 256, (5, 7, 3)).astype(np.uint8)
    imsave(tmp_path / "a.png", image)
    np.testing.assert_array_equal(imread(tmp_path / "a.png", as_uint16=True), image.astype(np.uint16) * 256)


@pytest.mark.parametrize(
    "mode, expected",
    [("1", [[0, 1, 1]]), ("LA", (1, 3, 2)), ("P", (1, 3, 3)), ("CMYK", (1, 3, 4))],
)
def test_other_modes_are_read_as_nnabla_reads_them(mode, expected, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    pillow.fromarray(np.array([[0, 200, 255]], np.uint8)).convert("RGBA" if mode == "LA" else "RGB").convert(mode).save(
        path
    )
    read = imread(path)
    assert read.dtype == np.uint8
    assert (read.tolist() if isinstance(expected, list) else read.shape) == expected
    assert imread(path, grayscale=True).shape == (1, 3)
    assert imread(path, num_channels=3).shape == (1, 3, 3)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_pixels_of_32_bits_are_given_as_they_are(dtype, tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    pixels = np.array([[0, 70000, 255]], dtype)
    pillow.fromarray(pixels).save(tmp_path / "a.tif")
    read = imread(tmp_path / "a.tif")
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, pixels)
    with pytest.raises(ValueError, match="read it without as_uint16"):
        imread(tmp_path / "a.tif", as_uint16=True)


def test_numbers_from_0_to_1_are_scaled(tmp_path):
    pytest.importorskip("PIL")
    imsave(tmp_path / "a.png", np.array([[0, 0.5, 1]]))
    assert imread(tmp_path / "a.png").tolist() == [[0, 127, 255]]


def test_channels_first(tmp_path, rng):
    pytest.importorskip("PIL")
    image = rng.randint(0, 256, (3, 5, 7)).astype(np.uint8)
    imsave(tmp_path / "a.png", image, channel_first=True)
    np.testing.assert_array_equal(imread(tmp_path / "a.png", channel_first=True), image)


def test_what_to_make_of_the_channels(tmp_path, rng):
    pytest.importorskip("PIL")
    imsave(tmp_path / "a.png", rng.randint(0, 256, (5, 7, 3)).astype(np.uint8))
    assert imread(tmp_path / "a.png", grayscale=True).shape == (5, 7)
    assert imread(tmp_path / "a.png", grayscale=True, num_channels=3).shape == (5, 7, 3)
    assert imread(tmp_path / "a.png", num_channels=4).shape == (5, 7, 4)
    assert imread(tmp_path / "a.png", size=(3, 2)).shape == (2, 3, 3)
    with pytest.raises(ValueError, match="no such count of channels"):
        imread(tmp_path / "a.png", num_channels=2)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 1), (6, 4, 3)])
def test_resizing_by_pixels(rng, shape, dtype):
    pytest.importorskip("PIL")
    image = rng.randint(0, 256, shape).astype(dtype)
    doubled = imresize(image, (8, 12), "nearest")
    assert doubled.dtype == dtype
    np.testing.assert_array_equal(doubled, image.repeat(2, 0).repeat(2, 1))
    if len(shape) == 3:
        first = imresize(image.transpose(2, 0, 1), (8, 12), "nearest", channel_first=True)
        np.testing.assert_array_equal(first.transpose(1, 2, 0), doubled)


@pytest.mark.parametrize(
    "image, options, words",
    [
        (np.zeros((2, 2, 5), np.uint8), {}, "not that of an image"),
        (np.zeros(4, np.uint8), {}, "not that of an image"),
        (np.zeros((0, 4), np.uint8), {}, "not that of an image"),
        (np.full((2, 2), 1.5), {}, "from 1.5 to 1.5"),
        (np.full((2, 2), -0.1), {}, "must lie between 0 and 1"),
        (np.full((2, 2), np.nan), {}, "must lie between 0 and 1"),
        (np.zeros((2, 2)), {"auto_scale": False}, "auto_scale=False"),
        (np.zeros((2, 2), np.uint16), {}, "pass as_uint16=True"),
    ],
)
def test_what_is_no_image_is_not_written(tmp_path, image, options, words):
    with pytest.raises(ValueError, match=words):
        imsave(tmp_path / "a.png", image, **options)
    assert list(tmp_path.iterdir()) == []


def test_resizing_refuses(rng):
    with pytest.raises(ValueError, match=r"did you mean 'bilinear'\?"):
        imresize(np.zeros((2, 2)), (3, 3), "bilinar")
    with pytest.raises(ValueError, match="not the shape of an image"):
        imresize(np.zeros(2), (3, 3))


def test_without_pillow_png_files_are_written_and_the_rest_names_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    imsave(tmp_path / "a.png", np.zeros((2, 2), np.uint8))
    for use in (
        lambda: imread(tmp_path / "a.png"),
        lambda: imsave(tmp_path / "a.jpg", np.zeros((2, 2), np.uint8)),
        lambda: imresize(np.zeros((2, 2)), (3, 3)),
    ):
        with pytest.raises(ImportError, match=r"pip install 'atled\[image\]'"):
            use()


def test_other_formats_go_by_their_suffix(tmp_path, rng):
    pytest.importorskip("PIL")
    image = rng.randint(0, 256, (5, 7, 3)).astype(np.uint8)
    imsave(tmp_path / "a.bmp", image)
    np.testing.assert_array_equal(imread(tmp_path / "a.bmp"), image)
    with pytest.raises(ValueError, match=r"use a name that ends in \.png"):
        imsave(tmp_path / "a.nothing", image)


def test_a_missing_file_is_the_systems_error(tmp_path):
    pytest.importorskip("PIL")
    with pytest.raises(FileNotFoundError):
        imread(tmp_path / "none.png")
