"""Runs a module in an emulated process whose kernels the machine around it compiles, for AArch64 under QEMU.

    qemu-aarch64 -L root root/usr/bin/python3.11 ../tools/host_llvm.py ../.venv/bin/python atled demo digits

A Python of that machine with the cpu plugin comes first, then what follows `python -m`. QEMU emulates a process, and
leaves those that it starts to the machine: so LLVM takes there for a kernel what it always takes, and numba need not
write it, for texts that it wrote for x86-64 without AVX serve processors with vectors of as many lanes.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys

_TRIPLE = "aarch64-unknown-linux-gnu"


def object_for(name: str, cpu: str, features: str, ir: str) -> bytes:
    """The object that the cpu plugin would make of a kernel's IR on an AArch64."""
    from llvmlite import binding as llvm

    from atled_cpu_numba import machine_code, processor

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.get_process_triple = lambda: _TRIPLE
    processor.target = lambda: processor.Processor(cpu, features)
    machine, module = machine_code._optimized(name, ir)
    code: bytes = machine.emit_object(module)
    return code


def compile_by(python: str) -> None:
    """Have a Python of the machine around this process compile what the cpu plugin asks LLVM for."""
    from atled_cpu_numba import kernel_texts, machine_code, processor

    def compile_ir(name: str, ir: str, *, python_api: bool = False) -> machine_code.ObjectCode:
        given = json.dumps([name, *processor.target(), ir]).encode()
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # of the emulated one
        command = [python, os.path.abspath(__file__)]
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, env=environment, check=True)
        return machine_code._checked(name, done.stdout, name, None, python_api=python_api)

    machine_code.compile_ir = compile_ir
    kernel_texts.why_unused = lambda: ""


def main(arguments: list[str]) -> None:
    """With arguments, run a module; without, which is how `compile_by` starts it, compile what comes in."""
    if not arguments:
        sys.stdout.buffer.write(object_for(*json.load(sys.stdin)))
        return
    python, module, *_ = arguments
    compile_by(os.path.abspath(python))
    sys.argv = arguments[1:]
    sys.path[0] = os.getcwd()  # as `python -m` has it
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
