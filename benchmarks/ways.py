"""Benchmark of rules: how much longer a call takes as the cpu backend computes it than in the best way.

Convolutions and matrix products, of well-known networks.

    python benchmarks/ways.py                               some minutes, on one core
    python benchmarks/ways.py --rows Inception --images 1   of networks with that in their name, on one image
    python benchmarks/ways.py --kinds product               matrix products alone

Each way that can compute a call is measured, as by ATLED_CPU_TUNE=search. A loss of 1.2 says that by the rules a call
takes 1.2 times as long as in the fastest way. The results go to a folder of benchmarks/results/ that has the name of
the processor.
"""

from __future__ import annotations

import argparse
import datetime
import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench_rows.convolutions import SHAPES, Shape
from bench_rows.products import LAYERS, Layer
from harness.environment import describe_machine, load, pin
from harness.report import print_table, write_json

_RESULTS = Path(__file__).resolve().parent / "results"
_TOLD = 1.05  # a loss below is not told, but counted


class Measured(NamedTuple):
    """One call.  by_rules: the name of the way that they take.  seconds: by the names of all ways."""

    name: str
    by_rules: str
    seconds: Mapping[str, float]

    @property
    def best(self) -> str:
        """The fastest way."""
        return min(self.seconds, key=self.seconds.__getitem__)

    @property
    def loss(self) -> float:
        """The time by rules over the least one."""
        return self.seconds[self.by_rules] / self.seconds[self.best]


def _axes(shape: Shape, *, is_adjoint: bool) -> Any:
    from atled_cpu_numba.kernels.shared.leading_axes import Axis, merge_axes

    def axis(size: int, kernel: int, pad: int) -> Any:
        result = (size + 2 * pad - shape.dilation * (kernel - 1) - 1) // shape.stride + 1
        ends = (result, size) if is_adjoint else (size, result)
        return Axis(*ends, kernel, pad, shape.stride, shape.dilation)

    return merge_axes(map(axis, shape.sizes, shape.kernel, shape.pad))


def _result(shape: Shape, images: int, *, is_adjoint: bool) -> tuple[Sequence[int], list[Any]]:
    """Sizes and ways of the convolution or its adjoint."""
    from atled_cpu_numba.kernels.convolution import choice
    from atled_cpu_numba.kernels.convolution.problem import Problem

    ends = shape.channels // shape.groups, shape.maps // shape.groups
    channels, maps = ends[::-1] if is_adjoint else ends
    axes = _axes(shape, is_adjoint=is_adjoint)
    problem = Problem(not is_adjoint, images, shape.groups, channels, maps, axes, (), "", "float32")
    return problem.sizes, list(choice.ways(problem))


def _convolution(shape: Shape, images: int) -> tuple[Sequence[int], list[Any]]:
    return _result(shape, images, is_adjoint=False)


def _adjoint(shape: Shape, images: int) -> tuple[Sequence[int], list[Any]]:
    return _result(shape, images, is_adjoint=True)


def _weight(shape: Shape, images: int) -> tuple[Sequence[int], list[Any]]:
    """Sizes and ways of the gradient with respect to the weight."""
    from atled_cpu_numba.kernels.convolution import weight, weight_slices

    channels, maps = shape.channels // shape.groups, shape.maps // shape.groups
    axes = _axes(shape, is_adjoint=False)
    problem = weight_slices.Problem(images, shape.groups, channels, maps, axes, "", "float32")
    wanted = math.prod(axis.result for axis in axes)
    sizes = (
        images * shape.channels * math.prod(shape.sizes),
        images * shape.maps * wanted,
        shape.maps * channels * math.prod(shape.kernel),
    )
    return sizes, list(weight.ways(problem))


