"""Tensors that layer calls take: checked before anything is written, and seen in the order of the core's axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.errors import four_parts
from atled.named_tuple import NamedTuple
from atled.neon.calls.checks import asked, check_numbers, check_tensors

if TYPE_CHECKING:
    from atled.keyed import Description
    from atled.neon.calls.described import DescribedCalls
    from atled.neon.trees.tensor import Tensor


class Operand(NamedTuple):
    """A tensor of a call, and what the call takes it for.

    name: of the argument.  axes: what its axes are called, such as "C D H W N".  dims: their sizes; a tensor of any
    shape with so many elements is taken.
    """

    name: str
    tensor: Any
    axes: str
    dims: tuple[int, ...]


def check_operands(backend: DescribedCalls, call: str, *operands: Operand) -> None:
    """Refuse tensors of other sizes or of other backends.

    TypeError: what is no tensor.  ValueError: a tensor of another size, of another backend, or of one that was cleaned
    up.
    """
    given = {each.name: each.tensor for each in operands}
    for name, tensor in given.items():
        if tensor is None:
            raise TypeError(four_parts(asked_of(call, operands), f"{name} is missing", "", f"give a tensor as {name}"))
    check_tensors(backend, call, **given)
    for name, tensor, axes, dims in operands:
        count = math.prod(dims)
        if tensor.view.size != count:
            wrong = f"{name} has shape {list(tensor.shape)}, {tensor.view.size} elements"
            remedy = f"give it {count} elements: ({', '.join(axes.split())}) = {dims}, under any shape"
            raise ValueError(four_parts(asked_of(call, operands), wrong, "", remedy))


def asked_of(call: str, operands: Sequence[Operand]) -> str:
    """A call as messages name it."""
    return asked(call, **{each.name: each.tensor for each in operands})


def as_number(call: str, name: str, given: Any) -> float:
    """A factor of a call as a Python number; TypeError for what is none."""
    check_numbers(call, **{name: given})
    return float(given)


def taken(d: Description, tensor: Tensor, dims: tuple[int, ...], axes: Sequence[int] | None = None) -> int:
    """The value of a tensor under other sizes, its axes then in another order: a view, wherever there is one.

    axes: axis i of the value is axis `axes[i]` of dims.
    """
    view = tensor.view.reshape(dims)
    if view is not None:
        return d.leaf(view if axes is None else view.transpose(axes))
    value = d.call("Reshape", d.leaf(tensor.view), shape=dims)
    return value if axes is None else d.call("Transpose", value, axes=tuple(axes))


def give(d: Description, tensor: Tensor, dims: tuple[int, ...], value: int, axes: Sequence[int] | None = None) -> None:
    """Have a tensor hold a value of those sizes, whose axis i is axis `axes[i]` of dims."""
    view = tensor.view.reshape(dims)
    if view is not None:
        d.assign(view if axes is None else view.transpose(axes), value)
        return
    if axes is not None:
        value = d.call("Transpose", value, axes=tuple(int(axis) for axis in np.argsort(axes)))
    d.assign(tensor.view, d.call("Reshape", value, shape=tensor.shape))


def scaled(d: Description, value: int, alpha: float) -> int:
    """`alpha * value`."""
    return value if alpha == 1.0 else d.call("Mul2", value, d.number(alpha))


def added(d: Description, value: int, beta: float, tensor: Tensor, dims: tuple[int, ...], axes: Any = None) -> int:
    """`value + beta * tensor`; with beta 0 the tensor is not read, whatever it holds."""
    return value if beta == 0.0 else d.call("Add2", value, scaled(d, taken(d, tensor, dims, axes), beta))
