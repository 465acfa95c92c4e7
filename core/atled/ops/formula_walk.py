"""Computes programs by calls of an array library's functions: for plugins whose library compiles no source."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from atled.errors import did_you_mean, four_parts, listing
from atled.ops.formula import (
    CONDITION,
    EXPANDABLE,
    OPERATIONS,
    Apply,
    Expr,
    FormulaError,
    Program,
    apply,
    expand,
    name,
    number,
    postorder,
    without_rounding,
)
from atled.ops.formula_numpy import compile_numpy

_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.invert,
    "neg": operator.neg,
    "abs": abs,
}
"""What the arrays of most libraries do by Python's operators."""


def compile_formula(
    program: Program,
    table: Mapping[str, Callable[..., Any]],
    *,
    literal: Callable[[float], Any] = float,
    whole: bool = False,
) -> FormulaWalk:
    """`formula(*inputs, *attributes)`, which computes a program by the functions of a library; the tuple of outputs.

    table: by name in the language (`OPERATIONS`: "exp", "where", ...) a function of arrays that broadcast, elementwise
        and without change of its arguments. Operators and `abs` are Python's where the table has none. What else it
        lacks is written in simpler operations if it is one of sigmoid, sign, minimum, maximum, round, rint, exp2, log2.
    literal: makes of a number a value that the functions take in place of an array.
    whole: whether the arrays are of integers or truth values, which rounding leaves as they are; `literal` then gives
        numbers of their dtype.

    The functions get the inputs as they are given, of the real type to compute in, and what they returned. Expressions
    of attributes and literals alone never reach them: those are computed in float64, those of literals once, here.
    An output may be one of the inputs itself or a `literal`, if that is all there is to it. Temporaries are let go
    after their last use. Reentrant, if the functions are.

    Raises FormulaError for an operation that the table lacks, or a name in it that the language has not.
    """
    functions = {**_OPERATORS, **table}
    for operation in functions:
        if operation not in OPERATIONS:
            known = did_you_mean(operation, OPERATIONS, "docs/formulas.md lists them")
            raise FormulaError(
                four_parts("the table of compile_formula", f"formulas have no operation {operation!r}", "", known)
            )
    given = map(without_rounding, program.expressions) if whole else program.expressions
    expressions = [expand(each, EXPANDABLE.difference(functions)) for each in given]
    missing = sorted({node.op for node in postorder(expressions) if not node.names.isdisjoint(program.inputs)})
    missing = [operation for operation in missing if operation not in functions]
    if missing:
        raise FormulaError(
            four_parts(
                f"compile_formula({program!r})",
                f"the table has no {listing(missing)}",
                "",
                "add the library's function to it, or say in `accepts` that another backend is to compute this op",
            )
        )
    return FormulaWalk(program, expressions, functions, literal)


class FormulaWalk:
    """A program as calls in order: `walk(*inputs, *attributes)`, the tuple of outputs; `compile_formula` makes it.

    It is `walk.compute(*inputs, *map(literal, walk.numbers(*attributes)))`. `compute` alone does nothing but the calls,
    so that a library can record it and compile what it recorded: once for all values of the attributes.
    """

    # Values have places: those of the inputs, of the numbers, then of the results of the calls.

    def __init__(
        self,
        program: Program,
        expressions: Sequence[Expr],
        functions: Mapping[str, Callable[..., Any]],
        literal: Callable[[float], Any],
    ) -> None:
        inputs = program.inputs
        self._inputs = len(inputs)
        self._literal = literal
        calls = [node for node in postorder(expressions) if not node.names.isdisjoint(inputs)]
        used = dict.fromkeys((*(arg for node in calls for arg in node.args), *expressions))
        numbers = [node for node in used if node.names.isdisjoint(inputs)]
        self._place: dict[Expr, int] = {name(identifier): place for place, identifier in enumerate(inputs)}
        for node in (*numbers, *calls):
            self._place[node] = len(self._place)
        self._results = [self._place[expression] for expression in expressions]
        self._steps = self._lowered(calls, functions)
        self._values: list[Any] = [None] * len(self._place)
        fixed = [node for node in numbers if not node.names]
        self._put(self._values, fixed, [literal(float(value)) for value in _numbers_of((), fixed)()])
        self._changing = [node for node in numbers if node.names]
        self._numbers = _numbers_of(program.attributes, self._changing)

    def _lowered(
        self, calls: Sequence[Apply], functions: Mapping[str, Callable[..., Any]]
    ) -> list[tuple[Callable[..., Any], tuple[int, ...], int, tuple[int, ...]]]:
        """Per call: the function, the places of its arguments and of its result, those that are needed no more."""
        made, kept = {self._place[node] for node in calls}, set(self._results)
        last_use = {self._place[arg]: step for step, node in enumerate(calls) for arg in node.args}
        steps = []
        for step, node in enumerate(calls):
            places = tuple(self._place[arg] for arg in node.args)
            dead = {place for place in places if last_use[place] == step and place in made and place not in kept}
            steps.append((functions[node.op], places, self._place[node], tuple(dead)))
        return steps

    def _put(self, values: list[Any], nodes: Sequence[Expr], numbers: Iterable[Any]) -> None:
        """Put numbers where they stand among the values."""
        for node, value in zip(nodes, numbers, strict=True):
            values[self._place[node]] = value != 0 if node.kind == CONDITION else value

    def numbers(self, *attributes: float) -> list[float]:
        """What the calls take of the attributes, computed in float64; a condition gives 1 or 0."""
        return [float(value) for value in self._numbers(*attributes)]

    def compute(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, of the inputs and then of `numbers`, which may be whatever the functions take for an array."""
        values = self._values.copy()
        values[: self._inputs] = arguments[: self._inputs]
        self._put(values, self._changing, arguments[self._inputs :])
        for function, places, result, dead in self._steps:
            values[result] = function(*[values[place] for place in places])
            for place in dead:
                values[place] = None
        return tuple([values[place] for place in self._results])

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, of the inputs and then of the attributes."""
        if not self._changing:
            return self.compute(*arguments[: self._inputs])
        numbers = self.numbers(*arguments[self._inputs :])
        return self.compute(*arguments[: self._inputs], *map(self._literal, numbers))


def _numbers_of(attributes: Sequence[str], nodes: Sequence[Expr]) -> Callable[..., Sequence[Any]]:
    """What computes expressions of attributes in float64; a condition gives 1 or 0."""
    if not nodes:
        return lambda *_: ()
    prefix = "u" * max(2, *(len(attribute) for attribute in attributes), 0)  # no attribute is called u...u0
    as_numbers = [apply("where", node, number(1), number(0)) if node.kind == CONDITION else node for node in nodes]
    return compile_numpy(Program((), attributes, [(f"{prefix}{n}", node) for n, node in enumerate(as_numbers)]))
