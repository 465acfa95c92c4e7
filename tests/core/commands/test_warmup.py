"""A warm-up prepares what a plugin names and what the samples need, once."""

from __future__ import annotations

import json
from typing import Any

import pytest

import atled.warming
from atled.call import Call, Prepared
from atled.commands import USER_ERROR, main
from atled.generators.catalogue import all_specs
from atled.preparing import prepare
from atled.warming import warm_up
from atled_contexts import Implementation, PluginError, Warming, report_preparation, warmings


@pytest.fixture
def few_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only some ops, so that little is compiled where the store is empty."""
    specs = tuple(spec for spec in all_specs() if spec.name in ("ReLU", "ReLUGradX", "Reshape", "Sum"))
    monkeypatch.setattr(atled.warming, "all_specs", lambda: specs)


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A plugin with a piece that is ready and one that is not; which have been prepared."""
    prepared: list[str] = []

    def prepare() -> None:
        prepared.append("slow")
        report_preparation("toy", 0, 1, "slow")
        report_preparation("toy", 1, 1, "slow")

    def offered(backend: str, type_config: str) -> tuple[Warming, ...]:
        return (
            Warming("slow", prepare, is_ready="slow" in prepared),
            Warming("there", lambda: pytest.fail("it was ready"), is_ready=True),
        )

    monkeypatch.setattr(atled.warming, "warmings", offered)
    return prepared


def test_only_what_is_missing_is_prepared(few_ops: None, pieces: list[str]) -> None:
    seen: list[Any] = []
    first = warm_up("sim", progress=lambda *report: seen.append(report))
    assert pieces == ["slow"]
    assert (first.prepared, first.ready, first.ops) == (["slow"], 1, 3)  # a view computes nothing
    assert seen[0] == (0, 5, "slow") and seen[-1] == (5, 5, "")
    second = warm_up("sim")
    assert pieces == ["slow"]
    assert (second.prepared, second.ready) == ([], 2)


def test_an_unknown_backend_or_type_config_says_what_there_is() -> None:
    with pytest.raises(PluginError, match="no_such"):
        warm_up("no_such")
    with pytest.raises(ValueError, match=r"no type config 'doubel'[\s\S]*double"):
        warm_up("sim", "doubel")


def test_the_command_reports(few_ops: None, pieces: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup", "sim", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["backend"] == "sim" and report["type_config"] == "float" and report["prepared"] == ["slow"]
    assert main(["warmup", "sim:half"]) == 0
    assert capsys.readouterr().out.startswith("sim:half: 0 kernels compiled in ")


def test_the_command_refuses_what_it_cannot_warm(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warmup", "reference"]) == USER_ERROR
    assert "nothing to compile" in capsys.readouterr().err
    assert main(["warmup", "sim:wrong"]) == USER_ERROR
    assert "no type config 'wrong'" in capsys.readouterr().err


@pytest.mark.parametrize("type_config", ["float", "half"])
def test_kernels_without_channel_last_are_prepared_for_the_calls_that_graphs_have(
    type_config: str, pieces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, bool, tuple[int, ...]]] = []

    def recorded(made: Implementation, call: Call) -> Prepared:
        assert call.inputs[0] is not None
        asked.append((call.spec.name, call.channel_last, call.inputs[0].shape))
        return prepare(made, call)

    specs = tuple(spec for spec in all_specs() if spec.name in ("Convolution", "MaxPooling"))
    monkeypatch.setattr(atled.warming, "all_specs", lambda: specs)
    monkeypatch.setattr(atled.warming, "prepare", recorded)
    assert warm_up("cpu", type_config).ops == 2
    assert not any(is_last for _, is_last, _ in asked)
    # The sample with channel_last, two leading axes and a kernel that its channels would be too few for.
    assert ("Convolution", False, (2, 1, 3, 5)) in asked


def test_cpu_names_its_kernels(few_ops: None) -> None:
    offered = {piece.name for piece in warmings("cpu", "float")}
    assert {"winograd_float32", "softmax_rows_float32"} <= offered
    assert "softmax_rows_float64" not in offered
