"""docs/kernels.md: its kernel compiles and runs, its numbers are the code's."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atled_cpu_numba")

from atled.call import Native
from atled_cpu_numba.kernels.shared import lanes, launch

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "kernels.md").read_text("utf-8")
MODULE, USE = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_kernel_of_the_page_runs_and_prints_what_it_says(tmp_path):
    (tmp_path / "pick.py").write_text(MODULE, "utf-8")
    done = subprocess.run([sys.executable, "-W", "error", "-c", USE], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"print\(.*\)  # (.*)$", USE, re.MULTILINE)
    assert done.stdout.splitlines() == said


def test_the_table_of_the_block_lists_what_launch_takes():
    (table,) = re.findall(r"^\| said to `launch`.*?(?=^$)", PAGE, re.DOTALL | re.MULTILINE)
    listed = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    taken = inspect.signature(launch.launch).parameters
    assert sorted(listed) == sorted(set(taken) - {"kernel", "owner", "note"})
    assert set(listed) - {"words", "workspace", "packs"} <= set(Native.__slots__)


def test_the_numbers_of_the_page_are_those_of_the_code():
    assert f"one below {2 * launch.SHARE_US:.0f} us" in PAGE
    assert f"shares of {launch.SHARE_US:.0f} us or more" in PAGE
    assert f"{launch.MOST_WORKSPACE_BYTES >> 20} MiB for all of them" in PAGE
    for feature, width in (("avx512f", "16 lanes with AVX-512"), ("avx2", "8 with AVX2"), ("", "else 4")):
        assert width in PAGE
        source = inspect.getsource(lanes.host_lanes)
        assert re.search(rf"{feature}.*?\n? *return Lanes\(vector={re.findall('[0-9]+', width)[0]}", source, re.DOTALL)
