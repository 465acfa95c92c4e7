"""Memory in many hands: threads on graphs of their own, on one graph and on arrays, and processes that fork."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.function import PythonFunction
from forked import ignores_fork, in_child, needs_fork
from memory_stress import Net, assert_same, churn, leaf, run_in_threads, trained

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("backend", "poisoned")]


@pytest.fixture(autouse=True)
def _frequent_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def test_threads_on_graphs_of_their_own_give_what_they_give_alone():
    expected = {seed: trained(seed, 10) for seed in range(4)}

    def task(seed: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(2):
                assert_same(trained(seed, 10), expected[seed])

        return run

    run_in_threads(*(task(seed) for seed in range(4)))


def test_threads_with_compiled_steps_of_their_own():
    def stepped(seed: int) -> dict[str, np.ndarray]:
        net = Net(seed)
        step = nn.compile_step(net.loss, net.solver)
        for _ in range(10):
            step()
        return {name: parameter.d.copy() for name, parameter in net.parameters.items()}

    expected = {seed: stepped(seed) for seed in range(4)}
    run_in_threads(*(lambda seed=seed: assert_same(stepped(seed), expected[seed]) for seed in range(4)))


def test_threads_that_change_what_plans_depend_on_in_graphs_of_their_own():
    def toggled(seed: int) -> dict[str, np.ndarray]:
        net = Net(seed)
        for number in range(8):
            net.middle.persistent = number % 2 == 0
            if number % 3 == 2:
                net.b.data = nn.NdArray.from_numpy_array(net.b.d.copy())
                net.x.need_grad = not net.x.need_grad
            net.step()
        return net.arrays()

    expected = {seed: toggled(seed) for seed in range(4)}
    run_in_threads(*(lambda seed=seed: assert_same(toggled(seed), expected[seed]) for seed in range(4)))


def test_threads_on_one_graph_run_it_one_at_a_time():
    x = leaf(np.linspace(-1, 1, 3000), True)
    y = F.sum(F.tanh(F.exp(x) * 2 - 1) * F.sin(x))
    y.forward()
    y.backward()
    value, gradient = float(y.d), x.g.copy()
    x.grad.zero()

    def forward() -> None:
        for _ in range(40):
            y.forward()
            assert_allclose(float(y.d), value, rtol=1e-5)

    def backward() -> None:
        for _ in range(40):
            y.backward()

    run_in_threads(forward, backward, forward)
    assert_allclose(x.g, 40 * gradient, rtol=1e-4, atol=1e-4)


def test_threads_on_one_graph_that_is_new_to_all_of_them():
    for number in range(40):
        x = leaf(np.linspace(-1, 1, 300) + number % 3, True)
        middle = F.exp(x) * 2 - 1
        y = F.tanh(middle)
        roots = {"y": y, "sum": F.sum(y), "middle": F.sum(F.sin(middle) * 0.5)}
        inner = np.exp(x.d) * 2 - 1
        made = {"y": np.tanh(inner), "sum": np.tanh(inner).sum(), "middle": (np.sin(inner) * 0.5).sum()}
        del middle

        def task(name: str, root: nn.Variable, expected: np.ndarray) -> Callable[[], None]:
            def run() -> None:
                for _ in range(4):
                    root.forward()
                    assert_allclose(root.d, expected, rtol=1e-3, atol=1e-3, err_msg=name)

            return run

        run_in_threads(*(task(name, root, made[name]) for name, root in [*roots.items(), *roots.items()]))


def test_threads_on_one_compiled_step_take_whole_steps():
    def parameters(net: Net) -> dict[str, np.ndarray]:
        return {name: parameter.d.copy() for name, parameter in net.parameters.items()}

    alone, shared = Net(5), Net(5)
    step = nn.compile_step(alone.loss, alone.solver)
    for _ in range(30):
        step()
    step = nn.compile_step(shared.loss, shared.solver)

    def task() -> None:
        for _ in range(10):
            step()

    run_in_threads(task, task, task)
    assert_same(parameters(shared), parameters(alone))


def test_threads_that_feed_one_compiled_step_do_not_mix_their_batches():
    x, w = leaf(np.zeros((1, 400))), leaf(np.zeros((1, 400)), True)
    loss = F.sum(x * w)
    solver = S.Sgd(1.0)
    solver.set_parameters({"w": w})
    step = nn.compile_step(loss, solver, [x])
    step(np.zeros((1, 400)))

    def task(number: int) -> Callable[[], None]:
        batch = np.full((1, 400), number, np.float32)

        def run() -> None:
            for _ in range(50):
                step(batch)

        return run

    run_in_threads(task(1), task(2), task(4))
    assert_array_equal(w.d, np.full((1, 400), -50 * 7))


class Elsewhere(PythonFunction):
    """Runs a graph in another thread, and waits for it."""

    def __init__(self, inner: nn.Variable) -> None:
        super().__init__()
        self.inner = inner

    @property
    def name(self) -> str:
        return "Elsewhere"

    def min_outputs(self) -> int:
        return 1

    def setup_impl(self, inputs: list[nn.Variable], outputs: list[nn.Variable]) -> None:
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs: list[nn.Variable], outputs: list[nn.Variable]) -> None:
        thread = threading.Thread(target=nn.bind(self.inner.forward), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), "the other thread waits for this one"
        outputs[0].d = inputs[0].d + self.inner.d


def test_code_of_the_user_in_one_graph_may_wait_for_another_graph():
    x, w = leaf(np.ones((64, 300))), leaf(np.full((300, 300), 1e-3))
    inner = F.sum(F.affine(x, w))
    outer = Elsewhere(inner)(F.sum(F.affine(x, w)))
    inner.forward()  # bound by this thread, as the outer one is: they share a workspace
    outer.forward()
    assert_allclose(float(outer.d), 2 * 64 * 300 * 0.3, rtol=1e-4)


def test_code_of_the_user_that_runs_its_own_graph_is_told():
    function = Elsewhere(leaf(0.0))
    y = function(leaf(1.0))
    function.forward_impl = lambda inputs, outputs: y.forward()
    with pytest.raises(RuntimeError, match="asks for a run of that same graph"):
        y.forward()


def test_threads_that_call_ops_on_arrays_at_once():
    def task(number: int) -> Callable[[], None]:
        def run() -> None:
            a = nn.NdArray.from_numpy_array(np.full((7, 9), number, np.float32))
            held = []
            for step in range(150):
                b = F.tanh(a * 0.1) + step
                held.append((F.sum(b, axis=1), F.softmax(b, axis=1), step))
                held = held[-20:]
            for total, weights, step in held:
                assert_allclose(total.data, np.full(7, 9 * (np.tanh(number * 0.1) + step)), rtol=1e-4)
                assert_allclose(weights.data, np.full((7, 9), 1 / 9), rtol=1e-4)

        return run

    run_in_threads(*(task(number) for number in range(4)))


def test_threads_that_rebuild_graphs_under_auto_forward():
    def task(seed: int) -> Callable[[], None]:
        def run() -> None:
            rng = np.random.default_rng(seed)
            x = rng.standard_normal((6, 4)).astype(np.float32)
            w = leaf(rng.standard_normal((4, 3)), True)
            with nn.auto_forward():
                for _ in range(30):
                    w.grad.zero()
                    y = F.sum(F.tanh(F.affine(leaf(x), w)))
                    y.backward()
                    made = np.tanh(x @ w.d)
                    assert_allclose(y.d, made.sum(), rtol=1e-3, atol=1e-4)
                    assert_allclose(w.g, x.T @ (1 - made * made), rtol=1e-3, atol=1e-4)

        return run

    run_in_threads(*(task(seed) for seed in range(4)))


def test_graphs_that_one_thread_drops_while_others_run():
    done = threading.Event()

    def drop() -> None:
        number = 0
        while not done.is_set():
            net = Net(number % 50, is_held=False)
            net.step()
            view = net.w.g
            values = view.copy()
            del net
            gc.collect(0)
            assert_array_equal(view, values)
            number += 1

    def train() -> None:
        try:
            for seed in (40, 41):
                assert_same(trained(seed, 12), expected[seed])
        finally:
            done.set()

    expected = {seed: trained(seed, 12) for seed in (40, 41)}
    run_in_threads(drop, train)


@needs_fork
@ignores_fork
def test_parent_and_child_run_on_after_a_fork():
    net, expected = Net(50), Net(50)
    step = nn.compile_step(net.loss, net.solver)
    for _ in range(2):
        net.step(), expected.step()
    expected.step()

    def body() -> None:
        net.step()
        churn(3)
        assert_same(net.arrays(), expected.arrays())
        step()
        assert_same(trained(51, 3), other)

    other = trained(51, 3)
    in_child(body)
    in_child(body)
    net.step()
    assert_same(net.arrays(), expected.arrays())


@needs_fork
@ignores_fork
def test_a_child_of_a_process_whose_threads_run_graphs_can_run_graphs():
    done = threading.Event()
    shared = Net(52)
    shared.step()

    def run() -> None:
        number = 0
        while not done.is_set():
            Net(53 + number % 3).step()
            number += 1

    def fork() -> None:
        try:
            for _ in range(10):
                in_child(lambda: assert_same(trained(51, 2), other))
        finally:
            done.set()

    other = trained(51, 2)
    run_in_threads(run, run, fork)


def test_threads_that_train_one_graph_without_agreement_lose_no_memory():
    shared = Net(60)
    others = [Net(60, is_held=False) for _ in range(2)]
    for other in others:
        for name, parameter in other.parameters.items():
            parameter.data = shared.parameters[name].data
            parameter.grad = shared.parameters[name].grad

    def task(net: Net) -> Callable[[], None]:
        def run() -> None:
            for _ in range(15):
                net.step()
                churn(1)

        return run

    run_in_threads(task(shared), task(shared), *(task(net) for net in others))
    shared.step()
    assert all(np.isfinite(values).all() for values in shared.arrays().values())
    assert_array_equal(others[0].w.d, shared.w.d)
