"""Kernels for an emulated AArch64, by LLVM of the machine around it."""

import json
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from atled_cpu_numba import pool_ir, processor

TOOL = Path(__file__).parents[2] / "tools" / "host_llvm.py"
AARCH64 = 183  # in ELF


def compiled(name, ir):
    try:
        llvm = processor.llvm_binding()
        llvm.initialize_all_targets()
        llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this LLVM knows no AArch64")
    given = json.dumps([name, "neoverse-n1", "", ir])
    done = subprocess.run([sys.executable, TOOL], input=given.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout


@pytest.mark.slow
def test_the_pool_is_compiled_for_aarch64(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    code = compiled("atled_pool", pool_ir.pool_ir(pthreads=True, places=True))
    assert code[:4] == b"\x7fELF" and struct.unpack_from("<H", code, 18) == (AARCH64,)
    assert b"atled_pool" in code
