"""Who has which memory: views, toggles, graphs side by side, foreign arrays, spares, limits and collections."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.storage import POOL
from memory_stress import Net, assert_same, churn, leaf, run_in_threads, trained

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("backend", "poisoned")]


@pytest.fixture
def _limit_as_before() -> Iterator[None]:
    limit = POOL.limit_bytes
    yield
    nn.set_memory_cache_limit(limit)


def test_held_views_show_every_run():
    net, expected = Net(1), Net(1)
    net.step(), expected.step()
    held = {"middle": (net.middle.d, net.middle), "loss": (net.loss.d, net.loss)}
    held |= {name: (parameter.d, parameter) for name, parameter in net.parameters.items()}
    gradients = {name: parameter.g for name, parameter in net.parameters.items()}
    for _ in range(6):
        net.step(), expected.step()
        churn(3)
        assert_same(net.arrays(), expected.arrays())
        for name, (view, variable) in held.items():
            assert np.shares_memory(view, variable.d), name
            assert_array_equal(view, variable.d, err_msg=name)
        for name, view in gradients.items():
            assert_array_equal(view, net.parameters[name].g, err_msg=name)


def test_views_outlive_graph_plan_and_solver():
    net = Net(2)
    for _ in range(3):
        net.step()
    views = {"loss": net.loss.d, "middle": net.middle.d, "its gradient": net.middle.g, "mean": net.mean.d}
    for name, parameter in net.parameters.items():
        views |= {name: parameter.d, f"gradient of {name}": parameter.g}
    views = {name: view[::-1] if view.ndim else view for name, view in views.items()}
    expected = {name: view.copy() for name, view in views.items()}
    del net, parameter
    gc.collect()
    churn()
    other = Net(3)
    other.step()
    for name, view in views.items():
        assert_array_equal(view, expected[name], err_msg=name)
        view[...] = -5
    before = other.arrays()
    gc.collect()
    assert_array_equal(np.concatenate([view.ravel() for view in views.values()]), -5)
    assert_same(other.arrays(), before)


def test_handles_taken_of_a_graph_between_runs_show_what_a_held_one_shows():
    net, expected = Net(4, is_held=False), Net(4)
    for _ in range(4):
        net.loss.forward(), expected.loss.forward()
        churn(2)
        late = net.loss.parent.inputs[0].parent.inputs[0].parent.inputs[0].parent.inputs[0]
        assert_allclose(late.d, expected.middle.d, rtol=1e-5, atol=1e-6)
        del late
        net.step(), expected.step()
    net.middle = expected.middle = None
    assert_same(net.arrays(), expected.arrays())


def _other_values(net: Net) -> None:
    net.w.data = nn.NdArray.from_numpy_array(net.w.d[::-1].copy())


def _other_gradient(net: Net) -> None:
    net.w.grad = nn.NdArray(net.w.shape)


def _stop_in_the_middle(net: Net) -> None:
    net.middle.need_grad = False
    net.middle.grad.zero()  # from now on nothing is written there


def _rewire(net: Net) -> None:
    x = leaf(net.x.d * 0.5)
    net.x.rewire_on(x * 2 + 1)


TOGGLES: dict[str, Callable[[Net], object]] = {
    "need_grad off": lambda net: setattr(net.w, "need_grad", False),
    "need_grad of an input": lambda net: setattr(net.x, "need_grad", True),
    "need_grad off in the middle": _stop_in_the_middle,
    "persistent": lambda net: setattr(net.middle, "persistent", True),
    "other values": _other_values,
    "other gradient": _other_gradient,
    "cast to double": lambda net: net.w.data.cast(np.float64),
    "cast of the input": lambda net: net.x.data.cast(np.int32),
    "fill": lambda net: net.b.data.fill(0.5),
    "zero": lambda net: net.b.data.zero(),
    "written": lambda net: setattr(net.w, "d", net.w.d * 0.5),
    "written through a view": lambda net: net.w.d.__setitem__(slice(None), 0.25),
    "unlinked and written": lambda net: setattr(net.w.unlinked(), "d", 0.125),
    "rewired": _rewire,
    "values in the middle written": lambda net: setattr(net.middle, "d", 3),
    "values in the middle replaced": lambda net: setattr(net.middle, "data", nn.NdArray(net.middle.shape)),
    "memory given back": lambda net: nn.clear_memory_cache(),
}


@pytest.mark.parametrize("name", TOGGLES)
def test_a_graph_that_is_changed_after_runs_computes_like_one_changed_before(name: str):
    toggle = TOGGLES[name]
    net, fresh = Net(5), Net(5)
    for _ in range(2):
        net.step()
    # The other one never ran: the values are brought over, and it is changed before its first plan is made.
    for mine, theirs in zip(_state(fresh), _state(net), strict=True):
        mine.d = theirs.d
    fresh.loss.forward()  # twice, so that both have drawn as often
    fresh.loss.forward()
    for mine, theirs in zip(_state(fresh), _state(net), strict=True):
        mine.d = theirs.d
    views = [(variable.d, variable.g) for variable in (net.w, net.middle)]
    fresh.solver, net.solver = S.Sgd(0.1), S.Sgd(0.1)
    for one in (net, fresh):
        one.solver.set_parameters(one.parameters)
        toggle(one)
        churn(3)
        for _ in range(3):
            one.step()
            churn(3)
    found, expected = net.arrays(), fresh.arrays()
    assert_same(found, expected)
    assert all(np.isfinite(values).all() for values in found.values())
    for view, gradient in views:
        assert np.isfinite(view).all() and np.isfinite(gradient).all()


def _state(net: Net) -> list[nn.Variable]:
    return [net.mean, net.variance, *net.parameters.values()]


def test_reset_shape_back_and_forth():
    rng = np.random.default_rng(6)
    x, w = leaf(np.zeros((4, 3))), leaf(rng.standard_normal((3, 2)), True)
    y = F.sum(F.tanh(F.affine(x, w)))
    held = []
    for size in (4, 9, 4, 1, 30, 4):
        x.reset_shape((size, 3), True)
        values = rng.standard_normal((size, 3)).astype(np.float32)
        x.d = values
        w.grad.zero()
        y.forward()
        y.backward()
        held.append((x.d, values))
        churn(5)
        made = np.tanh(values @ w.d)
        assert_allclose(y.d, made.sum(), rtol=1e-4)
        assert_allclose(w.g, values.T @ (1 - made * made), rtol=1e-4, atol=1e-5)
    del x, y
    gc.collect()
    churn()
    for view, values in held:
        assert_array_equal(view, values)


def test_graphs_of_one_structure_do_not_share_memory_when_interleaved():
    nets = [Net(seed) for seed in (7, 8, 9)]
    for _ in range(4):
        for phase in (
            lambda net: net.loss.forward(),
            lambda net: net.solver.zero_grad(),
            lambda net: net.loss.backward(),
            lambda net: net.solver.update(),
        ):
            for net in nets:
                phase(net)
            churn(2)
    for seed, net in zip((7, 8, 9), nets, strict=True):
        assert_same(net.arrays(), trained(seed, 4))


def test_graphs_of_one_structure_that_come_and_go():
    kept = Net(10)
    for number in range(6):
        kept.step()
        passing = Net(20 + number, is_held=False)
        passing.step()
        view = passing.w.d
        values = view.copy()
        del passing
        churn(2)
        assert_array_equal(view, values)
    assert_same(kept.arrays(), trained(10, 6))


def test_compiled_steps_of_one_structure_interleaved():
    def steps(*seeds: int) -> list[dict[str, np.ndarray]]:
        nets = [Net(seed) for seed in seeds]
        compiled = [nn.compile_step(net.loss, net.solver, [net.x]) for net in nets]
        for number in range(4):
            for net, step in zip(nets, compiled, strict=True):
                step(np.full(net.x.shape, number) + np.arange(5))
                churn(1)
        return [{name: p.d.copy() for name, p in net.parameters.items()} | {"loss": net.loss.d} for net in nets]

    together = steps(11, 12)
    for found, seed in zip(together, (11, 12), strict=True):
        assert_same(found, steps(seed)[0])


def test_a_function_on_foreign_variables_leaves_its_own_graph_alone():
    net, alone = Net(13), Net(13)
    tanh = net.middle.parent
    foreign = Net(14)
    for _ in range(4):
        net.loss.forward(), alone.loss.forward(), foreign.loss.forward()
        result = nn.Variable(foreign.middle.shape)
        foreign.middle.need_grad = True
        tanh.forward([foreign.middle], [result])
        before = foreign.middle.d.copy()
        assert_allclose(result.d, np.tanh(before), rtol=1e-5)
        result.g = 0.5
        tanh.backward([foreign.middle], [result], [False])
        assert_allclose(foreign.middle.g, 0.5 * (1 - np.tanh(before) ** 2), rtol=1e-3, atol=1e-5)
        churn(2)
        assert_array_equal(foreign.middle.d, before)
        net.step(), alone.step()
        assert_same(net.arrays(), alone.arrays())


def test_spares_leave_held_arrays_and_views_alone():
    a = nn.NdArray.from_numpy_array(np.arange(10, dtype=np.float32))
    arrays, views = [], []
    for number in range(600):
        result = a * 2 + float(number)
        if number % 3 == 0:
            arrays.append((result, number))
        elif number % 3 == 1:
            views.append((result.data[1:], number))
        shaped = F.reshape(result, (2, 5)) if number % 7 == 0 else None
        if shaped is not None:
            arrays.append((shaped, number))
        del result, shaped
    for array, number in arrays:
        assert_array_equal(array.data.ravel(), np.arange(10) * 2 + number)
    for view, number in views:
        assert_array_equal(view, np.arange(1, 10) * 2 + number)


def test_spares_leave_the_results_of_recorded_calls_alone():
    with nn.auto_forward():
        w = leaf(np.linspace(-1, 1, 12).reshape(3, 4), True)
        graphs = []
        for number in range(100):
            y = F.tanh(w * float(number % 5)) + number
            graphs.append((F.sum(y * y), number))
            F.tanh(w * 3.0)  # dropped at once
        for loss, number in graphs:
            scale = float(number % 5)
            made = np.tanh(w.d * scale) + number
            w.grad.zero()
            loss.backward()
            assert_allclose(loss.d, (made * made).sum(), rtol=1e-4)
            assert_allclose(w.g, 2 * made * (1 - np.tanh(w.d * scale) ** 2) * scale, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("_limit_as_before")
def test_memory_limits_may_change_while_graphs_run():
    done = threading.Event()

    def limit() -> None:
        number = 0
        while not done.is_set():
            nn.set_memory_cache_limit((0, 1 << 10, 1 << 20, 1 << 30)[number % 4])
            nn.clear_memory_cache()
            number += 1

    def train() -> None:
        try:
            for seed in (15, 16):
                assert_same(trained(seed, 12, 300), expected[seed])
        finally:
            done.set()

    expected = {seed: trained(seed, 12, 300) for seed in (15, 16)}
    run_in_threads(limit, train)


def test_collections_in_the_midst_of_runs():
    threshold = gc.get_threshold()
    expected = [trained(seed, 6) for seed in (17, 18)]
    gc.set_threshold(5, 2, 2)
    try:
        for seed, values in zip((17, 18), expected, strict=True):
            net = Net(seed)
            for number in range(6):
                circle: list[object] = [Net(30 + number, is_held=False), nn.NdArray((40,))]
                circle[0].step()
                circle.append(circle)  # only a collection frees it
                del circle
                net.step()
            assert_same(net.arrays(), values)
    finally:
        gc.set_threshold(*threshold)
