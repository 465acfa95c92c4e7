"""NumPy's promotion, for nodes that take their dtypes from their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atled.dtypes import is_float
from atled.ops.formula import CONDITION, Apply, Expr, Name, Number, Program, postorder

Operand = np.dtype | type
"""A dtype, or `int` or `float` for a Python number, which widens nothing."""

_BOOL: np.dtype[Any] = np.dtype(np.bool_)
_UFUNCS: Mapping[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "**": np.power,
    "neg": np.negative,
    "abs": np.absolute,
}
_ROUNDING = frozenset(("floor", "ceil", "trunc", "round", "rint"))  # whole numbers stay as they are
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))


def promoted(dtypes: Sequence[np.dtype], *, exact: bool) -> np.dtype:
    """NumPy's result type of some arrays; without `exact` the float that it gives for integers and a Python float.

    TypeError: NumPy has none.
    """
    found = np.result_type(*dtypes)
    return found if exact or is_float(found) else np.result_type(found, 1.0)


def accumulated(dtype: np.dtype) -> np.dtype:
    """The dtype in which `numpy.sum` adds the elements of one."""
    return dtype if is_float(dtype) else np.result_type(dtype, np.uint64 if dtype.kind == "u" else np.int64)


def formula_dtype(
    program: Program, dtypes: Sequence[np.dtype], numbers: Mapping[str, type], *, predicate: bool
) -> np.dtype:
    """The dtype in which a formula is computed on inputs of some dtypes, as NumPy's functions would.

    Integers stay integers where every part of the formula is one of integers or a comparison of them.
    numbers: which attributes are whole numbers (int); the others are floats.  TypeError: NumPy has no promotion.
    """
    common = np.result_type(*dtypes)
    if is_float(common):
        return common
    walk = _Walk(
        {**dict.fromkeys(program.attributes, float), **numbers}, dict(zip(program.inputs, dtypes, strict=True))
    )
    results = [walk.type_of(expression) for expression in program.expressions]
    if walk.has_floats:
        floats = [found for found in results if isinstance(found, np.dtype) and is_float(found)]
        return np.result_type(*floats) if floats else np.result_type(common, 1.0)
    return np.result_type(common, *walk.compared, *([] if predicate else [_example(found) for found in results]))


class _Walk:
    """Types of the parts of a formula of integers.

    has_floats: whether one is no integer.  compared: what is compared as a wider dtype than the operands have.
    """

    def __init__(self, numbers: Mapping[str, type], inputs: Mapping[str, np.dtype]) -> None:
        kinds = {name: _BOOL if kind is bool else kind for name, kind in numbers.items()}
        self._names: dict[str, Operand] = {**kinds, **inputs}
        self._types: dict[Expr, Operand] = {}
        self.has_floats = False
        self.compared: list[np.dtype] = []

    def type_of(self, root: Expr) -> Operand:
        """That of a formula; of all its parts, too."""
        for node in postorder((root,)):
            if node not in self._types:
                found = _BOOL if node.kind == CONDITION else self._result(node)
                self._types[node] = found
                if node.op in _COMPARISONS:
                    self._compare(node)
                self.has_floats |= found is float or (isinstance(found, np.dtype) and is_float(found))
        found = self._type(root)
        self.has_floats |= found is float
        return found

    def _type(self, node: Expr) -> Operand:
        if isinstance(node, Number):
            return int if node.value.is_integer() else float
        return self._names[node.id] if isinstance(node, Name) else self._types[node]

    def _result(self, node: Apply) -> Operand:
        args = [self._type(arg) for arg in node.args if arg.kind != CONDITION]
        if not any(isinstance(arg, np.dtype) for arg in args):
            whole = all(arg is int for arg in args) and (
                node.op in _UFUNCS or node.op in _ROUNDING or node.op == "where"
            )
            return int if whole and node.op != "/" else float
        if node.op in _ROUNDING:
            return args[0]
        exponent = node.args[-1]
        if node.op == "**" and isinstance(exponent, Number) and exponent.value < 0:
            return float
        if node.op == "where":
            return np.result_type(*map(_example, args))
        # What NumPy lacks has the types of any other function of numbers.
        ufunc = _UFUNCS.get(node.op) or getattr(np, node.op, np.exp)
        return ufunc.resolve_dtypes((*args, None))[-1]

    def _compare(self, node: Apply) -> None:
        args = [self._type(arg) for arg in node.args]
        fits_bool = [isinstance(arg, Number) and arg.value in (0, 1) for arg in node.args]
        wide = [_example(arg) for arg, small in zip(args, fits_bool, strict=True) if not small]
        if wide and any(isinstance(arg, np.dtype) for arg in args):
            common = np.result_type(*wide)
            self.has_floats |= is_float(common)
            self.compared.append(common)
        else:
            self.has_floats |= float in args


def _example(operand: Operand) -> Any:  # Any: a dtype, or a Python number that stands for its kind
    return operand if isinstance(operand, np.dtype) else operand(1)
