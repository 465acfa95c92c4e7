"""PythonFunction: an op whose forward and backward are Python methods that the user writes."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.array import NdArray
from atled.arrays.cell import UNWRITTEN
from atled.call import Call, Prepared
from atled.calling.apply import apply
from atled.calling.auto_mode import auto_forward
from atled.dtypes import is_float
from atled.errors import RefusedError, four_parts
from atled.graph.nodes.dispatch import OpaqueOp
from atled.graph.record.value import Value
from atled.ops.spec import Attribute, Input
from atled.type_configs import compute_dtype
from atled.variable import Variable
from atled_contexts import Context, context_scope, get_current_context

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

Shapes = tuple[tuple[int, ...], ...]


class PythonFunction:
    """Base of functions that are written in Python: subclass it, and call an instance as a function.

        class Double(PythonFunction):
            @property
            def name(self):
                return "Double"

            def min_outputs(self):
                return 1

            def setup_impl(self, inputs, outputs):
                outputs[0].reset_shape(inputs[0].shape, True)

            def forward_impl(self, inputs, outputs):
                outputs[0].d = 2 * inputs[0].d

            def backward_impl(self, inputs, outputs, propagate_down, accum):
                if propagate_down[0]:
                    gx = 2 * outputs[0].g
                    inputs[0].g = inputs[0].g + gx if accum[0] else gx

        y = Double()(x)

    The methods get lists of Variables, whose `d` and `g` are NumPy arrays and whose `data` and `grad` are NdArrays to
    compute with. They hold the memory of the graph, so inputs are to be read only; in `setup_impl` they have no values.
    The object is the user's: what it keeps in its attributes in forward is there in backward.

    The gradient is opaque: it runs as part of backward, and cannot be differentiated once more.

    Args:
        ctx: Context in which calls are recorded and computed; None: the one in force at the call.
    """

    ctx: Context | None = None
    # Subclasses need not call our __init__, so all state has a default here.
    _shapes_set_up: Shapes | None = None

    def __init__(self, ctx: Context | None = None) -> None:
        self.ctx = ctx

    @property
    def name(self) -> str:
        """What listings and errors call it; the name of the class unless a subclass says otherwise."""
        return type(self).__name__

    def min_outputs(self) -> int:
        """How many outputs it has at least."""
        return 1

    def setup_impl(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Check the shapes of the inputs and give the outputs theirs by `reset_shape(shape, True)`."""
        raise NotImplementedError(_missing(self, "setup_impl(self, inputs, outputs)"))

    def forward_impl(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Write the data of all outputs."""
        raise NotImplementedError(_missing(self, "forward_impl(self, inputs, outputs)"))

    def backward_impl(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        propagate_down: Sequence[bool],
        accum: Sequence[bool],
    ) -> None:
        """Write the gradients of the inputs from those of the outputs.

        propagate_down: per input whether its gradient is asked for; the others are to be left alone.
        accum: per input whether to add to what its gradient holds, instead of replacing it.
        """
        raise NotImplementedError(_missing(self, "backward_impl(self, inputs, outputs, propagate_down, accum)"))

    def __call__(
        self,
        *inputs: Variable | NdArray,
        n_outputs: int = -1,
        auto_forward: bool | None = None,
        outputs: Sequence[NdArray | Variable] | None = None,
    ) -> Any:
        """Record the function on Variables, or compute it at once if an NdArray is among the inputs.

        n_outputs: how many outputs; -1: `min_outputs()`.
        auto_forward: whether to compute at the call; None: as `atled.auto_forward` says.
        outputs: arrays in which the results are to live.

        Returns a Variable or NdArray, a tuple of them for several outputs. Raises TypeError for other inputs or none,
        ValueError for fewer outputs than it has.
        """
        least = self.min_outputs()
        count = least if n_outputs < 0 else n_outputs
        if count < least:
            asked = f"{self._told_name()}(n_outputs={n_outputs})"
            raise RefusedError(
                four_parts(asked, f"its min_outputs() is {least}", "", "leave n_outputs out, or raise it")
            )
        context = (get_current_context() if self.ctx is None else self.ctx).frozen
        handle = Handle(self, count, context)
        with context_scope(context), _computing(auto_forward):
            results = apply(_spec_named(self._told_name()), inputs, {"handle": handle}, outputs)
        return results[0] if len(results) == 1 else results

    def _told_name(self) -> str:
        name: Any = self.name  # a property, an attribute or a method: all are in use
        return str(name() if callable(name) else name)

    def setup(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Run `setup_impl` on Variables."""
        with _named(self, "setup_impl"):
            self.setup_impl(inputs, outputs)
        self._shapes_set_up = tuple(variable.shape for variable in inputs)

    def forward(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Run `forward_impl` on Variables, with a setup before where their shapes are new."""
        if self._shapes_set_up != tuple(variable.shape for variable in inputs):
            # The object also served calls of other shapes, and its attributes may be made for those.
            self.setup(inputs, outputs)
        with _named(self, "forward_impl"):
            self.forward_impl(inputs, outputs)

    def backward(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], accum: Sequence[bool] | None = None
    ) -> None:
        """Run `backward_impl` on Variables, for the inputs with need_grad; accum None adds to all gradients."""
        with _named(self, "backward_impl"):
            propagate_down = [variable.need_grad for variable in inputs]
            self.backward_impl(inputs, outputs, propagate_down, [True] * len(inputs) if accum is None else list(accum))


def _missing(function: PythonFunction, method: str) -> str:
    return four_parts(
        f"{type(function).__name__}, a PythonFunction", f"it has no {method}", "", "define this method in the subclass"
    )


@contextlib.contextmanager
def _named(function: PythonFunction, method: str) -> Iterator[None]:
    """What the user's code raises passes through with a note on whose code it is."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {method} of the PythonFunction {function._told_name()}")
        raise


def _computing(auto: bool | None) -> contextlib.AbstractContextManager[object]:
    return contextlib.nullcontext() if auto is None else auto_forward(auto)


_handle_numbers = itertools.count(1)
_handles: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()


class Handle(float):
    """One call of a PythonFunction as a run-time attribute: a number by which the step of a plan finds the object.

    Run-time values are no part of a plan, so that all objects of one name and shapes share one: a dynamic graph that
    makes a new object at each step compiles once, and no plan keeps an object alive. The recorded call does.
    """

    function: PythonFunction
    output_count: int
    context: Context
    _output_shapes: dict[Shapes, Shapes]

    def __new__(cls, function: PythonFunction, output_count: int, context: Context) -> Handle:
        number = next(_handle_numbers)
        handle = super().__new__(cls, number)
        handle.function = function
        handle.output_count = output_count
        handle.context = context
        handle._output_shapes = {}
        _handles[number] = handle
        return handle

    def output_shapes(self, shapes: Sequence[tuple[int, ...]]) -> Shapes:
        """What `setup_impl` says of inputs of these shapes; asked once."""
        known = self._output_shapes.get(tuple(shapes))
        if known is None:
            outputs = [Variable() for _ in range(self.output_count)]
            self.function.setup([Variable(shape) for shape in shapes], outputs)
            known = self._output_shapes[tuple(shapes)] = tuple(variable.shape for variable in outputs)
        return known


_HANDLE = Attribute("handle", "float", hidden=True)


class PythonOp(OpaqueOp, abstract=True):
    """What forward and backward of a PythonFunction share; made per name, and in no table of op specs.

    handle: which call of which object.
    """

    category = "python"
    inputs = (Input("x", kind="keep", variadic=True),)
    outputs = ("y...",)

    def prepare(self, call: Call) -> Prepared:
        """`run(*NdArrays, handle)`."""
        count = len(call.inputs)

        def run(*arguments: Any) -> None:
            *arrays, number = arguments
            handle = _handles[int(number)]
            with context_scope(handle.context):
                self.run(handle.function, arrays[:count], arrays[count:], call.attributes)

        return Prepared(run)

    def run(
        self,
        function: PythonFunction,
        inputs: Sequence[NdArray],
        outputs: Sequence[NdArray],
        attributes: Mapping[str, Any],
    ) -> None:
        """Write the outputs."""
        raise NotImplementedError


class OpaqueForward(PythonOp, abstract=True):
    """`forward_impl` of a PythonFunction.

    Args:
        x: any arrays, in their own dtypes.
        output_shapes: what `setup_impl` gave.
        dtype: that of the outputs: the type config's.
    """

    attributes = (
        _HANDLE,
        Attribute("output_shapes", "ints", hidden=True),
        Attribute("dtype", "dtype", hidden=True),
    )

    def __init__(self, name: str, doc: str | None = None) -> None:
        super().__init__(name, doc)
        self.backward = OpaqueBackward(f"{name}Grad", doc)

    def check_attributes(self, given: Mapping[str, Any], inputs: Sequence[ArrayDesc | None]) -> dict[str, Any]:
        handle = given["handle"]
        return {
            "handle": handle,
            "output_shapes": handle.output_shapes([desc.shape for desc in inputs if desc is not None]),
            "dtype": compute_dtype(handle.context.backends[0][1]),
        }

    def for_shapes(self, attributes: Mapping[str, Any], shapes: Sequence[tuple[int, ...] | None]) -> Mapping[str, Any]:
        handle = attributes["handle"]
        given = [shape for shape in shapes if shape is not None]
        return {**attributes, "output_shapes": handle.output_shapes(given)}

    def infer(self, *x: ArrayDesc, output_shapes: Shapes, dtype: np.dtype) -> Sequence[ArrayDesc]:
        return [ArrayDesc(shape, dtype) for shape in output_shapes]

    def gradient(self, g: GradientCall, *x: IRValue, handle: Any, **_: Any) -> Sequence[IRValue | None]:
        arrays = [*x, *g.outputs, *(g.cotangent(position) for position in range(len(g.outputs)))]
        attributes = {"handle": handle, "propagate_down": g.needs}
        made = iter(g.add(self.backward, arrays, attributes))
        return [next(made) if need else None for need in g.needs]

    def run(
        self,
        function: PythonFunction,
        inputs: Sequence[NdArray],
        outputs: Sequence[NdArray],
        attributes: Mapping[str, Any],
    ) -> None:
        results = [_variable(array) for array in outputs]
        function.forward([_variable(array) for array in inputs], results)
        for array, result in zip(outputs, results, strict=True):
            _take(function, array, result.data)


class OpaqueBackward(PythonOp, abstract=True):
    """`backward_impl` of a PythonFunction.

    Args:
        x: the inputs of the function, its outputs, the gradients of those.
        propagate_down: per input of the function whether its gradient is an output here.
    """

    no_gradient = "raises"
    attributes = (_HANDLE, Attribute("propagate_down", "ints", hidden=True))

    def infer(self, *x: ArrayDesc, propagate_down: tuple[bool, ...]) -> Sequence[ArrayDesc]:
        asked = [desc for desc, need in zip(x, propagate_down, strict=False) if need]
        # The gradient of whole numbers is computed as that of the outputs is.
        return [desc if is_float(desc.dtype) else desc.astype(x[-1].dtype) for desc in asked]

    def run(
        self,
        function: PythonFunction,
        inputs: Sequence[NdArray],
        outputs: Sequence[NdArray],
        attributes: Mapping[str, Any],
    ) -> None:
        propagate_down = attributes["propagate_down"]
        count = len(propagate_down)
        made = iter(outputs)
        xs = []
        for x, need in zip(inputs, propagate_down, strict=False):
            gradient = next(made) if need else None
            if gradient is not None:
                gradient.cell.pending = (
                    UNWRITTEN  # code that forgets to ask for `accum`, or writes nothing, meets zeros
                )
            xs.append(_variable(x, gradient, need))
        rest = inputs[count:]
        half = len(rest) // 2
        ys = [_variable(y, gy) for y, gy in zip(rest[:half], rest[half:], strict=True)]
        function.backward(xs, ys, [False] * count)
        for gradient, result in zip(outputs, (x.grad for x in xs if x.need_grad), strict=True):
            _take(function, gradient, result)


def _variable(data: NdArray, grad: NdArray | None = None, need_grad: bool = False) -> Variable:
    return Variable.on(Value(data.shape, need_grad, data=data, grad=grad))


def _take(function: PythonFunction, array: NdArray, result: NdArray) -> None:
    """Copy a result into the plan's array if the user's code replaced the array that it was given."""
    if result.shape != array.shape:
        raise RefusedError(
            four_parts(
                f"the PythonFunction {function._told_name()}",
                f"it gave a result of shape {result.shape} where setup_impl said {array.shape}",
                "",
                "set the shapes of outputs in setup_impl only",
            )
        )
    if result.cell is not array.cell:
        array.copy_from(result)


_specs: dict[str, OpaqueForward] = {}


def _spec_named(name: str) -> OpaqueForward:
    spec = _specs.get(name)
    if spec is None:
        spec = _specs.setdefault(name, OpaqueForward(name, f"The PythonFunction {name}."))
    return spec
