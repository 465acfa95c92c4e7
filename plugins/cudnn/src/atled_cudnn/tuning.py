"""Tuning: engines measured on the device, and the file that keeps which was the fastest."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atled.plugin import declare_setting, four_parts, parse_choice, parse_text, setting
from atled_cudnn import cupy_names as cp
from atled_cudnn.engines import Choice
from atled_cudnn.library import CudnnError, version, version_text

if TYPE_CHECKING:
    from atled_cudnn.plans import Plan, Wanted

declare_setting(
    "ATLED_CUDNN_TUNE",
    parse_choice("heuristics", "search"),
    "heuristics",
    "how cuDNN's engines are chosen: by its heuristics, or by a search that measures each of them at its first use",
)
declare_setting(
    "ATLED_CUDNN_TUNING_FILE", parse_text, "", "JSON file of engines that a search found, read and, searching, written"
)

_FORMAT = 1
_RUNS = 5  # of each engine that are measured, after one that is not
_PATTERN = 0x3C  # bytes of what engines are measured on: small numbers, where zeros would take less power and time


class TuningWarning(UserWarning):
    """A tuning file is not used, or could not be written."""


_read: dict[str, dict[str, dict[str, Any]]] = {}
"""By path, the sections of each file: by cuDNN and device, then by key, the entries."""


def is_searching() -> bool:
    """Whether engines are measured where the file has none."""
    return bool(setting("ATLED_CUDNN_TUNE") == "search")


def find(wanted: Wanted, device_name: str) -> Choice | None:
    """What the file says of a graph on such a device."""
    path = setting("ATLED_CUDNN_TUNING_FILE")
    if not path:
        return None
    entry = _sections(path).get(_section(device_name), {}).get(key(wanted))
    return None if entry is None else Choice(entry["engine"], tuple((kind, value) for kind, value in entry["knobs"]))


def search(wanted: Wanted, device_name: str, plans: Sequence[Plan]) -> Plan | None:
    """The fastest of the plans, which is noted in the file; None where none of them can run."""
    measured = [(seconds, number) for number, plan in enumerate(plans) if (seconds := _measure(wanted, plan))]
    if not measured:
        return None
    seconds, number = min(measured)
    best = plans[number]
    best.note = f"cuDNN engine {best.choice.engine}, the fastest of {len(measured)} measured"
    path = setting("ATLED_CUDNN_TUNING_FILE")
    if path:
        _keep(path, device_name, wanted, best.choice, seconds)
    return best


def key(wanted: Wanted) -> str:
    """A name for all that the choice depends on besides cuDNN and the device."""
    text = repr((_plain(wanted.graph), sorted(map(int, wanted.forbidden))))
    return f"{wanted.graph.attributes[0][2][0].kind.name.lower()} {hashlib.sha256(text.encode()).hexdigest()[:24]}"


def tell(what: str, path: str = "") -> None:
    """Warn that the file is not used."""
    path = path or setting("ATLED_CUDNN_TUNING_FILE")
    text = four_parts(
        f"cuDNN tuning file {path}", what, "its heuristics choose the engines", "remove it and search anew"
    )
    warnings.warn(text, TuningWarning, stacklevel=2)


def forget() -> None:
    """Read the file again when it is needed next."""
    _read.clear()


def _plain(value: Any) -> Any:  # Any: a Node and what it consists of
    if isinstance(value, tuple):
        return tuple(_plain(one) for one in value)
    return value if isinstance(value, float) else int(value)


def _section(device_name: str) -> str:
    return f"cuDNN {version_text(version())}, {device_name}"


def _sections(path: str) -> dict[str, dict[str, Any]]:
    if path not in _read:
        _read[path] = _load(path)
    return _read[path]


def _load(path: str) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        sections: dict[str, dict[str, Any]] = content["devices"]
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']}, not {_FORMAT}")
        for entries in sections.values():
            for entry in entries.values():
                if not isinstance(entry["engine"], int) or not all(_is_knob(knob) for knob in entry["knobs"]):
                    raise ValueError(f"{entry} is no engine with knobs")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        tell(f"it cannot be used: {type(error).__name__}: {error}", path)
        return {}
    return sections


def _is_knob(knob: object) -> bool:
    return isinstance(knob, list) and len(knob) == 2 and all(isinstance(number, int) for number in knob)


def _keep(path: str, device_name: str, wanted: Wanted, choice: Choice, seconds: float) -> None:
    sections = _sections(path)
    entry = {"engine": choice.engine, "knobs": [list(knob) for knob in choice.knobs]}
    sections.setdefault(_section(device_name), {})[key(wanted)] = {**entry, "microseconds": round(seconds * 1e6, 2)}
    text = json.dumps({"format": _FORMAT, "devices": sections}, indent=1, sort_keys=True)
    folder = Path(path).resolve().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: another process may read it meanwhile.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, delete=False) as file:
            file.write(text + "\n")
        os.replace(file.name, path)
    except OSError as error:
        tell(f"it cannot be written: {error}", path)


def _measure(wanted: Wanted, plan: Plan) -> float | None:
    """Seconds that a plan takes on arrays of its own; None where it cannot run."""
    try:
        sizes = [*(nbytes for _, nbytes in wanted.tensors), max(plan.workspace, 1)]
        memory = [cp.alloc(nbytes) for nbytes in sizes]
        stream = cp.current_stream()
        for one, nbytes in zip(memory, sizes, strict=True):
            one.memset_async(_PATTERN, nbytes, stream)
        pack = plan.bind([number for number, _ in wanted.tensors], [one.ptr for one in memory[:-1]], memory[-1].ptr)
        plan.execute(pack)
        marks = [cp.Event() for _ in range(_RUNS + 1)]
        for number, mark in enumerate(marks):
            if number:
                plan.execute(pack)
            mark.record(stream)
        marks[-1].synchronize()
    except (CudnnError, cp.OutOfMemoryError):
        return None  # the heuristics offer engines that turn out not to run, or to need more than there is
    return min(cp.elapsed_time(*pair) for pair in itertools.pairwise(marks)) * 1e-3
