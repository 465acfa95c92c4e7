"""Runs random descriptions of programs, on windows of arrays of all dtypes, and compares them with NumPy.

`python tools/fuzz_descriptions.py` draws from a seed: arrays, views of views, ops whose operands have mixed dtypes and
Python numbers, results, and assignments to views that overlap what is read. NumPy computes the same beside it, call by
call. Others are of float64 throughout, with loops and branches, and compared by their gradients of both orders. What
disagrees in shape, dtype or value is shown with its number; `--number N` draws that one alone. The exit status is 1
unless all agree.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from atled_contexts import Context  # after the path is set
from fuzzing_descriptions.drawing import Drawing
from fuzzing_descriptions.smooth import SmoothDrawing


def check(seed: int, number: int, context: Context) -> None:
    """Draw one and check it; AssertionError with all of it in words."""
    for kind in (Drawing, SmoothDrawing):
        drawing = kind(seed, number, context)
        try:
            drawing.check()
        except Exception as error:
            text = "\n".join(drawing.steps)
            raise AssertionError(f"--seed {seed} --number {number} in {context}\n{text}\n{error!r}") from error


def main() -> int:
    """Draw, check and count; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--descriptions", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, help="this one alone")
    parser.add_argument("--backend", default="cpu", help="cpu (default), sim, reference, ...")
    given = parser.parse_args()
    # What a device does not compute goes to the reference.
    context = Context([f"{given.backend}:float", "reference:float"], fallback="quiet")
    numbers = range(given.descriptions) if given.number is None else [given.number]
    wrong = 0
    for number in numbers:
        try:
            check(given.seed, number, context)
        except AssertionError:
            wrong += 1
            traceback.print_exc()
    print(f"{len(numbers)} descriptions on {given.backend}, {wrong} disagree with NumPy")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
