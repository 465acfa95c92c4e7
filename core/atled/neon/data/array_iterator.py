"""ArrayIterator: batches of arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from atled.dtypes import is_number
from atled.errors import four_parts
from atled.neon.data.iterator import NervanaDataIterator


class ArrayIterator(NervanaDataIterator):
    """Batches of examples in order: pairs of inputs (features, batch) and targets.

    X: (examples, features) numbers, or a list of such arrays for several inputs.
    y: with make_onehot (examples,) whole numbers from 0 to nclass - 1, of which targets are one-hot (nclass, batch);
        else (examples, n), and targets are (n, batch). None: targets are the inputs.
    lshape: sizes of an example, such as (C, H, W), whose product are its features; of (features, steps) the inputs are
        (features, steps * batch). A list of them for a list of inputs.

    The last batch of an epoch is filled up from the start, where the next epoch then begins. Batches are written into
    the same tensors each time.

    TypeError: no arrays of numbers.  ValueError: other counts of examples, none, classes out of range, no nclass.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        nclass: int | None = None,
        lshape: Any = None,
        make_onehot: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        several = isinstance(X, list | tuple)
        arrays = [self._array("X", each) for each in (X if several else [X])]
        shapes = list(lshape) if several and lshape is not None else [lshape] * len(arrays)
        self.ndata = arrays[0].shape[0] if arrays else 0
        if not self.ndata or any(each.shape[0] != self.ndata for each in arrays) or len(shapes) != len(arrays):
            found = ", ".join(str(list(each.shape)) for each in arrays)
            remedy = "give arrays of as many examples, one at least, and a shape for each"
            raise ValueError(four_parts(self._told, f"X has shapes {found}, of {len(shapes)} lshapes", "", remedy))
        self.nclass = nclass
        self.make_onehot = make_onehot
        self.start = 0
        kinds = [self._sizes(each, shape) for each, shape in zip(arrays, shapes, strict=True)]
        self.shape = kinds if several else kinds[0]
        self.lshape = lshape
        self._several = several
        self._arrays = list(zip(arrays, kinds, strict=True))
        self._classes = None if y is None else self._labels(y)
        self._allocate()

    def _allocate(self) -> None:
        """Make the tensors of a batch. ValueError: the backend has no batch size."""
        be = self._present
        self._size = be.bsz
        if self._size < 1:
            remedy = "give gen_backend a batch_size"
            raise ValueError(four_parts(self._told, f"batches are of {self._size} examples", "", remedy))
        self._inputs = [_Batches(be, array, shape) for array, shape in self._arrays]
        self._targets: Any = None
        self._onehot: Any = None
        if self._classes is not None:
            dtype = np.int32 if self.make_onehot else None
            self._targets = _Batches(be, self._classes, self._classes.shape[1], dtype)
            if self.make_onehot:
                assert self.nclass is not None, "classes were checked with it"
                self._onehot = be.iobuf(self.nclass)
                self._tree = be.onehot(self._targets.buffer, axis=0)

    @property
    def _told(self) -> str:
        return f"{self.classnm} {self.name!r}"

    def _array(self, what: str, given: Any) -> np.ndarray:
        values = np.asarray(given)
        if not (is_number(values.dtype) or values.dtype == bool) or values.ndim == 0:
            wrong = f"{what} is of type {type(given).__name__}, dtype {values.dtype}"
            raise TypeError(four_parts(self._told, wrong, "", "give an array of numbers, (examples, features)"))
        return values.reshape(values.shape[0], math.prod(values.shape[1:]))

    def _sizes(self, array: np.ndarray, shape: Any) -> Any:
        """The sizes of an example."""
        features = array.shape[1]
        if shape is None:
            return features
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if math.prod(sizes) != features:
            wrong = f"lshape is {list(sizes)}, and examples have {features} features"
            raise ValueError(four_parts(self._told, wrong, "", "give an lshape whose product are the features"))
        return shape if isinstance(shape, int) else sizes

    def _labels(self, y: Any) -> np.ndarray:
        labels = self._array("y", y)
        wrong, remedy = "", "give y with an element or row for each example"
        if labels.shape[0] != self.ndata:
            wrong = f"y has {labels.shape[0]} examples, X has {self.ndata}"
        elif self.make_onehot and self.nclass is None:
            wrong, remedy = "nclass is missing", "give the count of classes, or make_onehot=False"
        elif self.make_onehot and not isinstance(self.nclass, int | np.integer):
            wrong, remedy = (
                f"nclass is of type {type(self.nclass).__name__}",
                "give the count of classes, a whole number",
            )
        elif self.make_onehot and labels.shape[1] != 1:
            wrong, remedy = f"y has {labels.shape[1]} columns", "give one class for each example, or make_onehot=False"
        elif self.make_onehot:
            off = labels[(labels != np.floor(labels)) | (labels < 0) | (labels >= self.nclass)]
            if off.size:
                wrong = f"y has {off[0]}, of {self.nclass} classes"
                remedy = "give whole numbers from 0 to nclass - 1"
        if wrong:
            raise ValueError(four_parts(self._told, wrong, "", remedy))
        return labels

    def _count_batches(self) -> int:
        """How many batches are left of the epoch, or are in the next one."""
        return -(-(self.ndata - self.start) // self._present.bsz)

    def reset(self) -> None:
        """Begin with the first example again."""
        self.start = 0

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Inputs and targets of each batch; tensors that the next one writes anew."""
        if self._size != self._present.bsz:
            self._allocate()
        begin, size = self.start, self._size
        while begin < self.ndata:
            x: Any = [each.at(begin) for each in self._inputs]
            t = None if self._targets is None else self._targets.at(begin)
            if self._onehot is not None:
                self._onehot[:] = self._tree
                t = self._onehot
            x = x if self._several else x[0]
            begin += size
            self.start = (begin - self.ndata) % self.ndata if begin >= self.ndata else self.start
            yield x, x if t is None else t


class _Batches:
    """Batches of one array: the device has all of it, and a buffer for a batch."""

    def __init__(self, be: Any, values: np.ndarray, shape: Any, dtype: Any = None) -> None:
        self._whole = be.array(values, dtype)
        self._count = values.shape[0]
        self._size = be.bsz
        self.buffer = be.iobuf(shape, dtype=dtype)
        self._columns = self.buffer.reshape((values.shape[1], be.bsz))

    def at(self, start: int) -> Any:
        """The batch that begins with an example; behind the last one comes the first."""
        done = 0
        while done < self._size:
            count = min(self._size - done, self._count - start)
            self._columns[:, done : done + count] = self._whole[start : start + count].T
            done, start = done + count, 0
        return self.buffer
