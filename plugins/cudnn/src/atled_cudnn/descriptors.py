"""Descriptors of the graph API: a `Node` says what is in one, a `Descriptor` is one."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from atled_cudnn.constants import C_TYPES, Kind, Name, Type
from atled_cudnn.library import check, library

Values = tuple[Any, ...]  # Any: numbers, and Nodes


class Node(NamedTuple):
    """What is in a descriptor, as data: its kind; name, type and values of each attribute, which may be Nodes."""

    kind: Kind
    attributes: tuple[tuple[Name, Type, Values], ...]


class Descriptor:
    """A descriptor of cuDNN's.

    kind: what it describes.  attributes: (name, type, values) of each; among the values may be descriptors, which it
        keeps alive.  is_final: whether it is finalized at once; those that cuDNN fills are not.
    """

    __slots__ = ("_library", "address", "kind", "parts")

    def __init__(
        self, kind: Kind, attributes: Sequence[tuple[Name, Type, Sequence[Any]]] = (), is_final: bool = True
    ) -> None:
        self.kind = kind
        self.parts: list[Descriptor] = []
        self.address: int | None = None
        self._library = library()
        made = ctypes.c_void_p()
        check(self._library.cudnnBackendCreateDescriptor(kind, ctypes.byref(made)), f"a descriptor of {kind.name}")
        self.address = made.value
        for name, type_, values in attributes:
            self._set(name, type_, values)
        if is_final:
            check(self._library.cudnnBackendFinalize(self.address), f"finalizing {kind.name}")

    def _set(self, name: Name, type_: Type, values: Sequence[Any]) -> None:
        self.parts += [value for value in values if isinstance(value, Descriptor)]
        plain = [value.address if isinstance(value, Descriptor) else value for value in values]
        array = (C_TYPES[type_] * len(plain))(*plain)
        asked = f"setting {name.name} of {self.kind.name}"
        check(self._library.cudnnBackendSetAttribute(self.address, name, type_, len(plain), array), asked)

    def get(self, name: Name, type_: Type, most: int = 1) -> list[Any]:
        """The values of an attribute, at most so many."""
        array, count = (C_TYPES[type_] * most)(), ctypes.c_int64()
        self._get(name, type_, most, count, array)
        return list(array)[: count.value]

    def count(self, name: Name, type_: Type) -> int:
        """How many values an attribute has."""
        count = ctypes.c_int64()
        self._get(name, type_, 0, count, None)
        return count.value

    def get_parts(self, name: Name, kind: Kind, most: int) -> list[Descriptor]:
        """The descriptors that an attribute holds, at most so many."""
        made = [Descriptor(kind, is_final=False) for _ in range(most)]
        array, count = (ctypes.c_void_p * most)(*[one.address for one in made]), ctypes.c_int64()
        self._get(name, Type.DESCRIPTOR, most, count, array)
        return made[: count.value]

    def _get(self, name: Name, type_: Type, most: int, count: Any, array: Any) -> None:  # Any: of ctypes
        status = self._library.cudnnBackendGetAttribute(self.address, name, type_, most, ctypes.byref(count), array)
        check(status, f"reading {name.name} of {self.kind.name}")

    def __del__(self) -> None:
        if self.address:
            self._library.cudnnBackendDestroyDescriptor(self.address)


def build(node: Node, made: dict[Node, Descriptor] | None = None) -> Descriptor:
    """The descriptor of a node; equal nodes in it become one descriptor."""
    made = {} if made is None else made
    if node not in made:
        attributes = [
            (name, type_, [build(value, made) if isinstance(value, Node) else value for value in values])
            for name, type_, values in node.attributes
        ]
        made[node] = Descriptor(node.kind, attributes)
    return made[node]