def _product(layer: Layer, examples: int, *, a: str, b: str) -> tuple[Sequence[int], list[Any]]:
    """Sizes and ways of a product of two of "x", "w" and "gy", transposed where its name ends so."""
    from atled.plugin import ArrayDesc, Call, op_spec
    from atled_cpu_numba.kernels.products import matmul

    # Of one w for all examples these are one matrix.
    items, rows = (examples * layer.items, layer.rows) if layer.items > 1 else (1, examples * layer.rows)
    sizes = {"x": (rows, layer.inputs), "w": (layer.inputs, layer.outputs), "gy": (rows, layer.outputs)}
    turned = {"transpose_a": a.endswith("'"), "transpose_b": b.endswith("'")}
    given = [(items, *sizes[name.rstrip("'")]) for name in (a, b)]
    m, n = given[0][2 if turned["transpose_a"] else 1], given[1][1 if turned["transpose_b"] else 2]
    call = Call(op_spec("BatchMatmul"), tuple(map(ArrayDesc, given)), (ArrayDesc((items, m, n)),), turned)
    task = matmul.task_of(call)
    return matmul.sizes_of(call), list(matmul.ways(task))


_KINDS: Mapping[str, Callable[[Shape, int], tuple[Sequence[int], list[Any]]]] = {
    "result": _convolution,
    "input": _adjoint,
    "weight": _weight,
}
_PRODUCTS: Mapping[str, Callable[[Layer, int], tuple[Sequence[int], list[Any]]]] = {
    "product": partial(_product, a="x", b="w"),
    "product-input": partial(_product, a="gy", b="w'"),
    "product-weight": partial(_product, a="x'", b="gy"),
}


def measure(shape: Shape | Layer, kind: str, images: int) -> Measured | None:
    """One call; None where there is one way alone."""
    from atled_cpu_numba import tuning
    from atled_cpu_numba.kernels.shared.ways import named

    sizes, ways = _PRODUCTS[kind](shape, images) if isinstance(shape, Layer) else _KINDS[kind](shape, images)
    by_name = named(ways)
    if len(by_name) == 1:
        return None
    by_rules = next(way.name for way in ways if way.pays)
    # As a search measures them: gradients are computed in training, where weights are packed anew at each run, and the
    # second matrix of a product may be no weight.
    seconds = tuning.measured(by_name, sizes, "float32", keeps_packs=kind == "result")
    return Measured(f"{shape.name}; {kind}, {images} images", by_rules, seconds)


def main() -> int:
    """Measure, print, write; returns the exit status."""
    kinds = [*_KINDS, *_PRODUCTS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", nargs="+", default=[], metavar="TEXT", help="only rows whose name holds one of these")
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds, help="what is computed")
    parser.add_argument("--images", type=int, nargs="+", default=[1, 8], help="images at once (default: 1 8)")
    parser.add_argument("--cores", type=int, default=1, help="cores and threads (default: 1)")
    options = parser.parse_args()
    cores = pin(options.cores)

    from atled_cpu_numba import pool, processor

    pool.set_thread_count(options.cores)
    before = load()
    wanted = [
        (shape, kind, images)
        for images in options.images
        for kind in options.kinds
        for shape in (LAYERS if kind in _PRODUCTS else SHAPES)
        if not options.rows or any(text in shape.name for text in options.rows)
    ]
    found = []
    for number, (shape, kind, images) in enumerate(wanted, 1):
        print(f"{number}/{len(wanted)}  {shape.name}; {kind}, {images} images ...", file=sys.stderr)
        measured = measure(shape, kind, images)
        found += [] if measured is None else [measured]
    if not found:
        print("no row has that in its name, or more than one way to be computed", file=sys.stderr)
        return 2
    losing = sorted((each for each in found if each.loss > _TOLD), key=lambda each: -each.loss)
    table = [["call", "loss", "by rules, us", "fastest, us"]]
    table += [[m.name, f"{m.loss:.2f}", _told(m, m.by_rules), _told(m, m.best)] for m in losing]
    mean = math.exp(statistics.fmean(math.log(each.loss) for each in found))
    print_table(table, f"{len(found)} calls; the geometric mean of all losses is {mean:.3f}")
    name = f"ways-{options.cores}cores" if options.cores > 1 else "ways"
    is_whole = not options.rows and options.kinds == kinds
    content = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "cores": cores or "not bound",
        "load": [before, load()],
        "mean_loss": mean,
        "calls": [{**each._asdict(), "loss": each.loss} for each in found],
    }
    path = _RESULTS / processor.target().name / f"{name}{'' if is_whole else '-selection'}.json"
    write_json(path, content)
    print(f"written to {path}")
    return 0


def _told(measured: Measured, name: str) -> str:
    return f"{name} {1e6 * measured.seconds[name]:.3g}"


if __name__ == "__main__":
    sys.exit(main())
