"""Writes programs as NumPy: the reference that every other writer is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from atled.dtypes import is_float
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

_EXPANDED = frozenset(("sigmoid", "round"))  # NumPy has no sigmoid, and numpy.round goes to even
_INFIX = frozenset(("+", "-", "*", "/", "**", "<", "<=", ">", ">=", "==", "!="))
_CALLS = {"neg": "_np.negative", "and": "_np.logical_and", "or": "_np.logical_or", "not": "_np.logical_not"}
_CALLS["erf"] = "_erf"
_LONGEST_TEXT = 80  # longer expressions get a name: deep nesting is more than Python's parser takes


def write_numpy(program: Program, *, whole: bool = False) -> str:
    """Source of `formula(*inputs, *attributes)`, which returns the tuple of outputs.

    whole: compute in a dtype of integers or truth values, attributes and literals included.

    The source uses `_np` (NumPy), `_real_type`, `_erf` and `_whole`; `compile_numpy` supplies them.
    """
    if whole:
        expressions = [without_rounding(expression) for expression in program.expressions]
        writer: _Writer = _WholeWriter(program, use_counts(expressions))
    else:
        expressions = [expand(expression, _EXPANDED) for expression in program.expressions]
        writer = _Writer(program, use_counts(expressions))
    for node in postorder(expressions):
        writer.add(node)
    results = ", ".join(f"_np.asarray({writer.real(expression)}, _real)" for expression in expressions)
    lines = [f"def formula({', '.join((*program.inputs, *program.attributes))}):"]
    lines.append(f"    _real = _real_type({', '.join(program.inputs)})")
    lines.append("    with _np.errstate(all='ignore'):")
    lines.extend(f"        {name} = _np.asarray({name}, _real)" for name in program.inputs)
    lines.extend(f"        {name} = {'_whole' if whole else '_np.float64'}({name})" for name in program.attributes)
    lines.extend(f"        {line}" for line in writer.lines)
    lines.append(f"        return ({results},)")
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1024)
def compile_numpy(program: Program, compute: np.dtype[Any] | None = None) -> Callable[..., tuple[np.ndarray, ...]]:
    """`formula(*inputs, *attributes)` as a function of arrays and Python floats.

    Inputs broadcast; what is narrower than float32 computes as that, integers and bools as the floats among the inputs
    do or, where there are none, as float64. Returns one float32 or float64 array per output, of the broadcast shape of
    the inputs that the output uses, never a view of an input's memory being changed; the caller casts and broadcasts
    when it stores.
    compute: the dtype in which all is computed instead; in one of integers modulo its range, as NumPy does.
    Infinities and NaN come and go without NumPy warnings.
    """
    namespace: dict[str, Any] = {"_np": np, "_erf": _erf, "_real_type": _real_type}
    if compute is not None:
        namespace |= {"_real_type": lambda *_: compute.type, "_whole": lambda value: np.int64(value).astype(compute)}
    source = write_numpy(program, whole=compute is not None and compute.kind in "iub")
    exec(compile(source, f"<formula {program.key}>", "exec"), namespace)
    formula: Callable[..., tuple[np.ndarray, ...]] = namespace["formula"]
    return formula


def _real_type(*inputs: Any) -> type[np.floating[Any]]:
    """The type to compute in: float32 where no floating input is wider, else float64."""
    dtypes = [np.asarray(x).dtype for x in inputs]
    floats = [dtype for dtype in dtypes if is_float(dtype)]
    return np.float32 if floats and all(dtype.itemsize <= 4 for dtype in floats) else np.float64


def _erf(x: Any) -> Any:
    x = np.asarray(x)
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x), dtype=x.dtype)


class _Writer:
    """Turns nodes into text; nodes that are used twice, or long, become variables."""

    def __init__(self, program: Program, uses: dict[Expr, int]) -> None:
        self.inputs = frozenset(program.inputs)
        self.uses = uses
        self.lines: list[str] = []
        self.texts: dict[Expr, str] = {}

    def is_uniform(self, node: Expr) -> bool:
        return node.names.isdisjoint(self.inputs)

    def text(self, node: Expr) -> str:
        if isinstance(node, Number):
            if math.isinf(node.value):
                return "_np.inf" if node.value > 0 else "(-_np.inf)"
            return repr(node.value)
        return node.id if isinstance(node, Name) else self.texts[node]

    def real(self, node: Expr) -> str:
        """Text of `node` as an array or scalar of the type that is computed in."""
        return f"_real({self.text(node)})" if self.is_uniform(node) else self.text(node)

    def argument(self, node: Apply, arg: Expr) -> str:
        if arg.kind == CONDITION:
            return self.text(arg)
        if self.is_uniform(node):  # float64 scalars, since Python's floats raise on division by zero
            return f"_np.float64({self.text(arg)})" if isinstance(arg, Number) else self.text(arg)
        if isinstance(arg, Number) and node.op != "where":  # where() has no weak scalars
            return self.text(arg) if arg.value >= 0 else f"({self.text(arg)})"
        return self.real(arg)

    def add(self, node: Apply) -> None:
        args = [self.argument(node, arg) for arg in node.args]
        if node.op in _INFIX:
            text = f"({args[0]} {node.op} {args[1]})"
        else:
            text = f"{_CALLS.get(node.op, f'_np.{node.op}')}({', '.join(args)})"
        if self.uses[node] > 1 or len(text) > _LONGEST_TEXT:
            variable = f"_t{len(self.lines)}"
            self.lines.append(f"{variable} = {text}")
            text = variable
        self.texts[node] = text


class _WholeWriter(_Writer):
    """The same in a dtype of integers, which attributes and literals have, too."""

    def is_uniform(self, node: Expr) -> bool:
        return False

    def real(self, node: Expr) -> str:
        return f"_whole({int(node.value)})" if isinstance(node, Number) else self.text(node)

    def argument(self, node: Apply, arg: Expr) -> str:
        return self.text(arg) if arg.kind == CONDITION else self.real(arg)
