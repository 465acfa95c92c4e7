"""Ways to compute a call, measured: the fastest on this processor, kept in the folder of compiled kernels.

Rules choose by sizes, caches and registers; they were found on a few processors. Where `ATLED_CPU_TUNE` says `search`,
a call that is prepared for the first time is computed in each way that there is, some times in turn, on arrays of its
own. Forms of weights are made before, as plans of inference keep them, but for gradients, which are computed in
training, where weights are others at each run, and for products, whose second matrix may be no weight.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np

from atled.plugin import Native, Prepared
from atled_cpu_numba import answers, pool, processor, progress, sources
from atled_cpu_numba.kernels.shared.ways import Way, named

# Who lists ways: with other kernels, they may take other times.
_SOURCES = [
    str(Path(__file__).parent / "kernels" / name)
    for name in ("convolution/choice.py", "convolution/weight.py", "products/matmul.py", "products/matmul_plan.py")
]

_CLEARLY = 0.95  # of the time of what the rules choose: below, another way is taken
_LEAST_ROUNDS, _MOST_ROUNDS = 5, 41
_SECONDS = 0.1  # for each way, where that is more than the fewest rounds


def fastest(ways: Sequence[Way], problem: Hashable, sizes: Sequence[int], dtype: str, *, keeps_packs: bool) -> Prepared:
    """The fastest way, which the note tells, with what the others take; arguments as for `chosen`."""
    by_name = named(ways)
    by_rules = next(way for way in ways if way.pays)
    if len(by_name) == 1:
        return by_rules.prepare()
    compiled_for = [*processor.target()]
    question = [
        "fastest way",
        sorted(by_name),
        repr(problem),
        keeps_packs,
        compiled_for,
        pool.thread_count(),
        sources.digests(_SOURCES),
    ]
    seconds = answers.kept(question, lambda: measured(by_name, sizes, dtype, keeps_packs=keeps_packs))
    best = choose(seconds, by_rules.name)
    prepared = by_name[best].prepare()
    others = ", ".join(f"{name} {1e6 * seconds[name]:.3g}" for name in sorted(seconds, key=seconds.__getitem__))
    prepared.note += f"; measured, us: {others}"
    if best != by_rules.name:
        prepared.note += f"; by rules: {by_rules.name}"
    return prepared


def choose(seconds: Mapping[str, float], by_rules: str) -> str:
    """The name of the way to take, of those with times: the rules', unless another one is clearly faster."""
    best = min(seconds, key=seconds.__getitem__)
    return best if seconds[best] < _CLEARLY * seconds[by_rules] else by_rules


def measured(ways: Mapping[str, Way], sizes: Sequence[int], dtype: str, *, keeps_packs: bool) -> dict[str, float]:
    """Seconds that each way takes, the median of runs in turn; arguments as for `chosen`."""
    random = np.random.default_rng(0)
    arrays = [_aligned(size, dtype) for size in sizes]
    for array in arrays:
        array[...] = random.standard_normal(array.size)
    # Here kernels are compiled, which is told for itself.
    runs = {name: _run_of(way.prepare(), arrays, keeps_packs=keeps_packs) for name, way in ways.items()}
    with progress.measuring(f"the fastest of {', '.join(runs)}"):
        return _medians(runs)


def _medians(runs: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    for run in runs.values():
        run()
    found: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + _SECONDS * len(runs)
    for number in range(_MOST_ROUNDS):
        if number >= _LEAST_ROUNDS and time.perf_counter() > end:
            break
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            found[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in found.items()}


def _run_of(prepared: Prepared, arrays: Sequence[np.ndarray], *, keeps_packs: bool) -> Callable[[], None]:
    """Computes the call on such arrays; keeps_packs: with what it packs made before."""
    native = prepared.native
    assert native is not None
    workspace = [_aligned(prepared.workspace, "uint8")] if prepared.workspace else []
    packs: dict[int, np.ndarray] = {}
    for pack in prepared.packs if keeps_packs else ():
        packs[pack.word] = _aligned(pack.nbytes, "uint8")
        _Bound(pack.native, [arrays[pack.input], packs[pack.word], _aligned(pack.workspace, "uint8")])()
    return _Bound(native, [*arrays, *workspace], packs)


class _Bound:
    """A kernel with such arguments, which runs when it is called."""

    def __init__(
        self, native: Native, arguments: Sequence[np.ndarray], packs: Mapping[int, np.ndarray] | None = None
    ) -> None:
        block = native.block.copy()
        for word, argument in [*(packs or {}).items(), *zip(native.arguments, arguments, strict=False)]:
            if word >= 0 and argument.size:
                block[word] = argument.ctypes.data
        self._row = np.array([[native.address, block.ctypes.data, native.parts, 0, 0]], np.int64)
        # The row and the block have addresses alone: what is there lives as long as they do.
        self._pointed_to = (native, block, list(arguments), packs)

    def __call__(self) -> None:
        status = pool.run_program(self._row.ctypes.data, 0, 1)
        if status:
            raise RuntimeError(f"a kernel returned {status & 0xFFFF} where it was measured")


def _aligned(size: int, dtype: str) -> np.ndarray:
    """New memory for so many elements, which begins at a multiple of 64 bytes."""
    nbytes = size * np.dtype(dtype).itemsize
    memory = np.zeros(nbytes + 64, np.uint8)
    skipped = -memory.ctypes.data % 64
    return memory[skipped : skipped + nbytes].view(dtype)
