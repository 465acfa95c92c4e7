"""Which engine is taken: what a type config and a Context allow, and what a search has found."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts.settings import forget_settings
from atled_cudnn import convolution, plans, tuning
from atled_cudnn.library import CudnnError
from atled_cudnn.tuning import TuningWarning

DTYPES = {"float": "float32", "tf32": "float32", "half": "float16", "double": "float64"}


def call_of(type_config="float", spec="Convolution", channels=4, **conditions):
    dtype = np.dtype(DTYPES[type_config])
    x, w, y = (ArrayDesc(shape, dtype) for shape in ((2, channels, 6, 6), (8, channels, 3, 3), (2, 8, 4, 4)))
    geometry = {"base_axis": 1, "pad": (0, 0), "stride": (1, 1), "dilation": (1, 1), "group": 1}
    return Call(op_spec(spec), (x, w, None), (y,), geometry, device_id="0", type_config=type_config, **conditions)


def engine_of(call):
    assert convolution.accepts(call) is True
    note = convolution.prepare(call).note
    return int(note.removeprefix("cuDNN engine ").partition(",")[0])


@pytest.fixture
def choose(monkeypatch):
    """Set the settings of the tuning."""

    def chosen(tune="heuristics", file=""):
        monkeypatch.setenv("ATLED_CUDNN_TUNE", tune)
        monkeypatch.setenv("ATLED_CUDNN_TUNING_FILE", str(file))
        forget_settings()
        plans.forget()
        tuning.forget()

    yield chosen
    monkeypatch.undo()
    forget_settings()
    plans.forget()


@pytest.mark.parametrize(
    ("type_config", "conditions", "engine"),
    [
        ("float", {}, 11),  # no tensor cores, no narrower factors; Winograd's algorithm may be
        ("float", {"deterministic": True}, 11),
        ("float", {"local_errors": True}, 13),
        ("float", {"local_errors": True, "deterministic": True}, 14),
        ("tf32", {}, 10),
        ("half", {}, 10),
        ("double", {"local_errors": True}, 10),
    ],
)
def test_the_first_engine_is_taken_that_does_to_numbers_what_is_allowed(fake, type_config, conditions, engine):
    assert engine_of(call_of(type_config, **conditions)) == engine


def test_where_no_engine_is_left_the_call_is_refused_with_the_reason(fake, monkeypatch):
    from fake_cudnn import engines

    monkeypatch.setitem(engines.NOTES, engines.PLAIN, [engines.TENSOR_CORE])
    answer = convolution.accepts(call_of(local_errors=True, deterministic=True))
    assert answer.startswith("cuDNN 9.28.0 has no engine for it without ")
    assert "tensor_core" in answer and "nondeterministic" in answer


def test_an_engine_that_turns_out_not_to_support_the_graph_is_passed_over(fake, monkeypatch):
    from fake_cudnn import engines

    monkeypatch.delitem(engines.NOTES, engines.FAST)
    monkeypatch.setattr(engines, "NOTES", {**engines.NOTES, engines.FAST: [engines.DOWN_CONVERT]})
    assert engine_of(call_of()) == 13


def test_equal_calls_have_one_plan(fake):
    engine_of(call_of())
    finalized = fake.calls["cudnnBackendFinalize"]
    engine_of(call_of())
    assert fake.calls["cudnnBackendFinalize"] == finalized


@pytest.mark.parametrize("other", [call_of("tf32"), call_of(channels=8), call_of(deterministic=True)])
def test_other_calls_have_another_plan(fake, other):
    engine_of(call_of())
    finalized = fake.calls["cudnnBackendFinalize"]
    engine_of(other)
    assert fake.calls["cudnnBackendFinalize"] > finalized


def test_plans_are_a_cache_with_a_bound(fake, monkeypatch):
    from atled.limits.caches import cache_counts, clear_caches

    monkeypatch.setattr(plans, "_MOST_PLANS", 3)
    for channels in range(1, 8):
        engine_of(call_of(channels=channels))
    assert cache_counts()["cuDNN plans"] == 3
    clear_caches("cuDNN plans")
    assert cache_counts()["cuDNN plans"] == 0


def test_a_failure_that_is_no_refusal_is_raised_with_what_cudnn_said(fake):
    with fake.failing("cudnnBackendFinalize", 4000), pytest.raises(CudnnError, match="was made to fail") as raised:
        convolution.accepts(call_of())
    assert raised.value.status == 4000 and "cuDNN 9.28.0" in str(raised.value)


class Measured:
    """Stands for the measurement: seconds by engine; engines without any cannot run."""

    def __init__(self, monkeypatch, **seconds):
        self.seconds = {int(name[1:]): value for name, value in seconds.items()}
        self.asked = []
        monkeypatch.setattr(tuning, "_measure", self)

    def __call__(self, wanted, plan):
        self.asked.append(plan.choice.engine)
        return self.seconds.get(plan.choice.engine)


def test_a_search_measures_what_is_allowed_and_keeps_the_fastest(fake, choose, monkeypatch, tmp_path):
    measured = Measured(monkeypatch, e13=2e-6, e14=3e-6)
    path = tmp_path / "tuning.json"
    choose("search", path)
    assert engine_of(call_of()) == 13
    assert measured.asked == [11, 13, 14]  # of those with tensor cores none
    (entries,) = json.loads(path.read_text())["devices"].values()
    ((name, entry),) = entries.items()
    assert name.startswith("convolution_forward ")
    assert entry == {"engine": 13, "knobs": [[2, 3]], "microseconds": 2.0}


def test_a_file_is_replayed_without_a_search(fake, choose, monkeypatch, tmp_path):
    Measured(monkeypatch, e13=1e-6)
    path = tmp_path / "tuning.json"
    choose("search", path)
    engine_of(call_of())
    choose("heuristics", path)
    measured = Measured(monkeypatch)
    assert convolution.prepare(call_of()).note == "cuDNN engine 13, tuned"
    assert engine_of(call_of(channels=8)) == 11  # which the file does not know
    assert not measured.asked


def test_the_file_is_of_one_version_and_device(fake, choose, monkeypatch, tmp_path):
    Measured(monkeypatch, e13=1e-6)
    path = tmp_path / "tuning.json"
    choose("search", path)
    engine_of(call_of())
    fake.version = 92900
    choose("heuristics", path)
    assert engine_of(call_of()) == 11


def test_a_search_adds_to_what_is_in_the_file(fake, choose, monkeypatch, tmp_path):
    Measured(monkeypatch, e11=1e-6)
    path = tmp_path / "tuning.json"
    choose("search", path)
    engine_of(call_of())
    choose("search", path)
    engine_of(call_of(channels=8))
    (entries,) = json.loads(path.read_text())["devices"].values()
    assert len(entries) == 2


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"format": 2, "devices": {}}',
        '{"format": 1}',
        '{"format": 1, "devices": {"a": {"b": {"engine": "x"}}}}',
    ],
)
def test_a_damaged_file_is_ignored_and_told(fake, choose, tmp_path, content):
    path = tmp_path / "tuning.json"
    path.write_text(content)
    choose("heuristics", path)
    with pytest.warns(TuningWarning, match="cannot be used") as told:
        assert engine_of(call_of()) == 11
    assert len(told) == 1 and str(path) in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine_of(call_of(channels=8))  # told once


def test_an_engine_that_there_is_not_is_told_and_the_heuristics_choose(fake, choose, monkeypatch, tmp_path):
    Measured(monkeypatch, e13=1e-6)
    path = tmp_path / "tuning.json"
    choose("search", path)
    engine_of(call_of())
    path.write_text(path.read_text().replace('"engine": 13', '"engine": 99'))
    choose("heuristics", path)
    with pytest.warns(TuningWarning, match="there is no engine 99"):
        assert engine_of(call_of()) == 11


def test_a_file_that_names_what_is_not_allowed_is_not_followed(fake, choose, monkeypatch, tmp_path):
    Measured(monkeypatch, e13=1e-6)
    path = tmp_path / "tuning.json"
    choose("search", path)
    engine_of(call_of())
    path.write_text(path.read_text().replace('"engine": 13', '"engine": 10'))
    choose("heuristics", path)
    with pytest.warns(TuningWarning, match="not allowed"):
        assert engine_of(call_of()) == 11


def test_a_file_that_cannot_be_written_is_told(fake, choose, monkeypatch, tmp_path):
    Measured(monkeypatch, e13=1e-6)
    (tmp_path / "file").write_text("")
    choose("search", tmp_path / "file" / "tuning.json")
    with pytest.warns(TuningWarning, match="cannot be"):
        assert engine_of(call_of()) == 13


def test_measuring_runs_each_engine_on_memory_of_its_own(fake, choose):
    choose("search")
    assert engine_of(call_of()) in (11, 13, 14)
    assert min(fake.executed[engine] for engine in (11, 13, 14)) > 1


def test_a_wrong_way_to_tune_is_told_with_those_that_there_are(fake, choose):
    from atled_contexts import SettingError

    choose("sometimes")
    with pytest.raises(SettingError, match="search"):
        convolution.accepts(call_of())
