"""Kernel modules load quickly: numba and llvmlite only when a kernel is prepared."""

import subprocess
import sys

from atled_cpu_numba.computed_by import KERNELS


def test_importing_the_families_imports_no_compiler():
    imports = "; ".join(f"import atled_cpu_numba.{name}" for name in KERNELS)
    program = f"import sys; {imports}; assert not {{'numba', 'llvmlite'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_widens_narrow_floats_is_not_imported_where_there_are_none():
    program = """
import sys
import numpy as np
import atled as nn
import atled.functions as F

F.softmax(nn.NdArray.from_numpy_array(np.ones((2, 3), np.float32))).data
assert "atled_cpu_numba.kernels.softmax" in sys.modules and "atled_cpu_numba.widened" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
