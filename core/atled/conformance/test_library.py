"""The plugin under the library: graphs, views, threads, interchange, memory, a network that learns."""

from __future__ import annotations

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.conformance.cases import Case, Topic, backends, elementwise, over
from atled.conformance.checks import strided
from atled.conformance.direct import Launch, launches
from atled.conformance.skipping import skip_refused
from atled.conformance.subject import Subject
from atled.conformance.watching import bytes_in_use
from atled.dtypes import epsilon
from atled.type_configs import compute_dtype
from atled_contexts import Context

_STEPS = 5
_TIMEOUT_S = 60
_LEAK_RUNS = 20
_LEAK_SHAPE = (64, 65)
_LEAK_BYTES = 64 * 65 // 2  # per run: less than any array, more than what NumPy's caches seem to take


def _expression(x: nn.Variable, y: nn.Variable) -> nn.Variable:
    """Something of everything: elementwise with broadcasting, a product, a reduction."""
    return F.sum(F.tanh(F.affine(x, y)) * 0.5 + F.relu(F.affine(x, y)), axis=1)


def _expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = x @ y
    return (np.tanh(z) * 0.5 + np.maximum(z, 0)).sum(axis=1)


def _leaves(seed: int, rows: int = 5) -> tuple[nn.Variable, nn.Variable]:
    rng = np.random.default_rng(seed)
    x, y = nn.Variable((rows, 4), need_grad=True), nn.Variable((4, 3), need_grad=True)
    x.d, y.d = rng.standard_normal(x.shape), rng.standard_normal(y.shape)
    return x, y


def _allowed(subject: Subject, case: Topic) -> float:
    """The error that a handful of results may have, each rounded to the dtype that these checks run in."""
    return max(1e-4, 8 * epsilon(compute_dtype(subject.type_configs(case.name)[0])))


def _assert_close(found: np.ndarray, wanted: np.ndarray, words: str, allowed: float) -> None:
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=allowed, atol=allowed, err_msg=words)


@over(backends)
def test_unusual_inputs(subject: Subject, case: Topic) -> None:
    """Strided, read-only, transposed and float64 arrays given to `.d` are computed with like any others."""
    x, y = _leaves(0)
    values, weights = x.d.astype(np.float64), y.d.copy()
    unusual = {
        "strided": strided(values),
        "in Fortran order": np.asfortranarray(values),
        "reversed": values[::-1].copy()[::-1],
        "a list": values.tolist(),
    }
    frozen = values.copy()
    frozen.flags.writeable = False
    unusual["read-only"] = frozen
    with nn.context_scope(subject.mixed(case.name)):
        z = _expression(x, y)
        for words, array in unusual.items():
            x.d = array
            z.forward()
            _assert_close(z.d, _expected(values, weights), words, _allowed(subject, case))


@over(backends)
def test_held_views(subject: Subject, case: Topic) -> None:
    """What is written through a view that the user holds is seen by the next run, and results by the view."""
    x, y = _leaves(1)
    held = x.d
    with nn.context_scope(subject.mixed(case.name)):
        z = _expression(x, y)
        z.forward()
        for factor in (2.0, 3.0):
            held *= factor
            z.forward()
            words = f"after writing through a view, factor {factor}"
            _assert_close(z.d, _expected(held, y.d), words, _allowed(subject, case))


@over(backends)
def test_graph_modes(subject: Subject, case: Topic) -> None:
    """A static graph, a dynamic one and imperative calls give the same values and gradients as the reference."""
    found = {}
    for words, context in (("plugin", subject.mixed(case.name)), ("reference", subject.reference("float"))):
        x, y = _leaves(2)
        with nn.context_scope(context):
            z = _expression(x, y)
            z.forward()
            z.backward()
            static = [z.d.copy(), x.g.copy(), y.g.copy()]
            with nn.auto_forward():
                dynamic = _expression(x, y).d.copy()
            imperative = F.tanh(F.affine(x.data, y.data)).data.copy()
        found[words] = [*static, dynamic, imperative]
    for ours, theirs, words in zip(
        found["plugin"],
        found["reference"],
        ("y", "gradient of x", "gradient of w", "dynamic", "imperative"),
        strict=True,
    ):
        _assert_close(ours, theirs, words, _allowed(subject, case))


@over(backends)
def test_threads_together(subject: Subject, case: Topic) -> None:
    """Threads that build and run different graphs at the same time get the values they get alone."""
    context, allowed = subject.mixed(case.name), _allowed(subject, case)

    def work(seed: int) -> None:
        for turn in range(5):
            x, y = _leaves(seed, rows=seed + turn + 1)
            z = _expression(x, y)
            z.forward()
            z.backward()
            _assert_close(z.d, _expected(x.d, y.d), f"thread {seed}, turn {turn}", allowed)
            _assert_close(F.exp(x.data).data, np.exp(x.d), f"thread {seed}, turn {turn}, imperative", allowed)

    with nn.context_scope(context), ThreadPoolExecutor(4) as pool:
        bound = nn.bind(work)
        for future in [pool.submit(bound, seed) for seed in range(8)]:
            future.result(timeout=_TIMEOUT_S)


