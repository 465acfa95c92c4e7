"""The limits of the machine, what rows need of it, and the page that sets processors side by side."""

from __future__ import annotations

import json
import os

import pytest

import processors
from bench_rows import further_inference, inference_networks, networks, work
from bench_table import ROWS
from harness import limits, report
from harness.case import Row, Work
from harness.rounds import Comparison, Outcome

LIMITS = {"flops": 1e11, "bytes": {"65536": 1e11, "8388608": 1e10}}


@pytest.mark.slow
def test_the_limits_of_this_machine_are_measured():
    found = limits.measured(os.environ, 1)
    assert found["processor"] and found["vector_bits"] in (128, 256, 512)
    assert found["flops"] > 1e8 and len(found["bytes"]) == 4 and all(rate > 1e7 for rate in found["bytes"].values())


def test_a_measurement_that_fails_is_an_error_with_its_words():
    with pytest.raises(RuntimeError, match=r"(?s)could not be measured:\n.*invalid literal"):
        limits.measured(os.environ, "two")


def test_the_shortest_time_is_that_of_operations_or_of_bytes_in_copies_of_about_their_size():
    assert limits.shortest_time(Work(flops=2e11, bytes=100), LIMITS) == 2
    assert limits.shortest_time(Work(bytes=100_000), LIMITS) == 1e-6
    assert limits.shortest_time(Work(flops=1e6, bytes=1e9), LIMITS) == 0.1


def test_the_share_of_the_limit_is_shown_and_kept():
    outcome = Outcome(Row("toy", "m:f", ("ours",), work=Work(flops=1e11)), {"ours": [4.0]})
    heading, line = report.table_of([outcome], LIMITS)
    assert line[heading.index("of limit")] == "25%"
    assert report.as_json("bench", [outcome], {"limits": LIMITS})["rows"][0]["limit_share"] == 0.25
    assert "of limit" not in report.table_of([outcome])[0]
    unknown = Outcome(Row("toy", "m:f", ("ours",)), {"ours": [4.0]})
    assert report.as_json("bench", [unknown], {"limits": LIMITS})["rows"][0]["limit_share"] is None


def test_operations_are_counted_by_the_definition_of_layers():
    assert work.product(2, 3, 4) == Work(2 * 2 * 3 * 4, 4 * (6 + 12 + 8))
    # 2 images, 2 groups of 2 of 4 channels, 5 x 5 with stride 2 and padding 1: 3 x 3 results of 6 maps.
    found = work.convolution((2, 4, 5, 5), 6, 3, 1, stride=2, groups=2)
    assert found == Work(2 * (2 * 6 * 9) * (2 * 9), 4 * (200 + 6 * 18 + 108))
    assert work.convolution((2, 4, 5, 5), 6, 3, 1, stride=2, groups=2, backward=True).flops == 3 * found.flops


def test_operations_of_networks_are_those_that_their_papers_state():
    # Of He et al. (2016), table 1, and Sandler et al. (2018), table 4: multiplications with additions of one image.
    assert work.inference(inference_networks.NETWORKS["ResNet-18"], 1).flops / 2 == pytest.approx(1.8e9, rel=0.02)
    assert work.inference(inference_networks.NETWORKS["MobileNetV2"], 1).flops / 2 == pytest.approx(300e6, rel=0.02)
    # The tables of these papers that their docstrings name; Ma et al. (2018), Liu et al. (2022): in the text.
    stated = {"ResNeXt-50": 4.2e9, "EfficientNet-B0": 390e6, "ShuffleNetV2": 146e6, "ConvNeXt-T": 4.5e9}
    for name, multiplications in stated.items():
        found = work.inference(further_inference.NETWORKS[name], 1).flops / 2
        assert found == pytest.approx(multiplications, rel=0.02), name
    # Three products of each layer, but for the gradient of the first one's images.
    forward = 784 * 512 + 512 * 512 + 512 * 10
    assert work.training(networks.NETWORKS["mlp"]).flops == 2 * 128 * (3 * forward - 784 * 512)


def test_rows_of_layers_and_training_say_what_they_need():
    names = {row.name for row in ROWS if row.work is not None}
    assert {"conv 16x64x56x56, 64 3x3", "sum 1000x1000, all", "training step, LSTM, cells", "max pooling 2x2"} <= names


def written(folder, processor: str, ratio: float) -> None:
    """A results file of one row, measured on `processor`."""
    row = Row("a*b", "m:f", ("ours", "peer"), unit="us", work=Work(flops=1e5))
    outcome = Outcome(row, {"ours": [ratio], "peer": [1.0]}, comparisons={"peer": Comparison(ratio, ratio, ratio)})
    machine = {"cpu": "a machine", "commit": "abc", "system": "Linux"}
    environment = {"date": "2026-01-02T03:04:05", "machine": machine, "limits": {"processor": processor, **LIMITS}}
    (folder / processor).mkdir()
    (folder / processor / "bench.json").write_text(json.dumps(report.as_json("bench", [outcome], environment)))


def test_the_page_has_the_processors_beside_each_other(tmp_path):
    written(tmp_path, "older", 2e-6)
    written(tmp_path, "newer", 1e-6)
    text = processors.page(tmp_path)
    assert "| row | newer | ratio | of limit | older | ratio | of limit |" in text
    assert "| a\\*b | 1 us | 0.00 peer | 100% | 2 us | 0.00 peer | 50% |" in text
    assert "| older | a machine | bench | 2026-01-02 | abc | 100 | 0.0625 MB: 100, 8 MB: 10 |" in text


def test_a_row_that_was_not_measured_on_a_processor_or_failed_there_is_shown_as_such(tmp_path):
    written(tmp_path, "older", 2e-6)
    written(tmp_path, "newer", 1e-6)
    path = tmp_path / "newer" / "bench.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "rows": []}))
    assert "| a\\*b |  |  |  | 2 us" in processors.page(tmp_path)
    content["rows"][0] |= {"seconds": {"ours": 1.0}, "failures": {"ours": "no"}}
    path.write_text(json.dumps(content))
    assert "| a\\*b | failed |  |  | 2 us" in processors.page(tmp_path)


def test_the_chart_of_the_processors_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    written(tmp_path, "older", 2e-6)
    processors.draw(tmp_path / "chart.png", tmp_path)
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_is_what_the_results_give(capsys):
    assert processors.main(["--check"]) == 0, capsys.readouterr().out
