"""Whole programs, run by both libraries from equal start values: their losses, step by step.

The programs are those of `tests/compat/scripts` that write a series "training loss" with one value per step. What
NNabla 1.39 gives is kept in `tests/compat/losses.json`, which `tools/check_nnabla.py` writes: so the tests can compare
without NNabla.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from nnabla_check.processes import run_in

_ROOT = Path(__file__).resolve().parents[2]
_SCRIPTS = _ROOT / "tests" / "compat" / "scripts"
_EXPECTED = _ROOT / "tests" / "compat" / "losses.json"
_SERIES = Path("monitor") / "training-loss.series.txt"

FIRST = 20
"""How many steps are compared one by one."""

TOLERANCE = 1e-3
"""Largest difference of a loss among them, relative where it is above 1."""

LAST = 10
"""How many steps at the end are averaged: the final loss."""

BANDS = {"lstm_language_model": 0.05, "vat_digits": 0.1}
"""Programs that draw while they run, each library from a stream of its own: how far the final losses may be apart,
relative to NNabla's. Runs of NNabla with three and four other seeds are up to 1 % and 6 % apart."""

PROGRAMS = (
    "cyclegan_small",
    "dcgan_digits",
    "distillation",
    "lenet_digits",
    "lstm_language_model",
    "prototypical_networks",
    "quantized_networks",
    "resnet_digits",
    "structured_sparsity",
    "vat_digits",
)

Losses = list[float]


def script(name: str) -> Path:
    """The file of a program."""
    return _SCRIPTS / f"{name}.py"


def losses_in(folder: Path) -> Losses:
    """The losses that a program wrote, running in that folder."""
    return [float(line.split()[1]) for line in (folder / _SERIES).read_text().splitlines()]


def run_program(python: Path, library: str, name: str, folder: Path) -> Losses:
    """Run a program in a library; RuntimeError with what it says where it fails."""
    folder.mkdir(parents=True)
    through = ["-m", "atled.compat.nnabla"] if library == "atled" else []
    done = run_in(library, [str(python), *through, str(script(name))], folder)
    if done.returncode:
        raise RuntimeError(f"{name} failed in {library}:\n{done.stderr[-3000:]}")
    return losses_in(folder)


def run_programs(names: Sequence[str], nnabla_python: Path, folder: Path) -> dict[str, dict[str, Losses]]:
    """Per library and program the losses."""
    pythons = {"nnabla": nnabla_python, "atled": Path(sys.executable)}
    return {
        library: {name: run_program(python, library, name, folder / library / name) for name in names}
        for library, python in pythons.items()
    }


def final(losses: Losses) -> float:
    """The final loss."""
    return sum(losses[-LAST:]) / LAST


def largest_difference(mine: Losses, theirs: Losses) -> float:
    """Of the first steps."""
    return max(abs(x - y) / max(1.0, abs(y)) for x, y in zip(mine[:FIRST], theirs[:FIRST], strict=True))


def too_far(name: str, mine: Losses, theirs: Losses, theirs_final: float) -> str:
    """In what the losses of a program differ more than they may; empty if in nothing.

    theirs: at least the first steps of NNabla's.
    """
    if name in BANDS:
        apart = abs(final(mine) - theirs_final) / abs(theirs_final)
        return f"the final loss is {apart:.1%} apart, {BANDS[name]:.0%} is allowed" if apart > BANDS[name] else ""
    largest = largest_difference(mine, theirs)
    return f"the first {FIRST} losses differ by up to {largest:.2g}" if not largest <= TOLERANCE else ""


def expected() -> dict[str, tuple[Losses, float]]:
    """Per program what NNabla gave: the losses of the first steps, and the final one."""
    kept = json.loads(_EXPECTED.read_text("utf-8"))["programs"]
    return {name: (entry["first"], entry["final"]) for name, entry in kept.items()}


def write_expected(found: dict[str, Losses]) -> None:
    """Keep what NNabla gives."""
    entries = {name: {"first": losses[:FIRST], "final": round(final(losses), 4)} for name, losses in found.items()}
    kept = {"made_by": "python tools/check_nnabla.py, with NNabla 1.39.0", "programs": entries}
    _EXPECTED.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
