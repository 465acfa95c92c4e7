"""The libraries that atled is measured against, each in a virtual environment of its own, made on demand.

`python benchmarks/peers.py` makes all of them in `.benchenv/` of the repository. pip's usual settings hold: where pip
would take a torch with CUDA, `PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu` makes it take the small one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".benchenv"

_INSTALL_TIMEOUT_S = 1800


@dataclass(frozen=True)
class Peer:
    """One peer: what pip installs, and under which Python ("3.10"; empty for the running one)."""

    requirements: Sequence[str]
    python: str = ""


PEERS = {
    # The last release of NNabla; its newest wheels are for Python 3.10. Programs run by it read scikit-learn's digits.
    "nnabla": Peer(("nnabla==1.39.0", "scikit-learn"), "3.10"),
    "torch": Peer(("torch==2.13.0", "numpy>=2")),
    "jax": Peer(("jax==0.10.2", "jaxlib==0.10.2")),
    # The runtimes that only infer; their graphs are written with onnx.
    "onnxruntime": Peer(("onnxruntime==1.32.0", "onnx==1.23.2")),
    "openvino": Peer(("openvino==2026.4.1", "onnx==1.23.2")),
}


class PeerMissingError(Exception):
    """A peer cannot be had here; the message says why."""


def interpreter(name: str) -> Path:
    """The Python of a peer's environment, which is made if it is missing or holds other versions.

    Raises PeerMissingError where there is no Python for it or pip fails.
    """
    peer = PEERS[name]
    folder = FOLDER / name
    python = folder / "bin" / "python"
    # Written last: without it the environment is unfinished, or made for other requirements.
    stamp = folder / ".ready"
    wanted = "\n".join(peer.requirements)
    if not (stamp.exists() and stamp.read_text() == wanted and python.exists()):
        base = find_python(peer.python)
        print(f"making {folder} with {' '.join(peer.requirements)} (once)", file=sys.stderr)
        _run(name, [base, "-m", "venv", "--clear", str(folder)])
        _run(name, [str(python), "-m", "pip", "install", "--quiet", *peer.requirements])
        stamp.write_text(wanted)
    return python


def find_python(version: str) -> str:
    """The path of a Python of a version: the running one, one on the path, or one of pyenv."""
    if not version:
        return sys.executable
    on_path = shutil.which(f"python{version}")
    # pyenv puts a stand-in on the path that fails for versions which are installed but not selected.
    if on_path is not None and _answers(on_path):
        return on_path
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(versions.glob(f"{version}.*/bin/python"), key=lambda path: _numbers(path.parent.parent.name))
    if found:
        return str(found[-1])
    raise PeerMissingError(f"no Python {version} on the path or in {versions}: install one (pyenv install {version})")


def _answers(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _run(name: str, command: Sequence[str]) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PeerMissingError(f"{name}: no end after {_INSTALL_TIMEOUT_S} s: {' '.join(command)}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise PeerMissingError(f"{name}: {' '.join(command[1:4])} failed: {' '.join(lines[-3:])}")


def main() -> int:
    """Make all environments; 1 if one cannot be made."""
    failed = 0
    for name in PEERS:
        try:
            print(f"{name}: {interpreter(name)}")
        except PeerMissingError as error:
            failed = 1
            print(f"{name}: missing: {error}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
