"""Monitors write what NNabla's write; pictures can be read back; damaged files are named with their line."""

import os

import numpy as np
import pytest

import atled as nn
from atled import monitor as m
from atled.utils.image_utils import imread


@pytest.fixture
def folder(tmp_path):
    return m.Monitor(tmp_path / "new" / "monitor")


def lines(folder, name):
    with open(f"{folder.save_path}/{name}") as file:
        return file.read().splitlines()


def test_a_series_has_the_mean_of_each_interval(folder):
    series = m.MonitorSeries("training loss", folder, interval=3, verbose=False)
    for i in range(8):
        series.add(i, i * 1.2345678)
    # As written by NNabla 1.39.
    assert lines(folder, "training-loss.series.txt") == ["2 1.23457", "5 4.93827"]


def test_a_series_keeps_values_not_views(folder):
    series = m.MonitorSeries("loss", folder, interval=2, verbose=False)
    loss = nn.Variable(())
    for i in range(4):
        loss.d = i
        series.add(i, loss.d)
    assert lines(folder, "loss.series.txt") == ["1 0.5", "3 2.5"]


def test_a_new_monitor_begins_the_file_anew(folder):
    for _ in range(2):
        m.MonitorSeries("loss", folder, verbose=False).add(0, 1.5)
    assert lines(folder, "loss.series.txt") == ["0 1.5"]


def test_the_timer_has_index_seconds_iterations_total(folder):
    timer = m.MonitorTimeElapsed("time", folder, interval=4, verbose=False)
    for i in range(9):
        timer.add(i)
    rows = [[float(word) for word in line.split()] for line in lines(folder, "time.timer.txt")]
    assert [(row[0], row[2]) for row in rows] == [(3, 4), (7, 4)]
    assert rows[0][1] == rows[0][3] and rows[1][3] == pytest.approx(rows[0][1] + rows[1][1])


def test_what_is_written_is_logged_too(folder, caplog):
    with caplog.at_level("INFO", logger="atled"):
        m.MonitorSeries("loss").add(5, 2.0)
        m.MonitorTimeElapsed("time", interval=1).add(5)
        m.MonitorImage("pictures", folder).add(0, np.zeros((1, 1, 2, 2)))
    assert caplog.messages[0] == "iter=5 {loss}=2.0"
    assert caplog.messages[1].startswith("iter=5 {time}=") and caplog.messages[1].endswith("[sec]")
    assert "pictures" in caplog.messages[2] and caplog.messages[2].endswith("000000-*.png.")


@pytest.mark.parametrize("channels, shape", [(1, (4, 3)), (2, (4, 3, 3)), (3, (4, 3, 3)), (5, (4, 3, 3))])
def test_images_are_written_at_the_end_of_intervals(folder, channels, shape):
    pytest.importorskip("PIL")
    pictures = m.MonitorImage("some pictures", folder, interval=2, num_images=2, verbose=False)
    values = np.random.RandomState(0).randn(5, channels, 4, 3)
    for i in range(4):
        pictures.add(i, values)
    path = folder.save_path + "/some-pictures"
    assert sorted(os.listdir(path)) == [f"{i:06d}-{n:03d}.png" for i in (0, 1, 3) for n in (0, 1)]
    read = imread(f"{path}/000001-001.png")
    assert read.shape == shape
    shown = (values[:2] - values[:2].min()) / (values[:2].max() - values[:2].min())
    expected = np.floor(shown[1, 0].astype(np.float32) * 255)
    np.testing.assert_array_equal(read if channels == 1 else read[..., 0], expected)
    if channels == 2:
        assert (read[..., 2] == 255).all()


def test_equal_pixels_are_black_not_nan(folder):
    pytest.importorskip("PIL")
    m.MonitorImage("flat", folder, verbose=False).add(0, np.full((1, 1, 2, 2), 3.0))
    assert imread(folder.save_path + "/flat/000000-000.png").tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("kind", ["Variable", "NdArray", "array"])
def test_tiles_of_whatever_holds_images(folder, kind):
    pytest.importorskip("PIL")
    values = np.random.RandomState(0).rand(3, 2, 1, 4, 5).astype(np.float32)  # (N, ..., C, H, W)
    given = {"Variable": nn.Variable.from_numpy_array, "NdArray": nn.NdArray.from_numpy_array, "array": np.asarray}
    m.MonitorImageTile("tiles", folder, num_images=6, verbose=False).add(0, given[kind](values))
    assert imread(folder.save_path + "/tiles/000000.png").shape == (15, 18)


def test_a_method_of_ones_own_normalizes(folder):
    pytest.importorskip("PIL")
    pictures = m.MonitorImage("half", folder, verbose=False, normalize_method=lambda x: x / 2)
    pictures.add(0, np.ones((1, 1, 1, 1)))
    assert imread(folder.save_path + "/half/000000-000.png") == 127


def test_what_is_no_batch_of_images_is_refused(folder):
    pictures = m.MonitorImage("pictures", folder, verbose=False)
    with pytest.raises(ValueError, match=r"got shape \(2, 2\)"):
        pictures.add(0, np.zeros((2, 2)))
    with pytest.raises(TypeError, match="got list"):
        pictures.add(0, [1])


def test_tile_images():
    data = np.arange(3 * 2 * 1 * 2).reshape(3, 2, 1, 2)
    tiled = m.tile_images(data, padsize=1, padval=-1)
    assert tiled.shape == (4, 6, 2)
    assert tiled[0, :, 0].tolist() == [0, 1, -1, 4, 5, -1]
    assert tiled[1, :, 0].tolist() == [-1] * 6
    assert tiled[2, :, 1].tolist() == [10, 11, -1, -1, -1, -1]
    assert m.tile_images(np.ones((4, 1, 2, 3)), padsize=0).shape == (4, 6)
    with pytest.raises(ValueError, match=r"give \(N, C, H, W\)"):
        m.tile_images(np.ones((2, 2)))


# Drawing.


@pytest.fixture
def written(folder):
    series = m.MonitorSeries("loss", folder, verbose=False)
    timer = m.MonitorTimeElapsed("time", folder, interval=1, verbose=False)
    for i in range(3):
        series.add(i, i * i)
        timer.add(i)
    return folder.save_path


def test_series_and_times_are_drawn_to_files(written, tmp_path):
    pytest.importorskip("matplotlib")
    (line,) = m.plot_series(f"{written}/loss.series.txt", {"color": "red"}, save=tmp_path / "loss.png")
    assert line.get_ydata().tolist() == [0, 1, 4] and line.get_color() == "red"
    (seconds,) = m.plot_time_elapsed(f"{written}/time.timer.txt", elapsed=True, save=tmp_path / "time.png")
    (minutes,) = m.plot_time_elapsed(f"{written}/time.timer.txt", elapsed=True, unit="m", save=tmp_path / "time.png")
    np.testing.assert_allclose(minutes.get_ydata() * 60, seconds.get_ydata())
    for name in ("loss", "time"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_file_they_go_to_the_present_figure(written):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    m.plot_series(f"{written}/loss.series.txt")
    assert len(plt.gca().lines) == 1
    plt.close("all")


def test_a_damaged_file_is_named_with_its_line(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "a.series.txt").write_text("0 1.5\n1 nothing\n")
    with pytest.raises(ValueError, match=r"a\.series\.txt', line 2: '1 nothing' is not 2 numbers"):
        m.plot_series(tmp_path / "a.series.txt")


def test_an_unknown_unit_is_refused(written):
    with pytest.raises(ValueError, match="known are s, m, h and d"):
        m.plot_time_elapsed(f"{written}/time.timer.txt", unit="y")
