"""Forward and backward of several Variables in one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.errors import RefusedError, four_parts
from atled.graph import backward, forward
from atled.variable import Variable, refuse_communicators


def forward_all(variables: Sequence[Variable], clear_buffer: bool = False, clear_no_need_grad: bool = False) -> None:
    """Compute several Variables in one run: what more than one of them needs is computed once.

    variables: leaves among them are left alone. The order counts only where calls change arrays, such as running
        statistics, that others read: they run as they would for one Variable after the other.
    clear_buffer, clear_no_need_grad: as in `forward`.

    Raises TypeError for anything but a sequence of Variables; what `forward` raises.
    """
    forward.forward_all([variable.value for variable in _checked("forward_all", variables)], clear_buffer)


def backward_all(
    variables: Sequence[Variable],
    grads: Sequence[float | np.ndarray | NdArray | None] | None = None,
    clear_buffer: bool = False,
    communicator_callbacks: None = None,
) -> None:
    """Backpropagate from several Variables in one run: the gradient of the sum of `grad * variable` over all of them.

    Every leaf with need_grad accumulates into its `g` once; gradients that meet on the way are added up and go on as
    one. Call `forward_all` before.

    grads: one per Variable, each as in `backward`: a number or an array, broadcast, or None for its present `g`.
        None for all: 1 for each.
    clear_buffer, communicator_callbacks: as in `backward`.

    Raises TypeError for anything but a sequence of Variables, ValueError if `grads` are not as many; what `backward`
    raises, before anything is computed where one of them is a leaf.
    """
    refuse_communicators("backward_all", communicator_callbacks)
    found = _checked("backward_all", variables)
    given = [1.0] * len(found) if grads is None else _checked_grads(grads, len(found))
    backward.backward_all([variable.value for variable in found], given)


def _checked(function: str, variables: Sequence[Variable]) -> Sequence[Variable]:
    """The Variables; TypeError if there is anything else."""
    if not isinstance(variables, Sequence) or not all(isinstance(item, Variable) for item in variables):
        kinds = sorted({type(item).__name__ for item in variables}) if isinstance(variables, Sequence) else []
        got = f"a {type(variables).__name__}" + (f" of {', '.join(kinds)}" if kinds else "")
        raise TypeError(four_parts(f"{function}(variables)", f"got {got}", "", "pass a list of Variables"))
    return variables


def _checked_grads(grads: Sequence[Any], count: int) -> Sequence[Any]:
    """The gradients; an error unless there is one for each Variable."""
    if not isinstance(grads, Sequence):
        raise TypeError(
            four_parts(
                "backward_all(grads=...)",
                f"got {type(grads).__name__}, not a list",
                "",
                "give a list with a number, an array or None for each Variable",
            )
        )
    if len(grads) != count:
        raise RefusedError(
            four_parts(
                "backward_all(grads=...)",
                f"got {len(grads)} gradients for {count} Variables",
                "",
                "give one for each, or leave the argument out for 1 each",
            )
        )
    return grads
