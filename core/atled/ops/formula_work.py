"""How much work a formula is, compared with reading and writing arrays."""

from __future__ import annotations

from atled.ops.formula import Expr, postorder

# Per operation how many elements could be read or written, beyond the caches, in the time that it takes for one. Those
# that are not listed take as long as two or three of the functions that are.
_OPERANDS = dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log1p", "sigmoid", "tanh"), 2)
_OPERANDS |= dict.fromkeys(("/", "sqrt", "floor", "ceil", "trunc", "round", "rint"), 1)
_OPERANDS |= dict.fromkeys(("+", "-", "*", "neg", "abs", "minimum", "maximum", "sign"), 0)
_OPERANDS |= dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "where"), 0)
_OTHER_OPERANDS = 4


def work_of(formula: Expr) -> int:
    """How many elements could be read, beyond the caches, in the time that a formula takes for one."""
    return sum(_OPERANDS.get(node.op, _OTHER_OPERANDS) for node in postorder([formula]))
