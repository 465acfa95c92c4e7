"""Says what the innermost loops of kernels consist of, compiled for a processor that need not be here.

    python tools/inner_loops.py --kernel 'multiply_*_float32' --cpu x86-64-v4 --model skylake-avx512
    python tools/inner_loops.py --kernel pointwise_float32 --cpu znver4 --json

Of each innermost loop with vectors: bits of the widest one, instructions, and among them multiply-adds, loads and
stores, moves between vectors, and what goes to the stack and back for want of registers (spills). Where llvm-mca is
installed, also cycles for a round of many, all of them out of the level-1 cache, and the share of these that the units
for multiply-adds are busy. Of branches within a loop it knows nothing: all blocks count as run.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

_MODELS = dict.fromkeys(("icelake-server", "sapphirerapids", "emeraldrapids", "graniterapids"), "skylake-avx512")
"""What llvm-mca is told in place of some: LLVM 19 has one multiply-add of 512 bits per cycle for these, not two."""

_CONFIGS = ("float", "double", "half", "bf16")  # whose kernels are known
_WIDTHS = {"zmm": 512, "ymm": 256, "xmm": 128}
_MULTIPLY_ADD = re.compile(r"vfn?m(?:add|sub)\w*[ps][sd]\b")
_UNREAD = ("lea", "prefetch", "nop")  # with an address, but no access
_LIKE_STORES = ("cmp", "test", "vcomis", "vucomis", "push", "jmp", "call")  # which end with an address that they read
_ROUNDS = 100


class Loop(NamedTuple):
    """An innermost loop: its label, how many loops it is in, itself included, and its instructions.

    blocks: basic blocks; more than one if there are branches within.
    instructions: as (text, LLVM's remark on it).
    """

    label: str
    depth: int
    blocks: int
    instructions: list[tuple[str, str]]


class Counts(NamedTuple):
    """What a loop consists of; width: bits of the widest vector, 0 if there is none."""

    width: int
    instructions: int
    multiply_adds: int
    loads: int
    stores: int
    moves: int
    spills: int


class Pace(NamedTuple):
    """Cycles for one round by llvm-mca, and those that the units for multiply-adds need for those of a round."""

    cycles: float
    bound: float


class _Block:
    """A basic block while it is read: the label, that of its loop's first block, what is said of that loop."""

    def __init__(self, label: str) -> None:
        self.label, self.head, self.depth, self.is_inner = label, "", 0, False
        self.instructions: list[tuple[str, str]] = []

    def heed(self, remark: str) -> None:
        """Take from LLVM's remark on a block which loop it is in."""
        inside = re.search(r"in Loop: Header=BB(\w+) Depth=(\d+)", remark)
        if inside and not self.head:
            self.head, self.depth = f"LBB{inside[1]}", int(inside[2])
        head = re.search(r"This (Inner )?Loop Header: Depth=(\d+)", remark)
        if head:
            self.head, self.depth, self.is_inner = self.label, int(head[2]), bool(head[1])


def loops_of(assembly: str) -> list[Loop]:
    """The innermost loops of an x86 assembly with LLVM's remarks (`machine_code.assembly`)."""
    blocks = list(_blocks_of(assembly))
    found = []
    for head in blocks:
        if head.is_inner:
            inside = [block for block in blocks if block.head == head.label]
            instructions = [each for block in inside for each in block.instructions]
            found.append(Loop(head.label, head.depth, len(inside), instructions))
    return found


def _blocks_of(assembly: str) -> Iterator[_Block]:
    block = _Block("")
    for line in assembly.splitlines():
        code, _, remark = (part.strip() for part in line.partition("#"))
        label = re.match(r"\.?(LBB\w+):", code)
        if label or (not code and re.match(r"%bb\.\d+:", remark)):
            yield block
            block = _Block(label[1] if label else "")
        block.heed(remark)
        if code and not code.startswith(".") and not code.endswith(":"):
            block.instructions.append((code, remark))
    yield block


def counts_of(loop: Loop) -> Counts:
    """What a loop consists of."""
    codes = [code for code, _ in loop.instructions]
    text = "\n".join(codes)
    stores = sum(map(_is_store, codes))
    return Counts(
        width=next((width for name, width in _WIDTHS.items() if f"%{name}" in text), 0),
        instructions=len(codes),
        multiply_adds=sum(bool(_MULTIPLY_ADD.match(code)) for code in codes),
        loads=sum(map(_has_access, codes)) - stores,
        stores=stores,
        moves=sum(bool(re.match(r"vmov\w+\s+%[xyz]mm\d+, %[xyz]mm\d+$", code)) for code in codes),
        spills=sum("Spill" in remark or "Reload" in remark for _, remark in loop.instructions),
    )


def _has_access(code: str) -> bool:
    return "(" in code and not code.startswith(_UNREAD)


def _is_store(code: str) -> bool:
    ends_there = re.search(r"\)(\s*\{%k\d\})?$", code)
    return bool(ends_there) and _has_access(code) and not code.startswith(_LIKE_STORES)


def pace_of(loop: Loop, model: str) -> Pace | None:
    """What llvm-mca says; None where it is not installed, or refuses something in the loop."""
    # Jumps lead anywhere: labels are not among the instructions.
    codes = [re.sub(r"^(j\w+\s+)\S+$", r"\1away", code) for code, _ in loop.instructions if not code.startswith("call")]
    summary = _summary("\n".join(codes), model)
    sums = _summary("\n".join(code for code in codes if _MULTIPLY_ADD.match(code)), model)
    if summary is None or sums is None:
        return None
    # Of the sums alone what the units for them take, not how long one waits for the one before.
    return Pace(summary["TotalCycles"] / summary["Iterations"], sums["BlockRThroughput"])


@functools.cache
def _summary(codes: str, model: str) -> dict[str, float] | None:
    """What llvm-mca predicts for instructions; None where it is not installed, or refuses them, which is then said."""
    tool = _mca()
    if tool is None:
        return None
    if not codes:
        return {"TotalCycles": 0.0, "Iterations": 1.0, "BlockRThroughput": 0.0}
    command = [tool, f"-mcpu={model}", f"-iterations={_ROUNDS}", "-json"]
    done = subprocess.run(command, input=f"{codes}\n", capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{tool} for {model}: {done.stderr.strip().splitlines()[0]}", file=sys.stderr)
        return None
    summary: dict[str, float] = json.loads(done.stdout)["CodeRegions"][0]["SummaryView"]
    return summary


@functools.cache
def _mca() -> str | None:
    """The newest llvm-mca there is."""
    names = [*(f"llvm-mca-{version}" for version in range(40, 13, -1)), "llvm-mca"]
    return next((found for found in map(shutil.which, names) if found), None)


def main(arguments: list[str] | None = None) -> int:
    """Print what is asked for; the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--kernel", required=True, metavar="PATTERN", help="names of kernels, such as 'multiply_*'")
    parser.add_argument(
        "--cpu", default="host", metavar="NAME", help="as ATLED_CPU has it, or the target of shipped objects: x86-64-v4"
    )
    parser.add_argument("--model", metavar="NAME", help="the processor that llvm-mca imitates, if not that of --cpu")
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    options = parser.parse_args(arguments)
    compiled = list(_assemblies(options.cpu, options.kernel))
    if not compiled:
        parser.error(f"no kernel is called {options.kernel!r}: give a part of a name between stars, such as '*conv*'")
    described = []
    for name, processor, assembly in compiled:
        model = options.model or processor
        model = _MODELS.get(model, model)
        loops = [_described(loop, model) for loop in loops_of(assembly) if counts_of(loop).width]
        described.append({"kernel": name, "cpu": options.cpu, "model": model, "loops": loops})
    print(json.dumps(described, indent=1) if options.json else "\n\n".join(map(_table, described)))
    return 0


def _assemblies(cpu: str, pattern: str) -> Iterator[tuple[str, str, str]]:
    """Of each kernel whose name fits: the name, LLVM's of the processor it is compiled for, and the assembly."""
    # What the archive lacks numba writes, and LLVM compiles, as for the archive.
    os.environ["NUMBA_OPT"] = "0"
    from atled_cpu_numba import cpuid, kernel_texts, processor, shipped_objects
    from atled_cpu_numba.machine_code import assembly

    # Before any kernel is imported, for a kernel asks once what it is compiled for.
    is_shipped = cpu in shipped_objects.TARGETS
    chosen = shipped_objects.compiled_for(cpu) if is_shipped else processor.parse_processor(cpu)
    processor.target = functools.cache(lambda: chosen)
    cpuid.features = lambda: None
    from atled_cpu_numba.catalogue import kernels_for
    from kernel_texts import text as written  # beside this file

    needed = [kernel for config in _CONFIGS for kernel in kernels_for(config) if fnmatchcase(kernel.name, pattern)]
    for key, kernel in {kernel.shipped_key(): kernel for kernel in sorted(needed, key=lambda each: each.name)}.items():
        known: Any = getattr(kernel, "ir", None) or kernel_texts.find(key)
        yield kernel.name, chosen.name, assembly(kernel.name, known or written(kernel))


def _described(loop: Loop, model: str) -> dict[str, Any]:
    pace = pace_of(loop, model)
    return {
        "loop": loop.label,
        "depth": loop.depth,
        "blocks": loop.blocks,
        **counts_of(loop)._asdict(),
        "cycles": pace and round(pace.cycles, 1),
        "share": pace and round(pace.bound / pace.cycles, 2),
    }


def _table(kernel: dict[str, Any]) -> str:
    """A kernel's loops in columns."""
    title = f"{kernel['kernel']} for {kernel['cpu']}, paced as {kernel['model']}"
    if not kernel["loops"]:
        return f"{title}: no loop with vectors"
    head = list(kernel["loops"][0])
    rows = [head, *([("" if value is None else str(value)) for value in loop.values()] for loop in kernel["loops"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([title, *lines])


if __name__ == "__main__":
    sys.exit(main())
