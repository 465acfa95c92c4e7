"""The formula language: scalar expressions that are written once and computed on every device.

A formula is text such as `where(x > 0, x, alpha * expm1(x))`. It becomes a tree of immutable nodes, equal formulas
sharing one node; a `Program` binds formulas to input, attribute and output names. The writers `formula_numpy`,
`formula_llvm` and `formula_c` turn a program into source text.

The language: numbers, names, `+ - * / **`, comparisons, `and or not`, the constants in `CONSTANTS` and the functions
in `OPERATIONS`. Numbers and conditions are different kinds: only a comparison makes a condition, and only `where`,
`and`, `or`, `not` take one.

Precision, for every writer: expressions of attributes and literals alone are computed in float64 and rounded once;
everything else is computed in one real type (float32 for arrays narrower than that) and rounded once when it is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from keyword import iskeyword
from weakref import WeakValueDictionary

from atled_contexts import lock_across_forks

NUMBER, CONDITION = "number", "condition"
CONSTANTS = {"pi": math.pi, "inf": math.inf}


class FormulaError(ValueError):
    """A formula or program is outside the language; the message names the place and what would fit."""


class Operation:
    """One operator or function of the language.

    name: as it is written: "+", "where", "exp"; unary minus is "neg".
    arguments: kind of each argument, NUMBER or CONDITION.  result: kind of the result.
    low, high: an interval of arguments on which the result is defined, for samples and docs.
    """

    __slots__ = ("arguments", "high", "low", "name", "result")

    def __init__(self, name: str, arguments: tuple[str, ...], result: str, low: float, high: float) -> None:
        self.name = name
        self.arguments = arguments
        self.result = result
        self.low = low
        self.high = high

    @property
    def is_function(self) -> bool:
        """Whether it is written as a call: `exp(x)`, not `a + b`."""
        return self.name.isidentifier() and self.name not in ("neg", "and", "or", "not")


def _operations() -> Iterator[Operation]:
    one, two = (NUMBER,), (NUMBER, NUMBER)
    for name in ("+", "-", "*", "minimum", "maximum"):
        yield Operation(name, two, NUMBER, -4.0, 4.0)
    yield Operation("/", two, NUMBER, 0.25, 4.0)
    yield Operation("**", two, NUMBER, 0.0625, 4.0)
    for name in ("<", "<=", ">", ">=", "==", "!="):
        yield Operation(name, two, CONDITION, -4.0, 4.0)
    for name in ("and", "or"):
        yield Operation(name, (CONDITION, CONDITION), CONDITION, -4.0, 4.0)
    yield Operation("not", (CONDITION,), CONDITION, -4.0, 4.0)
    yield Operation("where", (CONDITION, NUMBER, NUMBER), NUMBER, -4.0, 4.0)
    wide = ("neg", "exp", "exp2", "expm1", "abs", "tanh", "sigmoid", "sin", "cos", "sinh", "cosh", "atan", "asinh")
    for name in (*wide, "floor", "ceil", "trunc", "round", "rint", "sign", "erf"):
        yield Operation(name, one, NUMBER, -8.0, 8.0)
    yield Operation("tan", one, NUMBER, -1.5, 1.5)
    for name in ("log", "log2", "sqrt"):
        yield Operation(name, one, NUMBER, 0.001, 50.0)
    yield Operation("log1p", one, NUMBER, -0.99, 50.0)
    for name in ("asin", "acos", "atanh"):
        yield Operation(name, one, NUMBER, -0.99, 0.99)
    yield Operation("acosh", one, NUMBER, 1.01, 50.0)


OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _operations()}


# --- expressions ------------------------------------------------------------------------------------------------


class Expr:
    """A formula as an immutable node: `Number`, `Name` or `Apply`.

    Equal formulas are the same object, so `==` is identity and shared parts are found for free. Make nodes with
    `number`, `name`, `apply` or `parse`, never by their class.

    kind: NUMBER or CONDITION.  names: frozenset of the names it uses.
    """

    __slots__ = ("__weakref__", "kind", "names")
    kind: str
    names: frozenset[str]

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"a formula cannot be changed (attribute {attribute!r}); make a new one with substitute()")

    def __repr__(self) -> str:
        return f"parse_formula({str(self)!r})"

    def __str__(self) -> str:
        return to_text(self)


class Number(Expr):
    """A literal; value: float."""

    __slots__ = ("value",)
    value: float

    def __reduce__(self) -> tuple[object, ...]:
        return number, (self.value,)


class Name(Expr):
    """An input, an attribute or an earlier output; id: its name."""

    __slots__ = ("id",)
    id: str

    def __reduce__(self) -> tuple[object, ...]:
        return name, (self.id,)


class Apply(Expr):
    """An operation on arguments; op: a name of OPERATIONS; args: tuple of Expr."""

    __slots__ = ("args", "op")
    op: str
    args: tuple[Expr, ...]

    def __reduce__(self) -> tuple[object, ...]:
        return apply, (self.op, *self.args)


_nodes: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()
_lock = lock_across_forks()  # two threads must not make two nodes for one formula: equality is identity


def _intern(node_class: type, key: tuple[object, ...], fields: Mapping[str, object]) -> Expr:
    with _lock:
        node = _nodes.get(key)
        if node is None:
            node = object.__new__(node_class)
            for field, value in fields.items():
                object.__setattr__(node, field, value)
            _nodes[key] = node
        return node


def number(value: float) -> Expr:
    """The literal `value`, a finite float or inf."""
    value = float(value)
    # By repr, because 0.0 and -0.0 are equal but are different formulas.
    return _intern(Number, ("number", repr(value)), {"value": value, "kind": NUMBER, "names": frozenset()})


def name(identifier: str) -> Expr:
    """The value called `identifier`."""
    return _intern(Name, ("name", identifier), {"id": identifier, "kind": NUMBER, "names": frozenset((identifier,))})


def apply(op: str, *args: Expr) -> Expr:
    """The operation `op` of OPERATIONS on `args`, as it stands, without simplification.

    Raises FormulaError where the number of arguments or their kinds do not fit.
    """
    operation = OPERATIONS[op]
    kinds = tuple(arg.kind for arg in args)
    if kinds != operation.arguments:
        raise FormulaError(
            f"{op}({', '.join(map(str, args))}): the arguments are ({', '.join(kinds)}), but {op} takes "
            f"({', '.join(operation.arguments)}). {_kind_advice(kinds, operation.arguments)}"
        )
    names = frozenset().union(*(arg.names for arg in args))
    return _intern(Apply, (op, args), {"op": op, "args": args, "kind": operation.result, "names": names})


def _kind_advice(given: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    if len(given) != len(wanted):
        return f"Give {len(wanted)} argument{'s' if len(wanted) != 1 else ''}."
    if (CONDITION, NUMBER) in zip(given, wanted, strict=True):
        return "Use where(c, 1, 0) to turn a condition into a number."
    return "Use a comparison such as c != 0 to turn a number into a condition."


def postorder(roots: Iterable[Expr]) -> list[Apply]:
    """Every distinct `Apply` node under `roots`, arguments before the nodes that use them.

    Iterative, because fused chains are deeper than Python's recursion limit allows.
    """
    done: dict[Apply, None] = {}
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if not isinstance(node, Apply) or node in done:
                continue
            if expanded:
                done[node] = None
            else:
                stack.append((node, True))
                stack.extend((arg, False) for arg in reversed(node.args))
    return list(done)


def use_counts(roots: Iterable[Expr]) -> dict[Expr, int]:
    """How often each node under `roots` is used, by other nodes and as a root."""
    roots = tuple(roots)
    counts = dict.fromkeys(roots, 0)
    for used in (roots, *(node.args for node in postorder(roots))):
        for node in used:
            counts[node] = counts.get(node, 0) + 1
    return counts


def _rebuild(root: Expr, leaf: Callable[[Expr], Expr], build: Callable[[Apply, tuple[Expr, ...]], Expr]) -> Expr:
    new: dict[Expr, Expr] = {}
    for node in postorder((root,)):
        args = tuple(new[arg] if isinstance(arg, Apply) else leaf(arg) for arg in node.args)
        new[node] = build(node, args)
    return new[root] if isinstance(root, Apply) else leaf(root)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each name in `values` replaced, all at the same time."""

    def leaf(node: Expr) -> Expr:
        return values.get(node.id, node) if isinstance(node, Name) else node

    return _rebuild(expr, leaf, lambda node, args: node if args == node.args else apply(node.op, *args))


