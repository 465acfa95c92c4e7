"""For pytest, by `-p fake_cudnn.pytest_plugin`: the stand-in for cuDNN where the emulator of CUDA stands for a GPU.

FAKE_CUDNN_GRAPHS: file to which every operation graph is written that was finalized, as a JSON list.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import atled_cuda_emulator
import atled_cuda_emulator.pytest_plugin  # installs the emulator where there is no GPU
from atled_cudnn import library
from fake_cudnn import FakeCudnn

_fake = FakeCudnn() if atled_cuda_emulator.installed() else None
if _fake is not None:
    library.use(_fake)


def pytest_report_header() -> str:
    """Which cuDNN computes."""
    return f"cuDNN: {'stand-in' if _fake is not None else library.location()}"


def pytest_sessionfinish() -> None:
    """Write what was finalized."""
    path = os.environ.get("FAKE_CUDNN_GRAPHS")
    if path and _fake is not None:
        Path(path).write_text(json.dumps(list(_fake.graphs.values())), "utf-8")
