"""The names of ops in op-trees, and the op spec that computes each."""

from __future__ import annotations

from types import MappingProxyType

ONE_OPERAND = MappingProxyType(
    {
        "finite": "OneWhereFinite",
        "neg": "Neg",
        "abs": "Magnitude",
        "sgn": "Sgn",
        "sqrt": "Sqrt",
        "sqr": "Square",
        "exp": "Exp",
        "log": "Log",
        "exp2": "Exp2",
        "log2": "Log2",
        "sig": "Sigmoid",
        "sig2": "SigmoidBase2",
        "tanh": "Tanh",
        "tanh2": "TanhBase2",
        "safelog": "SafeLog",
        "rint": "Rint",
    }
)
TWO_OPERANDS = MappingProxyType(
    {
        "add": "Add2",
        "sub": "Sub2",
        "mul": "Mul2",
        "div": "Div2",
        "pow": "Pow2",
        "eq": "OneWhereEqual",
        "ne": "OneWhereNotEqual",
        "lt": "OneWhereLess",
        "le": "OneWhereLessEqual",
        "gt": "OneWhereGreater",
        "ge": "OneWhereGreaterEqual",
        "minimum": "MinimumTies",
        "maximum": "MaximumTies",
    }
)
REDUCTIONS = MappingProxyType(
    {"sum": "Sum", "max": "MaxTies", "min": "MinTies", "argmax": "ArgMax", "argmin": "ArgMin"}
)
ELEMENTWISE = {**ONE_OPERAND, **TWO_OPERANDS}
SIGNS = MappingProxyType({"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "eq": "==", "ne": "!="}) | {
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
"""How ops of two operands are written."""


class OpCollection:
    """Names of ops by kind."""

    zero_operand_ops = frozenset(("rand", "onehot"))
    unary_ops = frozenset((*ONE_OPERAND, "transpose", "binarize"))
    binary_ops = frozenset((*TWO_OPERANDS, "assign", "dot", "shift", "take"))
    reduction_ops = frozenset(REDUCTIONS)
    float_ops = frozenset((*ELEMENTWISE, "assign", "dot", "transpose", "binarize", "shift", "take", "rand", "onehot"))
    ew_ops = frozenset((*ELEMENTWISE, "binarize", "shift"))


NAMES = OpCollection.zero_operand_ops | OpCollection.unary_ops | OpCollection.binary_ops | OpCollection.reduction_ops
