"""Comparing the results of one case: values, gradients, refusals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnabla_check.cases import Case
from nnabla_check.runs import Results

# Of float32 arithmetic in another order, relative to the largest element.
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Difference:
    """One respect in which the libraries differ for a case.

    call: the call in words.
    what: "values", "gradients", "shape", "refusal" (by one of them), "backward" (that one of them refuses), or "case"
        (that neither of them computes).
    """

    function: str
    case: str
    call: str
    what: str
    detail: str


def is_absent(nnabla: Results) -> bool:
    """Whether NNabla has no function of the case's name, so that there is nothing to compare."""
    return "absent" in nnabla


def compare(case: Case, nnabla: Results, atled: Results) -> list[Difference]:
    """All differences of one case; none for a function of our own."""
    if is_absent(nnabla):
        return []
    found: list[Difference] = []

    def note(what: str, detail: str) -> None:
        found.append(Difference(case["function"], case["id"], case.get("call", ""), what, detail))

    for key, what in (("error", "refusal"), ("backward_error", "backward")):
        if (key in nnabla) != (key in atled):
            who, text = ("NNabla", nnabla[key]) if key in nnabla else ("atled", atled[key])
            note(what, f"{who} only: {text}")
    if "error" in nnabla or "error" in atled:
        if "error" in nnabla and "error" in atled and not case.get("refused"):
            note("case", f"both refuse it: NNabla {nnabla['error']}, atled {atled['error']}")
        return found
    if "backward_error" in nnabla and "backward_error" in atled and case.get("differentiable", True):
        note("case", f"both refuse backward: NNabla {nnabla['backward_error']}, atled {atled['backward_error']}")
    one_has_none = "backward_error" in nnabla or "backward_error" in atled
    for key in {**nnabla, **atled}:
        if key in ("error", "backward_error") or (key[0] == "g" and one_has_none):
            continue
        what = "gradients" if key[0] == "g" and key[1:].isdigit() else "values"
        if key not in nnabla or key not in atled:
            note(what, f"{key} is only in {'NNabla' if key in nnabla else 'atled'}")
            continue
        mine, theirs = atled[key], nnabla[key]
        if mine.shape != theirs.shape:
            note("shape", f"{key}: NNabla {theirs.shape}, atled {mine.shape}")
        elif mine.dtype.kind == "U":
            if mine != theirs:
                note(what, f"{key}: NNabla {theirs}, atled {mine}")
        elif case.get("compare") == "distribution":
            if not _alike(mine, theirs):
                note("values", f"{key}: the distributions differ")
        elif case.get("compare") != "shape":
            error = _error(mine, theirs)
            if not error <= _TOLERANCE:
                note(what, f"{key}: differs by {error:.2g} of the largest value")
    return found


def _error(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest value; infinite where one is not a number alone."""
    mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
    if not mine.size:
        return 0.0
    regular = np.isfinite(mine) & np.isfinite(theirs)
    same = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs))
    if not np.all(regular | same):
        return np.inf
    mine, theirs = mine[regular], theirs[regular]
    scale = max(float(np.abs(theirs).max(initial=0)), 1e-3)
    return float(np.abs(mine - theirs).max(initial=0)) / scale


def _alike(mine: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two samples of many draws have about one distribution, by Kolmogorov and Smirnov's statistic."""
    if mine.size < 1000:
        return False
    points = np.unique(np.concatenate([mine.ravel(), theirs.ravel()]))
    ours, other = (np.searchsorted(np.sort(x.ravel()), points, "right") / x.size for x in (mine, theirs))
    # Twice the limit for independent draws, since those of crops and shifts hang together.
    return float(np.abs(ours - other).max()) < 4 / np.sqrt(mine.size)
