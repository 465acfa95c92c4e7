"""Which parts of a formula LLVM may round at once: a product, and a sum that takes it.

`formula_llvm` writes both with the flag `contract`, which lets LLVM make one instruction of them. What follows is on
the safe side: of functions that are not named here it says that they may.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Set

from atled.ops.formula import Apply, Expr, Number

_SUMS = frozenset(("+", "-"))
_PASSING = frozenset(("neg", "abs", "where", "minimum", "maximum"))
"""Operations that LLVM may move a product or a sum through, or leave out."""

_ROUNDING = frozenset(("floor", "ceil", "trunc", "rint"))
NO_PRODUCTS = _SUMS | _ROUNDING | {"/", "sqrt", "tanh", "sigmoid", "expm1", "cos"}
"""Operations whose results are no products: a quotient, what a limit or a comparison leaves, or bits as an integer."""

NO_SUMS = _ROUNDING | {"*", "/", "sqrt", "exp", "exp2", "expm1", "sigmoid", "tanh", "sin", "cos", "tan"}
"""Operations that take an argument into no sum as it is: functions limit it first, or take its absolute value."""

_CONDITIONS = frozenset(("<", "<=", ">", ">=", "==", "!=", "and", "or", "not"))


def is_product(formula: Expr, products: Container[Expr], given: Set[Expr]) -> bool:
    """Whether a formula may end with a product.

    given: parts of it that were computed before.  products: those of them that are products.
    """
    if formula in given or not isinstance(formula, Apply):
        return formula in products
    if _is_passing(formula):
        return any(is_product(arg, products, given) for arg in formula.args)
    if formula.op == "/":  # a quotient by a power of two is a product to LLVM
        return isinstance(formula.args[1], Number)
    return formula.op not in NO_PRODUCTS and formula.op not in _CONDITIONS


def has_choice(formula: Expr, products: Container[Expr], given: Set[Expr]) -> bool:
    """Whether it depends on what else is computed beside a formula where it is rounded.

    LLVM takes one of two products in a sum by the order of all operations. How powers are computed depends on the
    exponents of all that are computed with them.
    """
    return any(
        node.op == "**" or (node.op in _SUMS and all(is_product(arg, products, given) for arg in node.args))
        for node in own_nodes(formula, given)
    )


def own_nodes(formula: Expr, given: Set[Expr]) -> Iterator[Apply]:
    """The operations in a formula, but for the parts that were computed before; shared ones as often as they are."""
    stack = [formula]
    while stack:
        node = stack.pop()
        if isinstance(node, Apply) and node not in given:
            yield node
            stack += node.args


def adds(formula: Expr, source: Expr, given: Set[Expr]) -> bool:
    """Whether a formula may have a sum that takes `source`, one of the parts that were computed before."""
    return any(
        passes(arg, source, given)
        for node in own_nodes(formula, given)
        if not (node.op in NO_SUMS or node.op in _CONDITIONS or _is_passing(node))
        for arg in node.args
    )


def passes(formula: Expr, source: Expr, given: Set[Expr]) -> bool:
    """Whether a formula may come to `source` itself, or its negative."""
    if formula is source:
        return True
    if formula in given or not isinstance(formula, Apply) or not _is_passing(formula):
        return False
    return any(passes(arg, source, given) for arg in formula.args)


def _is_passing(node: Apply) -> bool:
    """Whether an operation may leave an argument as it is, or change no more than its sign."""
    neutral = {"*": 1.0, "/": 1.0, "+": 0.0, "-": 0.0}.get(node.op)
    literals = [abs(arg.value) for arg in node.args if isinstance(arg, Number)]
    return node.op in _PASSING or neutral in literals
