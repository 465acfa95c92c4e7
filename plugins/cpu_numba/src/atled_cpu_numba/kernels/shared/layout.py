"""Argument blocks by name: where each word of a block is, for those who write it and for the kernel that reads it."""

from __future__ import annotations

import collections
from typing import Any, TypeVar

T = TypeVar("T")


def layout(declared: type[T]) -> T:
    """The positions of the words of a block, declared as a class with one annotated name per word, in order.

        @layout
        class Block:
            x: int
            sizes: int = 3  # so many words, from this position on
            factor: int

    `Block.factor` is then 4, in Python and in kernels (numba makes a constant of it). `size_of(Block)` is 5.
    """
    positions, end = {}, 0
    for name in declared.__annotations__:
        positions[name] = end
        end += getattr(declared, name, 1)
    # numba makes constants of what a tuple of numbers holds; to type checkers it is the class that declares the names.
    made: Any = collections.namedtuple
    block: T = made(declared.__name__, [*positions, "words"])(**positions, words=end)
    return block


def size_of(block: Any) -> int:
    """How many words a block has."""
    return int(block.words)


NO_WORD = -1
"""Among the words of the arguments: the kernel does not want the address of that one."""


def words_of(block: Any, *names: str | None) -> tuple[int, ...]:
    """The words of these names, for the arguments of a call; None: the kernel does not want that argument."""
    return tuple(NO_WORD if name is None else getattr(block, name) for name in names)


def filled(block: Any, **values: int) -> list[int]:
    """The words of a block with the given values by name, 0 elsewhere.

    AttributeError: it has no word of that name.
    """
    words = [0] * size_of(block)
    for name, value in values.items():
        words[getattr(block, name)] = value
    return words