# --- text -------------------------------------------------------------------------------------------------------

_PRECEDENCE = {"or": 1, "and": 2, "not": 3, **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 4)}
_PRECEDENCE |= {"+": 5, "-": 5, "*": 6, "/": 6, "neg": 7, "**": 8}
_ATOM = 9


def parse_formula(text: str, values: Mapping[str, Expr] | None = None) -> Expr:
    """The formula written in `text`.

    values: what each name stands for; without it every name stands for itself.
    Raises FormulaError for anything outside the language, with the place and the nearest known name.
    """
    # Imported here because `ast` costs more than this module, and most processes never compile a formula.
    from atled.ops.formula_parser import parse_text

    return parse_text(text, values)


def to_text(expr: Expr) -> str:
    """`expr` in the language, with the fewest parentheses; `parse` of it gives `expr` again."""
    texts: dict[Expr, tuple[str, int]] = {}

    def get(node: Expr, least: int) -> str:
        text, precedence = texts[node] if isinstance(node, Apply) else _leaf_text(node)
        return text if precedence >= least else f"({text})"

    for node in postorder((expr,)):
        texts[node] = _apply_text(node, get)
    return get(expr, 0)


def _leaf_text(node: Expr) -> tuple[str, int]:
    if isinstance(node, Name):
        return node.id, _ATOM
    assert isinstance(node, Number)
    if math.isinf(node.value):
        return ("inf", _ATOM) if node.value > 0 else ("-inf", _PRECEDENCE["neg"])
    text = repr(int(node.value)) if node.value.is_integer() and abs(node.value) < 1e15 else repr(node.value)
    if math.copysign(1.0, node.value) < 0:
        return ("-0.0" if node.value == 0 else text), _PRECEDENCE["neg"]
    return text, _ATOM


