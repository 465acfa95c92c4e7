"""Workspace that the plans of a thread share."""

import itertools
import math
import threading
import weakref

import numpy as np

import atled as nn
import atled.functions as F
from atled.arrays.storage import POOL
from atled.graph.run.shared_workspace import shared_workspace


def test_plans_of_one_thread_share_the_largest_piece():
    large = shared_workspace(4096)
    assert shared_workspace(1000) is large
    assert shared_workspace(6000) is large  # there is some to spare
    assert shared_workspace(7000) is not large


def test_another_thread_has_its_own():
    mine = shared_workspace(4096)
    others = []
    thread = threading.Thread(target=lambda: others.append(shared_workspace(16)))
    thread.start()
    thread.join()
    assert others[0] is not mine


def test_it_goes_with_the_last_plan_that_has_it():
    gone = weakref.ref(shared_workspace(1 << 20))
    assert gone() is None


def test_graphs_of_one_thread_keep_their_inner_values_in_it():
    rng = np.random.default_rng(0)
    w = nn.Variable.from_numpy_array(rng.standard_normal((16, 16, 3, 3), "f"))
    before, graphs, grown = POOL.statistics()["bytes_in_use"], [], []
    for _ in range(3):
        x = nn.Variable.from_numpy_array(rng.standard_normal((2, 16, 32, 32), "f"))
        y = F.sum(F.convolution(F.convolution(x, w, pad=(1, 1)), w, pad=(1, 1)))
        graphs.append((x, y))
        y.forward()
        now = POOL.statistics()["bytes_in_use"]
        grown.append(now - before - x.d.nbytes)
        before = now
    assert grown[0] > graphs[0][0].d.nbytes  # the first has room for an image in the middle
    assert max(grown[1:]) < 4096
    first = float(graphs[0][1].d)
    with nn.trace():
        graphs[0][1].forward()
    assert float(graphs[0][1].d) == first
    with nn.context_scope(nn.Context("reference")):
        expected = F.sum(F.convolution(F.convolution(graphs[0][0], w, pad=(1, 1)), w, pad=(1, 1)))
    expected.forward()
    np.testing.assert_allclose(first, float(expected.d), rtol=1e-3)


def test_inner_values_of_other_sizes_lie_in_the_place_of_those_that_are_needed_no_more():
    rng = np.random.default_rng(0)
    maps = [3, 40, 7, 33, 5, 29, 1]
    x = nn.Variable.from_numpy_array(rng.standard_normal((2, maps[0], 12, 11), "f"))
    weights = [
        nn.Variable.from_numpy_array(rng.standard_normal((after, before, 3, 3), "f") / before)
        for before, after in itertools.pairwise(maps)
    ]
    h, values = x, []
    for w in weights:
        h = F.relu(F.convolution(h, w, pad=(1, 1)) + 0.1)
        values.append(h.shape)
    y = F.sum(h, axis=(1, 2, 3))
    del h
    y.forward()
    places, nbytes = y.plan.inner_memories()
    assert 2 * nbytes < 4 * sum(map(math.prod, values))
    assert all(offset % 64 == 0 and offset + size <= nbytes for offset, size in places.values())
    first = y.d.copy()
    y.forward()
    np.testing.assert_array_equal(y.d, first)
    with nn.trace():
        y.forward()
    np.testing.assert_array_equal(y.d, first)
    with nn.context_scope(nn.Context("reference")):
        h = x
        for w in weights:
            h = F.relu(F.convolution(h, w, pad=(1, 1)) + 0.1)
        expected = F.sum(h, axis=(1, 2, 3))
    expected.forward()
    np.testing.assert_allclose(first, expected.d, rtol=1e-4)
