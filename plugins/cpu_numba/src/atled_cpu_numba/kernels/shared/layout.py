"""Argument blocks by name: where each word of a block is, for those who write it and for the kernel that reads it."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def layout(declared: type[T]) -> T:
    """The positions of the words of a block, declared as a class with one annotated name per word, in order.

        @layout
        class Block:
            x: int
            sizes: int = 3  # so many words, from this position on
            factor: int

    `Block.factor` is then 4, in Python and in kernels (numba makes a constant of it). `size_of(Block)` is 5. Words that
    several blocks begin with are annotations of a class that these are derived from, which is no block itself.
    """
    positions, end = {}, 0
    for name in [name for each in declared.__mro__[-2::-1] for name in each.__annotations__]:  # object has none
        positions[name] = end
        end += getattr(declared, name, 1)
    # To numba it is a named tuple, the numbers in which are constants; to type checkers what declares the names.
    # `collections.namedtuple` would compile a function for each of the fifty blocks that a first call needs.
    positions["words"] = end
    made: Any = type(declared.__name__, (_Block,), {"__slots__": (), "_fields": tuple(positions), **positions})
    block: T = made(positions.values())
    return block


class _Block(tuple[int, ...]):
    """What numba asks of a named tuple, besides `_fields`; each position is an attribute of the block's own class."""

    __slots__ = ()

    def _asdict(self) -> dict[str, int]:
        return dict(zip(type(self)._fields, self, strict=True))  # type: ignore[attr-defined]  # see `layout`


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
