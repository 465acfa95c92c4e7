"""Elementwise ops: one row each, a scalar formula and its derivatives; their gradients are elementwise ops again.

The gradient of a row with respect to an input is an op of its own, named after both: `ELUGradX` is the gradient of
`ELU` with respect to `x`. Its inputs are those of (gy, inputs, y) that the derivative formula uses. It enters `SPECS`
when it is first needed, and so does the gradient of a gradient, whose formula comes from `formula.derivative`;
`derived_spec` makes any of them from the name alone. A derivative that is a product with `gy` needs no op of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import four_parts, nearest
from atled.ops.formula import Apply, Expr, Name, Number, Program, derivative, multiply, name, number, parse_formula
from atled.ops.samples import Away, Data, Grid, Normal, Refused, Sample, Uniform
from atled.ops.spec import REQUIRED, SPECS, Attribute, Input, OpSpec, register
from atled_contexts import lock_across_forks

if TYPE_CHECKING:
    from atled.ops.rules import GradientCall, IRValue

MakeData = Callable[[Sequence[int]], Data]

_TRUTH: np.dtype[Any] = np.dtype(np.bool_)

DERIVED = "derived"
"""In place of a gradient formula: the derivative of the op's own formula, times gy."""


def away(*points: float) -> MakeData:
    """Sample data that keeps away from the kinks of a formula."""
    return lambda shape: Away(shape, *points)


def within(low: float, high: float) -> MakeData:
    """Sample data in the domain of a formula."""
    return lambda shape: Uniform(shape, low, high)


def grid(offset: float = 0.0, step: float = 0.5) -> MakeData:
    """Sample data for comparisons of two inputs: equal offsets make ties, different ones avoid them."""
    return lambda shape: Grid(shape, offset, step)


class ProgramOp(OpSpec, abstract=True):
    """An op that computes `program` for each element of its inputs, which broadcast as in NumPy.

    number_kinds: the run-time attributes that are whole numbers (int) or truth values (bool), which NumPy's promotion
        tells from floats.
    """

    number_kinds: Mapping[str, type] = {}

    def infer(self, *inputs: ArrayDesc, **attributes: Any) -> ArrayDesc | Sequence[ArrayDesc]:
        shape = inputs[0].shape
        if any(x.shape != shape for x in inputs):
            try:
                shape = np.broadcast_shapes(*(x.shape for x in inputs))
            except ValueError:
                shapes = " and ".join(str(x.shape) for x in inputs)
                raise self.error(
                    inputs,
                    f"the shapes {shapes} do not broadcast",
                    "make the sizes of each axis equal, or 1; axes are counted from the last",
                ) from None  # NumPy's own message says the same
        return tuple(ArrayDesc(shape, inputs[self.leading].dtype) for _ in self.outputs)

    def computed_in(self, inputs: Sequence[np.dtype]) -> np.dtype | None:
        dtype = inputs[self.leading]
        return dtype if dtype.kind in "iub" and self.integers == "exact" else None

    @property
    def leading(self) -> int:
        """The position of the first input that has the dtype of what is computed."""
        return next((position for position, item in enumerate(self.inputs) if item.kind != "truth"), 0)

    def operand_dtype(self, inputs: Sequence[ArrayDesc | None]) -> np.dtype | None:
        from atled.ops.promotion import formula_dtype  # most processes compute under type configs alone

        if self.inplace or any(desc is None for desc in inputs):
            return super().operand_dtype(inputs)
        assert self.program is not None
        dtypes = [_TRUTH if item.kind == "truth" else x.dtype for item, x in zip(self.inputs, inputs, strict=True)]
        return formula_dtype(self.program, dtypes, self.number_kinds, predicate=self.predicate)

    def reference(self, *inputs: np.ndarray, **attributes: Any) -> Sequence[np.ndarray]:
        dtype = inputs[self.leading].dtype
        outputs = []
        for result in self.results(*inputs, **attributes):
            output = np.empty(result.shape, dtype)
            with np.errstate(over="ignore"):  # a large number becomes inf in a narrow dtype
                output[...] = result
            outputs.append(output)
        return outputs

    def results(self, *inputs: np.ndarray, **attributes: Any) -> Sequence[np.ndarray]:
        """The outputs in the dtype in which they are computed."""
        # Imported here because most processes compute on a backend and never write a formula as NumPy.
        from atled.ops.formula_numpy import compile_numpy

        assert self.program is not None
        values = [attributes[attribute] for attribute in self.program.attributes]
        compute = self.computed_in([x.dtype for x in inputs])
        results = compile_numpy(self.program, compute)(*inputs, *values)
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        return [np.broadcast_to(result, shape) for result in results]


