"""Device programs: launches that are captured once as a graph of CUDA's, and replayed by one call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy import faults
from atled_cuda_cupy.devices import Device

_LEAST = 2  # launches that are worth a graph: one is as quick by itself


def program(where: Device, launches: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """What does the same as the launches. It raises what the capture refuses; the engine tells that, and loops."""
    if len(launches) < _LEAST:
        return launches[0]
    with where.capture, where:
        graph = _captured(launches)
    launch_graph, current_stream, executable = cp.runtime.graphLaunch, cp.current_stream, graph.graphExec
    known = faults.errors()

    def replay(graph: object = graph) -> None:  # the graph lives as long as what replays it
        try:
            launch_graph(executable, current_stream().ptr)
        except known as error:
            where.loss.tell(error)

    def replay_among_several() -> None:
        with where:
            replay()

    return replay if where.is_alone else replay_among_several


def _captured(launches: Sequence[Callable[[], object]]) -> Any:  # Any: a cupy.cuda.Graph
    """The graph of the launches, by a stream of its own: the device's may be in use by other threads meanwhile."""
    stream = cp.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            for launch in launches:
                launch()
        except BaseException:
            with contextlib.suppress(*faults.errors()):  # the first error says why
                stream.end_capture()
            raise
        return stream.end_capture()
