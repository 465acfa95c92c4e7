"""Has the real cuDNN plan what backend `cudnn` asks it for, for an H100 and an H200, on a machine without a GPU.

`python tools/check_cudnn.py [ARGUMENT OF PYTEST ...]` installs cuDNN and NVRTC (0.6 GB) into `.venv-cudnn`, apart from
the virtual environment, where plugins would find them. Then the conformance kit runs on the stand-in for cuDNN, which
writes down what it was given, and the real one plans all of that, and every call that the plugin accepts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_FOLDER = _ROOT / ".venv-cudnn"
_PACKAGES = ("nvidia-cudnn-cu12>=9.8,<10", "nvidia-cuda-nvrtc-cu12>=12.9,<13")
_TESTS = "plugins/cudnn/tests"


def _run(*arguments: str, path: Path | str, **variables: str) -> int:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=_ROOT, env={**os.environ, "PYTHONPATH": str(path), **variables}).returncode


def main() -> int:
    """Install, run the kit, plan; the status of the first that fails."""
    usage = "%(prog)s [-h] [ARGUMENT OF PYTEST ...]"
    parser = argparse.ArgumentParser(usage=usage, description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    _, arguments = parser.parse_known_args()
    if not list(_FOLDER.glob("nvidia/cudnn/lib/libcudnn.so.*")):
        pip = ("pip", "--disable-pip-version-check", "install", "--quiet", "--target", str(_FOLDER), "--no-deps")
        print(f"installing {' and '.join(_PACKAGES)} into {_FOLDER.name}", flush=True)
        if status := _run(*pip, *_PACKAGES, path=""):
            return status
    with tempfile.TemporaryDirectory() as folder:
        graphs = str(Path(folder, "graphs.json"))
        kit = ("-q", "-p", "fake_cudnn.pytest_plugin", "--pyargs", "atled.conformance", "--atled-plugin", "cudnn")
        status = _run("pytest", *kit, path=_ROOT / _TESTS, FAKE_CUDNN_GRAPHS=graphs)
        return status or _run("pytest", "plugins/cudnn/deviceless", *arguments, path=_FOLDER, CUDNN_GRAPHS=graphs)


if __name__ == "__main__":
    sys.exit(main())
