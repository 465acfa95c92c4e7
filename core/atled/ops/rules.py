"""What a gradient rule may do: the call that it differentiates, and the values that it makes new ones of.

The engine brings the classes; a rule needs no more of them than is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from atled.ops.spec import OpSpec


class IRValue(Protocol):
    """One array of a graph that is being built: its shape and dtype are known, its elements are not.

    Arithmetic with another value or a Python number adds the op that computes it. Operands must have one dtype; their
    shapes broadcast as NumPy's do.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes per axis."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        ...

    @property
    def ndim(self) -> int:
        """Count of axes."""
        ...

    @property
    def size(self) -> int:
        """Count of elements."""
        ...

    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __neg__(self) -> Any: ...


class GradientCall(Protocol):
    """What a gradient rule sees of the call that it differentiates.

    inputs, outputs: the call's values (None for absent inputs), auxiliary outputs included.
    cotangents: per output the gradient that arrives, None where none does.
    needs: per input whether its gradient is asked for.
    """

    @property
    def inputs(self) -> Sequence[Any]: ...
    @property
    def outputs(self) -> Sequence[Any]: ...
    @property
    def cotangents(self) -> Sequence[Any]: ...
    @property
    def needs(self) -> Sequence[bool]: ...

    @property
    def is_recorded(self) -> bool:
        """Whether the gradient becomes functions of the user's graph, which can be differentiated once more."""
        ...

    @property
    def is_sparing(self) -> bool:
        """Whether the auxiliary outputs are not there to be read: the gradient is to be that of `sparing_gradient`."""
        ...

    @property
    def y(self) -> Any:
        """The first output."""
        ...

    @property
    def gy(self) -> Any:
        """The cotangent of the first output."""
        ...

    def cotangent(self, position: int) -> Any:
        """The cotangent of an output; zeros where none arrives."""
        ...

    def op(self, name: str, /, *inputs: Any, **attributes: Any) -> Any:
        """Add a call of the op `name`: its output, or a tuple if the op has several."""
        ...

    def add(self, spec: OpSpec, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
        """Add a call of an op that is in no table, with checked attributes: all of its outputs."""
        ...

    def with_inputs(self, inputs: Sequence[Any], needs: Sequence[bool]) -> GradientCall:
        """The same call with other inputs, for the rule of an op that this one is made of."""
        ...

    def reshape(self, value: Any, shape: Sequence[int]) -> Any:
        """The same memory with another shape."""
        ...

    def sum_to(self, value: Any, shape: tuple[int, ...]) -> Any:
        """The sum over the axes along which `shape` was broadcast to the value's shape."""
        ...

    def by_composition(self, build: Callable[..., Any]) -> list[Any]:
        """Gradients of this call by differentiating `build(c, *inputs)`, which makes the same outputs of other ops."""
        ...
