"""Outcomes drawn by given probabilities and given uniform numbers: counts of each, or indices without replacement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.samples import Exact, Refused, Sample, Uniform
from atled.ops.spec import Attribute, Input, OpSpec

_DTYPE = Attribute("dtype", "dtype", np.dtype(np.int64))


class _Picking(OpSpec, abstract=True):
    """What both share: running sums are float64, added from the left, so that all backends pick the same."""

    category = "stochastic"
    no_gradient = "stops"
    attributes = (_DTYPE,)

    def drawn(self, p: ArrayDesc, unis: ArrayDesc) -> int:
        """How many outcomes are drawn per row."""
        if p.ndim != 2:
            raise self.error((p, unis), f"probabilities have {p.ndim} axes", "give a matrix: a row per distribution")
        if unis.ndim != 1 or unis.size % max(p.shape[0], 1) or (unis.size and not p.shape[0]):
            wrong = f"there are {p.shape[0]} rows for uniform numbers of shape {list(unis.shape)}"
            raise self.error((p, unis), wrong, f"give a vector of n * {p.shape[0]} uniform numbers")
        return unis.size // max(p.shape[0], 1)

    def samples(self) -> Sequence[Sample]:
        rows = [[0.98, 0.01, 0.01], [0.01, 0.49, 0.5], [0.25, 0.25, 0.5], [0.1, 0.2, 0.7]]
        return (
            Sample(Exact(rows), Uniform((8,), 0.0, 1.0)),
            Sample(Exact([[0.125] * 8] * 3), Uniform((9,), 0.0, 1.0), dtype=np.int32),
            Sample(Exact([[0.25, 0.25, 0.0], [1.0, 0.0, 0.0]]), Exact([0.75, 0.5, 0.25, 0.0])),
            Sample((0, 3), (0,)),
            Sample(Exact(rows), (0,)),
        )

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "give a matrix", (3,), (3,)),
            Refused(ValueError, r"n \* 2 uniform numbers", (2, 3), (3,)),
            Refused(ValueError, r"n \* 2 uniform numbers", (2, 3), (2, 1)),
        )


class MultinomialCounts(_Picking):
    """How often each outcome is drawn: draw c of row r is the first whose running sum exceeds `unis[c R + r]`.

    A draw that no sum of its row exceeds is not counted. Rows need not add up to 1.

    Args:
        pvals: (R, K) float; probabilities.
        unis: (n R,) float; uniform numbers.
        dtype: of y.

    Returns:
        y: (R, K) any dtype; that of the attribute; the sum of a row is n at most.

    Raises:
        ValueError: pvals is no matrix, the count of unis is no multiple of R.
    """

    inputs = (Input("pvals", gradient="none"), Input("unis", gradient="none"))

    def infer(self, pvals: ArrayDesc, unis: ArrayDesc, *, dtype: np.dtype) -> ArrayDesc:
        self.drawn(pvals, unis)
        return ArrayDesc(pvals.shape, dtype)

    def reference(self, pvals: np.ndarray, unis: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
        y = np.zeros(pvals.shape, np.int64)
        sums = np.cumsum(pvals, axis=1, dtype=np.float64)
        for number, u in enumerate(unis.tolist()):
            row = number % len(pvals)
            above = np.flatnonzero(sums[row] > u)
            y[row, above[:1]] += 1
        return y.astype(dtype)


class ChoiceIndices(_Picking):
    """Outcomes drawn without replacement: draw c of row r is the first whose running sum exceeds `unis[c R + r]`.

    Behind each draw the probability of its outcome is 0 and the row is divided by what is left of its sum. A draw that
    no sum exceeds gives -1 and changes nothing.

    Args:
        p: (R, K) float; probabilities.
        unis: (n R,) float; uniform numbers.
        dtype: of index.

    Returns:
        index: (R, n) any dtype; that of the attribute; from 0 to K - 1, or -1.

    Raises:
        ValueError: p is no matrix, the count of unis is no multiple of R, or n is more than K.
    """

    inputs = (Input("p", gradient="none"), Input("unis", gradient="none"))
    outputs = ("index",)

    def infer(self, p: ArrayDesc, unis: ArrayDesc, *, dtype: np.dtype) -> ArrayDesc:
        count = self.drawn(p, unis)
        if count > p.shape[1]:
            wrong = f"{count} outcomes of {p.shape[1]}, none of them twice"
            raise self.error((p, unis), wrong, f"draw {p.shape[1]} at most")
        return ArrayDesc((p.shape[0], count), dtype)

    def reference(self, p: np.ndarray, unis: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
        left = p.astype(np.float64)
        index = np.full(unis.size, -1, np.int64)
        for number, u in enumerate(unis.tolist()):
            row = left[number % len(p)]
            above = np.flatnonzero(np.cumsum(row) > u)
            if above.size:
                index[number] = above[0]
                row[above[0]] = 0
                with np.errstate(invalid="ignore"):  # nothing is left of a row behind its last outcome
                    row /= np.cumsum(row)[-1]
        return index.reshape(-1, max(len(p), 1)).T[: len(p)].astype(dtype, order="C")

    def refused(self) -> Sequence[Refused]:
        return (*super().refused(), Refused(ValueError, "draw 3 at most", (2, 3), (8,)))
