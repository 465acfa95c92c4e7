"""Packing: pieces that are needed at one time share no byte, and the arena is hardly larger than it must be."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atled.graph.compile import packing
from atled.graph.compile.packing import Piece, most_alive, pack

SPANS = st.tuples(st.integers(0, 5000), st.integers(0, 30), st.integers(0, 30))
PIECES = st.lists(SPANS.map(lambda drawn: Piece(drawn[0], min(drawn[1:]), max(drawn[1:]))), max_size=40)


@pytest.mark.parametrize("few", [0, 1000])
@given(PIECES, st.sampled_from([1, 64, 256]))
def test_pieces_alive_at_one_time_share_no_byte(few, pieces, alignment):
    with mock.patch.object(packing, "_FEW", few):
        offsets, nbytes = pack(pieces, alignment)
    used = np.zeros((31, nbytes), bool)  # by step and byte
    for piece, offset in zip(pieces, offsets, strict=True):
        assert offset % alignment == 0
        # An empty piece still is at a place of its own.
        taken = used[piece.first : piece.last + 1, offset : offset + max(piece.nbytes, 1)]
        assert taken.shape[1] == max(piece.nbytes, 1) and not taken.any()
        taken[...] = True


@given(PIECES)
def test_the_most_that_is_alive_is_that_of_the_busiest_step(pieces):
    alive = [sum(piece.nbytes for piece in pieces if piece.first <= step <= piece.last) for step in range(31)]
    assert most_alive(pieces) == max(alive)
    assert pack(pieces, 1).nbytes >= most_alive(pieces)


def test_a_line_of_steps_takes_the_two_largest_neighbours():
    pieces = [Piece(256 * size, step, step + 1) for step, size in enumerate((1, 8, 2, 4, 4, 3))]
    assert pack(pieces, 256).nbytes == 256 * 10


def test_nothing_takes_nothing():
    assert pack([], 256) == ([], 0)


@pytest.mark.parametrize(("count", "most"), [(500, 1.1), (5000, 1.5)])
def test_hundreds_of_pieces_are_packed_tightly_and_thousands_hardly_less(count, most):
    rng = np.random.default_rng(0)
    pieces = [Piece(int(rng.integers(1, 1 << 20)), step, step + int(rng.integers(1, 8))) for step in range(count)]
    sizes = [piece._replace(nbytes=-(-piece.nbytes // 256) * 256) for piece in pieces]
    assert pack(pieces, 256).nbytes < most * most_alive(sizes)


def test_a_network_and_its_gradient_of_thousands_of_steps_take_what_is_alive():
    half = 2000
    kept = [Piece(1000, step, 2 * half - step) for step in range(half)]
    passing = [Piece(1000, step, step + 1) for step in range(2 * half)]
    assert pack([*kept, *passing], 8).nbytes <= 1.01 * most_alive([*kept, *passing])