class Row:
    """One line of a table of elementwise ops.

    name: of the op.  function: in `atled.functions`.
    y: formula of the output in inputs and attributes.
    gradients: for each input, in order, the formula of its gradient in gy, inputs, y and attributes; DERIVED for what
        follows from `y`; None where nothing flows.
    attributes: defaults by name; a bool stays one, everything else is a run-time float; REQUIRED has no default.
    doc: what it computes, in a line or two; where it is not plain from the formula, what happens at kinks.
    data: how to make sample data, for inputs that must keep to a domain or off a kink.
    tried: attribute values for samples.
    surrogate: the gradient is not the derivative (straight-through estimators), so samples do not compare them.
    raises: inputs whose gradient is an error.  no_gradient: as in OpSpec.  equal_shapes: refuses to broadcast.
    brief: one sample, for a row whose formula has nothing that others have not.
    predicate: y is a truth value, bool where dtypes follow from operands.  truths: inputs that are (`Input`).
    """

    __slots__ = (
        "attributes", "brief", "data", "doc", "equal_shapes", "function", "gradients", "name", "no_gradient",
        "predicate", "raises", "surrogate", "tried", "truths", "y",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        function: str,
        y: str,
        gradients: Mapping[str, str | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        doc: str,
        data: Mapping[str, MakeData] | None = None,
        tried: Mapping[str, Any] | None = None,
        surrogate: bool = False,
        raises: Sequence[str] = (),
        no_gradient: str = "",
        equal_shapes: bool = False,
        brief: bool = False,
        predicate: bool = False,
        truths: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.function = function
        self.y = y
        self.gradients = gradients
        self.attributes = attributes or {}
        self.doc = doc
        self.data = data or {}
        self.tried = tried or {}
        self.surrogate = surrogate
        self.raises = raises
        self.no_gradient = no_gradient
        self.equal_shapes = equal_shapes
        self.brief = brief
        self.predicate = predicate
        self.truths = truths


def define(module: str, category: str, rows: Sequence[Row]) -> None:
    """Register one op spec per row of a family.

    module: the family's `__name__`.
    """
    for row in rows:
        register(Elementwise(row, category, module=module))


class Elementwise(ProgramOp, abstract=True):
    """An elementwise op made from a `Row`."""

    def __init__(self, row: Row, category: str, output: str = "y", *, module: str) -> None:
        self.row = row
        self._gradient_formulas: dict[str, Expr | None] = {}
        # By `vars`, because function and category are class variables elsewhere: here each instance is an op.
        vars(self).update(function=row.function, category=category, predicate=row.predicate)
        self.inputs = tuple(
            Input(x, gradient=self._flow(row, x), kind="truth" if x in row.truths else "compute") for x in row.gradients
        )
        self.attributes = tuple(
            Attribute(key, "bool" if isinstance(default, bool) else "float", default)
            for key, default in row.attributes.items()
        )
        self.outputs = (output,)
        self.no_gradient = row.no_gradient
        super().__init__(row.name, _describe(row, output))
        self.module = module

    @staticmethod
    def _flow(row: Row, x: str) -> str:
        if x in row.raises:
            return "raises"
        return "flows" if row.gradients[x] is not None or row.no_gradient else "none"

    @cached_property
    def program(self) -> Program:  # type: ignore[override]  # computed, because tables must import quickly
        return Program(self.input_names, self.float_names, ((self.outputs[0], self.row.y),))

    @cached_property
    def integers(self) -> str:  # type: ignore[override]  # computed from the formula
        """ "exact" where every part of the formula is one of integers: NumPy computes it in their dtype."""
        inputs = [ArrayDesc((), _TRUTH if item.kind == "truth" else np.int32) for item in self.inputs]
        dtype = self.operand_dtype(inputs)
        assert dtype is not None
        return "exact" if dtype.kind in "iub" else "float"

    def infer(self, *inputs: ArrayDesc, **attributes: Any) -> ArrayDesc | Sequence[ArrayDesc]:
        if self.row.equal_shapes and any(x.shape != inputs[0].shape for x in inputs):
            raise self.error(inputs, "the shapes differ", "use add2, which broadcasts, or equal shapes")
        return super().infer(*inputs, **attributes)

    # Gradients.

    @property
    def cotangent_name(self) -> str:
        """What gradient formulas call the cotangent of the output: gy."""
        return "gy"

    def gradient_formula(self, wrt: str) -> Expr | None:
        """The gradient with respect to the input `wrt` as a formula; None where it is zero."""
        if wrt not in self._gradient_formulas:
            formula = self._derive(wrt)
            zero = isinstance(formula, Number) and formula.value == 0
            self._gradient_formulas[wrt] = None if zero else formula
        return self._gradient_formulas[wrt]

    def _derive(self, wrt: str) -> Expr | None:
        text = self.row.gradients[wrt]
        if text != DERIVED:
            return None if text is None else parse_formula(text)
        assert self.program is not None
        return multiply(name(self.cotangent_name), derivative(self.program.expressions[0], wrt))

    def gradient(self, g: GradientCall, *inputs: IRValue | None, **attributes: Any) -> Sequence[IRValue | None]:
        values = dict(zip(self.input_names, inputs, strict=True))
        gradients: list[IRValue | None] = []
        for needed, (wrt, x) in zip(g.needs, values.items(), strict=True):
            formula = self.gradient_formula(wrt) if needed and x is not None else None
            if formula is None or x is None:
                gradients.append(None)
            else:
                gradients.append(g.sum_to(self._apply_gradient(g, wrt, formula, values, attributes), x.shape))
        return gradients

    def _apply_gradient(
        self, g: GradientCall, wrt: str, formula: Expr, values: Mapping[str, Any], attributes: Mapping[str, Any]
    ) -> IRValue:
        gy = self.cotangent_name
        arrays = {**values, self.outputs[0]: g.y, gy: g.gy}
        factor = _factor(formula, gy)
        result: IRValue
        if formula is name(gy):
            result = g.gy
        elif isinstance(factor, Number):
            result = g.op("MulScalar", g.gy, val=factor.value)
        elif isinstance(factor, Name) and factor.id in attributes:
            result = g.op("MulScalar", g.gy, val=attributes[factor.id])
        elif isinstance(factor, Name):
            result = g.op("Mul2", g.gy, arrays[factor.id])
        else:
            spec = derived_spec(derived_name(self.name, wrt))
            used = {key: attributes[key] for key in spec.attribute_names}
            result = g.op(spec.name, *(arrays[key] for key in spec.input_names), **used)
        return result

    # Samples.

    def samples(self) -> Sequence[Sample]:
        shapes: list[tuple[tuple[int, ...], ...]] = []
        count = len(self.inputs)
        for shape in ((3, 4), (), (0, 3), (5, 67)):
            shapes.append((shape,) * count)
        if count > 1 and not self.row.equal_shapes:
            rest = count - 2
            shapes.append(((3, 4), (1, 4), *[(3, 4)] * rest))
            shapes.append(((2, 1, 4), (1, 3, 1), *[(2, 3, 4)] * rest))
            shapes.append(((2, 3, 4), (4,), *[(2, 3, 4)] * rest))
        if self.row.brief:
            shapes = [shapes[5] if count > 1 and not self.row.equal_shapes else shapes[0]]
        samples = [self.sample(each) for each in shapes]
        if self.row.tried and REQUIRED not in self.row.attributes.values():
            samples.append(self.sample(shapes[0], {}))
        return samples

    def sample(self, shapes: Sequence[tuple[int, ...]], attributes: Mapping[str, Any] | None = None) -> Sample:
        """A call on inputs of these shapes with data that the row says; with the attributes that it says, or others."""
        attributes = self.row.tried if attributes is None else attributes
        data = (self.row.data.get(x, Normal)(shape) for x, shape in zip(self.input_names, shapes, strict=True))
        sample = Sample(*data, **attributes)
        return sample.no_gradient() if self.row.surrogate or self.no_gradient else sample

    def refused(self) -> Sequence[Refused]:
        refused = []
        good = [(3, 4)] * len(self.inputs)
        if len(good) > 1:
            match = "shapes differ" if self.row.equal_shapes else "do not broadcast"
            refused.append(Refused(ValueError, match, *good[1:], (3, 5), **self.row.tried))
        for attribute in self.attributes:
            wrong = {**self.row.tried, attribute.name: "much"}
            refused.append(Refused(TypeError, attribute.name, *good, **wrong))
        return refused


def _factor(formula: Expr, gy: str) -> Expr | None:
    """f where the formula is `gy * f`, `f * gy` or `-gy`; else None."""
    if not isinstance(formula, Apply):
        return None
    if formula.op == "neg" and formula.args[0] is name(gy):
        return number(-1)
    if formula.op == "*":
        for one, other in (formula.args, formula.args[::-1]):
            if one is name(gy):
                return other
    return None


def _describe(row: Row, output: str) -> str:
    """The docstring of an op, in the house's form."""
    broadcasts = len(row.gradients) > 1 and not row.equal_shapes
    lines = [row.doc, "", f"    {output} = {row.y}", ""]
    gradients = [f"    d{x} = {formula}" for x, formula in row.gradients.items() if formula not in (None, DERIVED)]
    if gradients:
        lines += ["Gradient:", *gradients, ""]
    shape = "(...) float" + ("; broadcast as in NumPy" if broadcasts else ", of one shape" if row.equal_shapes else "")
    lines += ["Args:", f"    {', '.join(row.gradients)}: {shape}."]
    for attribute, default in row.attributes.items():
        kind = "bool" if isinstance(default, bool) else "float"
        lines.append(f"    {attribute}: {kind}{'' if default is REQUIRED else f', default {default}'}.")
    shape = "(...) float; the broadcast shape" if broadcasts else f"shape of {next(iter(row.gradients))}, float"
    lines += ["", "Returns:", f"    {output}: {shape}."]
    if len(row.gradients) > 1:
        lines += ["", "Raises:", f"    ValueError: the shapes {'do not broadcast' if broadcasts else 'differ'}."]
    return "\n".join(lines)


# --- derived specs ----------------------------------------------------------------------------------------------

_lock = lock_across_forks()  # re-entered: the gradient of a gradient makes the gradient first


class ElementwiseGradient(Elementwise, abstract=True):
    """The gradient of an elementwise op with respect to one input, itself elementwise and differentiable."""

    def __init__(self, parent: Elementwise, wrt: str) -> None:
        formula = parent.gradient_formula(wrt)
        assert formula is not None
        order = (parent.cotangent_name, *parent.input_names, *parent.outputs)
        inputs = [x for x in order if x in formula.names]
        attributes = {key: default for key, default in parent.row.attributes.items() if key in formula.names}
        taken = {*inputs, *attributes}
        output = _unused(f"g{wrt}", taken)
        self._cotangent = _unused(f"g{output}", {*taken, output})
        self._formula = formula
        row = Row(
            derived_name(parent.name, wrt),
            "",
            str(formula),
            dict.fromkeys(inputs, DERIVED),
            attributes,
            doc=f"Gradient of {parent.name} with respect to {wrt}.",
            data={"y": away(0.0), **parent.row.data},
            tried={key: value for key, value in parent.row.tried.items() if key in attributes},
            raises=[x for x in parent.row.raises if x in inputs],
            truths=[x for x in parent.row.truths if x in inputs],
            brief=parent.row.brief,
        )
        self._parent = parent
        super().__init__(row, parent.category, output, module=parent.module)

    @property
    def removed(self) -> bool:  # type: ignore[override]  # with the op that it is the gradient of
        """Whether the op was undefined or replaced."""
        return self._parent.removed

    @cached_property
    def program(self) -> Program:  # type: ignore[override]  # computed, because most are never compiled here
        return Program(self.input_names, self.float_names, ((self.outputs[0], self._formula),))

    @property
    def cotangent_name(self) -> str:
        return self._cotangent


_KINDS: Mapping[str, type] = {"Bool": bool, "Int": int, "Float": float}
_NUMBER = re.compile(r"(Bool|Int|Float)(\d+)")
_NUMBERED = re.compile(r"(.+)With((?:(?:Bool|Int|Float)\d+)+)")


def with_numbers(spec: OpSpec, positions: Mapping[int, type]) -> OpSpec:
    """The op in which some inputs of an elementwise op are Python numbers: run-time attributes under the same names.

    By operands they widen nothing, as in NumPy.
    positions: of these inputs, with what the numbers are: `int`, `float` or `bool`. Not all inputs of the op. The value
        of an int is to be one that a float holds; `whole_operand` says what to do with others.
    Raises ValueError for an op without a formula, and for positions that do not fit.
    """
    kinds = dict(sorted(positions.items()))
    parent = _with_formula(spec, kinds)
    numbers = "".join(f"{kind.__name__.capitalize()}{position}" for position, kind in kinds.items())
    return derived_spec(f"{parent.name}With{numbers}")


def _with_formula(spec: OpSpec, kinds: Mapping[int, type]) -> Elementwise:
    """The op, if some of its inputs may be numbers."""
    fits = isinstance(spec, Elementwise) and kinds and all(0 <= position < len(spec.inputs) for position in kinds)
    if not fits or len(kinds) == len(spec.inputs) or not set(kinds.values()) <= {int, float, bool}:
        raise ValueError(
            four_parts(
                f"numbers in place of the inputs {dict(kinds)} of {spec.name}",
                "only elementwise ops can have numbers, not in place of all inputs",
                f"its inputs: {', '.join(spec.input_names)}",
                "give arrays, or the positions of some inputs with int, float or bool",
            )
        )
    assert isinstance(spec, Elementwise)
    return spec


def whole_operand(value: int, dtype: np.dtype) -> float | np.ndarray:
    """A Python int beside arrays of a dtype: the value of a run-time attribute, or a 0-d array where a float is not it.

    OverflowError: the dtype is one of integers that do not include it.
    """
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise OverflowError(
            four_parts(
                f"the number {value} beside arrays of {dtype.name}",
                f"{dtype.name} holds {np.iinfo(dtype).min} to {np.iinfo(dtype).max}",
                "a Python number widens nothing",
                "cast the arrays to a wider dtype first",
            )
        )
    if dtype.kind not in "iub" or abs(value) <= _LARGEST_EXACT:
        return float(value)
    return np.asarray(value, np.uint64 if dtype.kind == "u" else np.int64).astype(dtype if dtype.kind in "iu" else None)


_LARGEST_EXACT = 2**53  # up to here every whole number is a float64


class Numbered(Elementwise, abstract=True):
    """An elementwise op some inputs of which are numbers; made by `with_numbers`."""

    def __init__(self, parent: Elementwise, kinds: Mapping[int, type]) -> None:
        row = parent.row
        names = {parent.input_names[position]: kind for position, kind in kinds.items()}
        arrays = [x for x in row.gradients if x not in names]
        # Where truth values are all the arrays there are, the dtype that follows from the numbers needs one to have it.
        truths = [x for x in arrays if x in row.truths] if set(arrays) - set(row.truths) else []
        spelled = "".join(f"{kind.__name__.capitalize()}{position}" for position, kind in kinds.items())
        self._parent = parent
        self._cotangent = parent.cotangent_name
        super().__init__(
            Row(
                f"{parent.name}With{spelled}",
                "",
                row.y,
                {x: row.gradients[x] for x in arrays},
                {**row.attributes, **dict.fromkeys(names, REQUIRED)},
                doc=f"{parent.name} with numbers in place of {', '.join(names)}.",
                data=row.data,
                tried={**row.tried, **dict.fromkeys(names, 2.0)},
                surrogate=row.surrogate,
                raises=[x for x in row.raises if x not in names],
                no_gradient=row.no_gradient,
                brief=True,
                predicate=row.predicate,
                truths=truths,
            ),
            parent.category,
            parent.outputs[0],
            module=parent.module,
        )
        self.number_kinds = {x: kind for x, kind in names.items() if kind is not float}

    @property
    def removed(self) -> bool:  # type: ignore[override]  # with the op that it is made of
        """Whether the op was undefined or replaced."""
        return self._parent.removed

    @cached_property
    def program(self) -> Program:  # type: ignore[override]  # computed, because most are never compiled here
        assert self._parent.program is not None
        return Program(self.input_names, self.float_names, ((self.outputs[0], self._parent.program.expressions[0]),))

    @property
    def cotangent_name(self) -> str:
        return self._cotangent

    def _derive(self, wrt: str) -> Expr | None:
        return self._parent.gradient_formula(wrt)


def _unused(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted = f"g{wanted}"
    return wanted


def derived_name(op: str, wrt: str) -> str:
    """The name of the gradient of an op with respect to an input: `ELU`, `x` -> `ELUGradX`."""
    return f"{op}Grad{wrt[0].upper()}{wrt[1:]}"


def derived_spec(name: str) -> OpSpec:
    """The spec of that name; where it is the gradient of an elementwise op, made and registered on first use.

    So the name alone is enough to find a gradient op in another process. Any number of threads may ask.
    Raises LookupError for a name that is neither registered nor such a gradient.
    """
    found = SPECS.get(name)
    if found is not None:
        return found
    with _lock:
        found = SPECS.get(name)
        return found if found is not None else register(_gradient_spec(name))


def _gradient_spec(name: str) -> Elementwise:
    numbered = _NUMBERED.fullmatch(name)
    if numbered:
        parent = derived_spec(numbered[1])
        kinds = {int(position): _KINDS[kind] for kind, position in _NUMBER.findall(numbered[2])}
        return Numbered(_with_formula(parent, kinds), kinds)
    stem, _, _ = name.rpartition("Grad")
    if not stem:
        near = nearest(name, SPECS)
        raise LookupError(
            four_parts(
                f"the op spec {name}",
                "there is none of this name",
                f"{len(SPECS)} op specs" + (f"; the nearest is {near}" if near else ""),
                "check the spelling, and that the family that defines it is imported",
            )
        )
    parent = derived_spec(stem)
    inputs = parent.input_names if isinstance(parent, Elementwise) and not parent.no_gradient else ()
    for wrt in inputs:
        assert isinstance(parent, Elementwise)
        if derived_name(stem, wrt) == name and parent.gradient_formula(wrt) is not None:
            return ElementwiseGradient(parent, wrt)
    possible = ", ".join(derived_name(stem, x) for x in inputs) or "none"
    raise LookupError(
        four_parts(
            f"the op spec {name}",
            f"{stem} has no elementwise gradient of this name",
            f"gradients of {stem}: {possible}",
            "use one whose derivative is not zero",
        )
    )
