"""OpSpec, the base class of all ops: what is true of one op on every device, from its signature to its samples."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from atled.array_desc import ArrayDesc
from atled.errors import RefusedError, did_you_mean, four_parts, listing, shortened
from atled.limits.sizes import misfit, shown
from atled.limits.whole_numbers import whole
from atled.ops.families import FAMILY_BY_FUNCTION, FAMILY_BY_OP
from atled.ops.spec_table import SpecTable
from atled.strides import Window
from atled.type_configs import allowed_error

if TYPE_CHECKING:
    from atled.ops.formula import Program
    from atled.ops.rules import GradientCall, IRValue
    from atled.ops.samples import Refused, Sample

REQUIRED: Any = inspect.Parameter.empty

FLOAT_DTYPES = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16))


class Input:
    """One input of an op.

    kind: what the front end makes of its dtype before the op sees it; for graphs that take dtypes from their operands
        "the dtype of the type config" is the one that `OpSpec.operand_dtype` gives.
        "compute": cast to the dtype of the type config (float32 under `float`).
        "precise": the same, but float32 under `half`: what loses by being rounded at each call, such as statistics.
        "truth": the same; by operands bool, whatever the other inputs are: what a choice is made by.
        "index": whole numbers; cast to int64, fractions truncated.
        "keep": passed as it is.
        "random_state": the random state, (2,) int64 (key, call count), always host memory, supplied by the engine.
        "state": passed as it is: an array of the function's own, which `first_state` makes and each call may change.
    optional: may be absent (None).  variadic: any number of arrays, at least one; only as the last input.
    gradient: "flows", "none" (no gradient reaches it, silently), or "raises" (asking for it is an error).
    on_host: whether the engine itself reads it, and so wants it in host memory.
    """

    __slots__ = ("gradient", "kind", "name", "on_host", "optional", "variadic")

    def __init__(
        self,
        name: str,
        *,
        kind: str = "compute",
        optional: bool = False,
        variadic: bool = False,
        gradient: str = "flows",
        on_host: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.optional = optional
        self.variadic = variadic
        self.gradient = gradient
        self.on_host = on_host


_LEAST, _GREATEST = -(2**63), 2**63 - 1  # what a word of an argument block holds
# Far more than there are axes. Products of a million sizes take minutes.
_MOST_ENTRIES = 4096


def _whole(value: Any) -> int:
    number = whole(value)
    if not _LEAST <= number <= _GREATEST:
        raise OverflowError("it does not fit 64 bits")
    return number


def _whole_numbers(value: Any) -> tuple[int, ...]:
    if isinstance(value, (str, bytes)):
        raise TypeError("text is not a sequence of whole numbers")
    numbers = tuple(_whole(item) for item in itertools.islice(value, _MOST_ENTRIES + 1))
    if len(numbers) > _MOST_ENTRIES:
        raise OverflowError(f"it has more than {_MOST_ENTRIES} entries")
    return numbers


def _axes(value: Any) -> tuple[int, ...]:
    return _whole_numbers(value) if np.iterable(value) else (_whole(value),)


def _flag(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise TypeError("neither 0 nor 1")


def _number(value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError("text is not a number")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


_KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "int": (_whole, "a whole number"),
    "ints": (_whole_numbers, "a sequence of whole numbers"),
    "axes": (_axes, "an axis or a sequence of axes"),
    "float": (_number, "a number"),
    "bool": (_flag, "True or False"),
    "str": (_text, "text"),
    "dtype": (np.dtype, "a dtype"),
}


class Attribute:
    """One attribute of an op: a parameter that is not an array.

    kind: "int", "ints", "axes" (one or several), "float", "bool", "str", "dtype". Those of kind "float" are
        run-time values: an implementation gets them at every execution, not when it prepares.
    default: REQUIRED, a value, or None, which `OpSpec.normalize` replaces by what follows from the inputs.
    argument: its name in the Python function, where that differs.
    choices: the allowed values of a "str".
    hidden: set by the engine, not an argument of the Python function.
    """

    __slots__ = ("_settled", "argument", "choices", "default", "hidden", "kind", "name")

    def __init__(
        self,
        name: str,
        kind: str,
        default: Any = REQUIRED,
        *,
        argument: str = "",
        choices: Sequence[str] = (),
        hidden: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.argument = argument or name
        self.choices = tuple(choices)
        self.hidden = hidden
        # The default, where that is in canonical form: most calls give just it.
        is_scalar = isinstance(default, bool | int | float) and type(_KINDS[kind][0](default)) is type(default)
        self._settled = default if is_scalar else None

    def check(self, op: str, value: Any) -> Any:
        """The value in canonical form (hashable); TypeError or ValueError, naming op and attribute, else."""
        if value is self._settled and (value is not None or self.default is None):
            return value
        convert, wanted = _KINDS[self.kind]
        try:
            checked = convert(value)
        except (TypeError, ValueError, OverflowError) as error:
            too_large = isinstance(error, OverflowError)
            raise (ValueError if too_large else TypeError)(
                four_parts(
                    f"{op}: attribute {self.argument}={shortened(value)}",
                    f"too large ({error})" if too_large else f"got {type(value).__name__} ({error})",
                    "",
                    f"pass {self.argument} as {wanted}",
                )
            ) from error
        if self.choices and checked not in self.choices:
            raise RefusedError(
                four_parts(
                    f"{op}: attribute {self.argument}={shortened(value)}",
                    "unknown value",
                    f"known: {', '.join(self.choices)}",
                    "use one of the known values",
                )
            )
        return checked


SPECS = SpecTable(FAMILY_BY_OP)
"""Every op spec by name. Ops that are derived on demand (gradients of formulas) enter when first used."""

FUNCTIONS = SpecTable(FAMILY_BY_FUNCTION)
"""The op specs that are functions of the NNabla front end, by function name."""


class OpSpec:
    """Base of all op specs: one subclass with a docstring per op; importing its family's file registers it.

    The class name is the op's name (`Convolution`); the docstring gives formula, shapes, errors, source.

    Class attributes that a spec sets:
        function: name in `atled.functions` ("" where the op is not a function of its own).
        version: raised when what an implementation must compute changes (inputs, attributes, outputs, meaning);
            implementations written for another version are refused then.
        category: heading under which the pages list it.
        inputs, attributes: see `Input`, `Attribute`.
        outputs: names; the last may be variadic ("y...").  auxiliary: the last of them, which the gradient needs
            and the user does not get.  saved: those that the gradient needs, too, but that the user gets and may drop.
        mutates: names of inputs that the op changes in place.
        mutates_if: name of a bool attribute without which a call changes none of them; "": there is none
            (`mutated_with`).
        overwrites: those of them that hold what it makes of other inputs, and nothing from call to call; all others
            are as they were after a run that fails.
        recomputable: whether an op that changes inputs or has auxiliary outputs gives the same outputs when it is
            computed a second time, from the inputs as the first time left them; a plan may then leave outputs out that
            are not read, and recompute them if they are.
        views: True if the output shares the memory of the first input (reshape).
        copies: True if the output is the input, element by element, broadcast to the output's shape.
        moves: True if the reference only moves elements and fills in others, so that it need not compute in float32.
        random: True if it draws from a random state; its last input then has kind "random_state".
        no_gradient: "" where `gradient` is defined; "raises" (backward is an error) or "stops" (nothing flows).
        inplace: output index -> input index, where output and input are the same array (solver updates).
        by_engine: True for what no backend computes, but the engine itself, in the memory of the Context's first
            usable backend (`graph.nodes.dispatch.EngineOp`).  opaque: True for such that is code of the user.
        channelled: names of the inputs and outputs whose channel axis the attribute `channel_last` puts behind the
            spatial axes (`ops/channel_axis.py`); none where the op has no such attribute.
        program: the scalar formula of an elementwise op, else None.
        products: True if it sums products of its inputs, whose factors a type config may allow to be rounded ("tf32").
        dtypes: allowed for the "compute" inputs.
        integers: what it does with integers and truth values where nodes take their dtypes from their operands: "float"
            (they become the float that NumPy's promotion gives) or "exact" (it computes in NumPy's integer dtype).
        predicate: True if its outputs are truth values: bool by operands, 1 or 0 of the float dtype of a type config.
        accumulates: True if it sums or multiplies many elements: of integers the outputs are NumPy's wider ones
            (`numpy.sum`), in which the reference computes.
        tolerance: relative error allowed against the float64 reference, by dtype name, and "tf32" for products.
        samples, refused: functions that return calls that must work, and calls that must be refused.

    A class outside the library is registered by its class statement, too: `atled.op_spec` says what is checked then.
    `abstract=True` registers nothing; `replace=True` takes the place of an op of that name and module.

    input_names: of `inputs`.  float_names: of the `float` attributes, which `Prepared.run` gets, in that order.
    module: where it is defined.  removed: True once it was undefined or replaced; graphs that hold it go on with it.
    """

    function: str = ""
    category: str = ""
    version: ClassVar[int] = 1
    inputs: Sequence[Input] = ()
    attributes: Sequence[Attribute] = ()
    outputs: Sequence[str] = ("y",)
    auxiliary: Sequence[str] = ()
    saved: Sequence[str] = ()
    mutates: Sequence[str] = ()
    mutates_if: str = ""
    overwrites: Sequence[str] = ()
    recomputable: bool = False
    views: bool = False
    copies: bool = False
    moves: bool = False
    random: bool = False
    no_gradient: str = ""
    inplace: Mapping[int, int] = {}
    by_engine: bool = False
    opaque: bool = False
    channelled: Sequence[str] = ()
    program: Program | None = None
    products: bool = False
    integers: str = "float"
    predicate: bool = False
    accumulates: bool = False
    dtypes: Sequence[np.dtype] = FLOAT_DTYPES
    # Those below float32 are for one rounding of each result, and what few further ones make of it.
    tolerance: Mapping[str, float] = {"float64": 1e-9, "float32": 2e-5, "float16": 2e-2, "bfloat16": 4e-2, "tf32": 5e-3}

    name: str
    module: str
    removed: bool = False

    def __init_subclass__(cls, abstract: bool = False, replace: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if abstract:
            return
        spec = cls(name=cls.__name__)
        if spec.is_library:
            register(spec)
        else:
            from atled.ops.own import admit  # needs the whole table, of which this module is the beginning

            admit(spec, replace=replace)

    def __init__(self, name: str, doc: str | None = None) -> None:
        self.name = name
        self._doc = doc
        self.module = type(self).__module__
        self._finish()

    @property
    def doc(self) -> str:
        """What the op computes, for users: the docstring of its class, unless it has a text of its own."""
        if self._doc is None:  # unindented when it is first read: for all ops that takes longer than their classes
            self._doc = inspect.cleandoc(type(self).__doc__ or "")
        return self._doc

    @doc.setter
    def doc(self, text: str) -> None:
        self._doc = text

    @property
    def is_library(self) -> bool:
        """Whether it is an op of the library, not of a script or of another package."""
        return self.module.startswith("atled.ops.")

    def _finish(self) -> None:
        """Derive what is asked for often from the declarations."""
        self.input_names = tuple(item.name for item in self.inputs)
        self.variadic = bool(self.inputs) and self.inputs[-1].variadic
        self.user_inputs = tuple(item for item in self.inputs if item.kind not in ("random_state", "state"))
        self.states = tuple(item.name for item in self.inputs if item.kind == "state")
        self.saved_positions = tuple(self.outputs.index(name) for name in self.saved)
        self.mutated = tuple(self.input_names.index(name) for name in self.mutates)
        self.float_names = tuple(item.name for item in self.attributes if item.kind == "float")
        self.attribute_names = tuple(item.name for item in self.attributes)
        self.normalizes = type(self).normalize is not OpSpec.normalize
        self.chooses = type(self).window is not OpSpec.window
        self.may_resume = type(self).resumes is not OpSpec.resumes
        self.may_spare = type(self).sparing_gradient is not OpSpec.sparing_gradient
        self.checks_values = type(self).check_values is not OpSpec.check_values

    def mutated_with(self, attributes: Mapping[str, Any]) -> tuple[int, ...]:
        """The positions of the inputs that a call with these attributes changes in place."""
        return self.mutated if not self.mutates_if or attributes[self.mutates_if] else ()

    def input_at(self, position: int) -> Input:
        """The declaration of the input at a position, variadic ones spread out."""
        return self.inputs[min(position, len(self.inputs) - 1)]

    # What a spec defines.

    def normalize(self, attributes: dict[str, Any], *inputs: ArrayDesc | None) -> dict[str, Any]:
        """Attributes with defaults that follow from the inputs filled in, axes counted from the front."""
        return attributes

    def for_shapes(self, attributes: Mapping[str, Any], shapes: Sequence[tuple[int, ...] | None]) -> Mapping[str, Any]:
        """The attributes for inputs that changed their shapes after the call; for most ops those are the same."""
        return attributes

    def check_values(self, attributes: Mapping[str, Any]) -> None:
        """Refuse values of attributes, the float ones included, that make no sense (a probability of 2)."""

    def resumes(self, attributes: Mapping[str, Any]) -> bool:
        """Whether backward goes on behind this op with the gradients that its inputs hold already."""
        return False

    def first_state(self, name: str, *inputs: ArrayDesc | None) -> np.ndarray:
        """What the state of that name holds before the first call on such inputs."""
        raise NotImplementedError(f"{self.name} has no state")

    def infer(self, *inputs: Any, **attributes: Any) -> ArrayDesc | Sequence[ArrayDesc]:
        """The output descriptions, auxiliary ones last; raises ValueError for a call that does not fit."""
        raise NotImplementedError(f"{self.name} has no shape rule")

    def reference(self, *inputs: Any, **attributes: Any) -> np.ndarray | Sequence[np.ndarray]:
        """The outputs as new NumPy arrays; changes in place only what `mutates` names."""
        raise NotImplementedError(f"{self.name} has no reference")

    def gradient(self, g: GradientCall, *inputs: Any, **attributes: Any) -> Sequence[IRValue | None]:
        """Per input the gradient as a composition of ops, or None where nothing flows."""
        raise NotImplementedError(f"{self.name} has no gradient")

    def operand_dtype(self, inputs: Sequence[ArrayDesc | None]) -> np.dtype | None:
        """By operands: what the "compute" inputs are cast to, None where there are none.

        TypeError: NumPy has no promotion for them.
        """
        from atled.ops.promotion import promoted  # most processes compute under type configs alone

        # Arrays that it changes are not promoted: what is written to them is cast.
        changed = [inputs[position] for position in self.inplace.values()]
        dtypes = [desc.dtype for desc in changed if desc is not None] or self.computed_dtypes(inputs)
        if not dtypes:
            return None
        return promoted(dtypes, exact=self.integers == "exact")

    def computed_dtypes(self, inputs: Sequence[ArrayDesc | None]) -> list[np.dtype]:
        """The dtypes of the inputs that promotion looks at."""
        kinds = ((desc, self.input_at(position).kind) for position, desc in enumerate(inputs))
        return [desc.dtype for desc, kind in kinds if desc is not None and kind in ("compute", "precise")]

    def computed_in(self, inputs: Sequence[np.dtype]) -> np.dtype | None:
        """The dtype in which its formula is computed on inputs of some dtypes, where those do not tell: integers."""
        return None

    def operand_outputs(self, outputs: Sequence[ArrayDesc], dtype: np.dtype) -> tuple[ArrayDesc, ...]:
        """By operands: the outputs that `infer` gave, for a call that is computed in a dtype."""
        made = dtype
        if self.predicate:
            made = np.dtype(np.bool_)
        elif self.accumulates:
            from atled.ops.promotion import accumulated  # most processes compute under type configs alone

            made = accumulated(dtype)
        if made == dtype:
            return tuple(outputs)  # with the strides that they have
        return tuple(desc.astype(made) if desc.dtype == dtype else desc for desc in outputs)

    def sparing_gradient(
        self, inputs: Sequence[ArrayDesc | None], outputs: Sequence[ArrayDesc], attributes: Mapping[str, Any]
    ) -> tuple[str, Sequence[ArrayDesc | None], Mapping[str, Any]] | None:
        """The call (op, inputs, attributes) by which `gradient` does without the auxiliary outputs, if there is one.

        Where one backend computes both, ranks this one no lower, and need not make these outputs, nobody stores them:
        `GradientCall.is_sparing`.
        """
        return None

    def window(self, x: Window, attributes: Mapping[str, Any]) -> Window | None:
        """The elements of its input that are its output, where choosing them is all that the op does.

        x: which elements of an array the input is.  None: it computes something, or no strides name them.
        """
        return None

    def samples(self) -> Sequence[Sample]:
        """Calls that must work on every backend."""
        return ()

    def refused(self) -> Sequence[Refused]:
        """Calls that must be refused, with the error."""
        return ()

    def visible_count(self, outputs: int, attributes: Mapping[str, Any]) -> int:
        """How many of the outputs the user gets."""
        return outputs - len(self.auxiliary)

    # What the engine asks.

    def check_attributes(self, given: Mapping[str, Any], inputs: Sequence[ArrayDesc | None]) -> dict[str, Any]:
        """Checked, complete, canonical attributes; TypeError or ValueError if one does not fit."""
        for name in given:
            if name not in self.attribute_names:
                raise TypeError(
                    four_parts(
                        f"{self.name}({self._describe(inputs)})",
                        f"it has no attribute {name}",
                        f"its attributes: {listing(self.attribute_names)}",
                        did_you_mean(name, self.attribute_names, "leave it out"),
                    )
                )
        values = {}
        for attribute in self.attributes:
            value = given.get(attribute.name, attribute.default)
            if value is REQUIRED:
                raise TypeError(
                    four_parts(
                        f"{self.name}({self._describe(inputs)})",
                        f"the attribute {attribute.argument} is missing",
                        "",
                        f"pass {attribute.argument}=",
                    )
                )
            values[attribute.name] = attribute.check(self.name, value)
        return self.normalize(values, *inputs) if self.normalizes else values

    def infer_outputs(self, inputs: Sequence[ArrayDesc | None], attributes: Mapping[str, Any]) -> tuple[ArrayDesc, ...]:
        """The output descriptions for checked attributes, as a tuple."""
        result = self.infer(*inputs, **attributes)
        outputs = (result,) if isinstance(result, ArrayDesc) else tuple(result)
        for number, desc in enumerate(outputs):
            wrong = misfit(desc.shape)
            if wrong:
                name = self.outputs[min(number, len(self.outputs) - 1)]
                raise self.error(
                    inputs,
                    f"{name} would have shape {shown(desc.shape)}: {wrong}",
                    "use fewer axes or smaller sizes, and look at the attributes that make it so large",
                )
        return outputs

    def allowed_error(self, type_config: str) -> float:
        """The relative error allowed against the float64 reference under a type config."""
        return allowed_error(self.tolerance, type_config, self.products)

    def error(self, inputs: Sequence[ArrayDesc | None], wrong: str, remedy: str, considered: str = "") -> RefusedError:
        """The error in the house's wording, for `infer` and `normalize` to raise."""
        return RefusedError(four_parts(f"{self.name}({self._describe(inputs)})", wrong, considered, remedy))

    def _describe(self, inputs: Sequence[ArrayDesc | None]) -> str:
        parts = []
        for position, desc in enumerate(inputs):
            parts.append(f"{self.input_at(position).name}: {'None' if desc is None else list(desc.shape)}")
        return ", ".join(parts)

    def __repr__(self) -> str:
        return f"<op spec {self.name}>"


def register(spec: OpSpec) -> OpSpec:
    """Enter a spec into `SPECS` and, if it is a function, into `FUNCTIONS`; a second one of the name is an error."""
    SPECS.enter(spec.name, spec)
    if spec.function:
        FUNCTIONS.enter(spec.function, spec)
    return spec
