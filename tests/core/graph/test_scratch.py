"""Scratch memory that the plans of a thread share."""

import threading
import weakref

from atled.graph.scratch import scratch


def test_plans_of_one_thread_share_the_largest_piece():
    large = scratch(4096)
    assert scratch(1000) is large
    assert scratch(5000) is not large


def test_another_thread_has_its_own():
    mine = scratch(4096)
    others = []
    thread = threading.Thread(target=lambda: others.append(scratch(16)))
    thread.start()
    thread.join()
    assert others[0] is not mine


def test_it_goes_with_the_last_plan_that_has_it():
    gone = weakref.ref(scratch(1 << 20))
    assert gone() is None
