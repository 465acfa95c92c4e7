"""The conformance kit on the stand-in, in a process of its own: values in all type configs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import atled_cuda_emulator

CHECKS = "values or precisions or narrow_sums or layout or attached or queued or runs"


@pytest.mark.slow
def test_the_kit_finds_the_values_right(tmp_path):
    if not atled_cuda_emulator.installed():
        pytest.skip("make gpu runs all of the kit here")
    graphs, report = tmp_path / "graphs.json", tmp_path / "report.json"
    here = str(Path(__file__).parent)
    options = ["-p", "fake_cudnn.pytest_plugin", "-p", "no:cacheprovider", "-q", "--pyargs", "atled.conformance"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--atled-plugin", "cudnn", "-k", CHECKS, f"--atled-report={report}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": here, "FAKE_CUDNN_GRAPHS": str(graphs)},
    )
    assert done.returncode == 0, done.stdout[-5000:]
    found = json.loads(report.read_text())
    assert found["failed"] == 0 and found["passed"] > 350, found
    assert len(json.loads(graphs.read_text())) > 60