def _apply_text(node: Apply, get: Callable[[Expr, int], str]) -> tuple[str, int]:
    op = node.op
    if op not in _PRECEDENCE:
        return f"{op}({', '.join(get(arg, 0) for arg in node.args)})", _ATOM
    level = _PRECEDENCE[op]
    if op == "not":
        return f"not {get(node.args[0], level)}", level
    if op == "neg":
        # A literal in parentheses, or it would be read back as a negative number.
        argument = node.args[0]
        return f"-({get(argument, 0)})" if isinstance(argument, Number) else f"-{get(argument, level)}", level
    # Comparisons do not chain, powers associate to the right, everything else to the left.
    left = level + 1 if op == "**" or level == _PRECEDENCE["<"] else level
    right = level if op == "**" else level + 1
    return f"{get(node.args[0], left)} {op} {get(node.args[1], right)}", level


# --- simplifying constructors -----------------------------------------------------------------------------------


def _value(node: Expr) -> float | None:
    return node.value if isinstance(node, Number) else None


def _fold(op: str, compute: Callable[..., float], *args: Expr) -> Expr:
    """`op` on `args`, computed now where all of them are literals with a finite result."""
    values = [arg.value for arg in args if isinstance(arg, Number)]
    if len(values) < len(args):
        return apply(op, *args)
    try:
        result = compute(*values)
    except (ArithmeticError, ValueError):
        return apply(op, *args)  # such as 1 / 0: the writers compute it as IEEE 754 says
    return number(result) if isinstance(result, float) and math.isfinite(result) else apply(op, *args)


def add(a: Expr, b: Expr) -> Expr:
    """`a + b`, simplified."""
    if _value(a) == 0:
        return b
    if _value(b) == 0:
        return a
    if isinstance(b, Apply) and b.op == "neg":
        return subtract(a, b.args[0])
    return _fold("+", lambda x, y: x + y, a, b)


