"""Columns as steps: what views of whole sequences loops of the core take, and what is asked of their tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from atled.array_desc import ArrayDesc
from atled.errors import four_parts, shortened
from atled.keyed import Description, View
from atled.neon.calls.checks import asked, check_dtypes, check_shapes, check_tensors
from atled.neon.calls.tracing import Formula, NoFormulaError
from atled.neon.trees.tensor import Tensor


def step_rows(view: View, batch: int, reverse: bool = False) -> View:
    """Columns (rows, T * batch) as steps (T, rows, batch), the last one first with `reverse`; the same memory."""
    rows, columns = view.shape
    across, along = view.desc.written_strides
    steps, distance = columns // batch, along * batch
    first = view.offset + max(steps - 1, 0) * distance if reverse else view.offset
    strides = (-distance if reverse else distance, across, along)
    return view.as_strided(ArrayDesc((steps, rows, batch), view.dtype, strides), first)


def rows_before(d: Description, view: View, start: View, reverse: bool) -> int:
    """What was before each step, the last step first: columns one step earlier, and the start before the first one.

    reverse: whether the steps themselves went from the last columns to the first ones.
    """
    given = step_rows(view, start.shape[1], not reverse)
    first = start.broadcast_to((1, *start.shape))
    if given.shape[0] == 1:
        return d.leaf(first)
    return d.call("Concatenate", d.leaf(given[1:]), d.leaf(first), axis=0)


def part(d: Description, value: int, size: int, batch: int, number: int, count: int = 1) -> int:
    """Rows of a value (n * size, batch) as parts of this size: `count` of them from one on."""
    return d.call("Slice", value, start=(number * size, 0), stop=((number + count) * size, batch), step=(1, 1))


def sizes_of_state(state: Any) -> tuple[int, int]:
    """Units and batch of a state; zeros for what is no tensor, which is refused then."""
    return state.shape if isinstance(state, Tensor) else (0, 0)


def check_steps(backend: Any, call: str, h_init: Tensor, heights: dict[str, int], **given: Tensor | None) -> None:
    """Refuse tensors that are not columns of one sequence.

    h_init: (H, B).  heights: by name, how many times H rows each has.
    """
    check_tensors(backend, call, ["b"], h_init=h_init, **given)
    check_dtypes(call, h_init=h_init, **given)
    units, batch = h_init.shape
    of_gates = given["gates"]
    assert of_gates is not None, "check_tensors refuses None"
    columns = of_gates.shape[1]
    if not batch or not columns or columns % batch:
        told = asked(call, gates=of_gates, h_init=h_init)
        wrong = f"{columns} columns are not steps of a batch of {batch}"
        raise ValueError(four_parts(told, wrong, "", "give gates with (steps * batch) columns"))
    widths = {"W_recur": units, "b": 1, "c_init": batch, "h_error": batch, "c_error": batch}
    shapes = {name: (height * units, widths.get(name, columns)) for name, height in heights.items()}
    check_shapes(call, shapes, **given)


def formula(backend: Any, call: str, function: Callable[[Any], Any] | None, like: Tensor, rows: int) -> Formula:
    """What an activation, or its derivative, does with (rows, B), as a part of a program.

    like: a tensor of B columns.  ValueError: it computes something by itself, or draws.  TypeError: it is none.
    """
    try:
        return Formula(backend, function, (rows, like.shape[1]), like.dtype, broadcasts=True)
    except NoFormulaError as error:
        remedy = "have it give an op-tree; Recurrent and BiRNN take others, too"
        raise ValueError(four_parts(f"{call} with {shortened(function)}", str(error), "", remedy)) from error
