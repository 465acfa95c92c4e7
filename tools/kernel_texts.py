"""Writes the archive of the cpu plugin's kernels as LLVM IR; `make generated` runs it.

    python tools/kernel_texts.py            write the archive
    python tools/kernel_texts.py --check    exit with status 1 if it is not up to date

numba's own optimization is off, so the texts hold what its front end wrote, made smaller by passes that look at no
processor; whoever uses a text runs the whole of LLVM's optimization for the processor at hand. Kernels are written for
one width of vectors, so there is a set for each width that x86-64 processors have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

FEATURES = {"AVX-512": "+avx2,+avx512f", "AVX2": "+avx2", "SSE": ""}
"""The widths, by the features that `kernels.lanes` looks for."""


def main(arguments: list[str] | None = None) -> int:
    """Write or check; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the archive is up to date")
    parser.add_argument("--features", help=argparse.SUPPRESS)  # a child process: one width, as JSON
    parser.add_argument("--keys", action="store_true", help=argparse.SUPPRESS)  # with --features: no texts
    options = parser.parse_args(arguments)
    if options.features is not None:
        _pretend(options.features)
        json.dump(dict(_keys() if options.keys else _texts()), sys.stdout)
        return 0
    from atled_cpu_numba import kernel_texts

    if options.check:
        missing = outdated()
        if missing:
            print(f"{kernel_texts.ARCHIVE.name} lacks {', '.join(missing)}: run `make generated`")
        return 1 if missing else 0
    import llvmlite.binding as llvm

    texts: dict[str, str] = {}
    for width, features in FEATURES.items():
        print(f"kernels for {width} ...", file=sys.stderr)
        texts.update(_child("--features", features))
    data = kernel_texts.encode(kernel_texts.Archive(llvm.llvm_version_info[0], texts))
    part = kernel_texts.ARCHIVE.with_suffix(".part")
    part.write_bytes(data)
    part.replace(kernel_texts.ARCHIVE)
    print(f"{kernel_texts.ARCHIVE.name}: {len(texts)} texts, {len(data) // 1024} KiB")
    return 0


def outdated() -> list[str]:
    """Names of the kernels that the archive lacks, or holds as written from other sources."""
    from atled_cpu_numba import kernel_texts

    if not kernel_texts.ARCHIVE.is_file():
        return ["every kernel"]
    known = kernel_texts.decode(kernel_texts.ARCHIVE.read_bytes()).texts
    wanted: dict[str, str] = {}
    for features in FEATURES.values():
        wanted.update(_child("--features", features, "--keys"))
    return sorted({name for key, name in wanted.items() if key not in known})


def _child(*arguments: str) -> dict[str, str]:
    """What a process of its own prints, for numba reads its settings once and the width is asked for once."""
    environment = {**os.environ, "NUMBA_OPT": "0"}
    found = subprocess.run(
        [sys.executable, __file__, *arguments], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    result: dict[str, str] = json.loads(found.stdout)
    return result


def _pretend(features: str) -> None:
    """Make this process believe that the processor has these features; before any kernel is imported."""
    from atled_cpu_numba import processor

    chosen = processor.Processor("x86-64", features)
    processor.target = lambda: chosen


def _keys() -> Iterator[tuple[str, str]]:
    from atled_cpu_numba.catalogue import written_kernels

    for kernel in written_kernels():
        yield kernel.text_key(), kernel.name


def _texts() -> Iterator[tuple[str, str]]:
    from atled_cpu_numba.catalogue import written_kernels
    from atled_cpu_numba.codegen import JIT
    from atled_cpu_numba.machine_code import write_ir

    for kernel in written_kernels():
        yield kernel.text_key(), _reduced(kernel.name, *write_ir(kernel.name, kernel.build, JIT))


def _reduced(name: str, text: str, symbol: str) -> str:
    """The module with nothing but the function `symbol`, which gets the name `name`."""
    import llvmlite.binding as llvm  # importing the module is to be quick, for --help

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # numba calls the function from its entry point with this attribute, and so keeps the error handling between them.
    module: Any = llvm.parse_assembly(text.replace("noinline", "nounwind"))
    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration:
            value.linkage = "internal"
    entry = module.get_function(symbol)
    entry.linkage = "external"
    entry.name = name
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(cpu="x86-64", features="", opt=1, jit=True)
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    for _ in range(2):
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
    passes.add_strip_symbols_pass()
    passes.add_strip_dead_prototype_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1)))
    return str(module)


if __name__ == "__main__":
    sys.exit(main())
