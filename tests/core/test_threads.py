"""Graphs in several threads: own graphs run side by side, one graph is run by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S
from memory_stress import leaf, run_in_threads


def train(seed: int, steps: int = 60) -> list[float]:
    """The losses of a small training that depends on nothing but the seed."""
    rng = np.random.default_rng(seed)
    x, w = leaf(rng.standard_normal((8, 5))), leaf(rng.standard_normal((5, 3)), True)
    t = leaf(rng.integers(0, 3, (8, 1)))
    loss = F.mean(F.softmax_cross_entropy(F.affine(F.dropout(F.tanh(x), 0.2, seed=seed), w), t))
    solver = S.Adam(0.01)
    solver.set_parameters({"w": w})
    losses = []
    for _ in range(steps):
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.update()
        losses.append(float(loss.d))
    return losses


@pytest.mark.usefixtures("backend")
def test_trainings_in_threads_give_what_they_give_alone():
    expected = [train(seed) for seed in range(4)]
    found: dict[int, list[float]] = {}

    def task(seed: int) -> Callable[[], None]:
        return lambda: found.update({seed: train(seed)})

    run_in_threads(*(task(seed) for seed in range(4)))
    assert [found[seed] for seed in range(4)] == expected


@pytest.mark.usefixtures("backend")
def test_one_graph_run_by_several_threads_gives_whole_results():
    x = leaf(np.linspace(-1, 1, 2000), True)
    y = F.tanh(F.exp(x) * 2 - 1)
    y.forward()
    y.backward()
    value, gradient = y.d.copy(), x.g.copy()
    x.grad.zero()

    def task() -> None:
        for _ in range(50):
            y.forward()
            assert_array_equal(y.d, value)

    run_in_threads(task, task, task)
    for _ in range(2):
        y.backward()
    assert_allclose(x.g, 2 * gradient, rtol=1e-6)


@pytest.mark.usefixtures("backend")
def test_two_graphs_that_share_parameters_may_run_forward_at_the_same_time():
    w = leaf(np.full((50, 50), 0.02))
    inputs = [leaf(np.full((20, 50), number)) for number in (1, 2)]
    results = [F.sum(F.affine(x, w)) for x in inputs]

    def task(number: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(100):
                results[number].forward()
                assert_allclose(results[number].d, (number + 1) * 1000, rtol=1e-5)

        return run

    run_in_threads(task(0), task(1))


@pytest.mark.usefixtures("backend")
def test_calls_on_arrays_in_threads():
    def task(number: int) -> Callable[[], None]:
        def run() -> None:
            a = nn.NdArray.from_numpy_array(np.full(100, number, np.float32))
            for step in range(200):
                assert_array_equal((a * 2 + step).data, np.full(100, 2 * number + step))

        return run

    run_in_threads(*(task(number) for number in range(4)))


def test_auto_forward_is_for_the_thread_that_asked():
    seen: list[bool] = []
    with nn.auto_forward():
        thread = threading.Thread(target=lambda: seen.append(nn.get_auto_forward()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_a_context_is_for_the_thread_that_asked():
    context = nn.Context(["reference:half"])
    seen: list[nn.Context] = []
    with nn.context_scope(context):
        for target in (
            lambda: seen.append(nn.get_current_context()),
            nn.bind(lambda: seen.append(nn.get_current_context())),
        ):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert seen[0] != context
    assert seen[1] == context