@over(backends)
def test_interchange(subject: Subject, case: Topic) -> None:
    """Arrays go to and come from other libraries by DLPack, with their values."""
    with nn.context_scope(subject.mixed(case.name)):
        x = nn.NdArray.from_numpy_array(np.arange(6, dtype=np.float32).reshape(2, 3))
        y = F.add_scalar(x, 1.0)
        wanted = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
        if y.dtype.isbuiltin != 1:
            pytest.skip(f"NumPy's DLPack has no {y.dtype}")
        kind, _ = y.__dlpack_device__()
        if kind != nn.NdArray.from_numpy_array(wanted).__dlpack_device__()[0]:
            back = nn.NdArray.from_dlpack(y)
            np.testing.assert_array_equal(back.data, wanted, "through DLPack on the device")
        host = np.from_dlpack(y) if kind == 1 else y.data
        np.testing.assert_array_equal(host, wanted, "to NumPy")
        given = nn.NdArray.from_dlpack(wanted)
        np.testing.assert_array_equal(F.add_scalar(given, 1.0).data, wanted + 1, "from NumPy")


@over(backends)
def test_memory_of_graphs(subject: Subject, case: Topic) -> None:
    """Graphs, gradients and arrays that are dropped give their memory back."""
    array_class = subject.array_class_of(case.name)
    if array_class is None or bytes_in_use(array_class, subject.device) is None:
        pytest.skip("no array class with statistics of bytes_in_use")

    def use() -> None:
        with nn.context_scope(subject.mixed(case.name)):
            x, y = _leaves(3, rows=50)
            z = _expression(x, y)
            z.forward()
            z.backward()
            F.tanh(x.data)

    for _ in range(2):
        use()  # calls that were made before keep spare arrays from the second time on
    before = bytes_in_use(array_class, subject.device)
    for _ in range(3):
        use()
    after = bytes_in_use(array_class, subject.device)
    assert after == before, f"{after} bytes in use after the same work, {before} before"


@over(elementwise)
def test_leaks(case: Case) -> None:
    """Running a prepared call over and over takes no more memory of Python and NumPy."""
    skip_refused(case)
    for launch in launches(case.resized(_LEAK_SHAPE)):
        form = next(iter(launch.forms))
        for _ in range(_LEAK_RUNS):
            launch.run(form)
        grown = _growth(launch, form)
        assert grown < _LEAK_RUNS * _LEAK_BYTES, f"{case.backend}: {_LEAK_RUNS} runs take {grown} bytes more"


def _growth(launch: Launch, form: str) -> int:
    """Bytes that stay allocated after many runs, once the device has done them."""
    launch.wait()
    tracemalloc.start()
    try:
        launch.run(form)
        launch.wait()
        gc.collect(0)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(_LEAK_RUNS):
            launch.run(form)
        launch.wait()
        gc.collect(0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


@over(backends)
def test_training(subject: Subject, case: Topic) -> None:
    """A small network learns on the plugin as it does on the reference."""
    ours = _train(subject.mixed(case.name))
    theirs = _train(subject.reference("float"))
    assert theirs[-1] < theirs[0], "the network does not learn on the reference"
    wide = compute_dtype(subject.type_configs(case.name)[0]).itemsize >= 4
    near, least = (2e-3, 1e-4) if wide else (0.0, 0.1 * theirs[0])  # roundings add up over the steps
    np.testing.assert_allclose(ours, theirs, rtol=near, atol=least, err_msg="losses, step by step")


def _train(context: Context) -> list[float]:
    """The losses of some steps of a network with convolution, batch normalization, pooling and an affine layer."""
    kept = nn.get_parameters(grad_only=False)
    nn.clear_parameters()
    try:
        rng = np.random.default_rng(7)
        with nn.context_scope(context):
            x, t = nn.Variable((8, 1, 8, 8)), nn.Variable((8, 1))
            h = PF.convolution(x, 4, (3, 3), pad=(1, 1), name="conv")
            h = F.relu(PF.batch_normalization(h, name="bn"))
            h = F.max_pooling(h, (2, 2))
            h = F.tanh(PF.affine(h, 16, name="hidden"))
            loss = F.mean(F.softmax_cross_entropy(PF.affine(h, 4, name="scores"), t))
            solver = S.Adam(0.01)
            solver.set_parameters(nn.get_parameters())
            for name, variable in nn.get_parameters().items():
                if name.endswith("/W"):  # not as initializers draw them: a seed of the library's may be set
                    variable.d = rng.standard_normal(variable.shape) / np.sqrt(variable.d[0].size)
            x.d = rng.standard_normal(x.shape)
            t.d = rng.integers(0, 4, t.shape)
            losses = []
            for _ in range(_STEPS):
                loss.forward()
                solver.zero_grad()
                loss.backward()
                solver.update()
                losses.append(float(loss.d))
        return losses
    finally:
        nn.clear_parameters()
        for name, variable in kept.items():
            nn.set_parameter(name, variable)
