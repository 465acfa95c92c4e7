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
    with pytest.raises(ValueError, match="8 bits per channel"):
        imread(tmp_path / "a.png")


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
