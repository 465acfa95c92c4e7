"""Reads formula text into expressions, with Python's own parser for the grammar."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping

from atled.ops.formula import CONSTANTS, OPERATIONS, Expr, FormulaError, Number, apply, name, number

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_FUNCTIONS = sorted(operation.name for operation in OPERATIONS.values() if operation.is_function)

_HINTS: dict[type, str] = {
    ast.IfExp: "Write where(condition, a, b) instead of `a if condition else b`.",
    ast.BitAnd: "Write `and` between conditions.",
    ast.BitOr: "Write `or` between conditions.",
    ast.BitXor: "Write ** for powers.",
    ast.Invert: "Write `not` before a condition.",
    ast.FloorDiv: "Write floor(a / b).",
    ast.Mod: "Write a - b * floor(a / b).",
    ast.UAdd: "Leave the + out.",
    ast.Attribute: "Write functions without a module: exp(x), not np.exp(x).",
}


def parse_text(text: str, values: Mapping[str, Expr] | None) -> Expr:
    """The expression in `text`; see `formula.parse_formula`."""
    text = " ".join(text.split())  # formulas in tables run over several lines
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError) as error:
        column = (getattr(error, "offset", None) or 1) - 1
        what = f"is not an expression ({getattr(error, 'msg', error)})"
        raise FormulaError(_message(text, column, what, "Write one expression, such as x * sigmoid(x).")) from error
    return _Parser(text, values).read(tree.body)


def _message(text: str, column: int, problem: str, advice: str) -> str:
    return f"formula {text!r}: {problem}, at column {column + 1}\n    {text}\n    {' ' * column}^\n{advice}"


class _Parser:
    def __init__(self, text: str, values: Mapping[str, Expr] | None) -> None:
        self.text = text
        self.values = values

    def error(self, node: ast.AST, problem: str, advice: str) -> FormulaError:
        # Python counts columns in UTF-8 bytes.
        offset = getattr(node, "col_offset", 0)
        column = len(self.text.encode()[:offset].decode(errors="replace"))
        return FormulaError(_message(self.text, column, problem, advice))

    def read(self, node: ast.expr) -> Expr:
        if isinstance(node, ast.Constant):
            return self.read_constant(node)
        if isinstance(node, ast.Name):
            return self.read_name(node)
        if isinstance(node, ast.Call):
            return self.read_call(node)
        if isinstance(node, ast.BinOp):
            return self.read_binary(node)
        if isinstance(node, ast.UnaryOp):
            return self.read_unary(node)
        if isinstance(node, ast.Compare):
            return self.read_comparison(node)
        if isinstance(node, ast.BoolOp):
            op = "and" if isinstance(node.op, ast.And) else "or"
            result = self.read(node.values[0])
            for value in node.values[1:]:
                result = self.make(node, op, result, self.read(value))
            return result
        raise self.unknown_construct(node, node)

    def make(self, node: ast.AST, op: str, *args: Expr) -> Expr:
        try:
            return apply(op, *args)
        except FormulaError as error:
            raise self.error(node, "the arguments do not fit", str(error)) from error

    def unknown_construct(self, node: ast.AST, culprit: ast.AST) -> FormulaError:
        known = f"The language has + - * / **, comparisons, and/or/not and the functions {', '.join(_FUNCTIONS)}."
        hint = _HINTS.get(type(culprit), "Use only those.")
        return self.error(node, f"{type(culprit).__name__} is not in the language", f"{known} {hint}")

    def read_constant(self, node: ast.Constant) -> Expr:
        value = node.value
        if isinstance(value, bool):
            raise self.error(node, f"{value} is not in the language", "Write a comparison, such as 0 < 1.")
        if not isinstance(value, int | float):
            raise self.error(node, f"{value!r} is not a number of the language", "Write an int or a float.")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if math.isinf(value):
            raise self.error(node, "the number is too large for a float", "Write inf if infinity is meant.")
        return number(value)

    def read_name(self, node: ast.Name) -> Expr:
        identifier = node.id
        if self.values is not None and identifier in self.values:
            return self.values[identifier]
        if identifier in CONSTANTS:
            return number(CONSTANTS[identifier])
        if identifier in _FUNCTIONS:
            raise self.error(node, f"the function {identifier} has no arguments", f"Write {identifier}(...).")
        if self.values is None:
            return name(identifier)
        raise self.unknown_name(node, "name", identifier, [*self.values, *CONSTANTS])

    def unknown_name(self, node: ast.AST, what: str, given: str, names: Iterable[str]) -> FormulaError:
        known = sorted(names)
        import difflib  # only on the way to an error: keeps the import of the package quick

        near = difflib.get_close_matches(given, known, n=1)
        advice = f"Did you mean {near[0]}?" if near else f"Use a known {what}."
        return self.error(node, f"unknown {what} {given!r}", f"Known: {', '.join(known)}. {advice}")

    def read_call(self, node: ast.Call) -> Expr:
        if not isinstance(node.func, ast.Name):
            raise self.unknown_construct(node, node.func)
        function = node.func.id
        if function not in _FUNCTIONS:
            raise self.unknown_name(node, "function", function, _FUNCTIONS)
        if node.keywords:
            raise self.error(node, f"{function} is given a keyword argument", "Give arguments by position.")
        return self.make(node, function, *map(self.read, node.args))

    def read_binary(self, node: ast.BinOp) -> Expr:
        op = _BINARY.get(type(node.op))
        if op is None:
            raise self.unknown_construct(node, node.op)
        return self.make(node, op, self.read(node.left), self.read(node.right))

    def read_unary(self, node: ast.UnaryOp) -> Expr:
        if isinstance(node.op, ast.Not):
            return self.make(node, "not", self.read(node.operand))
        if not isinstance(node.op, ast.USub):
            raise self.unknown_construct(node, node.op)
        operand = self.read(node.operand)
        if isinstance(operand, Number) and self.text[node.operand.col_offset - 1] == "-":
            return number(-operand.value)  # -2 is a literal, -(2) is not
        return self.make(node, "neg", operand)

    def read_comparison(self, node: ast.Compare) -> Expr:
        if len(node.ops) > 1:
            raise self.error(node, "a comparison has more than two sides", "Write (a < b) and (b < c).")
        op = _COMPARISONS.get(type(node.ops[0]))
        if op is None:
            raise self.unknown_construct(node, node.ops[0])
        return self.make(node, op, self.read(node.left), self.read(node.comparators[0]))
