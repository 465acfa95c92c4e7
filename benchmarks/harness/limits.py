"""What a core of this machine can do at most: float32 operations a second, bytes a second; and what kind it is.

`python -m harness.limits THREADS` measures for two seconds and prints JSON: `measured` does so in a process of its own.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.case import Work

# Of the arrays that are copied: they fit into the cache of a core, into that of all cores, into the main memory only.
_COPIED_BYTES = (64 << 10, 1 << 20, 8 << 20, 128 << 20)

# Chains of additions and multiplications that do not wait for each other: processors finish one in four cycles and
# begin two in each, and have at least 16 registers.
_CHAINS = 12
_TURNS = 1_000_000
_OPERATIONS = 2  # of a multiplication and an addition in one instruction

_REPEATS = 15
_TIMEOUT_S = 120


def measured(environment: Mapping[str, str], threads: int) -> dict[str, Any]:
    """The limits of so many threads, by this interpreter on the cores that this process may use.

    processor: what LLVM calls it, such as "znver3".  vector_bits: of its widest registers.
    flops: of float32 in a second.  bytes: {size of an array: bytes read and written in a second by a copy of it}.
    Raises RuntimeError, with its words, if the process fails.
    """
    command = [sys.executable, "-m", "harness.limits", str(threads)]
    folder = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        command, cwd=folder, env=dict(environment), capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"the limits of the machine could not be measured:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def shortest_time(work: Work, limits: Mapping[str, Any]) -> float:
    """Seconds below which no program does the work as defined: by its operations or its bytes, whichever take longer.

    limits: as `measured` gives them. Bytes move as fast as in a copy of arrays of about their count.
    """
    copied = limits["bytes"]
    nearest = min(copied, key=lambda size: abs(np.log(max(work.bytes, 1) / (2 * int(size)))))
    return max(work.flops / limits["flops"], work.bytes / copied[nearest])


def _measure(threads: int) -> dict[str, Any]:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    lanes = 16 if features.get("avx512f") else 8 if features.get("avx") else 4
    module = llvm.parse_assembly(_chains_ir(lanes))
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(engine.get_function_address("chains"))
    ends = [np.zeros(lanes, np.float32) for _ in range(threads)]
    seconds = _shortest([lambda end=end: run(_TURNS, end.ctypes.data) for end in ends])
    flops = threads * _TURNS * _CHAINS * lanes * _OPERATIONS / seconds
    return {
        "processor": llvm.get_host_cpu_name(),
        "vector_bits": 32 * lanes,
        "flops": flops,
        "bytes": {str(size): _copy_rate(size, threads) for size in _COPIED_BYTES},
    }


def _chains_ir(lanes: int) -> str:
    """A function of (turns, where the sums go), in each turn of which every chain takes one more step."""
    vector = f"<{lanes} x float>"
    numbers = range(_CHAINS)
    factor = f"{vector} splat (float 0x3FEFFFFFE0000000)"
    return "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            "define void @chains(i64 %turns, ptr %end) {",
            "entry: br label %turn",
            "turn:",
            " %i = phi i64 [0, %entry], [%next, %turn]",
            *(f" %a{n} = phi {vector} [splat (float {n}.0), %entry], [%b{n}, %turn]" for n in numbers),
            *(f" %b{n} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{n}, {factor}, {factor})" for n in numbers),
            " %next = add i64 %i, 1",
            " %more = icmp slt i64 %next, %turns",
            " br i1 %more, label %turn, label %end_of_turns",
            "end_of_turns:",
            f" %s0 = fadd {vector} %b0, zeroinitializer",
            *(f" %s{n} = fadd {vector} %s{n - 1}, %b{n}" for n in numbers[1:]),
            f" store {vector} %s{_CHAINS - 1}, ptr %end, align 4",
            " ret void",
            "}",
        ]
    )


def _copy_rate(size: int, threads: int) -> float:
    """Bytes read and written in a second, where each thread copies its part of an array of `size` bytes."""
    pairs = [[np.ones(size // threads, np.uint8) for _ in range(2)] for _ in range(threads)]
    times = max(1, (8 << 20) // size)

    def copying(source: np.ndarray, target: np.ndarray) -> Callable[[], None]:
        def copy() -> None:
            for _ in range(times):
                np.copyto(target, source)

        return copy

    return 2 * size * times / _shortest([copying(*pair) for pair in pairs])


def _shortest(parts: Sequence[Callable[[], object]]) -> float:
    """Seconds of the quickest of some repeats, in each of which every part is done, at the same time, by a thread."""
    best = float("inf")
    for _ in range(_REPEATS):
        threads = [threading.Thread(target=part) for part in parts[1:]]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        parts[0]()
        for thread in threads:
            thread.join()
        best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
