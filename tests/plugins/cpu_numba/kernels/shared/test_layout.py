"""Argument blocks by name."""

import pytest

from atled_cpu_numba.kernels.shared.layout import filled, layout, size_of


@layout
class Block:
    x: int
    sizes: int = 3
    factor: int


def test_words_stand_in_the_order_of_the_names():
    assert (Block.x, Block.sizes, Block.factor) == (0, 1, 4)
    assert size_of(Block) == 5


def test_a_block_is_filled_by_name():
    assert filled(Block, factor=7, sizes=2) == [0, 2, 0, 0, 7]


def test_an_unknown_word_is_refused():
    with pytest.raises(AttributeError, match="faktor"):
        filled(Block, faktor=7)


def test_words_of_what_a_block_is_derived_from_come_first():
    class First:
        x: int
        y: int

    @layout
    class Block(First):
        sizes: int = 2
        z: int

    assert (Block.x, Block.y, Block.sizes, Block.z, size_of(Block)) == (0, 1, 2, 4, 5)
