"""Assignments that are written anew at each repetition: an equal tree of the same tensors runs what was described."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from atled.keyed import Description, Generations
from atled.neon.trees.operand import Operand
from atled.neon.trees.rows import ELEMENTWISE, REDUCTIONS
from atled.neon.trees.walks import tensors_of

if TYPE_CHECKING:
    from atled.neon.trees.tensor import Tensor

Key = tuple[Any, ...]

_LIMIT = 512  # each keeps a description, and what that is bound to
_NODES_LIMIT = 48
"""Of larger trees, in which a node may be an operand of many, the key would cost more than it saves."""

_LOOKS, _REST = 128, 2048
"""So many assignments to an array may be looked for in vain; then so many are not looked for:
looking costs a third of what describing does."""

_PLAIN = frozenset((*ELEMENTWISE, "dot", "transpose"))
"""What operands alone say all about."""


class _Repeat:
    """An assignment, as long as all of its tensors live: it keeps none of them alive.

    description: None once one of the tensors is gone, whose identity another one may have by now.
    """

    __slots__ = ("__weakref__", "_tensors", "description")

    def __init__(self, description: Description, target: Tensor, tree: Any) -> None:
        self.description: Description | None = description
        forget = _forgetting(weakref.ref(self))
        owners = [target, *tensors_of(tree)]
        self._tensors = [weakref.ref(each if each.base is None else each.base, forget) for each in owners]


def _forgetting(repeat: weakref.ref[_Repeat]) -> Callable[[object], None]:
    """What a repeat does when a tensor of it is gone."""

    def forget(_: object) -> None:
        found = repeat()
        if found is not None:
            found.description = None  # with the memory of its arrays; its key is dropped when it gets old

    return forget


_REPEATS: Generations[_Repeat | bool] = Generations("repeated assignments of op-trees", _LIMIT)
"""By key; True for what was assigned once, which may never come again."""


def repeated(target: Tensor, tree: Any) -> tuple[Key | None, Description | None]:
    """The key of an assignment and its description, if there were two of them already; None for a key: nobody looked.

    The first assignment to an array is not looked for: many are only written once.
    """
    owner = target if target.base is None else target.base
    looks = owner.looks
    if looks < 0:
        owner.looks = looks + 1 or _LOOKS
        return None, None
    key = _key_of(target, tree)
    found = None if key is None else _REPEATS.get(key) or _REPEATS.find_old(key)
    if isinstance(found, _Repeat) and found.description is not None:
        owner.looks = _LOOKS
        return key, found.description
    owner.looks = looks - 1 or -_REST
    return key, None


def note_repeat(key: Key, target: Tensor, tree: Any, description: Description) -> None:
    """Remember an assignment that was described, which draws nothing; from the second one on it is kept."""
    if _REPEATS.get(key) is None:
        _REPEATS.add(key, True)
    else:
        _REPEATS[key] = _Repeat(description, target, tree)


def _key_of(target: Tensor, tree: Any) -> Key | None:
    """What is equal for assignments of equal trees of the same tensors; None for a large tree, or one of other nodes.

    Tensors are told by their identity, views, which are made anew, too, by that of their base and their elements there.
    Numbers are equal if they are of one type.
    """
    node_class, tensor_class = Operand.node_class, type(target)
    key: list[Any] = []
    note = key.append
    stack = [tree]
    count = 0
    while stack:
        about, a, b = stack.pop()
        op = about["op"]
        count += 1
        note(op)
        if op in REDUCTIONS:
            note((about["axis"], about["shape"]))
        elif op not in _PLAIN or count > _NODES_LIMIT:
            return None
        for each in (a, b):
            kind = type(each)
            if kind is tensor_class:
                base = each.base
                if base is None:
                    note(id(each))
                else:
                    key += id(base), each.view.desc, each.view.offset
            elif kind is node_class:
                note(True)  # it follows
                stack.append(each)
            elif each is None:
                note(None)
            elif kind is float or kind is int:
                # 0.0 and -0.0 are equal, and not the same.
                key += kind, each or repr(each)
            else:
                return None
    base = target.base
    if base is None:
        note(id(target))
    else:
        key += id(base), target.view.desc, target.view.offset
    return tuple(key)
