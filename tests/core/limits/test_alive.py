"""Objects that are referred to weakly, listed while they come and go."""

import gc
import sys
import threading
from weakref import WeakValueDictionary

from atled.limits.alive import WeakRegister, alive


class Thing:
    """What can be referred to weakly."""


def test_a_register_has_each_object_once_as_long_as_it_lives():
    first, second = Thing(), Thing()
    register = WeakRegister()
    for each in (first, second, first):
        register.add(each)
    assert register.alive() == [first, second]
    del first, each
    gc.collect()
    assert register.alive() == [second]


def test_another_thread_may_add_while_they_are_listed():
    kept, register, table = [], WeakRegister(), WeakValueDictionary()
    is_over = threading.Event()

    def add():
        try:
            for number in range(20_000):
                kept.append(Thing())
                register.add(kept[-1])
                table[number] = kept[-1]
        finally:
            is_over.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread = threading.Thread(target=add)
        thread.start()
        while not is_over.is_set():  # a WeakSet, or the table's own iterator, would raise RuntimeError here
            register.alive()
            alive(table)
    finally:
        sys.setswitchinterval(interval)
        thread.join()
    assert register.alive() == alive(table) == kept
