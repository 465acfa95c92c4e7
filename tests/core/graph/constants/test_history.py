"""Which leaves stay as they are while others change."""

from __future__ import annotations

import numpy as np

import atled as nn
from atled.graph.constants.history import History


def arrays(count):
    return [nn.NdArray.from_numpy_array(np.zeros(2, np.float32)) for _ in range(count)]


def history_of(leaves, *choices, varies=False):
    return History([(number, leaf.cell) for number, leaf in enumerate(leaves)], [frozenset(c) for c in choices], varies)


def test_what_stays_while_another_is_written_is_found_at_the_second_run():
    data, _weight = leaves = arrays(2)
    history = history_of(leaves, {1})
    assert history.unchanging() == set()
    data.data = 1
    assert history.unchanging() == {1}


def test_only_whole_choices_are_given():
    data, *_ = leaves = arrays(4)
    history = history_of(leaves, {1, 2}, {0, 3})
    history.unchanging()
    data.data = 1
    assert history.unchanging() == {1, 2}


def test_runs_before_which_nothing_was_written_tell_nothing():
    leaves = arrays(2)
    history = history_of(leaves, {1})
    assert not any(history.unchanging() for _ in range(50))


def test_unless_the_graph_draws():
    leaves = arrays(1)
    history = history_of(leaves, {0}, varies=True)
    history.unchanging()
    assert history.unchanging() == {0}


def test_what_ended_soon_waits_twice_as_long():
    data, _weight = leaves = arrays(2)
    history = history_of(leaves, {1})
    history.unchanging()
    counts = []
    for _ in range(3):
        history.ended(1)
        count = 0
        while True:
            data.data = 1
            count += 1
            if history.unchanging():
                break
        counts.append(count)
    assert counts == [2, 4, 8]
    history.ended(100)
    data.data = 1
    assert history.unchanging() == {1}


def test_where_all_changes_it_looks_once_in_sixteen_runs():
    leaves = arrays(2)
    history = history_of(leaves, {1})
    for _ in range(100):
        for leaf in leaves:
            leaf.data = 1
        assert not history.unchanging()
    looked = history._before
    for _ in range(15):
        history.unchanging()
        if history._before != looked:
            break
    else:
        history.unchanging()
    assert history._idle == 15


def test_what_is_refused_is_not_given_again():
    data, *_ = leaves = arrays(3)
    history = history_of(leaves, {1}, {2})
    history.refuse(frozenset({1}))
    history.unchanging()
    data.data = 1
    assert history.unchanging() == {2}