def subtract(a: Expr, b: Expr) -> Expr:
    """`a - b`, simplified."""
    if _value(b) == 0:
        return a
    if _value(a) == 0:
        return negate(b)
    return _fold("-", lambda x, y: x - y, a, b)


def multiply(a: Expr, b: Expr) -> Expr:
    """`a * b`, simplified; a literal 0 gives 0 even where the other factor is infinite."""
    for factor, other in ((a, b), (b, a)):
        if _value(factor) == 0:
            return number(0)
        if _value(factor) == 1:
            return other
        if _value(factor) == -1:
            return negate(other)
        if isinstance(factor, Apply) and factor.op == "/" and _value(factor.args[0]) == 1:
            return divide(other, factor.args[1])
    return _fold("*", lambda x, y: x * y, a, b)


def divide(a: Expr, b: Expr) -> Expr:
    """`a / b`, simplified; a literal 0 divided by anything gives 0."""
    if _value(a) == 0 and _value(b) != 0:
        return number(0)
    if _value(b) == 1:
        return a
    return _fold("/", lambda x, y: x / y, a, b)


def power(a: Expr, b: Expr) -> Expr:
    """`a ** b`, simplified."""
    if _value(b) == 0:
        return number(1)
    if _value(b) == 1:
        return a
    return _fold("**", lambda x, y: x**y, a, b)


def negate(a: Expr) -> Expr:
    """`-a`, simplified."""
    if isinstance(a, Apply) and a.op == "neg":
        return a.args[0]
    return number(-a.value) if isinstance(a, Number) else apply("neg", a)


def where(condition: Expr, a: Expr, b: Expr) -> Expr:
    """`where(condition, a, b)`, simplified."""
    return a if a is b else apply("where", condition, a, b)


# --- derivatives ------------------------------------------------------------------------------------------------

# dy/dx of y = f(x), in x and y. A function with a kink takes one of the one-sided values.
_DERIVATIVES = {
    "exp": "y",
    "exp2": "log(2) * y",
    "expm1": "exp(x)",  # not y + 1, which has no correct digits for x below -17
    "log": "1 / x",
    "log2": "1 / (log(2) * x)",
    "log1p": "1 / (1 + x)",
    "sqrt": "0.5 / y",
    "abs": "where(x >= 0, 1, -1)",
    "tanh": "1 - y * y",
    "sigmoid": "y * (1 - y)",
    "sin": "cos(x)",
    "cos": "-sin(x)",
    "tan": "1 + y * y",
    "sinh": "cosh(x)",
    "cosh": "sinh(x)",
    "asin": "1 / sqrt(1 - x * x)",
    "acos": "-1 / sqrt(1 - x * x)",
    "atan": "1 / (1 + x * x)",
    "asinh": "1 / sqrt(1 + x * x)",
    "acosh": "1 / sqrt(x * x - 1)",
    "atanh": "1 / (1 - x * x)",
    "erf": "2 / sqrt(pi) * exp(-(x * x))",
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "rint", "sign"), "0"),
}


def derivative(expr: Expr, wrt: str) -> Expr:
    """The derivative of `expr` with respect to the name `wrt`, lightly simplified.

    At kinks: abs' = 1 at 0; floor, ceil, trunc, round, rint and sign have derivative 0; minimum and maximum pass the
    gradient to their second argument on ties; where takes the derivative of the branch it takes.
    """
    if expr.kind == CONDITION:
        raise FormulaError(f"derivative of {expr}: a condition has no derivative. Use where(c, a, b).")
    known: dict[Expr, Expr] = {}

    def get(node: Expr) -> Expr:
        if wrt not in node.names:
            return number(0)
        return number(1) if isinstance(node, Name) else known[node]

    for node in postorder((expr,)):
        if wrt in node.names and node.kind == NUMBER:
            known[node] = _chain_rule(node, get)
    return get(expr)


