"""What a network gives for data: metrics and outputs, without the examples that fill up a last batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts


class _Figures(np.ndarray):
    """The numbers of a metric, (count,), of which one alone is a number for `float` and "%.1f" too.

    Programs for neon print them so; NumPy itself refuses that of an array with axes from 2.4 on.
    """

    def __float__(self) -> float:
        return float(self.item()) if self.size == 1 else super().__float__()


def evaluated(model: Any, dataset: Any, metric: Any) -> np.ndarray:
    """The mean of a metric over all examples: (count of its numbers,), with a `float` where it is one."""
    size, total, done = model.be.bsz, 0.0, 0
    dataset.reset()
    for x, t in dataset:
        count = min(size, dataset.ndata - done)
        if count <= 0:
            break
        y = model.fprop(x, inference=True)
        y, t, columns = _counted(y, t, count, size, metric)
        total = total + np.asarray(metric(y, t, calcrange=columns), np.float64) * count
        done += count
    if not done:
        raise ValueError(four_parts(f"{model.name}.eval", "the dataset has no batch", "", "give one with examples"))
    return np.atleast_1d(np.asarray(total / done)).view(_Figures)


def _counted(y: Any, t: Any, count: int, size: int, metric: Any) -> tuple[Any, Any, slice]:
    """Outputs and targets, and the columns that count: all, or the first of each step, which come first then."""
    first = y[0] if isinstance(y, list | tuple) else y
    steps = first.shape[1] // size
    if count == size:
        return y, t, slice(0, None)
    if steps == 1 or getattr(metric, "steps", 1) > 1:
        return y, t, slice(0, count)
    return _packed(y, count, size), _packed(t, count, size), slice(0, steps * count)


def _packed(whole: Any, count: int, size: int) -> Any:
    """A copy with the first columns of each step before all others."""
    if isinstance(whole, list | tuple):
        return type(whole)(_packed(each, count, size) for each in whole)
    values = whole.get()
    rows = values.reshape(values.shape[0], -1, size)
    parts = [rows[:, :, :count], rows[:, :, count:]]
    return whole.backend.array(np.concatenate([each.reshape(len(values), -1) for each in parts], 1), whole.dtype)


def outputs_of(model: Any, dataset: Any) -> Any:
    """The outputs for all examples: (examples, features), of sequences (examples, steps, features); a list for several.

    ValueError: the dataset has no batch.
    """
    size, found = model.be.bsz, []
    dataset.reset()
    for x, _ in dataset:
        y = model.fprop(x, inference=True)
        found.append([_by_example(each, size) for each in (y if isinstance(y, list | tuple) else [y])])
    if not found:
        raise ValueError(
            four_parts(f"{model.name}.get_outputs", "the dataset has no batch", "", "give one with examples")
        )
    arrays = [np.concatenate(each)[: dataset.ndata] for each in zip(*found, strict=True)]
    return arrays if isinstance(y, list | tuple) else arrays[0]


def _by_example(y: Any, size: int) -> np.ndarray:
    values: np.ndarray = y.get()
    if values.shape[1] == size:
        return values.T
    return values.reshape(values.shape[0], -1, size).transpose(2, 1, 0)
