"""Writes the archive of the cpu plugin's kernels as object code; `tools/kernel_texts.py` runs it at its end.

    python tools/kernel_objects.py            write those that are not there or whose texts have changed
    python tools/kernel_objects.py --all      write all of them
    python tools/kernel_objects.py --check    exit with status 1 if it is not up to date

LLVM alone makes them, of the texts in `kernels.ir.xz` and of what this plugin writes as LLVM IR itself, for the two
processors of `shipped_objects.TARGETS`, whatever the machine is that this runs on. Those for float32 are in it, which
most programs need, and the formulas of common ones (`common_formulas.py`). Nothing of a library is copied into an
object: functions of C are looked up in the process. The same texts give the same bytes, whatever else is written beside
them.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple


class Compiled(NamedTuple):
    """What a process of its own says of the kernels for one target: names by key, and members of the archive by key."""

    names: dict[str, str]
    members: dict[str, bytes]


def main(arguments: list[str] | None = None) -> int:
    """Write or check; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the archive is up to date")
    parser.add_argument("--all", action="store_true", help="write the objects that are up to date, too")
    parser.add_argument("--target", help=argparse.SUPPRESS)  # a child process: see _child
    options = parser.parse_args(arguments)
    if options.target is not None:
        json.dump(_compiled(options.target, json.load(sys.stdin)), sys.stdout)
        return 0
    if options.check:
        missing = outdated()
        if missing:
            print(f"the archive of objects lacks {', '.join(missing)}: run `make generated`")
        return 1 if missing else 0
    from atled_cpu_numba import processor, shipped_objects
    from atled_cpu_numba.shipped_objects import TARGETS, Archive

    known = {} if options.all else _known()
    found = _ask({target: list(known.get(target, {})) for target in TARGETS})
    objects = {
        target: {key: one.members.get(key) or known[target][key] for key in one.names} for target, one in found.items()
    }
    file = Path(shipped_objects.ARCHIVE)
    if options.all or objects != known:
        part = file.with_suffix(".part")
        part.write_bytes(shipped_objects.encode(Archive(shipped_objects.toolchain(), objects, processor.release())))
        part.replace(file)
    written, size = sum(len(one.members) for one in found.values()), file.stat().st_size // 1024
    print(f"{file.name}: {written} of {sum(map(len, objects.values()))} objects written, {size} KiB")
    return 0


def outdated() -> list[str]:
    """Names of the kernels that the archive lacks, or holds as compiled from other texts."""
    missing: set[str] = set()
    known = _known()
    for target, found in _ask(dict.fromkeys(known)).items():
        missing |= {name for key, name in found.names.items() if key not in known[target]}
    return sorted(missing)


def _known() -> dict[str, dict[str, bytes]]:
    """The members of the archive, by target and key; none where something else compiled them."""
    from atled_cpu_numba import shipped_objects
    from atled_cpu_numba.shipped_objects import TARGETS

    file = Path(shipped_objects.ARCHIVE)
    archive = shipped_objects.decode(file.read_bytes()) if file.is_file() else None
    if archive is None or archive.made_by != shipped_objects.toolchain():
        return {target: {} for target in TARGETS}
    return {target: dict(archive.objects.get(target, {})) for target in TARGETS}


def _ask(known: dict[str, list[str] | None]) -> dict[str, Compiled]:
    """By target: every kernel's name, and the members whose keys are not `known`; None: no members."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(zip(known, threads.map(_child, known, known.values()), strict=True))


def _child(target: str, known: list[str] | None) -> Compiled:
    """`_compiled` in a process of its own, for a kernel asks once what it is compiled for."""
    found = subprocess.run(
        [sys.executable, __file__, "--target", target],
        # Settings may change which kernels a network needs; a cache does not.
        env={name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "ATLED_"))},
        input=json.dumps(known),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    names, members = json.loads(found.stdout)
    return Compiled(names, {key: b64decode(member) for key, member in members.items()})


def _compiled(target: str, known: list[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """What this process says, for the processor that it pretends to have."""
    from atled_cpu_numba import kernel_texts, processor, shipped_objects

    # Before any kernel is imported.
    chosen = shipped_objects.compiled_for(target)
    processor.target = functools.cache(lambda: chosen)
    texts = kernel_texts.decode(Path(kernel_texts.ARCHIVE).read_bytes()).texts
    kernels = {kernel.shipped_key(): kernel for kernel in _shipped_kernels()}
    missing = [] if known is None else sorted(kernels.keys() - set(known))
    members = {key: b64encode(_member(key, kernels[key], texts)).decode() for key in missing}
    return {key: kernel.name for key, kernel in kernels.items()}, members


def _shipped_kernels() -> list[Any]:
    """The kernels to compile: those that type config `float` can need, native functions, casts of labels, formulas."""
    from atled_cpu_numba import inline_calls, int64_casts, pool
    from atled_cpu_numba.catalogue import kernels_for
    from common_formulas import common_formulas  # beside this file

    functions = [pool.native_functions(), inline_calls.native_function()]
    kernels = [*kernels_for("float"), *functions, int64_casts.kernel("float32")]
    return [*kernels, *common_formulas()]  # formulas last: nothing is to be run after them


def _member(key: str, kernel: Any, texts: Any) -> bytes:
    """What the archive holds of a kernel."""
    from atled_cpu_numba import object_files, shipped_objects
    from atled_cpu_numba.machine_code import compile_ir

    if hasattr(kernel, "ir"):
        code = compile_ir(kernel.name, kernel.ir, python_api=kernel.python_api)
    else:
        code = compile_ir(kernel.name, texts[key])
    return shipped_objects.compressed(object_files.encoded(key, kernel.name, code))


if __name__ == "__main__":
    sys.exit(main())
