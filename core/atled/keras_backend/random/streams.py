"""RandomStreams: the distributions that programs draw from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.calls import call, expression, operand
from atled.keras_backend.expressions.expression import Expression, place
from atled.keras_backend.expressions.promotion import cast
from atled.keras_backend.expressions.sizes import Size
from atled.keras_backend.expressions.sizes import size as as_size
from atled.keras_backend.functions.dtypes import dtype_of
from atled.keras_backend.random import draws
from atled.keras_backend.random.generator import Generator
from atled.keras_backend.settings import floatx

if TYPE_CHECKING:
    from atled.keras_backend.compiling.specialization import Specialization


class RandomStreams(Generator):
    """Random numbers of MRG31k3p: the same ones for the same seed on all backends.

    Each call of a method that draws makes a node: an expression with rows of its own, (n, 6) int32, one per stream.
    Each function that computes the node draws on from where the one before stopped. Equal seeds and equal orders of
    calls give equal numbers.

    seed: an int from 1 to 2147462578, or six; see `set_rstate`.  use_cuda: the Context says where nodes are computed.
    """

    def uniform(
        self,
        size: Any,
        low: Any = 0.0,
        high: Any = 1.0,
        ndim: int | None = None,
        dtype: Any = None,
        nstreams: int | None = None,
    ) -> Expression:
        """Uniform numbers between low and high, both excluded.

        size: a tuple or list of ints of 1 or more and integer expressions, or a vector of sizes.
        low, high: numbers, which are excluded, or expressions that broadcast to the size, to which rounding may come.
        ndim: how many sizes a vector has whose length is not known.
        dtype: float16, float32 or float64; None for the common one of `floatx()` and expressions among the bounds.
        nstreams: how many streams; None for `n_streams(size)`.
        """
        entries = draws.entries_of(size, ndim)
        first, last = (_moment(each, entries) for each in (low, high))
        made = _float(dtype, first, last)
        rows = self._rows(size, nstreams, made)
        y, new_rows = draws.uniform(rows, entries, first, last, made)
        return self.pretty_return(rows, new_rows, y, size, nstreams)

    def normal(
        self,
        size: Any,
        avg: Any = 0.0,
        std: Any = 1.0,
        ndim: int | None = None,
        dtype: Any = None,
        nstreams: int | None = None,
    ) -> Expression:
        """Normal numbers.

        avg, std: numbers, or expressions that broadcast to the size.  nstreams: None for 15360, whatever the size.
        The other arguments are those of `uniform`.
        """
        entries = draws.entries_of(size, ndim)
        mean, deviation = (_moment(each, entries) for each in (avg, std))
        made = _float(dtype, mean, deviation)
        drawn = size
        if all(isinstance(each, int) for each in entries):
            count = math.prod(each for each in entries if isinstance(each, int))
            drawn = (np.int64(count + count % 2),)  # no Python int, so that it is drawn by 15360 streams
        rows = self._rows(drawn, nstreams, made)
        y, new_rows = draws.normal(rows, entries, mean, deviation, made)
        return self.pretty_return(rows, new_rows, y, drawn, nstreams)

    def binomial(
        self,
        size: Any = None,
        n: int = 1,
        p: Any = 0.5,
        ndim: int | None = None,
        dtype: Any = "int64",
        nstreams: int | None = None,
    ) -> Expression:
        """1 with a probability, else 0: whether a uniform number of `floatx()` is below p.

        p: a number, or an expression that broadcasts to the size.  dtype: of the result.
        NotImplementedError: n is not 1. The other arguments are those of `uniform`.
        """
        if n != 1:
            remedy = "draw several with n=1 and add them"
            raise NotImplementedError(four_parts(f"binomial numbers with n={n!r}", "n is not 1", "", remedy))
        made = dtype_of(dtype)
        below = operand(p)
        return cast(call("IsLess", self.uniform(size, ndim=ndim, nstreams=nstreams), below), made)

    def multinomial(
        self,
        size: Any = None,
        n: Any = 1,
        pvals: Any = None,
        ndim: int | None = None,
        dtype: Any = "int64",
        nstreams: int | None = None,
    ) -> Expression:
        """How often each outcome is drawn, in the shape of pvals.

        n: draws per row, an int or an integer expression.  pvals: a row of probabilities per distribution; the rows are
        not checked: what they lack of 1 is the probability that nothing is counted.
        dtype: of the result.  nstreams: None for 15360.
        ValueError: size or ndim is given.  TypeError: no pvals.  NotImplementedError: pvals is no matrix.
        """
        self._only_rows("multinomial", "pvals", pvals, size=size, ndim=ndim)
        return self._picked("MultinomialCounts", "pvals", pvals, n, dtype, nstreams)

    def choice(
        self,
        size: Any = 1,
        a: Any = None,
        replace: bool = True,
        p: Any = None,
        ndim: int | None = None,
        dtype: Any = "int64",
        nstreams: int | None = None,
    ) -> Expression:
        """Outcomes without replacement: indices, (rows of p, size); -1 where nothing is left to choose.

        size: how many per row, an int or an integer expression.  p: a row of probabilities per distribution.
        dtype: of the result.  nstreams: None for 15360.
        NotImplementedError: replace is true, or p is no matrix.  TypeError: a is given, or no p.  ValueError: ndim is
        given; at the call: size is more than there are outcomes.
        """
        if replace:
            remedy = "pass replace=False, or draw counts by multinomial"
            raise NotImplementedError(four_parts("a choice with replacement", "it is not drawn", "", remedy))
        if a is not None:
            raise TypeError(four_parts("a choice of a", "only p says what there is", "", "pass p, one row per choice"))
        self._only_rows("choice", "p", p, ndim=ndim)
        return self._picked("ChoiceIndices", "p", p, size, dtype, nstreams)

    def multinomial_wo_replacement(
        self,
        size: Any = None,
        n: Any = 1,
        pvals: Any = None,
        ndim: int | None = None,
        dtype: Any = "int64",
        nstreams: int | None = None,
    ) -> Expression:
        """The old name of `choice(size=n, p=pvals, replace=False)`; it warns.  ValueError: size or ndim is given."""
        message = "multinomial_wo_replacement is an old name: use choice(size=n, p=pvals, replace=False)"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        self._only_rows("multinomial_wo_replacement", "pvals", pvals, size=size, ndim=ndim)
        return self.choice(size=n, replace=False, p=pvals, dtype=dtype, nstreams=nstreams)

    def _picked(self, op: str, name: str, p: Any, count: Any, dtype: Any, nstreams: int | None) -> Expression:
        """Outcomes by so many uniform numbers per row of probabilities."""
        given, each = expression(p), as_size(count)
        by = place()[1]
        if given.ndim != 2:
            wrong = f"{name} has {given.ndim} axes"
            raise NotImplementedError(four_parts(by, wrong, "", "give a matrix: one row per distribution"))
        if isinstance(each, int) and each < 0:
            raise ValueError(four_parts(by, f"{each} draws per row", "", "give 0 or more"))
        made, real = dtype_of(dtype), np.dtype(floatx())
        rows = self._rows(None, nstreams, real)

        def shape(into: Specialization) -> tuple[int, ...]:
            return (into.value(given).desc.shape[0] * into.size(each),)

        wide = np.dtype(np.float32) if real == np.float16 else real
        unis, new_rows = draws.drawn(rows, shape, [given, each], 1, wide)
        y = call(op, given, unis, ndim=2, dtype=made)
        return self.pretty_return(rows, new_rows, y, None, nstreams)

    @staticmethod
    def _only_rows(method: str, name: str, p: Any, **unused: Any) -> None:
        """Refuse what an outcome's arguments are not."""
        for argument, value in unused.items():
            if value is not None:
                wrong = f"{argument} is given, which follows from {name}"
                raise ValueError(four_parts(f"RandomStreams.{method}", wrong, "", "leave it out"))
        if p is None:
            raise TypeError(four_parts(f"RandomStreams.{method}", f"{name} is missing", "", f"pass {name}"))


def _moment(given: Any, entries: Sequence[Size]) -> draws.Bound:
    """A bound or moment as a number, or an expression.  ValueError: it has more axes than the size."""
    if isinstance(given, int | float | np.number | np.bool_):
        return float(given)
    found = expression(given)
    if found.ndim > len(entries):
        asked = f"{place()[1]} with a size of {len(entries)} axes"
        raise ValueError(four_parts(asked, f"{found!r} has {found.ndim}", "", "give the size all axes of the result"))
    return found


def _float(dtype: Any, *moments: draws.Bound) -> np.dtype:
    """The dtype of a node.  TypeError: it is no float."""
    if dtype is None:
        return np.result_type(floatx(), *(each.type for each in moments if isinstance(each, Expression)))
    found = dtype_of(dtype)
    if found.kind != "f":
        remedy = "use float16, float32 or float64, and cast the numbers"
        raise TypeError(four_parts(f"{place()[1]} with dtype {found.name}", "it is no float", "", remedy))
    return found
