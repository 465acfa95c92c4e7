"""Tensor: an array of a backend, or a window on one."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from atled.errors import four_parts
from atled.keyed import Description, View
from atled.neon.trees.assignment import assign
from atled.neon.trees.building import transposed_axes
from atled.neon.trees.filling import put
from atled.neon.trees.indexing import cuts_of
from atled.neon.trees.operand import Operand
from atled.neon.trees.shapes import two_axes
from atled.sequences import RECORDERS, by_hand

if TYPE_CHECKING:
    from atled.neon.backends.backend import Backend

_ALL = slice(None)
_new = object.__new__


class Tensor(Operand):
    """An array of two axes or more; what is computed from it is an op-tree until it is assigned.

        x = be.array(np.arange(6).reshape(2, 3))
        x[:, 1:] = x[:, 1:] * 2 - 1
        x.get()

    Views, by slices, integers, `T`, `reshape` and `share`, are the same memory: what is assigned to one is seen by all.
    `x == y` is an op-tree, so that the hash of a tensor is its identity. Its truth is that of its length, as of a list.

    Attributes:
        backend: who made it, and computes.
        view: its elements, as the core knows them.
        shape: sizes per axis.  dtype: of the elements.
        name: shown in op-trees; views have that of their base.
        base: the tensor that it is a view of; None for one with memory of its own.
        persist_values, rounding: without effect, for programs that read or set them.
        looks: how often what is assigned to it is still looked for among what was assigned before, see `repeats`.
    """

    name: str | None = None
    base: Tensor | None = None
    persist_values: bool = True
    rounding: Any = 0
    looks: int = -1

    def __init__(self, backend: Backend, view: View, name: str | None = None, base: Tensor | None = None) -> None:
        self.backend = backend
        self.view = view
        self.shape = view.desc.shape
        self.dtype = view.desc.dtype
        if name is not None:
            self.name = name
        if base is not None:
            self.base = base

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """TypeError: memory of a backend is neither pickled nor copied by `copy`."""
        asked = f"a pickle or a copy by `copy` of {self!r}"
        remedy = "pickle its values, x.get(), and make a tensor of them by be.array; y.copy(x) copies into a tensor"
        raise TypeError(four_parts(asked, "a tensor is memory of its backend", "", remedy))

    def _shown(self, view: View) -> Tensor:
        """A view of this tensor."""
        made = _new(Tensor)
        made.backend = self.backend
        made.view = view
        desc = view.desc
        made.shape = desc.shape
        made.dtype = desc.dtype
        base = self.base
        made.base = self if base is None else base
        if self.name is not None:
            made.name = self.name
        return made

    @property
    def size(self) -> int:
        """Count of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements lie one behind the other in C order."""
        return self.view.desc.strides is None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Tensor:  # Any: integers, slices, `...`, or a tuple of them
        """The view that an index names, with two axes at least.

        An integer keeps its axis, with size 1, where there are two axes; where there are more, the axis goes.
        `x[:]` is x itself. IndexError: out of range, more entries than axes, lists and arrays (`take` copies these).
        """
        if type(index) is slice and index == _ALL:
            return self
        return self._shown(self.view.cut(cuts_of(self.shape, index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        """Have the elements that an index names hold a number, an array, a tensor's values or what an op-tree gives.

        Values are cast as NumPy casts where it assigns; those of a tree may be computed from the elements themselves.
        Errors as of `set`; nothing is written then.
        """
        target = self if type(index) is slice and index == _ALL else self[index]
        if isinstance(value, tuple) and isinstance(value, Operand):
            assign(target, value)
        else:
            put(target, value)

    def set(self, value: Any) -> Tensor:
        """Hold a number, the values of an array of as many elements, or those of a tensor; gives the tensor itself.

        An array has the shape of the tensor, or fewer axes and then its elements in C order.

        TypeError: another value, a list among them.  ValueError: another size or shape, a tensor of another backend, a
        backend that was cleaned up, a target that is a copy, NaN where the dtype is an integer.  OverflowError: a
        number that the dtype does not hold. Nothing is written then.
        """
        self[:] = value
        return self

    def fill(self, value: Any) -> Tensor:
        """Hold a number in all elements; gives the tensor itself. Errors as of `set`."""
        return self.set(value)

    def copy(self, a: Any) -> Tensor:
        """Copy the values of `a` into this tensor, and give it. Errors as of `set`."""
        return self.set(a)

    copy_from = copy

    def get(self) -> np.ndarray:
        """The values, as a new array on the host."""
        view = self.view
        if RECORDERS:
            by_hand("a tensor is read", view)
        if not view.is_on_host and 2 * view.size < view.cell.size:
            # A small part of what is on a device: the rest need not travel.
            d = Description(self.backend.context)
            d.result(d.call("Reshape", d.leaf(view), shape=self.shape, inplace=False))
            view = View(d.run()[0])
        return view.numpy()

    def asnumpyarray(self) -> np.ndarray:
        """The host memory itself where the values are there, which may be written to; else a copy, as by `get`."""
        if RECORDERS:
            by_hand("the memory of a tensor is asked for")
        return self.view.export() if self.view.is_on_host else self.get()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(
                four_parts("a NumPy array of a tensor without a copy", "it is made by a copy", "", "allow the copy")
            )
        values = self.get()
        return values if dtype is None else values.astype(dtype, copy=False)

    def raw(self) -> int:
        """Address of the first element in host memory, to which the values are moved."""
        if RECORDERS:
            by_hand("the memory of a tensor is asked for")
        return int(self.view.export().ctypes.data)

    @property
    def T(self) -> Tensor:
        """The view with the axes in the other order; of three, the last two change places."""
        view = self.view
        return self._shown(view.transpose(transposed_axes(3)) if len(self.shape) == 3 else view.T)

    def transpose(self, out: Tensor | None = None) -> Tensor:
        """`T`; with `out` its values are assigned to that, which is given then."""
        return self.T if out is None else out.set(self.T)

    def reshape(self, *shape: Any) -> Tensor:
        """The elements in C order under another shape: sizes or one tuple of them, of which one may be -1.

        A view wherever NumPy's is one, and the tensor itself where the shape is its own. Else a copy, of which a
        warning and the `repr` tell, and to which nothing can be assigned. One size gives (size, 1).

        ValueError: another count of elements.  TypeError: sizes that are no integers.
        """
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if given == self.shape:
            return self
        try:
            view = self.view.reshape(given if len(given) > 1 else two_axes(given))
        except TypeError:
            two_axes(given)  # says what is wrong
            raise
        if view is None:
            return self._copied(two_axes(given))
        return self if view.shape == self.shape else self._shown(view)

    def _copied(self, shape: tuple[int, ...]) -> Tensor:
        """The elements in memory of their own."""
        d = Description(self.backend.context)
        d.result(d.call("Reshape", d.leaf(self.view), shape=shape, inplace=False))
        made = Tensor(self.backend, View(d.run()[0]), self.name)
        made.view.read_only = f"it is a copy: no view of {self!r} has shape {made.shape}"
        warnings.warn(
            four_parts(
                f"{self!r}.reshape({', '.join(map(str, shape))})",
                "no view has these elements in this order, so that it is a copy",
                "",
                "reshape before slicing or transposing, to save the copy and to assign to it",
            ),
            stacklevel=3,
        )
        return made

    def share(self, shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
        """A view of the first elements, in C order, in a shape of their own: how buffers are shared.

        ValueError: there are fewer elements, another dtype, or a tensor that is not contiguous.
        """
        wanted = two_axes(shape)
        count = math.prod(wanted)
        flat = self.view.reshape((-1,)) if self.size else self.view.reshape((0,))
        wrong = ""
        if count > self.size or min(wanted) < 0:
            wrong = f"it has {self.size} elements, of {count}"
        elif dtype is not None and np.dtype(dtype) != self.dtype:
            wrong = f"its memory is {self.dtype}, not {np.dtype(dtype)}"
        elif flat is None:
            wrong = "its elements do not lie one behind the other"
        if wrong or flat is None:
            raise ValueError(
                four_parts(f"{self!r}.share({wanted})", wrong, "", "share a contiguous tensor that is large enough")
            )
        view = flat[:count].reshape(wanted)
        assert view is not None, "elements in C order have any shape"
        made = self._shown(view)
        if name is not None:
            made.name = name
        return made

    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        """A copy of the slices along an axis that indices name, as `numpy.take`; without an axis of the flat elements.

        indices: integers, a tensor or an array, seen without axes of size 1; negative ones count from the end.
        IndexError: an index out of range.  ValueError: an axis that there is not, indices of more than one axis.
        """
        from atled.neon.trees.taking import taken  # it makes tensors

        return taken(self, indices, axis)

    def hist(self, tag: Any) -> Tensor:
        """Count the elements by their powers of two, into a row that `be.dump_hist_data` gives under the tag.

        A row has `be.hist_bins` counts (int32), of rint(log2(abs(x))) = `be.hist_offset` and so on. The first one has
        all smaller elements, too, zeros among them, and the last one those of one power more, as in numpy.histogram.
        What is larger still, and NaN, count nowhere.
        """
        return self.backend.record_histogram(self, tag)

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name}"
        note = " (a copy)" if self.view.read_only else ""
        return f"<Tensor{name} {self.dtype.name}{list(self.shape)}{note}>"
