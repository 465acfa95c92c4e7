"""Op-trees as lists, keys and text."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from atled.neon.trees.building import NUMBERS
from atled.neon.trees.rows import SIGNS


def is_node(operand: Any) -> bool:
    """Whether an operand is an op-tree, and no tensor, number or tuple of further operands."""
    return isinstance(operand, tuple) and type(operand) is not tuple


def operands_of(node: Any) -> tuple[Any, ...]:
    """The operands of a node, absent ones left out."""
    _, a, b = node
    further = b if type(b) is tuple else (b,)
    return tuple(each for each in (a, *further) if each is not None)


def postfix(tree: Any) -> list[Any]:
    """Leaves and the dictionaries of nodes, operands in front of their op, the left one first."""
    found: list[Any] = []
    stack = [tree]
    while stack:
        each = stack.pop()
        if is_node(each):
            found.append(each[0])
            stack += operands_of(each)
        else:
            found.append(each)
    return found[::-1]


def different(tree: Any) -> list[Any]:
    """Nodes and leaves, each once however often it is an operand, operands in front of their node."""
    found: dict[int, Any] = {}
    stack = [tree]
    while stack:
        each = stack[-1]
        waiting = [] if not is_node(each) else [part for part in operands_of(each) if id(part) not in found]
        if waiting and id(each) not in found:
            stack += waiting[::-1]
            continue
        stack.pop()
        found.setdefault(id(each), each)
    return list(found.values())


def tensors_of(tree: Any) -> list[Any]:
    """The tensors of a tree, each once, in the order of `postfix`."""
    found: list[Any] = []
    seen: set[int] = set()  # what many nodes share is walked once
    stack = [tree]
    while stack:
        each = stack.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if is_node(each):
            stack += operands_of(each)[::-1]
        elif not isinstance(each, NUMBERS):
            found.append(each)
    return found


def key(tree: Any) -> tuple[Any, ...]:
    """What is equal for trees of the same ops, with the same attributes, on the same tensors."""
    return _key(tree, id)


def intrinsic_key_maps(tree: Any) -> tuple[tuple[Any, ...], dict[Any, int], dict[int, Any]]:
    """A key in which tensors are numbers, the number of each tensor, and the tensor of each number."""
    numbers = {tensor: number for number, tensor in enumerate(tensors_of(tree))}
    return _key(tree, numbers.__getitem__), numbers, {number: tensor for tensor, number in numbers.items()}


def _key(tree: Any, number_of: Callable[[Any], int]) -> tuple[Any, ...]:
    def part(each: Any) -> Hashable:
        if isinstance(each, dict):
            return tuple(sorted(each.items()))
        if isinstance(each, NUMBERS):
            return type(each), repr(each)
        return "tensor", number_of(each), each.shape, str(each.dtype)

    return tuple(part(each) for each in postfix(tree))


def to_list(tree: Any) -> list[Any]:
    """A tree as a list of dictionary, left and right operand, of which those that are trees are lists, too."""
    about, a, b = tree
    return [about, *(to_list(each) if is_node(each) else each for each in (a, b))]


def written(tree: Any) -> str:
    """A tree as it is built: dictionaries, and tensors by name."""
    made: dict[int, str] = {}

    def text(operand: Any) -> str:
        if type(operand) is tuple:
            return f"({', '.join(map(text, operand))})"
        return made[id(operand)] if is_node(operand) else name_of(operand)

    for each in filter(is_node, different(tree)):  # without recursion: trees that loops build are deep
        made[id(each)] = f"({', '.join([str(each[0]), text(each[1]), text(each[2])])})"
    return text(tree)


def name_of(leaf: Any) -> str:
    """How a leaf is called: a tensor by its name, or else by its identity."""
    if leaf is None or isinstance(leaf, NUMBERS):
        return str(leaf)
    return leaf.name or f"tensor-{hex(id(leaf))}"


def infix(tree: Any) -> str:
    """A tree as a formula."""
    made: dict[int, str] = {}
    for each in different(tree):
        parts = [made[id(part)] for part in operands_of(each)] if is_node(each) else []
        made[id(each)] = _formula(each[0], parts) if is_node(each) else name_of(each)
    return made[id(tree)]


def _formula(about: dict[str, Any], parts: list[str]) -> str:
    """A node as a formula of those of its operands."""
    op = about["op"]
    if op in SIGNS and len(parts) == 2:
        return f"({parts[0]} {SIGNS[op]} {parts[1]})"
    if op == "neg":
        return f"-{parts[0]}"
    named = [f"{name}={value}" for name, value in about.items() if name not in ("op", "shape", "kept", "attributes")]
    return f"{op}({', '.join([*parts, *named, *(f'{name}={value}' for name, value in about.get('attributes', ()))])})"
