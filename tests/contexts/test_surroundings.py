"""The surroundings of a call: the same object where nothing changed, another one where something did."""

from __future__ import annotations

import contextvars
import threading

from atled_contexts import Context, bind
from atled_contexts.surroundings import SetWithin, change_everywhere, change_here, here, latest_change

NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)
CONTEXT = Context(["reference"])


def test_a_block_has_surroundings_of_its_own_and_gives_the_outer_one_back():
    outside = here()
    with SetWithin(NUMBER, 1):
        first = here()
        with SetWithin(NUMBER, 2):
            assert NUMBER.get() == 2 and here() not in (outside, first)
        assert NUMBER.get() == 1 and here() is first
    assert NUMBER.get() == 0 and here() is outside
    with SetWithin(NUMBER, 1):
        assert here() is not first


def test_blocks_that_set_the_same_again_have_the_same_surroundings():
    with SetWithin(NUMBER, 1, comes_again=True):
        first = here()
        with SetWithin(NUMBER, 2, comes_again=True):
            assert here() is not first
    with SetWithin(NUMBER, 2, comes_again=True):
        assert here() is not first
    with SetWithin(NUMBER, 1, comes_again=True):
        assert here() is first
        change_here()
        changed = here()
    with SetWithin(NUMBER, 1, comes_again=True):
        assert here() not in (first, changed)


def test_surroundings_keep_those_of_few_blocks():
    outside, values = here(), [object() for _ in range(100)]
    kept: contextvars.ContextVar[object] = contextvars.ContextVar("kept", default=None)
    for value in values:
        with SetWithin(kept, value, comes_again=True):
            assert kept.get() is value
    assert len(outside._inside) <= 8


def test_a_block_may_be_entered_again_also_within_itself():
    outside, block = here(), SetWithin(NUMBER, 1)
    with block, block:
        assert NUMBER.get() == 1
    assert NUMBER.get() == 0 and here() is outside


def test_a_block_is_a_decorator_too():
    @SetWithin(NUMBER, 1)
    def number(depth: int) -> list[int]:
        return [NUMBER.get(), *(number(depth - 1) if depth else ())]

    assert number(2) == [1, 1, 1] and NUMBER.get() == 0 and number.__name__ == "number"


def test_what_is_set_within_a_block_and_outlasts_it_leaves_no_old_surroundings():
    other: contextvars.ContextVar[int] = contextvars.ContextVar("other", default=0)

    def outlasting():
        before = here()
        with SetWithin(NUMBER, 1):
            other.set(5)
            change_here()
        assert other.get() == 5 and here() is not before

    contextvars.copy_context().run(outlasting)


def test_a_block_left_by_an_error_is_left():
    outside = here()
    try:
        with SetWithin(NUMBER, 1):
            raise KeyError("x")
    except KeyError:
        pass
    assert NUMBER.get() == 0 and here() is outside


def test_blocks_that_overlap_leave_no_old_mark():
    def overlapping():
        outside = here()
        first, second = SetWithin(NUMBER, 1), SetWithin(NUMBER, 2)
        first.__enter__()
        second.__enter__()
        seen = {id(outside), id(here())}
        first.__exit__()
        assert NUMBER.get() == 0 and id(here()) not in seen
        second.__exit__()
        assert NUMBER.get() == 1 and id(here()) not in seen

    contextvars.copy_context().run(overlapping)


def test_a_thread_is_outside_of_all_blocks_unless_it_is_bound():
    def bound():
        outside = here()
        found = []

        def look():
            found.append((NUMBER.get(), here()))

        with SetWithin(NUMBER, 1):
            for target in (look, bind(look)):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
            assert found == [(0, outside), (1, here())]

    contextvars.Context().run(bound)  # outside of all blocks, whatever other tests have set here


def test_a_change_everywhere_makes_all_forget_what_was_known():
    with SetWithin(NUMBER, 1):
        outer = here()
        with SetWithin(NUMBER, 2):
            for surroundings in (outer, here()):
                assert surroundings.note(latest_change(), CONTEXT, True, {}, {})
            change_everywhere()
            for surroundings in (outer, here()):
                assert surroundings.arrays is surroundings.values is None


def test_what_was_worked_out_before_a_change_everywhere_is_not_noted():
    with SetWithin(NUMBER, 1):
        before = latest_change()
        change_everywhere()
        assert not here().note(before, CONTEXT, True, {}, {})
        assert here().arrays is here().values is None


def test_surroundings_forget_when_there_are_too_many_and_can_know_again():
    made = []
    for _ in range(1000):
        with SetWithin(NUMBER, 1):
            made.append(here())
            assert here().note(latest_change(), CONTEXT, True, {}, {})
    assert sum(surroundings.arrays is not None for surroundings in made) <= 256
    assert made[-1].context is CONTEXT and made[-1].arrays == made[-1].values == {}
