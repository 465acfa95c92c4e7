"""Running the cases in both libraries, each in processes of its own Python."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nnabla_check.cases import Arrays, Case
from nnabla_check.processes import run_in

LIBRARIES = ("nnabla", "atled")
_WORKER = Path(__file__).with_name("worker.py")
_CRASH_LIMIT = 50

Results = dict[str, np.ndarray]


def run_all(cases: Sequence[tuple[Case, Arrays]], nnabla_python: Path, folder: Path) -> dict[str, dict[str, Results]]:
    """Per library and case the results; files are exchanged through `folder`.

    Networks of calls that one of them refuses, or does not have, are left out.
    """
    (folder / "inputs").mkdir(parents=True)
    for case, arrays in cases:
        np.savez(folder / "inputs" / f"{case['id']}.npz", **arrays)  # type: ignore[arg-type]  # stubs miss **arrays
    for library in LIBRARIES:
        (folder / library).mkdir()
    done: list[Case] = []
    for phase in (1, 2):
        listed = [case for case, _ in cases if case.get("phase", 1) == phase and _is_there(folder, case)]
        done += listed
        (folder / "cases.json").write_text(json.dumps(listed))
        _run(nnabla_python, "nnabla", folder)
        _run(Path(sys.executable), "atled", folder)
    return {library: {case["id"]: _results(folder / library, case["id"]) for case in done} for library in LIBRARIES}


def _is_there(folder: Path, case: Case) -> bool:
    """Whether both libraries have computed the call of a network; True for other cases."""
    if "of" not in case:
        return True
    return not any({"error", "absent"} & _results(folder / library, case["of"]).keys() for library in LIBRARIES)


def _run(python: Path, library: str, folder: Path) -> None:
    """Run a library's worker until no case is left; one that ends the process counts as a crash."""
    for _ in range(_CRASH_LIMIT):
        done = run_in(library, [str(python), str(_WORKER), library, str(folder)], folder)
        if done.returncode == 0:
            return
        running = folder / library / "running"
        if done.returncode > 0 or not running.exists():
            raise RuntimeError(f"the worker of {library} failed:\n{done.stderr[-3000:]}")
        path = folder / library / f"{running.read_text()}.npz"
        np.savez(path, error=np.array(f"the process ended by signal {-done.returncode}"))
    raise RuntimeError(f"more than {_CRASH_LIMIT} cases crash {library}")


def _results(folder: Path, identity: str) -> Results:
    with np.load(folder / f"{identity}.npz") as file:
        return dict(file)
