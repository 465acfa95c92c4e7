"""What a user's graph is made of: values (arrays), and the recorded calls that make them."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from atled.arrays.array import NdArray
from atled.arrays.cell import ArrayCell, Filled, Recipe, Use
from atled.arrays.epoch import EPOCH, WRITES
from atled.arrays.watches import WATCHES, announce
from atled.errors import four_parts
from atled.graph.record.inference import infer_shapes
from atled.graph.record.random_state import new_random_state
from atled.ops.spec import OpSpec
from atled_contexts import Context, lock_across_forks


class Sharing:
    """Values over the same arrays (`unlinked`, `rewire_on`): an array set on one of them is set on all.

    identity: their common hash, that of the first one.
    """

    __slots__ = ("identity", "values")

    def __init__(self, first: Value) -> None:
        self.values = weakref.WeakSet((first,))
        self.identity = hash(first)


_MAKING = lock_across_forks()
_UNUSED = Use.NONE


class RecipeOfValues(Protocol):
    """The recipe of all values that one run computed and did not store."""

    def of_value(self, value: Value) -> Recipe:
        """The recipe for the cell that is made for one of them."""


Extra = tuple[Mapping[str, float] | None, Sequence[ArrayCell | None] | None, ArrayCell | None]
"""Float attributes by name, cells that a call keeps by output, and a random state."""


class Details:
    """The attributes that few values set, apart so that the values of a graph built again at every step cost little.

    See `Value` for what each is.

    is_shared: whether several values have this one, as long as none of them sets anything.
    is_given: whether its data or gradient is an array that was put there, which may be another value's, too.
    """

    __slots__ = (
        "data",
        "exposed",
        "grad",
        "gradient_recipe",
        "is_given",
        "is_shared",
        "need_grad",
        "parent",
        "persistent",
        "position",
        "roots",
        "sharing",
        "value_recipe",
    )

    def __init__(
        self,
        need_grad: bool | None = None,
        parent: RecordedCall | None = None,
        position: int = 0,
        data: NdArray | None = None,
        grad: NdArray | None = None,
        gradient_recipe: Recipe | None = None,
        value_recipe: RecipeOfValues | None = None,
        is_shared: bool = False,
    ) -> None:
        self.need_grad = need_grad
        self.parent = parent
        self.position = position
        self.data = data
        self.grad = grad
        self.gradient_recipe = gradient_recipe
        self.value_recipe = value_recipe
        self.is_shared = is_shared
        self.is_given = grad is not None
        self.persistent = False
        self.exposed = False
        self.roots: Any = None
        self.sharing: Sharing | None = None

    def own_copy(self) -> Details:
        """The same for one value."""
        assert self.roots is None and self.sharing is None and not self.is_given, "only what is new is shared"
        arrays = self.data, self.grad, self.gradient_recipe, self.value_recipe
        return Details(self.need_grad, self.parent, self.position, *arrays)


PLAIN = Details(is_shared=True)
"""The details of values that have set none."""


def _detail(name: str) -> property:
    """A property that is kept in the details."""

    def set_to(value: Value, item: Any) -> None:
        setattr(value.own_details(), name, item)

    return property(operator.attrgetter(f"details.{name}"), set_to)


class Value:
    """One array of a recorded graph; `Variable` is the user's handle on it.

    shape: sizes per axis.  position: which output of its parent it is.
    need_grad: True or False as set by the user, None if not set.
    persistent: whether its data and gradient must survive every clearing of buffers.
    exposed: whether a user got at its arrays, or will, so that plans must store data and gradient.
    handle: the live Variable on it, if there is one.
    sharing: the values that have the same arrays, None where it is the only one.
    gradient_recipe: how to get a gradient for which there is no array yet; None where nothing is known of one.
    value_recipe: how to get values that were computed and not stored, for which there is no cell yet; None for others.
    roots: the record of it as a root (`atled.graph.record.roots`), None before it is one.
    pattern, inputs, extra: of the result of a call that was recorded from a pattern: the call but for its inputs, the
        inputs, and, if there is any of it, the float attributes by name (None: those of the pattern), per output the
        cell that keeps what the gradient needs (None: there are none), and the random state. All are None for other
        values, and once `parent` was read: it is made of them then.
    """

    __slots__ = (
        "__weakref__",
        "_cell",
        "details",
        "extra",
        "handle",
        "inputs",
        "pattern",
        "shape",
    )

    exposed = _detail("exposed")
    gradient_recipe = _detail("gradient_recipe")
    need_grad = _detail("need_grad")
    persistent = _detail("persistent")
    position = _detail("position")
    roots = _detail("roots")
    sharing = _detail("sharing")
    value_recipe = _detail("value_recipe")

    def __init__(
        self,
        shape: tuple[int, ...],
        need_grad: bool | None = None,
        parent: RecordedCall | None = None,
        position: int = 0,
        data: NdArray | None = None,
        grad: NdArray | None = None,
    ) -> None:
        self.shape = shape
        self.pattern: RecordedCall | None = None
        self.inputs: tuple[Value | None, ...] | None = None
        self.extra: Extra | None = None
        self.handle: weakref.ref[Any] | None = None
        self.details = Details(need_grad, parent, position, data, grad)
        # The cell of `data`, which is made from it when it is asked for.
        self._cell = None if data is None else data.cell

    def own_details(self) -> Details:
        """The details, to be changed."""
        details = self.details
        if details.is_shared:
            with _MAKING:
                details = self.details
                if details.is_shared:
                    details = self.details = details.own_copy()
        return details

    @property
    def is_leaf(self) -> bool:
        """Whether nothing computes it."""
        return self.pattern is None and self.details.parent is None

    @property
    def parent(self) -> RecordedCall | None:
        """The recorded call that makes it; None for a leaf."""
        parent: RecordedCall | None = self.details.parent if self.pattern is None else self._made_parent()
        return parent

    @parent.setter
    def parent(self, function: RecordedCall | None) -> None:
        self.own_details().parent = function
        self.pattern = self.inputs = self.extra = None  # the pattern first: see `walked.walk`

    def _made_parent(self) -> RecordedCall | None:
        with _MAKING:
            pattern, inputs = self.pattern, self.inputs
            floats, saved, random_state = self.extra or (None, None, None)
            if pattern is not None and inputs is not None:
                function = pattern.copy_on(inputs, {**pattern.attributes, **floats} if floats else pattern.attributes)
                function.outputs = [weakref.ref(self)]
                if saved is not None:
                    function.auxiliary = list(saved)
                function.random_state = random_state
                self.parent = function
        return self.details.parent

    @property
    def cell(self) -> ArrayCell:
        """The cell of `data`."""
        cell = self._cell
        if cell is None:
            recipe = self.details.value_recipe
            if recipe is not None:
                return self._unstored_cell(recipe)
            cell = self._cell = ArrayCell(math.prod(self.shape))
        return cell

    def _unstored_cell(self, recipe: RecipeOfValues) -> ArrayCell:
        """The cell of values that were computed and not stored: one, also where several threads ask for it."""
        with _MAKING:
            if self._cell is None:
                cell = ArrayCell(math.prod(self.shape))
                cell.pending = recipe.of_value(self)
                self._cell = cell
            known: ArrayCell = self._cell
            return known

    @property
    def data(self) -> NdArray:
        """The values."""
        array = self.details.data
        if array is None:
            array = self.own_details().data = NdArray.over(self.cell, self.shape)
        return array

    @data.setter
    def data(self, array: NdArray) -> None:
        self._announce()
        array.cell.last_write = next(WRITES)
        for value in self._sharers():
            details = value.own_details()
            details.data = array
            details.is_given = True
            value._cell = array.cell
        EPOCH.bump()

    @property
    def grad(self) -> NdArray:
        """The gradient."""
        array = self.details.grad
        if array is None:
            details = self.own_details()
            cell = ArrayCell(math.prod(self.shape))
            if details.gradient_recipe is not None:
                cell.pending = details.gradient_recipe
            array = details.grad = NdArray.over(cell, self.shape)
        return array

    @grad.setter
    def grad(self, array: NdArray) -> None:
        for value in self._sharers():
            details = value.own_details()
            details.grad = array
            details.is_given = True
        EPOCH.bump()

    @property
    def grad_is_in_use(self) -> bool:
        """Whether plans or views have the memory of the gradient."""
        grad = self.details.grad
        return grad is not None and (grad.cell.use is not _UNUSED or grad.cell.has_live_view)

    def leave_gradient_unstored(self, recipe: Recipe) -> bool:
        """Note how to get the gradient, unless there is an array for it; whether it was noted."""
        if self.details.grad is not None or self.details.gradient_recipe is not None:
            return False
        self.own_details().gradient_recipe = recipe
        return True

    @property
    def is_stored(self) -> bool:
        """Whether a user may read its data and gradient, which need memory of their own in plans then."""
        handle, details = self.handle, self.details
        if details.exposed or details.persistent or details.sharing is not None:
            return True
        return handle is not None and handle() is not None

    def expose(self) -> None:
        """A user gets at the arrays: from now on plans store them, even if the Variable is gone."""
        if self.is_leaf or self.exposed:
            return
        self.exposed = True
        cells = [array.cell for array in (self.details.data, self.details.grad) if array is not None]
        if self._cell is None and self.details.value_recipe is not None:
            cells.append(self.cell)
        recipes = [self.gradient_recipe, *(cell.pending for cell in cells if cell.is_unstored)]
        for recipe in recipes:
            if recipe is not None and not isinstance(recipe, Filled):
                recipe.hold()
                EPOCH.bump()

    def reset_shape(self, shape: tuple[int, ...]) -> None:
        """Take another shape; new arrays where the size changes."""
        same = math.prod(self.shape) == math.prod(shape)
        if self._cell is not None or self.details.value_recipe is not None:
            self._announce()
            data = NdArray.over(self.cell, shape) if same else NdArray(shape)
            data.cell.last_write = next(WRITES)
            for value in self._sharers():
                value.own_details().data = data
                value._cell = data.cell
        if self.details.grad is not None:
            grad = NdArray.over(self.details.grad.cell, shape) if same else NdArray(shape)
            for value in self._sharers():
                value.own_details().grad = grad
        for value in self._sharers():
            value.shape = shape
            value.gradient_recipe = None
        EPOCH.bump()

    def unlinked(self, need_grad: bool | None) -> Value:
        """A leaf that has the same arrays."""
        self.expose()
        value = Value(self.shape, need_grad)
        value._share_with(self)
        return value

    def become(self, other: Value) -> None:
        """Take the place of `other`: its arrays, parent and flags. `other` keeps the arrays, as a leaf."""
        self._announce()
        if self.sharing is not None:
            self.sharing.values.discard(self)
        other.expose()
        self.shape = other.shape
        self._share_with(other)
        # For values that were computed from this one that is a write.
        self.data.cell.last_write = next(WRITES)
        self.parent = other.parent
        self.position = other.position
        self.need_grad = other.need_grad
        if other.parent is not None:
            other.parent.outputs[other.position] = weakref.ref(self)
            other.parent = None
        for value in (self, other):
            value.roots = value.gradient_recipe = None
        EPOCH.bump()

    def _share_with(self, other: Value) -> None:
        if other.sharing is None:
            other.sharing = Sharing(other)
        self.sharing = other.sharing
        self.sharing.values.add(self)
        self._cell = other.cell
        details = self.own_details()
        details.data = other.data
        details.grad = other.grad
        details.gradient_recipe = None

    def _announce(self) -> None:
        """Announce a write of the present array: for graphs, to replace it is one."""
        if WATCHES and self._cell is not None:
            announce((id(self._cell),))

    def _sharers(self) -> Sequence[Value]:
        return (self,) if self.sharing is None else tuple(self.sharing.values)


def float_of(pattern: RecordedCall, extra: Extra | None, name: str) -> float:
    """A float attribute of a call that was recorded from a pattern."""
    number: float = extra[0][name] if extra is not None and extra[0] else pattern.attributes[name]
    return number


class RecordedValue(Value):
    """The result of a call that was recorded from a pattern. Its maker sets all fields, details to PLAIN."""

    __slots__ = ()
    __init__ = object.__init__  # no arguments; `Value.__new__(Value)` takes twice as long


class RecordedCall:
    """One recorded op call: inputs, attributes, Context, and the state of its last forward.

    inputs: the values it was called with, None where an optional one is absent.
    outputs: weak references to the values it makes: those that the user sees, then, where a recorded gradient asked for
        them, the auxiliary ones.
    shapes: of the inputs, for which `output_descs` and `kind` hold.
    auxiliary: per output (the user's first), the cell that keeps what the gradient needs; None for plain outputs.
    random_state: the random state's cell, or None.
    """

    __slots__ = (
        "__weakref__",
        "attributes",
        "auxiliary",
        "context",
        "inputs",
        "kind",
        "output_descs",
        "outputs",
        "random_state",
        "shapes",
        "spec",
        "visible",
    )

    def __init__(
        self, spec: OpSpec, inputs: Sequence[Value | None], attributes: Mapping[str, Any], context: Context
    ) -> None:
        self.spec = spec
        self.context = context
        self.inputs = tuple(inputs)
        self.attributes: dict[str, Any] = dict(attributes)
        self.random_state = self._new_random_state()
        self.outputs: list[weakref.ref[Value]] = []
        self.infer([None if value is None else value.shape for value in self.inputs])

    @property
    def mutated(self) -> tuple[int, ...]:
        """The positions of the inputs that it changes in place, but for those that are outputs, too."""
        return self.spec.mutated_with(self.attributes)

    def copy_on(self, inputs: tuple[Value | None, ...], attributes: dict[str, Any]) -> RecordedCall:
        """The same call on inputs of the same shapes, no outputs made yet, and without the state that it keeps."""
        function = RecordedCall.__new__(RecordedCall)
        function.spec = self.spec
        function.context = self.context
        function.inputs = inputs
        function.attributes = attributes
        function.random_state = None
        function.outputs = []
        function.kind = self.kind
        function.shapes = self.shapes
        function.output_descs = self.output_descs
        function.visible = self.visible
        function.auxiliary = [None] * len(self.output_descs)
        return function

    def again_on(self, inputs: tuple[Value | None, ...], floats: Mapping[str, float] | None = None) -> RecordedCall:
        """The same call on inputs of the same shapes, with state of its own; not of an op that has states.

        floats: attributes in the place of its own ones.
        """
        function = self.copy_on(inputs, {**self.attributes, **floats} if floats else self.attributes)
        function.auxiliary = self._new_auxiliary()
        function.random_state = self._new_random_state()
        return function

    def recorded_on(self, inputs: tuple[Value | None, ...], floats: Mapping[str, float] | None = None) -> Value:
        """The only visible result of the same call on inputs of the same shapes, with the call as its pattern.

        Not of an op that has states.  floats: attributes in the place of its own ones.
        """
        spec = self.spec
        value = RecordedValue()
        value.shape = self.output_descs[0].shape
        value.pattern = self
        value.inputs = inputs
        value.extra = (floats, None, None) if floats else None
        value.handle = None
        value.details = PLAIN
        value._cell = inputs[0].cell if spec.views and inputs[0] is not None else None
        is_saving = spec.auxiliary or spec.saved_positions
        if is_saving or spec.random:
            saved = self._new_auxiliary() if is_saving else None
            value.extra = (floats, saved, self._new_random_state())
            value._cell = value._cell or (saved and saved[0])
        return value

    def moved_to(self, inputs: Sequence[Value | None], outputs: Sequence[Value]) -> RecordedCall:
        """The same call, with the state that it keeps, as if it had made the given values of the given ones."""
        function = self.copy_on(tuple(inputs), self.attributes)
        function.random_state = self.random_state
        function.auxiliary = self.auxiliary
        function.outputs = [weakref.ref(value) for value in outputs]
        return function

    def infer(self, shapes: Sequence[tuple[int, ...] | None]) -> None:
        """Work out output shapes for input shapes; the op's own error if they do not fit."""
        descs, self.kind = infer_shapes(self.spec, shapes, self.attributes, self.context)
        self.shapes = tuple(shapes)
        self.output_descs = descs
        self.visible = self.spec.visible_count(len(descs), self.attributes)
        self.auxiliary = self._new_auxiliary()

    def _new_random_state(self) -> ArrayCell | None:
        return new_random_state(self.attributes.get("seed", -1)) if self.spec.random else None

    def _new_auxiliary(self) -> list[ArrayCell | None]:
        """A cell for each output that the call keeps."""
        descs, spec = self.output_descs, self.spec
        cells: list[ArrayCell | None] = [None] * len(descs)
        if spec.auxiliary or spec.saved_positions:
            for position in (*range(len(descs) - len(spec.auxiliary), len(descs)), *spec.saved_positions):
                cells[position] = ArrayCell(descs[position].size)
        return cells

    def setup(self, shapes: Sequence[tuple[int, ...] | None]) -> bool:
        """Make ready for inputs of these shapes; whether that changed anything."""
        attributes = self.spec.for_shapes(self.attributes, shapes)
        # Not by the kind: one that was forgotten meanwhile has another number, and what the call keeps would be lost.
        if tuple(shapes) == self.shapes and attributes == self.attributes:
            return False
        self.attributes = dict(attributes)
        self.infer(shapes)
        return True

    def shapes_for(self, shapes: Sequence[tuple[int, ...] | None]) -> list[tuple[int, ...]]:
        """The output shapes for inputs of these shapes, auxiliary ones included; changes nothing."""
        attributes = self.spec.for_shapes(self.attributes, shapes)
        descs, _ = infer_shapes(self.spec, shapes, attributes, self.context)
        return [desc.shape for desc in descs]

    def make_outputs(self, arrays: Sequence[NdArray] | None = None) -> list[Value]:
        """The values of the visible outputs, made once when the op is called; arrays: where they are to live."""
        values = []
        for position in range(self.visible):
            desc = self.output_descs[position]
            data = None
            cell = self.auxiliary[position]
            if self.spec.views and self.inputs[0] is not None:
                data = NdArray.over(self.inputs[0].data.cell, desc.shape)
            elif arrays is not None:
                data = arrays[position]
                if cell is not None:
                    self.auxiliary[position] = data.cell
            elif cell is not None:
                data = NdArray.over(cell, desc.shape)
            value = Value(desc.shape, None, self, position, data)
            value.exposed = arrays is not None
            values.append(value)
        self.outputs = [weakref.ref(value) for value in values]
        return values

    def output_value(self, position: int) -> Value:
        """The value of an output, auxiliary ones included; a new one where the former is gone."""
        while len(self.outputs) <= position:
            self.outputs.append(weakref.ref(self._remade(len(self.outputs))))
        value = self.outputs[position]()
        if value is None:
            value = self._remade(position)
            self.outputs[position] = weakref.ref(value)
        return value

    def _remade(self, position: int) -> Value:
        desc = self.output_descs[position]
        cell = self.auxiliary[position]
        if self.spec.views and self.inputs[0] is not None:
            cell = self.inputs[0].data.cell
        return Value(desc.shape, None, self, position, None if cell is None else NdArray.over(cell, desc.shape))

    def live_outputs(self) -> list[Value | None]:
        """The output values that still exist."""
        return [reference() for reference in self.outputs]

    def refresh(self) -> None:
        """Update shapes after an input changed its shape, and the cells that outputs share after one was replaced.

        Raises RuntimeError if an output was given a shape that the function does not make.
        """
        changed = self.setup([None if value is None else value.shape for value in self.inputs])
        for position, value in enumerate(self.live_outputs()):
            if value is None:
                continue
            desc = self.output_descs[position]
            if value.shape != desc.shape:
                if not changed:
                    raise RuntimeError(
                        four_parts(
                            f"{self.spec.name} into a Variable of shape {value.shape}",
                            f"it makes {desc.shape}; the Variable got the other shape by reset_shape",
                            "",
                            "call reset_shape on the inputs of the graph only",
                        )
                    )
                value.reset_shape(desc.shape)
            cell = self.auxiliary[position]
            if self.spec.views and self.inputs[0] is not None:
                cell = self.inputs[0].data.cell
            if cell is None or value.data.cell is cell:
                continue
            if changed or self.spec.views:
                value.data = NdArray.over(cell, desc.shape)
            else:
                self.auxiliary[position] = value.data.cell
