"""All ways to compute a product give the same, those that the rules do not take, too; a search finds the fastest."""

from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba import tuning
from atled_cpu_numba.kernels.products import matmul
from atled_cpu_numba.kernels.shared.ways import named

# Of the sum of the terms' sizes, whatever their order.
TOLERANCE = {"float32": 1e-5, "float64": 1e-14}
# A (items, m, k) by B (items, k, n), and which of them lie transposed.
SHAPES = [
    (1, 40, 70, 33, False, False), (3, 7, 9, 5, False, True), (2, 3, 130, 40, False, True),
    (1, 1, 60, 50, False, False), (1, 130, 600, 7, False, False), (2, 90, 40, 6, True, False),
    (1, 200, 300, 100, True, True), (1, 13, 1100, 50, False, True), (2, 205, 40, 70, True, False),
    (1, 30, 20, 1, False, False), (1, 300, 30, 40, False, True),
]  # fmt: skip


def taking(name):
    """What `run` takes for a module that prepares a product in the way of this name alone."""

    def prepare(call):
        return next(way.prepare() for way in matmul.ways(matmul.task_of(call)) if way.name == name)

    return SimpleNamespace(accepts=matmul.accepts, prepare=prepare)


@pytest.mark.parametrize("items, m, k, n, transpose_a, transpose_b", SHAPES)
@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_each_way_computes_the_product(run, make_call, parts, items, m, k, n, transpose_a, transpose_b, dtype):
    rng = np.random.default_rng(m + k + n)
    a = rng.standard_normal((items, k, m) if transpose_a else (items, m, k)).astype(dtype)
    b = rng.standard_normal((items, n, k) if transpose_b else (items, k, n)).astype(dtype)
    wide = [x.swapaxes(1, 2) if t else x for x, t in ((a.astype("d"), transpose_a), (b.astype("d"), transpose_b))]
    wanted, bound = wide[0] @ wide[1], TOLERANCE[dtype] * (np.abs(wide[0]) @ np.abs(wide[1]))
    transposed = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    y = np.empty((items, m, n), dtype)
    ways = list(matmul.ways(matmul.task_of(make_call("BatchMatmul", [a, b], [y], **transposed))))
    assert len({way.name for way in ways}) == len(ways) >= 2
    assert any(way.pays for way in ways)
    for way in ways:
        y[...] = np.nan
        assert run(taking(way.name), "BatchMatmul", [a, b], [y], parts=parts, **transposed) == 0
        assert (np.abs(y - wanted) <= bound).all(), way.name


def test_the_rules_take_the_first_way_that_pays(make_call):
    arrays = [np.empty((200, 300), "f"), np.empty((100, 300), "f")], [np.empty((200, 100), "f")]
    call = make_call("BatchMatmul", *arrays, transpose_a=False, transpose_b=True)
    by_rules = next(way for way in matmul.ways(matmul.task_of(call)) if way.pays)
    assert matmul.prepare(call).note == by_rules.prepare().note


@pytest.mark.parametrize("transposed", [False, True])
def test_ways_are_measured_on_views(make_call, transposed):
    wide = np.empty((60, 90), "f")
    a = wide.T[:50, :40] if transposed else wide[:50, :40]
    call = make_call("Affine", [a, np.empty((40, 30), "f"), None], [wide[:50, 60:]], base_axis=1)
    task = matmul.task_of(call)
    times = tuning.measured(named(matmul.ways(task)), matmul.sizes_of(call), "float32", keeps_packs=False)
    assert len(times) >= 4
    assert all(seconds > 0 for seconds in times.values())


def test_a_search_takes_the_fastest(monkeypatch, tmp_path):
    monkeypatch.setenv("ATLED_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ATLED_CPU_TUNE", "search")
    times = {"rows, both packed": 1e-6}
    monkeypatch.setattr(tuning, "measured", lambda ways, *_, **__: {name: times.get(name, 1e-4) for name in ways})
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((40, 70), "f"), rng.standard_normal((70, 90), "f")
    with nn.context_scope(Context(["cpu"], fallback="raise")):
        given = nn.Variable(x.shape)
        infer = nn.inference(F.affine(given, nn.Variable.from_numpy_array(w)), given)
        np.testing.assert_allclose(infer(x), x @ w, rtol=1e-4, atol=1e-4)
    told = str(infer.plan)
    assert "a packed, b packed" in told
    assert "measured, us: rows, both packed 1" in told
    assert "by rules: rows in place" in told


def test_empty_products_and_turned_axes_stay_with_the_rules(make_call, monkeypatch):
    monkeypatch.setenv("ATLED_CPU_TUNE", "search")
    b = np.empty((9, 70), "f")
    for a in (np.empty((0, 9), "f"), np.empty((50, 9), "f")[::-1]):
        call = make_call("Affine", [a, b], [np.empty((len(a), 70), "f")], base_axis=1)
        assert "measured" not in matmul.prepare(call).note
