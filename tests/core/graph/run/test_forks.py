"""Children that are forked while graphs run: another thread's runs do not go on there, and their locks are free."""

import os
import threading
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.function import PythonFunction
from drawn_graphs import leaf
from forked import ignores_fork, in_child, needs_fork

pytestmark = [needs_fork, ignores_fork, pytest.mark.usefixtures("backend")]


class Doubled(PythonFunction):
    """Two times its input; what is to happen meanwhile is called."""

    def __init__(self, meanwhile=lambda: None):
        super().__init__()
        self.meanwhile = meanwhile

    def min_outputs(self):
        return 1

    def setup_impl(self, inputs, outputs):
        outputs[0].reset_shape(inputs[0].shape, True)

    def forward_impl(self, inputs, outputs):
        self.meanwhile()
        outputs[0].d = 2 * inputs[0].d


@contextmanager
def another_thread_within(enter):
    """Within, another thread is amid `enter(entered, done)`, which sets `entered` and returns once `done` is set."""
    entered, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=enter, args=(entered, done))
    thread.start()
    try:
        assert entered.wait(20)
        yield
    finally:
        done.set()
        thread.join()


def test_a_child_runs_graphs_that_another_thread_was_running():
    x, w = leaf(1, 2), leaf(0.5, 2)
    y = F.sum(F.softmax(x * w) * w)
    solver = S.Sgd(0.0)
    solver.set_parameters({"w": w})
    step = nn.compile_step(F.sum(F.exp(x * w)), solver, [x])
    for _ in range(2):
        y.forward()
        y.backward()
        step([1, 2])
    value = y.d.copy()
    roots = y.value.roots
    bindings = [roots.forward.binding, *roots.backward.bindings.values(), step._training._binding]
    shared = [binding._shared for binding in bindings if binding._shared is not None]
    locks = [step._lock, *(binding._lock for binding in bindings), *(each.lock for each in shared)]

    def run(entered, done):
        with ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            entered.set()
            done.wait()

    def child():
        y.forward()
        np.testing.assert_array_equal(y.d, value)
        y.backward()
        np.testing.assert_allclose(step([1, 2]).d, np.exp(w.d * [1, 2]).sum(), rtol=1e-6)

    with another_thread_within(run):
        in_child(child)


def test_a_child_runs_a_graph_whose_code_of_the_user_another_thread_was_running():
    y = Doubled(lambda: meanwhile())(leaf(1, 2)) + 1
    meanwhile = str

    def run(entered, done):
        nonlocal meanwhile
        meanwhile = lambda: (entered.set(), done.wait())  # noqa: E731  # it is put in the place of another one
        y.forward()

    def child():
        nonlocal meanwhile
        meanwhile = str
        y.forward()
        assert y.d.tolist() == [3, 5]

    with another_thread_within(run):
        in_child(child)
    assert y.d.tolist() == [3, 5]


def test_code_of_the_user_that_forks_goes_on_in_both_processes():
    pids = []
    y = Doubled(lambda: pids.append(os.fork()))(leaf(1, 2)) + 1
    status = 1
    try:
        y.forward()
        again = y.d.tolist()
        y.value.roots.forward.plan  # noqa: B018  # the plan is there
        status = 0 if again == [3, 5] else 2
    finally:
        if pids == [0]:
            os._exit(status)
    assert os.waitpid(pids[0], 0)[1] == 0
    assert status == 0
