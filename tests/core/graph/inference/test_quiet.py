"""What is written while an inference runs it sees as a whole, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.cell import ArrayCell
from atled.arrays.watches import WATCHES
from atled.graph.inference.quiet import run_whole
from atled_contexts import Context

CONTEXTS = {"cpu": Context(["cpu:float", "reference:float"]), "reference": Context(["reference:float"])}
SIZE = 200_000


@pytest.fixture(params=CONTEXTS, autouse=True)
def context(request):
    nn.clear_parameters()
    with nn.auto_forward(False), nn.context_scope(CONTEXTS[request.param]):
        yield
    nn.clear_parameters()


@contextmanager
def meanwhile(write: Callable[[], None]) -> Iterator[None]:
    """Another thread that writes all the time."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            write()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_an_assignment_is_seen_whole():
    x = nn.Variable((1, SIZE))
    w = nn.Variable.from_numpy_array(np.ones((1, SIZE), np.float32))
    infer = nn.inference([F.max(x * w), F.min(x * w)], x)
    ones, twos = np.ones((1, SIZE), np.float32), np.full((1, SIZE), 2, np.float32)

    def write() -> None:
        w.d = twos
        w.d = ones

    with meanwhile(write):
        found = [infer(ones) for _ in range(30)]
    assert all(largest == least for largest, least in found)


def test_an_update_of_a_solver_is_seen_whole():
    x = nn.Variable((1, SIZE))
    names = ("a", "b")
    a, b = (nn.parameter.get_parameter_or_create(name, (1, SIZE), initializer=np.ones((1, SIZE))) for name in names)
    infer = nn.inference(F.max(F.abs(x * a - b)), x)
    solver = S.Sgd(0.5)
    solver.set_parameters(nn.get_parameters())
    for variable in (a, b):
        variable.g = 1
    ones = np.ones((1, SIZE), np.float32)
    with meanwhile(solver.update):
        found = [infer(ones) for _ in range(30)]
    assert not np.any(found)


def test_a_run_beside_a_writer_is_done_again():
    cell = ArrayCell(1)
    runs = []

    def run() -> int:
        runs.append(bool(WATCHES))
        if len(runs) == 1:
            cell.touched()
        return len(runs)

    result, _ = run_whole(run, [cell])
    assert result == 2
    assert runs == [False, False]


def test_a_writer_waits_in_the_end():
    cell = ArrayCell(1)
    order = []
    writer = threading.Thread(target=lambda: (cell.fill(1), order.append("written")))

    def run() -> None:
        if len(order) < 2:
            cell.touched()
        elif len(order) == 2:
            writer.start()
            writer.join(0.05)
        order.append("run")

    run_whole(run, [cell])
    writer.join()
    assert order == ["run", "run", "run", "written"]
    assert not WATCHES
