"""Memory that the library keeps for what it has seen has a bound."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "check_growth.py"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_new_shapes_and_formulas_take_little_memory():
    # `make check-growth` is the long form. It was 20 MiB when nothing that LLVM leaves behind was freed.
    done = subprocess.run([sys.executable, str(TOOL), "300", "50", "15"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
