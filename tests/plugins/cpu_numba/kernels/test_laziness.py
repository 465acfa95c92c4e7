"""Kernel modules load quickly: numba and llvmlite only when a kernel is prepared."""

import subprocess
import sys

from atled_cpu_numba.computed_by import KERNELS


def test_importing_the_families_imports_no_compiler():
    imports = "; ".join(f"import atled_cpu_numba.{name}" for name in KERNELS)
    program = f"import sys; {imports}; assert not {{'numba', 'llvmlite'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
