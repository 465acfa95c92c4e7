"""What is told where a run cannot be set up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KERNEL = 'extern "C" __global__ void only_here_%d(float *x) { x[0] = 1; }'


def test_a_folder_for_machine_code_that_cannot_be_made_is_told(
    cupy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATLED_CUDA_EMULATOR_CACHE", str(tmp_path / "file" / "folder"))
    with pytest.raises(Exception, match=r"cannot be made .*ATLED_CUDA_EMULATOR_CACHE names another") as caught:
        cupy.RawKernel(KERNEL % os.getpid(), f"only_here_{os.getpid()}").compile()
    assert isinstance(caught.value, cupy.cuda.compiler.CompileException)


def test_a_folder_of_sources_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass")
    options = ["-q", "-p", "atled_cuda_emulator.pytest_plugin", "--cuda-sources", str(tmp_path / "none"), "test_it.py"]
    done = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no such folder" in done.stderr
