"""Ways that are measured: the fastest is taken, kept, and told; without the setting nothing is measured."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context, watch_preparation
from atled_cpu_numba import tuning
from atled_cpu_numba.kernels.convolution import choice
from atled_cpu_numba.kernels.convolution.problem import Problem
from atled_cpu_numba.kernels.shared.leading_axes import Axis
from atled_cpu_numba.kernels.shared.ways import Way, named

PROBLEM = Problem(True, 2, 1, 32, 32, (Axis(12, 12, 3, 1, 1, 1), Axis(12, 12, 3, 1, 1, 1)), (), "", "float32")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path))
    return tmp_path / "cpu-numba"


def fixed(monkeypatch, fastest):
    """Times as if `fastest` were the fastest by far; counts how often is measured."""
    asked = []

    def measured(ways, sizes, dtype, *, keeps_packs):
        asked.append(sorted(ways))
        return {name: 1e-6 if name == fastest else 1e-4 for name in ways}

    monkeypatch.setattr(tuning, "measured", measured)
    return asked


def fastest_of(problem=PROBLEM):
    return tuning.fastest(tuple(choice.ways(problem)), problem, problem.sizes, problem.dtype, keeps_packs=True)


def test_all_ways_are_measured_and_have_times():
    ways = named(choice.ways(PROBLEM))
    times = tuning.measured(ways, PROBLEM.sizes, "float32", keeps_packs=True)
    assert set(times) == set(ways) and len(ways) >= 3
    assert all(seconds > 0 for seconds in times.values())


def test_measuring_is_reported_by_the_names_of_the_ways():
    ways = named(choice.ways(PROBLEM))
    tuning.measured(ways, PROBLEM.sizes, "float32", keeps_packs=True)  # what has to be compiled
    seen = []
    with watch_preparation(lambda report: seen.append((report.plugin, report.done, report.total, report.name))):
        tuning.measured(ways, PROBLEM.sizes, "float32", keeps_packs=True)
    name = f"the fastest of {', '.join(ways)}"
    assert seen == [("cpu-numba", 0, 1, name), ("cpu-numba", 1, 1, name)]


@pytest.mark.parametrize("keeps_packs", [True, False])
def test_weights_are_packed_before_where_plans_keep_packs(monkeypatch, keeps_packs):
    way = next(way for way in choice.ways(PROBLEM) if way.name == "Winograd")
    made = []
    bound = tuning._Bound
    monkeypatch.setattr(tuning, "_Bound", lambda native, *rest: made.append(native) or bound(native, *rest))
    tuning.measured({"Winograd": way}, PROBLEM.sizes, "float32", keeps_packs=keeps_packs)
    assert len(made) == (2 if keeps_packs else 1)


def test_the_fastest_is_taken_and_told(monkeypatch):
    fixed(monkeypatch, "direct")
    prepared = fastest_of()
    assert prepared.note.startswith("direct, ")
    assert "; measured, us: direct 1, " in prepared.note
    assert prepared.note.endswith("; by rules: Winograd")


def test_what_was_measured_is_kept(monkeypatch):
    asked = fixed(monkeypatch, "direct")
    assert [fastest_of().note[:6] for _ in range(3)] == ["direct"] * 3
    assert len(asked) == 1
    fastest_of(PROBLEM._replace(images=3))
    assert len(asked) == 2


def test_of_one_way_nothing_is_measured(monkeypatch):
    asked = fixed(monkeypatch, "direct")
    one = tuple(way for way in choice.ways(PROBLEM) if way.name == "direct")
    assert "measured" not in tuning.fastest(one, PROBLEM, PROBLEM.sizes, "float32", keeps_packs=True).note
    assert asked == []


def test_another_way_has_to_be_clearly_faster():
    assert tuning.choose({"a": 1.0, "b": 0.97}, "a") == "a"
    assert tuning.choose({"a": 1.0, "b": 0.9}, "a") == "b"


def test_the_first_one_of_a_name_stands_for_it(monkeypatch):
    fixed(monkeypatch, "twice")
    first, second = (next(way for way in choice.ways(PROBLEM) if way.name == name) for name in ("rows", "direct"))
    ways = (Way("twice", False, first.prepare), Way("other", True, second.prepare), Way("twice", True, second.prepare))
    prepared = tuning.fastest(ways, PROBLEM, PROBLEM.sizes, "float32", keeps_packs=True)
    assert prepared.note.startswith("direct, rows in vectors")


def test_gradients_are_measured_without_kept_packs(monkeypatch):
    monkeypatch.setenv("ATLED_CPU_TUNE", "search")
    seen = []

    def measured(ways, sizes, dtype, *, keeps_packs):
        seen.append(keeps_packs)
        return dict.fromkeys(ways, 1e-4)

    monkeypatch.setattr(tuning, "measured", measured)
    x = nn.Variable.from_numpy_array(np.ones((2, 32, 12, 12), "f"), need_grad=True)
    weight = nn.Variable.from_numpy_array(np.ones((32, 32, 3, 3), "f"), need_grad=True)
    with nn.context_scope(Context(["cpu"], fallback="raise")):
        y = F.convolution(x, weight, pad=(1, 1))
        y.forward()
        y.backward()
    assert sorted(seen) == [False, False, True]


def convolved(**conditions):
    """The plan of a small convolution in words, and what it computes."""
    rng = np.random.default_rng(3)
    x, weight = (rng.standard_normal(shape).astype("f") for shape in ((2, 32, 12, 12), (32, 32, 3, 3)))
    with nn.context_scope(Context(["cpu"], fallback="raise", **conditions)):
        image = nn.Variable(x.shape)
        infer = nn.inference(F.convolution(image, nn.Variable.from_numpy_array(weight), pad=(1, 1)), image)
        return str(infer.plan), infer(x)


def test_by_the_setting_of_the_environment(monkeypatch):
    asked = fixed(monkeypatch, "direct")
    told, by_rules = convolved()
    assert not asked and "measured" not in told
    monkeypatch.setenv("ATLED_CPU_TUNE", "search")
    told, by_search = convolved()
    assert len(asked) == 1 and "by rules: Winograd" in told
    np.testing.assert_allclose(by_search, by_rules, rtol=1e-4, atol=1e-4)
    told, _ = convolved(deterministic=True)
    assert len(asked) == 1
