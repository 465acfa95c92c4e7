"""Writes programs as C: a function of scalars that is valid as plain C99, CUDA C or OpenCL C.

In a dtype of integers sums and products are modulo its range; of truth values they are "or" and "and", as in NumPy.

What surrounds it (loads, indices, launch) is the plugin's. Arrays narrower than float32 compute with `real="float"`:
the caller converts when it loads and rounds when it stores.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from atled.ops.formula import (
    CONDITION,
    Apply,
    Expr,
    Name,
    Number,
    Program,
    expand,
    postorder,
    use_counts,
    without_rounding,
)

_EXPANDED = frozenset(("sigmoid", "sign", "minimum", "maximum"))
_INFIX = {op: op for op in ("+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=")} | {"and": "&&", "or": "||"}
_FUNCTIONS = {"abs": "fabs", "**": "pow"}  # the others have C's names
_LONGEST_TEXT = 80  # longer expressions get a variable: compilers limit the depth of parentheses
_LARGEST = {"float": 3.4028234663852886e38, "double": sys.float_info.max}


def _wholes(*names: str) -> dict[str, str]:
    """The types of integers of 8, 16, 32 and 64 bits, signed ones first."""
    dtypes = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
    return {**dict(zip(dtypes, names, strict=True)), "bool": names[4]}


_NAMES = {"float32": "float", "float64": "double"}
_UNSIGNED = "unsigned char", "unsigned short", "unsigned int", "unsigned long long"
_WHOLES = _wholes("signed char", "short", "int", "long long", *_UNSIGNED)


class Dialect:
    """One of the C languages. Immutable; C99, CUDA and OPENCL are the known ones.

    name: for messages.
    qualifiers: before a function.
    pointer: address space before the type that a pointer points to, or "".
    suffixes: by real type, what is appended to mathematical functions.
    infinities: by real type, an expression for infinity.
    wholes: by dtype of integers, or bool, the type of its values.
    """

    __slots__ = ("infinities", "name", "pointer", "qualifiers", "suffixes", "wholes")
    name: str
    qualifiers: str
    pointer: str
    suffixes: dict[str, str]
    infinities: dict[str, str]
    wholes: dict[str, str]

    def __init__(
        self,
        name: str,
        *,
        qualifiers: str,
        pointer: str,
        suffixes: dict[str, str],
        infinities: dict[str, str],
        wholes: dict[str, str] | None = None,
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "qualifiers", qualifiers)
        object.__setattr__(self, "pointer", pointer)
        object.__setattr__(self, "suffixes", dict(suffixes))
        object.__setattr__(self, "infinities", dict(infinities))
        object.__setattr__(self, "wholes", dict(_WHOLES if wholes is None else wholes))

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"a Dialect cannot be changed (attribute {attribute!r}); make a new one")

    def __repr__(self) -> str:
        return f"<Dialect {self.name}>"


C99 = Dialect(
    "C99",
    qualifiers="static inline",
    pointer="",
    suffixes={"float": "f", "double": ""},
    infinities={"float": "INFINITY", "double": "((double)INFINITY)"},
)
CUDA = Dialect(
    "CUDA",
    qualifiers="static __device__ __forceinline__",
    pointer="",
    suffixes={"float": "f", "double": ""},
    # NVRTC has no math.h and so no INFINITY.
    infinities={"float": "__int_as_float(0x7f800000)", "double": "__longlong_as_double(0x7ff0000000000000LL)"},
)
OPENCL = Dialect(
    "OpenCL",
    qualifiers="static inline",
    # The results go to variables of the kernel; pass "__global" dialects of your own to store directly.
    pointer="__private",
    suffixes={"float": "", "double": ""},
    infinities={"float": "INFINITY", "double": "((double)INFINITY)"},
    wholes=_wholes("char", "short", "int", "long", "uchar", "ushort", "uint", "ulong"),
)


def write_c(
    program: Program,
    name: str,
    *,
    real: str = "float",
    qualifiers: str | None = None,
    dialect: Dialect = C99,
    attribute_real: str | None = None,
) -> str:
    """A C function `void name(inputs..., attributes..., pointers to outputs...)` of scalars.

    real: the type of inputs and outputs: "float", "double", or a dtype, of `Dialect.wholes` or of floats.
    qualifiers: before the function; None takes the dialect's.
    attribute_real: type of the attributes and of everything computed from them alone; None takes double where the
        dialect is not OpenCL, whose devices need not have it, and `real` there. Rounding attributes early costs
        digits: 1 - beta of 0.999 keeps four of seven.
    Parameters are called in_x, attr_alpha and out_y, so that no name meets a keyword; give them by position.
    """
    real = _NAMES.get(real, real)
    attribute_real = _attribute_real(program, real, dialect, attribute_real)
    writer = (_WholeWriter if real in dialect.wholes else _Writer)(program, dialect, real, attribute_real)
    stores = writer.stores()
    qualifiers = dialect.qualifiers if qualifiers is None else qualifiers
    attributes = [f"{attribute_real} attr_{n}" for n in program.attributes]
    return writer.function(f"{qualifiers} void {name}".strip(), attributes, [*writer.lines, *stores])


def write_c_hoisted(
    program: Program, name: str, *, real: str = "float", dialect: Dialect = C99, attribute_real: str | None = None
) -> str:
    """As `write_c`, but what follows from attributes alone is computed apart, once for many elements.

    It writes `struct name_uniforms`, `struct name_uniforms name_prepare(attributes...)`, which computes in
    `attribute_real` and rounds, and `void name(inputs..., struct name_uniforms, pointers to outputs...)`.
    """
    real = _NAMES.get(real, real)
    attribute_real = _attribute_real(program, real, dialect, attribute_real)
    kind = _HoistingWholeWriter if real in dialect.wholes else _HoistingWriter
    writer = kind(program, dialect, real, attribute_real)
    stores = writer.stores()
    struct, qualifiers = f"struct {name}_uniforms", dialect.qualifiers
    members = [f"    {declared};" for declared in writer.members] or ["    char none; /* C has no empty ones */"]
    attributes = ", ".join(f"{attribute_real} attr_{n}" for n in program.attributes) or "void"
    values = [f"uniforms.u{number} = {text};" for number, text in enumerate(writer.uniforms.values())]
    prepare = [f"{struct} uniforms;", *writer.uniform_lines, *(values or ["uniforms.none = 0;"]), "return uniforms;"]
    return "\n".join(
        (
            f"{struct} {{",
            *members,
            "};",
            f"{qualifiers} {struct} {name}_prepare({attributes})".strip(),
            "{",
            *(f"    {line}" for line in prepare),
            "}",
            writer.function(f"{qualifiers} void {name}".strip(), [f"{struct} u"], [*writer.lines, *stores]),
        )
    )


def _attribute_real(program: Program, real: str, dialect: Dialect, attribute_real: str | None) -> str:
    if attribute_real is None:
        attribute_real = real if dialect is OPENCL else "double"
        if real in dialect.wholes and dialect is OPENCL:
            attribute_real = "float"
    known = (*dialect.suffixes, *dialect.wholes)
    for kind, possible in ((real, known), (attribute_real, tuple(dialect.suffixes))):
        if kind not in possible:
            raise ValueError(f"{program!r} as {dialect.name} in {kind!r}: use one of {', '.join(possible)}.")
    return attribute_real


def write_c_loop(program: Program, name: str, *, real: str = "float") -> str:
    """A whole C99 file with `void name(long long n, inputs..., attributes..., outputs...)` over flat arrays.

    Inputs and outputs are arrays of n elements of `real`, attributes doubles. An output may be the same array as an
    input. The plainest use of `write_c`, and a check of it.
    """
    kind = C99.wholes.get(real, real)
    parameters = ["long long n", *(f"const {kind} *in_{n}" for n in program.inputs)]
    parameters += [f"double attr_{n}" for n in program.attributes]
    parameters += [f"{kind} *out_{n}" for n in program.output_names]
    arguments = [f"in_{n}[i]" for n in program.inputs] + [f"attr_{n}" for n in program.attributes]
    arguments += [f"&out_{n}[i]" for n in program.output_names]
    return "\n".join(
        (
            "#include <math.h>",
            "",
            write_c(program, f"{name}_element", real=real),
            f"void {name}({', '.join(parameters)})",
            "{",
            "    for (long long i = 0; i < n; i++)",
            f"        {name}_element({', '.join(arguments)});",
            "}",
            "",
        )
    )


class _Writer:
    """Turns nodes into text; nodes that are used twice, or long, become variables."""

    def __init__(self, program: Program, dialect: Dialect, real: str, attribute_real: str) -> None:
        self.program = program
        self.expressions = [expand(expression, _EXPANDED) for expression in program.expressions]
        self.inputs = frozenset(program.inputs)
        self.uses = use_counts(self.expressions)
        self.dialect = dialect
        self.real = real
        self.attribute_real = attribute_real
        self.lines: list[str] = []
        self.texts: dict[Expr, str] = {}

    def stores(self) -> list[str]:
        """Writes all nodes; gives the lines that store the outputs."""
        for node in postorder(self.expressions):
            self.add(node)
        return [
            f"*out_{output} = {self.argument(expression, is_uniform=False)};"
            for output, expression in zip(self.program.output_names, self.expressions, strict=True)
        ]

    def function(self, declared: str, uniforms: Sequence[str], lines: Sequence[str]) -> str:
        """The function of scalars; uniforms: what it takes between inputs and outputs."""
        outputs = [f"{self.dialect.pointer} {self.real} *out_{n}".strip() for n in self.program.output_names]
        parameters = ", ".join((*(f"{self.real} in_{n}" for n in self.program.inputs), *uniforms, *outputs))
        return "\n".join((f"{declared}({parameters})", "{", *(f"    {line}" for line in lines), "}", ""))

    def is_uniform(self, node: Expr) -> bool:
        return node.names.isdisjoint(self.inputs)

    def type(self, is_uniform: bool) -> str:
        return self.attribute_real if is_uniform else self.real

    def rounded(self, uniform: str) -> str:
        """What was computed of attributes alone, in the type of the elements."""
        return f"({self.real}){uniform}" if self.attribute_real != self.real else uniform

    def literal(self, value: float, real: str) -> str:
        if abs(value) > _LARGEST[real]:
            text = self.dialect.infinities[real]
            return text if value > 0 else f"(-{text})"
        text = repr(value) + ("f" if real == "float" else "")
        return f"({text})" if text[0] == "-" else text

    def argument(self, arg: Expr, *, is_uniform: bool) -> str:
        """Text of `arg` for an operation that is or is not on attributes alone."""
        if isinstance(arg, Number):
            return self.literal(arg.value, self.type(is_uniform))
        if isinstance(arg, Name):
            text = f"in_{arg.id}" if arg.id in self.inputs else f"attr_{arg.id}"
        else:
            text = self.texts[arg]
        must_round = self.is_uniform(arg) and not is_uniform and arg.kind != CONDITION
        return self.rounded(text) if must_round else text

    def lines_of(self, is_uniform: bool) -> list[str]:
        """Where the variable of a node goes."""
        return self.lines

    def add(self, node: Apply) -> None:
        is_uniform = self.is_uniform(node)
        # A condition on attributes alone is computed in their type, wherever it is used.
        args = [self.argument(arg, is_uniform=is_uniform) for arg in node.args]
        text = self.operation(node.op, args, self.type(is_uniform))
        if self.uses[node] > 1 or len(text) > _LONGEST_TEXT:
            kind = "int" if node.kind == CONDITION else self.type(is_uniform)
            lines = self.lines_of(is_uniform)
            variable = f"t{len(lines)}"
            lines.append(f"{kind} {variable} = {text};")
            text = variable
        self.texts[node] = text

    def operation(self, op: str, args: list[str], real: str) -> str:
        if op in _INFIX:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        if op == "where":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if op in ("neg", "not"):
            return f"({'-' if op == 'neg' else '!'}{args[0]})"
        return f"{_FUNCTIONS.get(op, op)}{self.dialect.suffixes[real]}({', '.join(args)})"


class _WholeWriter(_Writer):
    """The same in a dtype of integers, or bool; of attributes alone nothing is computed but their conversion."""

    def __init__(self, program: Program, dialect: Dialect, real: str, attribute_real: str) -> None:
        super().__init__(program, dialect, dialect.wholes[real], attribute_real)
        self.expressions = [expand(without_rounding(expression), _EXPANDED) for expression in program.expressions]
        self.uses = use_counts(self.expressions)
        self.is_bool = real == "bool"
        self.is_signed = not self.is_bool and real[0] != "u"
        # Overflow of signed numbers is undefined, and narrow ones become int first.
        self.wide = dialect.wholes["uint64" if real.endswith("64") else "uint32"]

    def is_uniform(self, node: Expr) -> bool:
        return isinstance(node, Name) and node.id not in self.inputs

    def rounded(self, uniform: str) -> str:
        return (
            f"({self.real})({uniform} != 0)"
            if self.is_bool
            else f"({self.real})({self.dialect.wholes['int64']}){uniform}"
        )

    def literal(self, value: float, real: str) -> str:
        return f"(({self.real}){int(value != 0) if self.is_bool else int(value)})"

    def operation(self, op: str, args: list[str], real: str) -> str:
        if self.is_bool and op in ("+", "*"):
            return f"({args[0]} {'|' if op == '+' else '&'} {args[1]})"
        if op in ("+", "-", "*"):
            return f"(({self.real})(({self.wide}){args[0]} {op} ({self.wide}){args[1]}))"
        if op == "neg":
            return f"(({self.real})(0 - ({self.wide}){args[0]}))"
        if op == "abs" and self.is_signed:
            if self.dialect is OPENCL:
                return f"(({real})abs({args[0]}))"
            return f"({args[0]} < 0 ? {self.operation('neg', args, real)} : {args[0]})"
        if op == "abs":
            return args[0]
        if op not in _INFIX and op not in ("where", "not"):
            raise ValueError(f"{self.program!r} in {self.real}: {op} of integers is not written. Compute it elsewhere.")
        return super().operation(op, args, real)


class _HoistingWriter(_Writer):
    """Two functions: what follows from attributes alone goes to the first one, whose results the second one is given.

    uniforms: the text of each result, by its node.  members: how each is declared.  uniform_lines: what is before them.
    """

    def __init__(self, program: Program, dialect: Dialect, real: str, attribute_real: str) -> None:
        super().__init__(program, dialect, real, attribute_real)
        self.uniforms: dict[Expr, str] = {}
        self.members: list[str] = []
        self.uniform_lines: list[str] = []

    def lines_of(self, is_uniform: bool) -> list[str]:
        return self.uniform_lines if is_uniform else self.lines

    def argument(self, arg: Expr, *, is_uniform: bool) -> str:
        text = super().argument(arg, is_uniform=is_uniform)
        if is_uniform or isinstance(arg, Number) or not self.is_uniform(arg):
            return text
        if arg not in self.uniforms:
            kind = "int" if arg.kind == CONDITION else self.real
            self.members.append(f"{kind} u{len(self.members)}")
            self.uniforms[arg] = text
        return f"u.u{list(self.uniforms).index(arg)}"


class _HoistingWholeWriter(_HoistingWriter, _WholeWriter):
    """Both."""
