"""Metrics: numbers about a batch of outputs and targets, for people rather than for training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.neon.calls.checks import check_numbers
from atled.neon.transforms.losses import Cost
from atled.neon.trees.tensor import Tensor

_ALL = slice(0, None)


class Metric(Cost):
    """A number or an array of a batch of outputs y and targets t, tensors or op-trees of shape (features, batch).

    metric_names: of the numbers, in their order.
    outputs: the tensor that a call was computed in, most often a row per number and a column per example.
    """

    metric_names: Sequence[str] = ()
    outputs: Any = None

    def __call__(self, y: Any, t: Any, calcrange: slice = _ALL) -> Any:
        """The number or array.

        calcrange: which columns count, of each step: where a last batch is not full, the first ones.
        ValueError: y and t have different shapes, or no column counts.  NotImplementedError: the class has none.
        """
        raise NotImplementedError(self._missing("__call__", "the metric"))

    def _computed(self, rows: Sequence[Any], steps: int, calcrange: slice) -> np.ndarray:
        """Means, in float64, of op-trees (1, steps * batch) over the columns that count."""
        columns = rows[0].shape[1]
        if steps < 1 or columns % steps:
            asked = f"{self.classnm} {self.name} with steps={steps} of {columns} columns"
            raise ValueError(four_parts(asked, "they are not so many steps", "", "make steps a divisor of the columns"))
        outputs = self._buffer((len(rows), columns))
        for number, row in enumerate(rows):
            outputs[number] = row
        values = outputs.get().reshape(len(rows), steps, columns // steps)[:, :, calcrange]
        self._check_count(values.shape[2], calcrange, columns // steps)
        return values.mean((1, 2), dtype=np.float64)

    def _check_count(self, count: int, calcrange: slice, columns: int) -> None:
        if count == 0:
            asked = f"{self.classnm} {self.name} of columns {calcrange} of {columns}"
            raise ValueError(four_parts(asked, "there are none", "", "give a range that has a column at least"))

    def _buffer(self, shape: tuple[int, int]) -> Tensor:
        """`outputs`, which stay for the next call of this size."""
        be = self._present
        if self.outputs is None or self.outputs.shape != shape or self.outputs.backend is not be:
            self.outputs = be.empty(shape)
        made: Tensor = self.outputs
        return made


class LogLoss(Metric):
    """Mean of `-safelog(sum over rows of y * t)`."""

    metric_names = ("LogLoss",)

    def __call__(self, y: Any, t: Any, calcrange: slice = _ALL) -> float:
        """The number."""
        self._check(y, t)
        be = self._present
        return float(self._computed([-be.safelog(be.sum(y * t, axis=0))], 1, calcrange)[0])


class Misclassification(Metric):
    """Share of columns in which the largest element is in another row of y than of t.

    steps: how many steps of a sequence the columns are; calcrange is within each.
    """

    metric_names = ("Top1Misclass",)

    def __init__(self, steps: int = 1, name: str | None = None) -> None:
        super().__init__(name)
        self.steps = steps

    def __call__(self, y: Any, t: Any, calcrange: slice = _ALL) -> float:
        """The number, from 0 to 1."""
        self._check(y, t)
        be = self._present
        row = be.not_equal(be.argmax(y, axis=0), be.argmax(t, axis=0))
        return float(self._computed([row], self.steps, calcrange)[0])


class Accuracy(Metric):
    """Share of columns in which the largest element is in the same row of y as of t."""

    metric_names = ("Accuracy",)

    def __call__(self, y: Any, t: Any, calcrange: slice = _ALL) -> float:
        """The number, from 0 to 1."""
        self._check(y, t)
        be = self._present
        return float(self._computed([be.equal(be.argmax(y, axis=0), be.argmax(t, axis=0))], 1, calcrange)[0])


class TopKMisclassification(Metric):
    """Log loss, and shares of columns in which the true row is not the largest, and not among the k largest.

    Where equal elements contend for the last places, each of them has its share of these.

    k: whole number from 1 on.  t: one-hot columns.
    """

    def __init__(self, k: int, name: str | None = None) -> None:
        super().__init__(name)
        check_numbers(self.classnm, k=k)
        if k != int(k) or k < 1:
            raise ValueError(four_parts(self.classnm, f"k is {k}", "", "give a whole number from 1 on"))
        self.k = k

    @property
    def metric_names(self) -> Sequence[str]:  # type: ignore[override]  # they depend on k
        """Of the three numbers."""
        return "LogLoss", "Top1Misclass", f"Top{self.k}Misclass"

    def __call__(self, y: Any, t: Any, calcrange: slice = _ALL) -> np.ndarray:
        """The three numbers."""
        self._check(y, t)
        be = self._present
        truth = be.sum(y * t, axis=0)
        larger, equal = be.sum(be.greater(y, truth), axis=0), be.sum(be.equal(y, truth), axis=0)

        def missed(k: int) -> Any:
            return 1.0 - be.minimum(be.maximum(k - larger, 0.0) / equal, 1.0)

        return self._computed([-be.safelog(truth), missed(1), missed(self.k)], 1, calcrange)


class PrecisionRecall(Metric):
    """Means over classes of precision, `true positives / (positives of y + epsilon)`, and of recall, by those of t.

    num_classes: rows of y and t.  binarize: whether y is taken as one-hot columns of its largest elements.
    epsilon: what keeps classes that do not occur from a division by 0.
    outputs: (classes, 2) precision and recall of each class.
    """

    metric_names = ("Precision", "Recall")

    def __init__(
        self, num_classes: int, binarize: bool = False, epsilon: float = 1e-6, name: str | None = None
    ) -> None:
        super().__init__(name)
        check_numbers(self.classnm, num_classes=num_classes, epsilon=epsilon)
        self.num_classes = num_classes
        self.binarize = binarize
        self.epsilon = epsilon

    def __call__(self, y: Any, t: Any, calcrange: slice = _ALL) -> np.ndarray:
        """The two numbers."""
        self._check(y, t)
        be = self._present
        if y.shape[0] not in (None, self.num_classes):
            asked = f"{self.classnm} {self.name} of outputs of shape {list(y.shape)}"
            wrong = f"num_classes is {self.num_classes}"
            raise ValueError(four_parts(asked, wrong, "", "make it with num_classes as many as there are rows"))
        columns = y.shape[1]
        self._check_count(len(range(columns)[calcrange]), calcrange, columns)
        if self.binarize:
            largest = be.empty((1, columns), dtype=np.int32)
            largest[:] = be.argmax(y, axis=0)
            y = be.onehot(largest, axis=0)
        y, t = (self._held(each, columns)[:, calcrange] for each in (y, t))
        outputs, hits = self._buffer((self.num_classes, 2)), be.sum(y * t, axis=1)
        outputs[:, 0] = hits / (be.sum(y, axis=1) + self.epsilon)
        outputs[:, 1] = hits / (be.sum(t, axis=1) + self.epsilon)
        return outputs.get().mean(0, dtype=np.float64)

    def _held(self, x: Any, columns: int) -> Tensor:
        """A tensor, or one that holds an op-tree."""
        if isinstance(x, Tensor):
            return x
        made: Tensor = self._present.empty((self.num_classes, columns))
        made[:] = x
        return made


class MultiMetric(Metric):
    """A metric of one of several outputs.

    metric: which.  index: of y, and of t, in what it is given.
    """

    def __init__(self, metric: Any, index: int, name: str | None = None) -> None:
        super().__init__(name)
        if not isinstance(metric, Metric):
            asked = f"{self.classnm} of {shortened(metric)}"
            raise TypeError(four_parts(asked, "it is no metric", "", "pass an object of a subclass of Metric"))
        self.metric = metric
        self.index = index

    @property
    def metric_names(self) -> Sequence[str]:  # type: ignore[override]  # they are those of another
        """Those of the metric."""
        return self.metric.metric_names

    def __call__(self, y: Any, t: Any, calcrange: slice = _ALL) -> Any:
        """What the metric gives for `y[index]` and `t[index]`.

        y, t: lists of tensors.  IndexError: there are not so many.  TypeError: other than a list or tuple.
        """
        for what, given in ("y", y), ("t", t):
            asked = f"{self.classnm} {self.name} of output {self.index}"
            if type(given) not in (list, tuple):
                wrong = f"{what} is of type {type(given).__name__}, no list"
                raise TypeError(four_parts(asked, wrong, "", f"use {self.metric.classnm} itself for a single output"))
            if not -len(given) <= self.index < len(given):
                raise IndexError(four_parts(asked, f"{what} has {len(given)}", "", "give an index that is there"))
        return self.metric(y[self.index], t[self.index], calcrange)
