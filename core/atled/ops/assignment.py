"""Assignment: an array, or a window on one, becomes a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from atled.array_desc import ArrayDesc
from atled.ops.elementwise import ProgramOp
from atled.ops.formula import Program
from atled.ops.samples import Ints, Refused, Sample
from atled.ops.spec import Input


class Assign(ProgramOp):
    """`target = value`, in place.

    Args:
        target: (...) any dtype; changed.
        value: (...) any dtype; that of the target, to whose shape it is broadcast.

    Returns:
        target: (...) any dtype; the input of this name.

    Raises:
        ValueError: value does not broadcast to the target, or has another dtype.
    """

    category = "array"
    inputs = (Input("target", kind="keep"), Input("value", kind="keep"))
    outputs = ("target",)
    inplace: Mapping[int, int] = {0: 0}
    no_gradient = "raises"
    integers = "exact"

    @cached_property
    def program(self) -> Program:  # type: ignore[override]  # computed, because tables must import quickly
        return Program(("target", "value"), (), (("target", "value"),))

    def infer(self, target: ArrayDesc, value: ArrayDesc) -> ArrayDesc:
        if value.dtype != target.dtype:
            wrong = f"the target is {target.dtype}, the value {value.dtype}"
            raise self.error((target, value), wrong, f"cast the value to {target.dtype} first")
        try:
            fits = np.broadcast_shapes(target.shape, value.shape) == target.shape
        except ValueError:  # NumPy's message tells no more than the error below
            fits = False
        if not fits:
            wrong = f"a value of shape {value.shape} does not broadcast to {target.shape}"
            raise self.error((target, value), wrong, "give a value of the target's shape, or one that broadcasts to it")
        return target

    def samples(self) -> Sequence[Sample]:
        shapes = ((2, 3), (2, 3)), ((2, 3, 4), (3, 1)), ((), ()), ((0, 3), (3,))
        return [Sample(*each).no_gradient() for each in shapes]

    def refused(self) -> Sequence[Refused]:
        return (
            Refused(ValueError, "does not broadcast", (2, 3), (2, 4)),
            Refused(ValueError, "does not broadcast", (3,), (2, 3)),
            Refused(ValueError, "cast the value", (2, 3), Ints((2, 3), 9)),
        )
