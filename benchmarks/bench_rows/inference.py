"""Inference of a network: its latency, the slowest calls, memory, and the time to a first result."""

from __future__ import annotations

import contextlib
import importlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench_rows.inference_atled import AtledLayers
from bench_rows.inference_layers import Network, parameter, samples
from bench_rows.inference_networks import NETWORKS
from bench_rows.inference_onnx import onnx_model
from bench_rows.starting import peak_of, seconds_of
from harness.case import Case

Inferred = Callable[[np.ndarray], Any]

_TAIL_CALLS, _TAIL_S = 400, 4.0
_MODEL, _VALUES = "network.onnx", "values.npz"

_CALLS = """
from bench_rows.inference import loaded, samples, NETWORKS
network = NETWORKS[{network!r}]
x = samples(network, {batch})
infer = loaded({library!r}, network, {batch}, {folder!r})
for _ in range({calls}):
    infer(x)
"""


def latency(library: str, network: str, batch: int) -> Case:
    """One call on a batch that lies in an array of the user's; the result is read as an array."""
    return latency_of(library, NETWORKS[network], batch)


def latency_of(library: str, network: Network, batch: int) -> Case:
    """The same of any network."""
    x = samples(network, batch)
    infer = _inferred(library, network, batch)
    return Case(lambda: infer(x), lambda: [infer(x)])


def tail_latency(library: str, network: str, batch: int) -> Case:
    """The 99th percentile of calls one by one: of 400, or of as many as 4 seconds have."""
    x = samples(NETWORKS[network], batch)
    infer = _inferred(library, NETWORKS[network], batch)
    for _ in range(10):
        infer(x)

    def run() -> float:
        times: list[float] = []
        end = time.perf_counter() + _TAIL_S
        while len(times) < 2 or (len(times) < _TAIL_CALLS and times[-1] + time.perf_counter() < end):
            start = time.perf_counter()
            infer(x)
            times.append(time.perf_counter() - start)
        return statistics.quantiles(times, n=100, method="inclusive")[98]

    return Case(run, is_reading=True)


def first_result(library: str, network: str, batch: int) -> Case:
    """Seconds from process start to the end of a first call; what a library has compiled for good is there."""
    return _with_files(library, network, batch, 1, partial(seconds_of, is_warm=True))


def memory(library: str, network: str, batch: int) -> Case:
    """Greatest resident bytes of a process that makes ten calls. Linux only."""
    return _with_files(library, network, batch, 10, peak_of)


def _with_files(library: str, network: str, batch: int, calls: int, made: Callable[[str], Case]) -> Case:
    """The case of a fresh process that loads a network and calls it."""
    folder = tempfile.TemporaryDirectory()
    store(library, NETWORKS[network], batch, folder.name)
    case = made(_CALLS.format(library=library, network=network, batch=batch, calls=calls, folder=folder.name))
    run = case.run
    case.run = lambda: run() if folder else None  # the files live as long as the case
    return case


def _inferred(library: str, network: Network, batch: int) -> Inferred:
    with tempfile.TemporaryDirectory() as folder:
        store(library, network, batch, folder)
        return loaded(library, network, batch, folder)


def store(library: str, network: Network, batch: int, folder: str) -> None:
    """Write the files that `loaded` reads, by the same weights for every library."""
    if library != "atled":
        Path(folder, _MODEL).write_bytes(onnx_model(network, batch))
        return
    nn = importlib.import_module("atled")
    layers = AtledLayers(parameter)
    network.result(layers, nn.Variable((batch, *network.shape)))
    with _scope(nn):
        for key, made in layers.parameters.items():
            nn.parameter.set_parameter(key, made)
        nn.save_parameters(Path(folder, _VALUES))


def loaded(library: str, network: Network, batch: int, folder: str) -> Inferred:
    """What infers a batch, an array to an array, from files; on as many threads as OMP_NUM_THREADS says."""
    if library == "atled":
        return _atled(network, batch, Path(folder, _VALUES))
    runtimes: dict[str, Callable[[Path], Inferred]] = {"onnxruntime": _onnxruntime, "openvino": _openvino}
    return runtimes[library](Path(folder, _MODEL))


def _atled(network: Network, batch: int, file: Path) -> Inferred:
    nn = importlib.import_module("atled")
    x = nn.Variable((batch, *network.shape))
    with _scope(nn):
        nn.load_parameters(file)
        layers = AtledLayers(parameter, nn.get_parameters(grad_only=False))
    infer: Inferred = nn.inference(network.result(layers, x), [x])
    return infer


@contextlib.contextmanager
def _scope(nn: Any) -> Iterator[None]:
    """A scope of parameters for one file, empty before and after."""
    with nn.parameter_scope("inferred"):
        try:
            yield
        finally:
            nn.clear_parameters()


def _onnxruntime(file: Path) -> Inferred:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = _threads()
    options.inter_op_num_threads = 1
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def _openvino(file: Path) -> Inferred:
    openvino = importlib.import_module("openvino")
    # Float32, as the others compute; by default some processors get bfloat16.
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": str(_threads()),
        "INFERENCE_PRECISION_HINT": "f32",
    }
    core = openvino.Core()
    request = core.compile_model(core.read_model(str(file)), "CPU", options).create_infer_request()
    # The result is a view of the request's memory, without a copy.
    return lambda x: request.infer([x], share_inputs=True, share_outputs=True)[0]


def _threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", "1"))
