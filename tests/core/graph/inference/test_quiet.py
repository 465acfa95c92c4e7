"""What is written while an inference runs it sees as a whole, or not at all."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.together import is_amid_writes, written_together
from atled.arrays.watches import WATCHES
from atled.graph.inference import quiet
from atled.graph.inference.quiet import run_whole
from atled_contexts import Context
from forked import ignores_fork, in_child, needs_fork

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


@pytest.mark.parametrize("write", ["outputs", "in_place"])
def test_what_a_function_writes_is_seen_whole(write):
    x = nn.Variable((1, SIZE))
    w = nn.Variable.from_numpy_array(np.ones((1, SIZE), np.float32))
    infer = nn.inference([F.max(x * w), F.min(x * w)], x)
    ones = np.ones((1, SIZE), np.float32)
    constant, data = nn.NdArray.from_numpy_array(ones), w.data

    def into_outputs() -> None:
        F.pow_scalar(constant, 1.5, outputs=[w.data])
        F.add_scalar(constant, 1.0, outputs=[w.data])

    def in_place() -> None:
        nonlocal data
        data += 1.0
        data -= 1.0

    with meanwhile(into_outputs if write == "outputs" else in_place):
        found = [infer(ones) for _ in range(60)]
    assert all(largest == least for largest, least in found)


@pytest.mark.parametrize("is_at_once", [True, False])
def test_running_statistics_are_seen_whole(is_at_once):
    x = nn.Variable((1, SIZE))
    parameters = [nn.Variable((1, SIZE)) for _ in range(4)]
    for variable, value in zip(parameters, (0, 1, 1, 2), strict=True):  # beta, gamma, mean, variance
        variable.d = value
    infer = nn.inference(F.batch_normalization(x, *parameters, batch_stat=False, eps=1e-9), x)
    batch = np.repeat(np.array([[0], [2]], np.float32), SIZE, axis=1)  # of mean 1 and variance 2

    def write() -> None:
        for times in (2, 1):
            given = nn.Variable.from_numpy_array(batch * times)
            with nn.auto_forward(is_at_once):
                F.batch_normalization(given, *parameters, decay_rate=0.0, batch_stat=True).forward()

    zeros = np.zeros((1, SIZE), np.float32)
    expected = infer(zeros)
    with meanwhile(write):
        found = [infer(zeros) for _ in range(40)]
    for result in found:
        np.testing.assert_allclose(result, expected, rtol=1e-4)  # of any multiple


def test_parameters_from_a_file_are_seen_whole(tmp_path):
    x = nn.Variable((1, SIZE))
    parameters = [nn.parameter.get_parameter_or_create(name, (1, SIZE)) for name in "abcd"]
    infer = nn.inference(F.max(F.abs(parameters[0] + parameters[1] + parameters[2] - 3 * parameters[3] + x)), x)
    paths = [str(tmp_path / f"{value}.npz") for value in (1, 2)]
    for value, path in enumerate(paths):
        for parameter in parameters:
            parameter.d = value
        nn.save_parameters(path)
    zeros = np.zeros((1, SIZE), np.float32)
    with meanwhile(lambda: [nn.load_parameters(path) for path in paths]):
        found = [infer(zeros) for _ in range(60)]
    assert not np.any(found)


def test_a_writer_of_several_arrays_that_has_begun_waits_for_no_run():
    cells = [ArrayCell(1), ArrayCell(1)]
    begun, order = threading.Event(), []

    def write() -> None:
        with written_together(cells):
            begun.set()
            while not WATCHES:  # until the run waits for the end of this
                time.sleep(1e-4)
            for cell in cells:
                cell.fill(1)
            order.append("written")

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    run_whole(lambda: order.append("run"), cells)
    writer.join()
    assert order == ["run", "run", "written", "run"]


@pytest.mark.parametrize("is_failing", [False, True])
def test_writes_within_writes_end_with_the_outer_ones(is_failing):
    first, second, third = cells = [ArrayCell(1), ArrayCell(1), ArrayCell(1)]
    own = threading.get_ident()
    with written_together([first, second]):
        with contextlib.suppress(ZeroDivisionError), written_together([second, third]):
            assert [cell.writer for cell in cells] == [own, own, own]
            1 / (not is_failing)
        assert [cell.writer for cell in cells] == [own, own, 0]
        assert is_amid_writes()
    assert [cell.writer for cell in cells] == [0, 0, 0]
    assert not is_amid_writes()


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


def test_a_run_that_fails_beside_a_writer_is_done_again():
    cell = ArrayCell(1)
    runs = []

    def run() -> int:
        runs.append(1)
        if len(runs) == 1:
            cell.touched()
            raise ValueError("it has changed")
        return len(runs)

    assert run_whole(run, [cell])[0] == 2
    with pytest.raises(ZeroDivisionError):
        run_whole(lambda: 1 / 0, [cell])


def test_a_verification_beside_a_writer_blames_no_plugin():
    weight = nn.Variable.from_numpy_array(np.ones((64, 64), np.float32))
    x = nn.Variable((2, 64))
    infer = nn.inference(F.affine(x, weight), x)
    given = np.ones(x.shape, np.float32)
    value = iter(range(1, 1 << 30))

    def write() -> None:
        weight.d = next(value)

    with meanwhile(write), nn.verify(1.0):
        for _ in range(30):
            assert np.ptp(infer(given)) == 0


def test_a_run_within_a_write_of_its_own_thread_does_not_wait_for_its_end():
    cell = ArrayCell(1)
    with written_together([cell]):
        assert run_whole(lambda: 1, [cell])[0] == 1


def test_a_run_that_is_interrupted_while_it_waits_leaves_no_writer_waiting(monkeypatch):
    w = nn.Variable.from_numpy_array(np.ones(4, np.float32))
    cell = w.data.cell

    def write() -> None:
        w.d = 2

    writer = threading.Thread(target=write, daemon=True)

    def interrupt(_: float) -> None:
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()  # it waits for the run
        raise KeyboardInterrupt

    monkeypatch.setattr(quiet, "time", SimpleNamespace(monotonic=time.monotonic, sleep=interrupt))
    cell.writer = threading.main_thread().ident or 0  # amid a write, as the run in the other thread sees it
    found: list[type[BaseException]] = []

    def run() -> None:
        try:
            run_whole(lambda: None, [cell])
        except KeyboardInterrupt as error:
            found.append(type(error))

    reader = threading.Thread(target=run)
    reader.start()
    reader.join()
    cell.writer = 0
    writer.join(20)
    assert found == [KeyboardInterrupt] and not writer.is_alive()
    np.testing.assert_array_equal(w.d, 2)


def test_an_array_that_gets_no_memory_is_not_taken_for_one_that_is_being_written(monkeypatch):
    cell = ArrayCell(1)

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(ArrayCell, "_prepared", fail)
    with pytest.raises(MemoryError):
        cell.begin_write(HOST, np.dtype(np.float32))
    assert cell.writer == 0


@needs_fork
@ignores_fork
def test_a_child_waits_neither_for_a_writer_nor_for_a_reader_of_its_parent():
    weight = nn.Variable.from_numpy_array(np.ones((4, 4), np.float32))
    x = nn.Variable((2, 4))
    infer = nn.inference(F.affine(x, F.tanh(weight)), x)
    given = np.ones(x.shape, np.float32)
    infer(given)
    cell, begun, ended = weight.data.cell, threading.Barrier(3), threading.Event()

    def read() -> None:
        def run() -> None:
            if WATCHES:  # the third run, for whose end writers wait
                begun.wait()
                ended.wait()
            else:
                cell.touched()

        run_whole(run, [cell])

    def compute() -> None:
        with infer._values._lock:
            begun.wait()
            ended.wait()

    def body() -> None:
        weight.d = 2.0  # not before the reader has ended, if that is waited for
        cell.writer = 1  # no thread: it was there before the fork
        assert np.ptp(infer(given)) == 0

    threads = [threading.Thread(target=each) for each in (read, compute)]
    for thread in threads:
        thread.start()
    begun.wait()
    try:
        in_child(body)
    finally:
        cell.writer = 0
        ended.set()
        for thread in threads:
            thread.join()
