"""Writes the formulas that are attached to a call as C, for a kernel that reads and stores elements by macros.

READ_0(x, at)           element `at` of input 0: x[at], or what the formula before it computes
STORE_0(y, at, value)   has element `at` of output 0 be `value`: y[at] = value, and what the formula behind it makes
OPERANDS                parameters of the kernel, each behind a comma: the arrays that the formulas read besides, those
                        that they make, then their run-time floats, or what `numbers` declares
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.named_tuple import NamedTuple
from atled.ops.formula_c import C99, OPENCL, Dialect, write_c


class Stored(NamedTuple):
    """How elements of a dtype are kept.

    type: in the language of the kernel.  load, store: expressions with {} for the element, or for the number.
    """

    type: str
    load: str = "{}"
    store: str = "{}"


_TYPES = {"float32": Stored("float"), "float64": Stored("double")}


def write_attached_c(
    call: Call,
    *,
    reads: Sequence[int] = (),
    stores: Sequence[int] = (),
    real: str = "float",
    dialect: Dialect = C99,
    attribute_real: str | None = None,
    numbers: tuple[str, str] | None = None,
    storage: Mapping[str, Stored] = _TYPES,
    index: str = "long",
) -> str:
    """The functions and macros above, to be put before the source of a kernel.

    reads, stores: positions of the inputs and outputs that the kernel reads and stores by macros; those without a
        formula get plain ones.
    real, dialect, attribute_real: as for `write_c`.
    numbers: how the kernel is given the run-time floats, where it does not take each as a parameter: what is declared
        for all of them, if there are any, and the expression for one, with {} for its position among those of the call.
        What is declared may be "", where the kernel is given them in any case.
    storage: by dtype, how elements are kept: also of the arrays that the macros are given, which then convert.
    index: type of the index of an element.
    ValueError: a formula is at another position, or reads or makes an array of a dtype that is not in `storage`.
    """
    if not (set(call.before) <= set(reads) and set(call.after) <= set(stores)):
        raise ValueError(f"{call}: its formulas are not all at inputs {tuple(reads)} and outputs {tuple(stores)}.")
    if attribute_real is None:
        attribute_real = real if dialect is OPENCL else "double"
    kinds = _Kinds("__global " if dialect is OPENCL else "", storage, real, index)
    parts = [_Part("READ", position, call.before[position], kinds) for position in sorted(call.before)]
    parts += [
        _Part("STORE", position, call.after[position], kinds, call.outputs[position], call.wanted[position])
        for position in sorted(call.after)
    ]
    lines = []
    position = len(call.spec.float_names)
    for part in parts:
        if numbers is not None:
            part.given = [numbers[1].format(position + n) for n in range(len(part.numbers))]
        position += len(part.numbers)
        program = part.formula.spec.program
        assert program is not None
        lines.append(
            write_c(program, f"{part.name}_formula", real=real, dialect=dialect, attribute_real=attribute_real)
        )
        lines += part.lines(attribute_real, dialect.qualifiers)
    for position in reads:
        if position not in call.before:
            lines.append(f"#define READ_{position}(x, at) {kinds.load(call.inputs[position], '(x)[at]')}")
    for position in stores:
        if position not in call.after:
            stored = kinds.store(call.outputs[position], "(value)")
            lines.append(f"#define STORE_{position}(y, at, value) (y)[at] = {stored}")
    arrays = [array for part in parts for array in part.operands] + [array for part in parts for array in part.results]
    floats = [f"{attribute_real} {number}" for part in parts for number in part.numbers]
    if numbers is not None and floats:
        floats = [numbers[0]] * bool(numbers[0])
    lines.append("#define OPERANDS " + "".join(f", {parameter}" for parameter in (*arrays, *floats)))
    return "\n".join(lines) + "\n"


class _Kinds(NamedTuple):
    """The types of a text: address space of arrays, how elements are kept, what is computed in, whole numbers."""

    space: str
    storage: Mapping[str, Stored]
    real: str
    whole: str

    def pointer(self, desc: ArrayDesc | None) -> str:
        """The type of the elements that a macro is given."""
        return self.real if self.storage is _TYPES else self._stored(desc).type

    def load(self, desc: ArrayDesc | None, element: str) -> str:
        """An element as a number."""
        return self._stored(desc).load.format(element)

    def store(self, desc: ArrayDesc | None, value: str) -> str:
        """A number as an element."""
        return self._stored(desc).store.format(value)

    def _stored(self, desc: ArrayDesc | None) -> Stored:
        # Without `storage` the arrays of macros are the kernel's own business.
        return Stored(self.real) if desc is None else self.storage.get(desc.dtype.name, Stored(self.real))


class _Part:
    """One formula: how its arrays are declared, and what computes it for one element."""

    def __init__(
        self,
        kind: str,
        position: int,
        formula: Call,
        kinds: _Kinds,
        output: ArrayDesc | None = None,
        is_stored: bool = False,
    ) -> None:
        self.name = f"{kind}_{position}"
        self.formula = formula
        self.is_before = kind == "READ"
        self.output = output
        self.is_stored = is_stored
        self.kinds = kinds
        program = formula.spec.program
        assert program is not None
        self.operand_descs = [desc for desc in formula.inputs[0 if self.is_before else 1 :] if desc is not None]
        self.result_descs = () if self.is_before else formula.outputs
        self.operands = list(self._declared(self.operand_descs, "in", "const "))
        self.results = list(self._declared(self.result_descs, "out", ""))
        self.numbers = [f"{self.name}_{number}" for number in program.attributes]
        self.given = self.numbers

    def _declared(self, descs: Sequence[ArrayDesc], kind: str, qualifier: str) -> Iterator[str]:
        storage = self.kinds.storage
        for number, desc in enumerate(descs):
            if desc.dtype.name not in storage:
                raise ValueError(f"{self.formula}: no {desc.dtype} here. Use {' or '.join(storage)}.")
            yield f"{self.kinds.space}{qualifier}{storage[desc.dtype.name].type} *{self.name}_{kind}{number}"

    def lines(self, attribute_real: str, qualifiers: str) -> list[str]:
        """The function for one element, and the macro that calls it."""
        (*_, last) = self.formula.outputs
        kinds, real, index = self.kinds, self.kinds.real, self.kinds.whole
        loads = [
            kinds.load(desc, f"{_identifier(declared)}[{_index(desc.shape, last.shape)}]")
            for declared, desc in zip(self.operands, self.operand_descs, strict=True)
        ]
        names = [*map(_identifier, (*self.operands, *self.results)), *self.given]
        parameters = [*self.operands, *self.results, *(f"{attribute_real} {number}" for number in self.numbers)]
        if self.is_before:
            values = ", ".join([*loads, *self.numbers, "&value"])
            return [
                f"{qualifiers} {real} {self.name}_at({', '.join([f'{index} at', *parameters])}) {{",
                f"    {real} value;",
                f"    {self.name}_formula({values});",
                "    return value;",
                "}",
                f"#define {self.name}(x, at) {self.name}_at({', '.join(['at', *names])})",
            ]
        made = [f"made{number}" for number in range(len(self.results))]
        values = ", ".join(["value", *loads, *self.numbers, *(f"&{name}" for name in made)])
        own = [f"{kinds.space}{kinds.pointer(self.output)} *y", f"{index} at", f"{real} value"]
        stored = zip(self.results, self.result_descs, made, strict=True)
        return [
            f"{qualifiers} void {self.name}_at({', '.join([*own, *parameters])}) {{",
            f"    {real} {', '.join(made)};",
            f"    {self.name}_formula({values});",
            *([f"    y[at] = {kinds.store(self.output, 'value')};"] if self.is_stored else []),
            *(f"    {_identifier(declared)}[at] = {kinds.store(desc, name)};" for declared, desc, name in stored),
            "}",
            f"#define {self.name}(y, at, value) {self.name}_at({', '.join(['y', 'at', 'value', *names])})",
        ]


def _identifier(declared: str) -> str:
    return declared.rpartition("*")[2]


def _index(shape: Sequence[int], full: Sequence[int]) -> str:
    """Where element `at` of a full array finds its operand, which broadcasts to it."""
    padded = (1,) * (len(full) - len(shape)) + tuple(shape)
    terms: list[str] = []
    inner = stride = 1  # elements of the full array, and of the operand, behind the axis
    axes = [(size, own) for size, own in zip(full, padded, strict=True) if size != 1]
    while axes:
        is_kept = axes[-1][1] != 1
        size = 1
        while axes and (axes[-1][1] != 1) == is_kept:
            size *= axes.pop()[0]
        if is_kept:
            place = "at" if inner == 1 else f"at / {inner}"
            place = f"({place}) % {size}" if axes else place
            terms.append(place if stride == 1 else f"({place}) * {stride}")
            stride *= size
        inner *= size
    return " + ".join(terms) or "0"