def _chain_rule(node: Apply, d: Callable[[Expr], Expr]) -> Expr:
    op, args = node.op, node.args
    if op in _DERIVATIVES:
        return multiply(parse_formula(_DERIVATIVES[op], {"x": args[0], "y": node}), d(args[0]))
    if op == "neg":
        return negate(d(args[0]))
    if op == "where":
        return where(args[0], d(args[1]), d(args[2]))
    a, b = args
    if op == "+":
        return add(d(a), d(b))
    if op == "-":
        return subtract(d(a), d(b))
    if op == "*":
        return add(multiply(d(a), b), multiply(a, d(b)))
    if op == "/":
        # da / b - (y / b) * db: the form with b * b would overflow early.
        return subtract(divide(d(a), b), multiply(divide(node, b), d(b)))
    if op == "minimum":
        return where(apply("<", a, b), d(a), d(b))
    if op == "maximum":
        return where(apply(">", a, b), d(a), d(b))
    assert op == "**", op
    # A constant exponent has d(b) = 0 and needs no logarithm, so x ** 2 stays differentiable at x <= 0.
    by_base = multiply(multiply(b, power(a, subtract(b, number(1)))), d(a))
    by_exponent = multiply(multiply(node, _fold("log", math.log, a)), d(b)) if _value(d(b)) != 0 else number(0)
    return add(by_base, by_exponent)


# --- lowering ---------------------------------------------------------------------------------------------------

# Operations in terms of simpler ones, for targets that lack them.
_EXPANSIONS = {
    # Never exp of a positive number, which would overflow; both tails keep full relative accuracy.
    "sigmoid": "where(x >= 0, 1, exp(-abs(x))) / (1 + exp(-abs(x)))",
    "sign": "where(x > 0, 1, where(x < 0, -1, x))",  # NaN gives NaN
    # NaN in either argument gives NaN, as numpy.minimum and numpy.maximum do. In this order x86 has one instruction for
    # the outer choice, and with a constant as y, such as a rectifier's, nothing is left of the inner one.
    "minimum": "where(y < x, y, where(y != y, y, x))",
    "maximum": "where(y > x, y, where(y != y, y, x))",
    # Half away from zero. x - trunc(x) is exact, floor(x + 0.5) is not: it gives 1 for the float before 0.5.
    "round": "where(abs(x - trunc(x)) >= 0.5, trunc(x) + where(x > 0, 1, -1), trunc(x))",
    # Half to even: twice the nearest whole number of x / 2, from a half on.
    "rint": "where(abs(x - trunc(x)) == 0.5, 2 * floor(x / 2 + 0.5), "
    "where(abs(x - trunc(x)) > 0.5, trunc(x) + where(x > 0, 1, -1), trunc(x)))",
    "exp2": "2 ** x",
    "log2": "log(x) / log(2)",
}
EXPANDABLE = frozenset(_EXPANSIONS)
# The same with the NaN of y apart: -0 is added, which changes nothing, or that NaN.
_NAN_APART = {
    "minimum": "where(y < x, y, x) + where(y != y, y, -0.0)",
    "maximum": "where(y > x, y, x) + where(y != y, y, -0.0)",
}
_POWERS = {
    -2.0: "1 / (x * x)",
    -1.0: "1 / x",
    -0.5: "1 / sqrt(x)",
    0.0: "1",
    0.5: "sqrt(x)",
    1.0: "x",
    2.0: "x * x",
    3.0: "x * x * x",
    4.0: "(x * x) * (x * x)",
}


def expand(expr: Expr, operations: frozenset[str], is_uniform: Callable[[Expr], bool] = lambda argument: False) -> Expr:
    """`expr` with `operations`, of `EXPANDABLE`, written in simpler ones.

    Powers with a small literal exponent become products, roots or quotients in any case.
    is_uniform: of which second arguments of minimum and maximum a NaN is looked for apart.
    """

    def build(node: Apply, args: tuple[Expr, ...]) -> Expr:
        if node.op in operations:
            is_apart = node.op in _NAN_APART and _value(args[1]) is None and is_uniform(args[1])
            text = (_NAN_APART if is_apart else _EXPANSIONS)[node.op]
            return parse_formula(text, dict(zip("xy", args, strict=False)))
        exponent = _value(args[1]) if node.op == "**" else None
        if exponent is not None and exponent in _POWERS:
            return parse_formula(_POWERS[exponent], {"x": args[0]})
        return node if args == node.args else apply(node.op, *args)

    return _rebuild(expr, lambda leaf: leaf, build)


