"""Variable: the user's handle on one array of a recorded graph, with its gradient."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.arrays.array import NdArray, check_shape, host_copy, size_from
from atled.arrays.epoch import EPOCH
from atled.arrays.operators import Calls, Operators
from atled.errors import RefusedError, four_parts
from atled.graph.forward import forward, plan_forward
from atled.graph.record.roots import roots_of
from atled.graph.record.traversal import functions_before, needs_gradient
from atled.graph.record.value import Value

if TYPE_CHECKING:
    from atled.function import Function
    from atled.graph.compile.plan import Plan

_NUMBERS = (int, float, np.integer, np.floating, np.bool_)  # what is assigned as one number, not as an array


def _backward(root: Value, grad: float | np.ndarray | NdArray | None) -> None:
    """See `backward.backward`, which takes this name's place when it is first called."""
    global _backward  # so that later calls take no detour
    from atled.graph.backward import backward  # a tenth of what `import atled` would take

    _backward = backward
    backward(root, grad)


class Variable(Operators):
    """An array that records what is computed from it.

    Functions of Variables give Variables; nothing is computed before `forward()`, unless `auto_forward` is on.
    `==` and `hash` go by identity: one Variable per array of the graph.

    Args:
        shape: sizes per axis, a tuple or list; () for a scalar.
        need_grad: whether backward is to leave a gradient in `g`; None: not set (False for a leaf, derived from
            the inputs for a result).
    """

    __slots__ = ("__weakref__", "value")

    def __init__(self, shape: Sequence[int] = (), need_grad: bool | None = None) -> None:
        self.value = Value(check_shape(shape), None if need_grad is None else bool(need_grad))
        self.value.handle = weakref.ref(self)

    @classmethod
    def on(cls, value: Value) -> Variable:
        """The one Variable of a value."""
        handle = value.handle() if value.handle is not None else None
        return cls.on_new(value) if handle is None else handle

    @classmethod
    def on_new(cls, value: Value) -> Variable:
        """The Variable of a value that has none yet."""
        handle = cls.__new__(cls)
        handle.value = value
        value.handle = weakref.ref(handle)
        return handle

    @classmethod
    def from_numpy_array(cls, data: Any, grad: Any = None, need_grad: bool | None = None) -> Variable:
        """A leaf holding a copy of a NumPy array (and of a gradient); dtypes are kept."""
        array = NdArray.from_numpy_array(data)
        gradient = None if grad is None else NdArray.from_numpy_array(grad)
        flag = None if need_grad is None else bool(need_grad)
        variable = cls.on(Value(array.shape, flag, data=array))
        if gradient is not None:
            variable.grad = gradient
        return variable

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # read only: `reset_shape` changes it
        """Sizes per axis."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """Count of axes."""
        return len(self.value.shape)

    @property
    def size(self) -> int:
        """Count of elements."""
        return math.prod(self.value.shape)

    def size_from_axis(self, axis: int = -1) -> int:
        """Count of elements of the axes from `axis` on; all for -1. ValueError for an axis that is not there."""
        return size_from(self.value.shape, axis)

    @property
    def d(self) -> np.ndarray:
        """The values as a writable NumPy view; assigning broadcasts into the array and keeps its dtype."""
        value = self.value
        array = value.details.data  # which few results have, and to make one takes as long as a small call
        return value.cell.shown(value.shape) if array is None else array.data

    @d.setter
    def d(self, values: Any) -> None:
        self.value.expose()
        self.value.data.data = values.data if isinstance(values, Variable) else values

    @property
    def g(self) -> np.ndarray:
        """The gradient as a writable NumPy view; assigning broadcasts into it and keeps its dtype.

        After the number 0 it counts as not written, as after `zero_grad`.
        """
        return self.value.grad.data

    @g.setter
    def g(self, values: Any) -> None:
        self.value.expose()
        if isinstance(values, _NUMBERS) and values == 0:
            self.value.grad.zero()  # for each of a solver's parameters that is how scripts write zero_grad
        else:
            self.value.grad.data = values.grad if isinstance(values, Variable) else values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The values for NumPy, as `d` has them: `np.asarray(variable)` is a view on them."""
        return self.data.__array__(dtype, copy)

    @property
    def data(self) -> NdArray:
        """The array; assigning another of the same shape makes existing graphs read that one."""
        self.value.expose()
        return self.value.data

    @data.setter
    def data(self, array: NdArray) -> None:
        self.value.expose()
        self.value.data = self._fitting(array, "data")

    @property
    def grad(self) -> NdArray:
        """The gradient's array; assigning another of the same shape makes existing graphs write that one."""
        self.value.expose()
        return self.value.grad

    @grad.setter
    def grad(self, array: NdArray) -> None:
        self.value.expose()
        self.value.grad = self._fitting(array, "grad")

    def _fitting(self, array: NdArray, what: str) -> NdArray:
        if not isinstance(array, NdArray):
            raise TypeError(
                four_parts(
                    f"Variable.{what} = {type(array).__name__}",
                    "not an NdArray",
                    "",
                    f"use .{what[0]} = for NumPy arrays",
                )
            )
        if array.shape != self.shape:
            raise RefusedError(
                four_parts(
                    f"Variable.{what} = array of shape {array.shape}",
                    f"the Variable has shape {self.shape}",
                    "",
                    "give an array of that shape, or call reset_shape first",
                )
            )
        return array

    @property
    def parent(self) -> Function | None:
        """The function that computes it, or None for a leaf."""
        parent = self.value.parent
        return None if parent is None else Calls.function_on(parent)

    @property
    def need_grad(self) -> bool:
        """Whether a gradient reaches it: as set, else derived from what it is computed from. None unsets it."""
        return needs_gradient(self.value)

    @need_grad.setter
    def need_grad(self, flag: bool | None) -> None:
        value = None if flag is None else bool(flag)
        if self.value.need_grad is not value:
            self.value.need_grad = value
            EPOCH.bump_need_grad()

    @property
    def persistent(self) -> bool:
        """Whether data and gradient survive clearing of buffers."""
        return self.value.persistent

    @persistent.setter
    def persistent(self, flag: bool) -> None:
        if self.value.persistent != bool(flag):
            self.value.persistent = bool(flag)
            EPOCH.bump()

    def apply(self, **values: Any) -> Variable:
        """Set attributes, such as `need_grad` or `persistent`; gives this Variable: `h = f(x).apply(persistent=True)`.

        AttributeError for one that cannot be set.
        """
        for name, value in values.items():
            setattr(self, name, value)
        return self

    def forward(self, clear_buffer: bool = False, clear_no_need_grad: bool = False) -> None:
        """Compute it from the leaves. The flags allow memory to be given back early and never change a result.

        clear_buffer: no backward follows, as in inference and validation. The third forward that says so is believed,
            if there was never a backward from here: it stores nothing for one. If one follows all the same, what it
            reads is computed again, or RuntimeError is raised where a leaf was written since; then on it is stored.
        """
        forward(self.value, clear_buffer)

    def backward(
        self,
        grad: float | np.ndarray | NdArray | None = 1,
        clear_buffer: bool = False,
        communicator_callbacks: None = None,
    ) -> None:
        """Backpropagate from here: every leaf with need_grad accumulates into its `g`.

        grad: gradient of this Variable, broadcast to its shape; lent for the run, `g` stays. None: its present `g`.
        communicator_callbacks: None; there are no communicators.

        Raises RuntimeError on a leaf, or where a path leads through an op without gradient.
        """
        refuse_communicators("backward", communicator_callbacks)
        _backward(self.value, grad)

    @property
    def plan(self) -> Plan:
        """The plan by which forward computes it, to be printed; RuntimeError for a leaf."""
        if self.value.parent is None:
            raise RuntimeError(four_parts("plan of a leaf", "nothing computes it", "", "ask a result for its plan"))
        return plan_forward(roots_of((self.value,)), whole=True).plan

    def reset_shape(self, shape: Sequence[int], force: bool = False) -> None:
        """Take another shape; where the count of elements changes, `force` must be True and values are lost."""
        wanted = check_shape(shape)
        if math.prod(wanted) != self.size and not force:
            raise RefusedError(
                four_parts(
                    f"reset_shape from {self.shape} to {wanted}",
                    "the count of elements differs, which loses the values",
                    "",
                    "pass force=True to allow that",
                )
            )
        self.value.reset_shape(wanted)

    def reshape(self, shape: Sequence[int], unlink: bool = False) -> Variable:
        """The same values with another shape, one size may be -1; with `unlink`, cut from what computes them."""
        result: Variable = Calls.functions["Reshape"](self, shape)
        if not unlink:
            return result
        self.value.expose()
        data = NdArray.over(self.value.data.cell, result.shape)
        grad = NdArray.over(self.value.grad.cell, result.shape)
        return Variable.on(Value(result.shape, self.value.need_grad, data=data, grad=grad))

    def unlinked(self, need_grad: bool | None = None) -> Variable:
        """A leaf that shares this one's data and gradient; need_grad as given, else as set on this one."""
        flag = self.value.need_grad if need_grad is None else bool(need_grad)
        return Variable.on(self.value.unlinked(flag))

    def get_unlinked_variable(self, need_grad: bool | None = None) -> Variable:
        """A leaf that shares this one's data and gradient; need_grad as given, else as it is in effect here."""
        return self.unlinked(self.need_grad if need_grad is None else need_grad)

    def rewire_on(self, variable: Variable) -> None:
        """Make everything computed from this one be computed from `variable` instead; shapes must agree.

        This one takes the place of `variable` in its graph; `variable` keeps the arrays, as a leaf.

        Raises TypeError for what is no Variable, ValueError for another shape, or if `variable` is itself computed from
        this one.
        """
        if not isinstance(variable, Variable):
            raise TypeError(
                four_parts(
                    f"rewire_on {type(variable).__name__}", "not a Variable", "", "pass a Variable of this shape"
                )
            )
        if variable.value is self.value:  # not ==: of two that share their arrays one may be computed, the other a leaf
            return
        if any(self.value in function.inputs for function in functions_before(variable.value)):
            raise RefusedError(
                four_parts(
                    f"rewire_on a Variable of shape {variable.shape}",
                    "it is computed from this one: the graph would be a circle",
                    "",
                    "use a Variable that does not depend on this one",
                )
            )
        if variable.shape != self.shape:
            raise RefusedError(
                four_parts(
                    f"rewire_on a Variable of shape {variable.shape}",
                    f"this one has shape {self.shape}",
                    "",
                    "use a Variable of the same shape",
                )
            )
        self.value.become(variable.value)

    def visit(self, callback: Callable[[Function], Any]) -> None:
        """Call `callback` with every function of the graph before it, inputs first."""
        for function in functions_before(self.value):
            callback(Calls.function_on(function))

    def visit_check(self, callback: Callable[[Function], bool]) -> bool:
        """Like `visit`, stopping at the first true answer; whether there was one."""
        return any(callback(Calls.function_on(function)) for function in functions_before(self.value))

    @property
    def info(self) -> str:
        """One line about it."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Variable):
            raise TypeError(
                four_parts(
                    f"Variable == {type(other).__name__}",
                    "== compares identities of Variables",
                    "",
                    "compare values with .d, or elementwise with functions.equal_scalar",
                )
            )
        mine, theirs = self.value, other.value
        return mine is theirs or (mine.sharing is not None and mine.sharing is theirs.sharing)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        sharing = self.value.sharing
        return hash(self.value) if sharing is None else sharing.identity

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and `copy`: a leaf is one with the same values, dtype and `need_grad`, without its gradient.

        TypeError: it is computed; a recorded graph is neither pickled nor copied.
        """
        value = self.value
        if not value.is_leaf:
            raise TypeError(
                four_parts(
                    f"a pickle or a copy by `copy` of {self!r}",
                    "it is computed, and a recorded graph is neither pickled nor copied",
                    "leaves, such as parameters, are",
                    "take its values, `.d`; or record the graph again where it is needed, with the parameters of "
                    "nn.get_parameters() or of a file of nn.save_parameters",
                )
            )
        values = host_copy(value.data)
        if values is None:
            return type(self), (self.shape, value.need_grad)
        return type(self).from_numpy_array, (values, None, value.need_grad)

    def __repr__(self) -> str:
        return f"<Variable {list(self.shape)} need_grad={self.need_grad} at {hex(id(self.value))}>"


def refuse_communicators(function: str, callbacks: None) -> None:
    """NotImplementedError for callbacks of communicators, which NNabla has."""
    if callbacks is not None:
        raise NotImplementedError(
            four_parts(
                f"{function}(communicator_callbacks=...)",
                "there are no communicators",
                "",
                "leave the argument out",
            )
        )


def check_by_name(asked: str, given: Any) -> None:
    """TypeError for what are no Variables by name.

    asked: the call that was given them.
    """
    remedy = "pass Variables by name, such as nn.get_parameters()"
    if not isinstance(given, Mapping):
        wrong = "not a mapping from names to Variables"
        raise TypeError(four_parts(f"{asked}({type(given).__name__})", wrong, "", remedy))
    for key, variable in given.items():
        if not isinstance(variable, Variable):
            raise TypeError(four_parts(f"{asked}, {key!r}", f"got {type(variable).__name__}", "", remedy))
