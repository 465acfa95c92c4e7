"""GraphProfiler: how long each function of a graph takes, forward and backward, and a whole step of training."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

import atled
from atled.errors import four_parts, listing
from atled.ext_utils import import_extension_module
from atled.function import Function
from atled.named_tuple import NamedTuple
from atled.parameter import get_parameters
from atled.solvers import Solver
from atled.variable import Variable
from atled_contexts import Trace, trace

__all__ = ["GraphProfiler", "GraphProfilerCsvWriter", "ProfileStat"]

_SCALES = {"m": 1e3, "u": 1e6, "n": 1e9}
_FIELDS = ("parameter_scope", "function_name", "inputs_shape", "args_info")


class ProfileStat(NamedTuple):
    """Time of one function.

    parameter_scope: of its parameters, where it has any.  inputs_shape: of all inputs.  args_info: attributes by name.
    mean_time: as text, in the unit of the profiler.  n_run: how often it was measured.
    backend: who computed it; several joined by "+", "" where nothing was to be computed.
    """

    parameter_scope: str | None
    inputs_shape: list[tuple[int, ...]]
    args_info: Iterable[tuple[str, Any]]
    function_name: str
    mean_time: str
    n_run: int
    backend: str = ""


class GraphProfiler:
    """Measures each function of a graph by itself, then the whole graph, then training steps.

    The times of single functions come from a trace: the work of the kernels, by the clock of the device where it has
    one, casts and transfers included. Those of the whole graph are what a caller waits for, with fusion
    and with one native program for all steps.

        profiler = GraphProfiler(loss, device_id=0, ext_name="cpu", solver=solver, n_run=100)
        profiler.run()
        profiler.print_result()

    The inputs of the graph must be filled. Training steps change the parameters.

    Args:
        graph: the result whose functions to measure, a loss for example.
        device_id: of the device to wait for.
        ext_name: extension of that device.
        solver: for training steps, with its parameters set; None: none.
        n_run: how often to measure each.
        max_measure_execution_time: seconds after which no further run of the same thing begins.
        time_scale: unit of the times: "m" for milliseconds, "u" for micro-, "n" for nanoseconds.
        backward_accum: measure backward as adding to gradients, instead of overwriting them.

    Raises:
        ValueError: n_run below 1, unknown time_scale, or a leaf instead of a result.
        ImportError: no such extension.
    """

    def __init__(
        self,
        graph: Variable,
        device_id: str | int,
        ext_name: str,
        solver: Solver | None = None,
        n_run: int = 100,
        max_measure_execution_time: float = 1,
        time_scale: str = "m",
        backward_accum: bool = False,
    ) -> None:
        _check(graph, n_run, time_scale)
        self.graph = graph
        self.solver = solver
        self.n_run = n_run
        self.device_id = str(device_id)
        self.ext_name = ext_name
        self.ext_module = import_extension_module(ext_name)
        self.max_measure_execution_time = max_measure_execution_time
        self.time_scale = time_scale
        self.backward_accum = backward_accum
        self.result: dict[str, Any] = {}

    def run(self) -> None:
        """Measure everything."""
        self.graph.forward()  # so that each function finds its inputs computed
        self.time_profiling_forward()
        self.time_profiling_backward()
        self.time_profiling_whole_graph()

    def time_profiling_forward(self) -> None:
        """Measure forward of each function: `result["forward"]`, a list of ProfileStat, inputs first."""
        self.result["forward"] = self._each(lambda f: f.forward(f.inputs, f.outputs))

    def time_profiling_backward(self) -> None:
        """Measure backward of each function: `result["backward"]`, in the same order."""
        self.result["backward"] = self._each(
            lambda f: f.backward(f.inputs, f.outputs, [self.backward_accum] * len(f.inputs))
        )

    def time_profiling_whole_graph(self) -> None:
        """Measure forward and backward of the graph, and with a solver its update and whole training steps.

        They are in `result` as forward_all, backward_all, update and training, each with its count n_run_....
        """
        self._whole("forward_all", self.graph.forward)
        self._whole("backward_all", self.graph.backward)
        if self.solver is not None:
            self._whole("update", self.solver.update)
            self._whole("training", self.training_function)

    def training_function(self) -> None:
        """One training step."""
        assert self.solver is not None
        self.graph.forward(clear_no_need_grad=True)
        self.solver.zero_grad()
        self.graph.backward(clear_buffer=True)
        self.solver.update()

    def get_result(self) -> dict[str, Any]:
        """What was measured so far, by name."""
        return self.result

    def print_result(self, file: IO[str] | None = None) -> None:
        """Write what was measured as text; to stdout for None."""

        def show(text: str) -> None:
            print(text, file=file)

        show(f"time scale: {self.time_scale}")
        for name in ("forward", "backward"):
            show(f"{name}:")
            for stat in self.result[name]:
                shapes = listing(map(str, stat.inputs_shape))
                show(f"  {stat.mean_time:>12}  {stat.function_name:<24} {stat.backend:<12} {shapes}")
        for name in ("forward_all", "backward_all", "update", "training"):
            if name in self.result:
                show(f"{name}: {self.result[name]}")

    def _each(self, execute: Callable[[Function], object]) -> list[ProfileStat]:
        scopes = {variable: key.rpartition("/")[0] for key, variable in get_parameters(grad_only=False).items()}
        stats: list[ProfileStat] = []
        self.graph.visit(lambda function: stats.append(self._stat(function, execute, scopes)))
        return stats

    def _stat(
        self, function: Function, execute: Callable[[Function], object], scopes: Mapping[Variable, str]
    ) -> ProfileStat:
        inputs = function.inputs
        collected: list[Trace] = []

        def run() -> None:
            with trace() as one:
                execute(function)
            collected.append(one)

        count = self._repeat(run)
        rows = [row for one in collected[-count:] for row in one.rows()]
        return ProfileStat(
            parameter_scope=next((scopes[x] for x in inputs if x in scopes), None),
            inputs_shape=[x.shape for x in inputs],
            args_info=list(function.info.args.items()),
            function_name=function.name,
            mean_time=self._text(sum(row.seconds for row in rows) / count),
            n_run=count,
            backend="+".join(sorted({row.backend for row in rows if row.backend})),
        )

    def _whole(self, name: str, execute: Callable[[], object]) -> None:
        starts: list[float] = []

        def run() -> None:
            starts.append(time.perf_counter())
            execute()
            self.ext_module.synchronize(device_id=self.device_id)

        count = self._repeat(run)
        self.result[name] = self._text((time.perf_counter() - starts[-count]) / count)
        self.result[f"n_run_{name}"] = count

    def _repeat(self, execute: Callable[[], object]) -> int:
        """Execute once, which compiles, then n_run times or until the time is up; the count without the first."""
        execute()
        end = time.perf_counter() + self.max_measure_execution_time
        count = 0
        while count < self.n_run and (count == 0 or time.perf_counter() < end):
            execute()
            count += 1
        return count

    def _text(self, seconds: float) -> str:
        return f"{seconds * _SCALES[self.time_scale]:.8}"


class GraphProfilerCsvWriter:
    """Writes what a profiler measured as CSV, in NNabla's layout with the backend as a last column.

        with open("profile.csv", "w", newline="") as file:
            GraphProfilerCsvWriter(profiler, file=file).write()

    Args:
        gb: the profiler; it must have run when `write` is called.
        file: open for writing text; None: stdout.
    """

    def __init__(self, gb: GraphProfiler, file: IO[str] | None = None) -> None:
        self.gb = gb
        self.file = sys.stdout if file is None else file
        self.fields = [*_FIELDS, "forward", "backward", "forward_n_run", "backward_n_run", "backend"]
        self._writer = csv.writer(self.file)
        self.write_header()

    def write_header(self) -> None:
        """Write what was asked for, and the names of the columns."""
        profiler = self.gb
        self._writer.writerow(["num. of run", profiler.n_run])
        self._writer.writerow(["device id", profiler.device_id])
        self._writer.writerow(["ext name", profiler.ext_name])
        self._writer.writerow(["time scale", profiler.time_scale])
        self._writer.writerow(["atled version", atled.__version__])
        self._writer.writerow([])
        self._writer.writerow(self.fields)

    def write(self) -> None:
        """Write a line per function, and the times of the whole graph."""
        result = self.gb.result
        for forward, backward in zip(result["forward"], result["backward"], strict=True):
            described = [
                forward.parameter_scope,
                forward.function_name,
                forward.inputs_shape,
                ", ".join(f"{name}: {value}" for name, value in forward.args_info),
            ]
            measured = [forward.mean_time, backward.mean_time, forward.n_run, backward.n_run, forward.backend]
            self._writer.writerow(described + measured)
        for name, title in (
            ("forward_all", "forward all"),
            ("backward_all", "backward all"),
            ("update", "update"),
            ("training", "training(forward + backward + update)"),
        ):
            if name in result:
                self._writer.writerow([])
                self._writer.writerow([title, result[name]])
                self._writer.writerow([f"{name}_n_run", result[f"n_run_{name}"]])


def _check(graph: Variable, n_run: int, time_scale: str) -> None:
    if graph.parent is None:
        raise ValueError(four_parts("GraphProfiler of a leaf", "nothing computes it", "", "give the result of a graph"))
    if n_run < 1:
        raise ValueError(four_parts(f"GraphProfiler(n_run={n_run})", "nothing would be measured", "", "give 1 or more"))
    if time_scale not in _SCALES:
        raise ValueError(
            four_parts(
                f"GraphProfiler(time_scale={time_scale!r})", "no such unit", "", f"use one of {listing(_SCALES)}"
            )
        )


def __dir__() -> list[str]:
    return sorted(__all__)
