"""Runs random programs of neon's API and compares them with NumPy, their gradients with finite differences.

`python tools/fuzz_trees.py` draws from a seed: tensors of 2 to 5 axes, windows on them, trees of all ops, assignments
to what the trees read, and Autodiff. What disagrees is shown with its number; `--number N` draws that one alone. The
exit status is 1 unless all agree.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from atled.neon.backends import gen_backend  # after the path is set
from atled_contexts import Context
from fuzzing_trees.drawing import Drawing

DTYPES = {"float32": "float", "float64": "double"}


def check(seed: int, number: int, backend: str, *, has_reference: bool = True) -> None:
    """Draw one and check it; AssertionError with all of it in words."""
    for dtype, type_config in DTYPES.items():
        # What a device does not compute goes to the reference.
        names = [f"{backend}:{type_config}"] + [f"reference:{type_config}"] * has_reference
        be = gen_backend(Context(names, fallback="quiet"), rng_seed=number, datatype=dtype, batch_size=4)
        drawing = Drawing(seed, number, be)
        try:
            drawing.check()
        except Exception as error:
            text = "\n".join(drawing.steps)
            raise AssertionError(f"--seed {seed} --number {number} on {backend}, {dtype}\n{text}\n{error!r}") from error


def main() -> int:
    """Draw, check and count; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=500, help="how many programs (default: 500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, help="this one alone")
    parser.add_argument("--backend", default="cpu", help="cpu (default), sim, reference, ...")
    given = parser.parse_args()
    numbers = range(given.trees) if given.number is None else [given.number]
    wrong = 0
    for number in numbers:
        try:
            check(given.seed, number, given.backend)
        except AssertionError:
            wrong += 1
            traceback.print_exc()
    print(f"{len(numbers)} programs on {given.backend}, {wrong} disagree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
