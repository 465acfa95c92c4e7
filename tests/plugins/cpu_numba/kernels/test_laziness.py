"""Kernel modules load quickly: numba and llvmlite only when a kernel is prepared."""

import subprocess
import sys

FAMILIES = [
    "convolution",
    "convolution_weight",
    "embedding",
    "extremum",
    "matmul",
    "normalization",
    "pooling",
    "reduction",
    "softmax",
    "transposition",
]


def test_importing_the_families_imports_no_compiler():
    imports = "; ".join(f"import atled_cpu_numba.kernels.{name}" for name in FAMILIES)
    program = f"import sys; {imports}; assert not {{'numba', 'llvmlite'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
