"""Writes the archive of the cpu plugin's kernels as LLVM IR; `make generated` runs it.

    python tools/kernel_texts.py            write those that are not there or whose sources have changed
    python tools/kernel_texts.py --all      write all of them: after a change of numba, or of this file
    python tools/kernel_texts.py --check    exit with status 1 if it is not up to date

numba's own optimization is off, so the texts hold what its front end wrote, made smaller by passes that look at no
processor; whoever uses a text runs the whole of LLVM's optimization for the processor at hand. Kernels are written for
one width of vectors, so there is a set for each width that x86-64 processors have. The same sources give the same
bytes, whatever else is written beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

FEATURES = {"AVX-512": "+avx2,+avx512f", "AVX2": "+avx2", "SSE": ""}
"""The widths, by the features that `kernels.shared.lanes` looks for."""


class Written(NamedTuple):
    """What processes of their own, one for each width, say of the kernels.

    names: by key, of all kernels.  texts: by key, of those that were asked for.
    """

    names: dict[str, str]
    texts: dict[str, str]


def main(arguments: list[str] | None = None) -> int:
    """Write or check; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the archive is up to date")
    parser.add_argument("--all", action="store_true", help="write the texts that are up to date, too")
    parser.add_argument("--features", help=argparse.SUPPRESS)  # a child process: see _child
    options = parser.parse_args(arguments)
    if options.features is not None:
        _pretend(options.features)
        json.dump(_written(json.load(sys.stdin)), sys.stdout)
        return 0
    from atled_cpu_numba import kernel_texts

    if options.check:
        missing = outdated()
        if missing:
            print(f"{Path(kernel_texts.ARCHIVE).name} lacks {', '.join(missing)}: run `make generated`")
        return 1 if missing else 0
    import llvmlite.binding as llvm

    version = llvm.llvm_version_info[0]
    known = {} if options.all else _known(version)
    written = _ask(list(known))
    texts = {key: written.texts.get(key) or known[key] for key in written.names}
    file = Path(kernel_texts.ARCHIVE)
    if options.all or texts != known:
        data = kernel_texts.encode(kernel_texts.Archive(version, texts))
        part = file.with_suffix(".part")
        part.write_bytes(data)
        part.replace(file)
    size = file.stat().st_size // 1024
    print(f"{file.name}: {len(written.texts)} of {len(texts)} texts written, {size} KiB")
    return _write_objects()


def _write_objects() -> int:
    """Have the texts compiled that the package brings as objects: they are as old as the texts were."""
    import kernel_objects  # beside this file

    return kernel_objects.main([])


def outdated() -> list[str]:
    """Names of the kernels that the archive lacks, or holds as written from other sources."""
    from atled_cpu_numba import kernel_texts

    file = Path(kernel_texts.ARCHIVE)
    if not file.is_file():
        return ["every kernel"]
    known = kernel_texts.decode(file.read_bytes()).texts
    return sorted({name for key, name in _ask(None).names.items() if key not in known})


def _known(version: int) -> dict[str, str]:
    """The texts in the archive, by key; none where another version of LLVM printed them."""
    from atled_cpu_numba import kernel_texts

    file = Path(kernel_texts.ARCHIVE)
    if not file.is_file():
        return {}
    archive = kernel_texts.decode(file.read_bytes())
    return dict(archive.texts) if archive.llvm == version else {}


def _ask(known: list[str] | None) -> Written:
    """Every kernel's name, for all widths, and the texts of those whose keys are not `known`; None: no texts."""
    result = Written({}, {})
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for names, texts in threads.map(lambda features: _child(features, known), FEATURES.values()):
            result.names.update(names)
            result.texts.update(texts)
    return result


def _child(features: str, known: list[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """`_written` in a process of its own, for numba reads its settings once and the width is asked for once."""
    # Optimization: see above. Hashes: numba goes through sets of names. Processor: one that has all instructions, for
    # what it lacks is taken apart without optimization, too, such as loads of a part of a vector.
    environment = {
        **os.environ,
        "NUMBA_OPT": "0",
        "NUMBA_CPU_NAME": "x86-64-v4",
        "NUMBA_CPU_FEATURES": "+amx-tile,+amx-bf16",
        "PYTHONHASHSEED": "0",
    }
    found = subprocess.run(
        [sys.executable, __file__, "--features", features],
        env=environment,
        input=json.dumps(known),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    names, texts = json.loads(found.stdout)
    return names, texts


def _pretend(features: str) -> None:
    """Make kernels believe that the processor has these features, but not numba; before any kernel is imported."""
    from atled_cpu_numba import cpuid, processor

    chosen = processor.Processor("x86-64", features)
    processor.target = processor.host = lambda: chosen
    cpuid.features = lambda: None  # what this machine's processor says of itself is not asked
    wrong = [name for name in ("avx2", "avx512f") if processor.has(name) != (f"+{name}" in features.split(","))]
    if wrong:
        raise RuntimeError(f"kernels see another processor than one with {features!r}: {', '.join(wrong)} differ")


def _written(known: Collection[str] | None) -> Written:
    """What this process says, for the width that it pretends to have."""
    from atled_cpu_numba.catalogue import written_kernels

    kernels = {kernel.text_key(): kernel for kernel in written_kernels()}
    missing = [] if known is None else [key for key in kernels if key not in set(known)]
    return Written({key: kernel.name for key, kernel in kernels.items()}, {key: text(kernels[key]) for key in missing})


def text(kernel: Any) -> str:
    """What the archive holds of a kernel."""
    from atled_cpu_numba.codegen import JIT
    from atled_cpu_numba.machine_code import write_ir

    return reduced(kernel.name, *write_ir(kernel.name, kernel.build, JIT))


def reduced(name: str, text: str, symbol: str) -> str:
    """The module with nothing but the function `symbol`, which gets the name `name`; numba's other names are gone."""
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
    # Scopes of aliasing are called after functions, whose names numba makes from counters of the process.
    return re.sub(r', !"[^"]*"(?=})', "", str(module))


if __name__ == "__main__":
    sys.exit(main())
