"""The mark of what is in force: the same where nothing changed, another one where something did."""

from __future__ import annotations

import contextvars
import threading

from atled_contexts import bind
from atled_contexts.surroundings import SetWithin, mark_change, mark_here

NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)


def test_a_block_has_a_mark_of_its_own_and_gives_the_outer_one_back():
    outside = mark_here()
    with SetWithin(NUMBER, 1):
        first = mark_here()
        with SetWithin(NUMBER, 2):
            assert NUMBER.get() == 2 and mark_here() not in (outside, first)
        assert NUMBER.get() == 1 and mark_here() is first
    assert NUMBER.get() == 0 and mark_here() is outside
    with SetWithin(NUMBER, 1):
        assert mark_here() is not first


def test_what_is_set_within_a_block_and_outlasts_it_leaves_no_old_mark():
    other: contextvars.ContextVar[int] = contextvars.ContextVar("other", default=0)

    def outlasting():
        before = mark_here()
        with SetWithin(NUMBER, 1):
            other.set(5)
            mark_change()
        assert other.get() == 5 and mark_here() is not before

    contextvars.copy_context().run(outlasting)


def test_a_block_left_by_an_error_is_left():
    outside = mark_here()
    try:
        with SetWithin(NUMBER, 1):
            raise KeyError("x")
    except KeyError:
        pass
    assert NUMBER.get() == 0 and mark_here() is outside


def test_blocks_that_overlap_leave_no_old_mark():
    def overlapping():
        outside = mark_here()
        first, second = SetWithin(NUMBER, 1), SetWithin(NUMBER, 2)
        first.__enter__()
        second.__enter__()
        seen = {id(outside), id(mark_here())}
        first.__exit__()
        assert NUMBER.get() == 0 and id(mark_here()) not in seen
        second.__exit__()
        assert NUMBER.get() == 1 and id(mark_here()) not in seen

    contextvars.copy_context().run(overlapping)


def test_a_thread_is_outside_of_all_blocks_unless_it_is_bound():
    def bound():
        outside = mark_here()
        found = []

        def look():
            found.append((NUMBER.get(), mark_here()))

        with SetWithin(NUMBER, 1):
            for target in (look, bind(look)):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
            assert found == [(0, outside), (1, mark_here())]

    contextvars.Context().run(bound)  # outside of all blocks, whatever other tests have set here