ROUNDING = frozenset(("floor", "ceil", "trunc", "round", "rint"))


def without_rounding(expr: Expr) -> Expr:
    """`expr` for whole numbers, which rounding leaves as they are."""

    def build(node: Apply, args: tuple[Expr, ...]) -> Expr:
        if node.op in ROUNDING:
            return args[0]
        return node if args == node.args else apply(node.op, *args)

    return _rebuild(expr, lambda leaf: leaf, build)


# --- programs ---------------------------------------------------------------------------------------------------


class Program:
    """Formulas with several outputs, computed for one element at a time.

    inputs, attributes: tuples of names; inputs are arrays, attributes run-time floats.
    outputs: pairs (name, formula as text or Expr), computed at the same time. An output with an input's name updates
        that input in place, and every formula that uses the name sees the value before the update. A name that is no
        input but an earlier output stands for that output's value before rounding to its dtype.
    lets: pairs (name, formula) of intermediate values or conditions, each may use the ones before it.

    Immutable; equal where `key` is. Formulas are parsed on first use, so that tables of programs import quickly;
    FormulaError is raised at once for bad names and on first use for bad formulas.

    >>> Program(("x",), (), (("y", "exp(x)"), ("z", "y * y"))).outputs[1][1]
    parse_formula('exp(x) * exp(x)')
    """

    __slots__ = ("_expressions", "_key", "_outputs", "_source", "attributes", "in_place", "inputs", "output_names")
    inputs: tuple[str, ...]
    attributes: tuple[str, ...]
    output_names: tuple[str, ...]
    in_place: tuple[tuple[int, int], ...]
    """Pairs (output index, input index) of the outputs that update an input."""
    _expressions: tuple[Expr, ...] | None
    _source: tuple[tuple[tuple[str, str | Expr], ...], tuple[tuple[str, str | Expr], ...]]
    _outputs: tuple[tuple[str, Expr], ...] | None
    _key: str | None

    def __init__(
        self,
        inputs: Iterable[str],
        attributes: Iterable[str],
        outputs: Iterable[tuple[str, str | Expr]],
        lets: Iterable[tuple[str, str | Expr]] = (),
    ) -> None:
        source = (tuple((n, f) for n, f in outputs), tuple((n, f) for n, f in lets))
        inputs = tuple(inputs)
        output_names = tuple(output for output, _ in source[0])
        values = {
            "inputs": inputs,
            "attributes": tuple(attributes),
            "output_names": output_names,
            "in_place": tuple((i, inputs.index(n)) for i, n in enumerate(output_names) if n in inputs),
            "_expressions": None,
            "_source": source,
            "_outputs": None,
            "_key": None,
        }
        for slot, value in values.items():
            object.__setattr__(self, slot, value)
        self._check_names()

    def _check_names(self) -> None:
        let_names = tuple(let for let, _ in self._source[1])
        outputs = tuple(output for output in self.output_names if output not in self.inputs)
        seen: set[str] = set()
        for identifier in (*self.inputs, *self.attributes, *let_names, *outputs):
            if not (identifier.isidentifier() and identifier.isascii()) or identifier[0] == "_":
                raise self._name_error(identifier, "is not a name: letters, digits and _, beginning with a letter")
            if iskeyword(identifier) or identifier in OPERATIONS or identifier in CONSTANTS:
                raise self._name_error(identifier, "already means something in the language")
            if identifier in seen:
                raise self._name_error(identifier, "is there twice")
            seen.add(identifier)
        if len(set(self.output_names)) < len(self.output_names) or not self.output_names:
            raise FormulaError(f"{self._title()}: needs one output or more, each once. Give each output its own name.")

    def _title(self) -> str:
        return f"program ({', '.join((*self.inputs, *self.attributes))}) -> ({', '.join(self.output_names)})"

    def _name_error(self, identifier: str, problem: str) -> FormulaError:
        return FormulaError(f"{self._title()}: {identifier!r} {problem}. Choose another name.")

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"a Program cannot be changed (attribute {attribute!r}); make a new one")

    @property
    def outputs(self) -> tuple[tuple[str, Expr], ...]:
        """Pairs (name, Expr), the expressions in inputs and attributes alone."""
        if self._outputs is None:
            object.__setattr__(self, "_outputs", self._resolve())
        assert self._outputs is not None
        return self._outputs

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions of `outputs`."""
        if self._expressions is None:
            object.__setattr__(self, "_expressions", tuple(expression for _, expression in self.outputs))
        assert self._expressions is not None
        return self._expressions

    def _resolve(self) -> tuple[tuple[str, Expr], ...]:
        values = {identifier: name(identifier) for identifier in (*self.inputs, *self.attributes)}
        outputs, lets = self._source
        for let, formula in lets:
            values[let] = self._bind(formula, values)
        resolved = []
        for output, formula in outputs:
            expression = self._bind(formula, values)
            if expression.kind == CONDITION:
                raise FormulaError(
                    f"{self._title()}: output {output!r} is the condition {expression}, but outputs are numbers. "
                    "Use where(c, 1, 0)."
                )
            resolved.append((output, expression))
            values.setdefault(output, expression)
        return tuple(resolved)

    def _bind(self, formula: str | Expr, values: Mapping[str, Expr]) -> Expr:
        if isinstance(formula, str):
            return parse_formula(formula, values)
        unknown = sorted(formula.names - values.keys())
        if unknown:
            raise FormulaError(
                f"{self._title()}: the formula {formula} uses {', '.join(unknown)}, which the program does not have. "
                "Name it among the inputs or attributes."
            )
        return substitute(formula, values)

    @property
    def key(self) -> str:
        """Text that is equal for equal programs, in every process; each shared part occurs once in it."""
        if self._key is None:
            labels: dict[Expr, str] = {}

            def label(node: Expr) -> str:
                return labels[node] if isinstance(node, Apply) else _leaf_text(node)[0]

            lines = [",".join(self.inputs), ",".join(self.attributes)]
            for node in postorder(self.expressions):
                labels[node] = f"%{len(labels)}"
                lines.append(f"{labels[node]}={node.op}({','.join(map(label, node.args))})")
            lines.extend(f"{output}={label(expression)}" for output, expression in self.outputs)
            object.__setattr__(self, "_key", ";".join(lines))
        assert self._key is not None
        return self._key

    def __eq__(self, other: object) -> bool:
        return self is other or self.key == other.key if isinstance(other, Program) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        lets = f", lets={self._source[1]!r}" if self._source[1] else ""
        return f"Program({self.inputs!r}, {self.attributes!r}, {self._source[0]!r}{lets})"

    def __reduce__(self) -> tuple[object, ...]:
        return Program, (self.inputs, self.attributes, *self._source)


def has_powers(program: Program) -> bool:
    """Whether powers are left where those with small literal exponents are products: integers have none in kernels."""
    expanded = [expand(expression, frozenset()) for expression in program.expressions]
    return any(node.op == "**" for node in postorder(expanded))


def sample_programs() -> list[tuple[Operation, Program]]:
    """For each operation of the language the smallest program that uses it, with inputs a and b and output y.

    A compiler of formulas is complete when it computes all of them; `low` and `high` of the operation bound a and b.
    """
    samples = []
    for op, operation in OPERATIONS.items():
        a, b = name("a"), name("b")
        condition = apply("<", a, b)
        by_kind = {NUMBER: (a, b), CONDITION: (condition, apply(">", a, number(1)))}
        args = [by_kind[kind][i % 2] for i, kind in enumerate(operation.arguments)]
        result = apply(op, *args)
        if operation.result == CONDITION:
            result = apply("where", result, a, b)
        samples.append((operation, Program(("a", "b"), (), (("y", result),))))
    return samples
