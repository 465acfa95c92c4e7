"""Forks while other threads import."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")

# Two threads import; the main one forks while they do. The child imports the same, and is killed if it waits for ever.
PROGRAM = """
import os, signal, sys, threading, warnings
import atled_contexts
from atled_contexts import await_imports

warnings.simplefilter("ignore")  # newer Pythons warn of every fork while there are threads
await_imports("needed_later")
import logging  # its hook, registered later, is called earlier: it holds the lock that the imports need
import stage
threads = [threading.Thread(target=__import__, args=(name,)) for name in ("atled_slow", "needed_later")]
os.register_at_fork(before=stage.go_on.set)  # called before what was registered earlier
for thread in threads:
    thread.start()
for _ in threads:
    stage.started.acquire()
child = os.fork()
if not child:
    signal.alarm(20)
    import atled_slow, needed_later
    os._exit(0 if atled_slow.IS_WHOLE and needed_later.IS_WHOLE else 3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
for thread in threads:
    thread.join()
import json.tool  # the lock of imports is free again
sys.exit(code)
"""
STAGE = "import threading\nstarted, go_on = threading.Semaphore(0), threading.Event()\n"
SLOW = """
import stage
stage.started.release()
stage.go_on.wait()
stage.threading.Event().wait(0.3)  # the work that an import is
import logging
logging.getLogger(__name__)
IS_WHOLE = True
"""


def test_a_child_does_not_wait_for_imports_of_its_parents_threads(tmp_path):
    (tmp_path / "stage.py").write_text(STAGE)
    (tmp_path / "atled_slow.py").write_text(SLOW)
    (tmp_path / "needed_later.py").write_text(SLOW)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, timeout=60)


def test_a_module_may_fork_while_it_is_imported(tmp_path):
    (tmp_path / "atled_forking.py").write_text(
        "import os, atled_contexts\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    import atled_forking, json\n"
        "    os._exit(0)\n"
        "CODE = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    program = "import sys, atled_forking; sys.exit(atled_forking.CODE)"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)


# A lock that a thread of the parent holds is free in the child; one that nobody has any more is not kept for forks.
LOCKS = """
import gc, os, signal, threading, warnings, weakref
from atled_contexts import lock_across_forks

warnings.simplefilter("ignore")
lock, gone = lock_across_forks(), weakref.ref(lock_across_forks())
gc.collect()
assert gone() is None
held, ended = threading.Event(), threading.Event()
def hold():
    with lock:
        held.set()
        ended.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if lock.acquire(timeout=10) else 3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
ended.set()
thread.join()
raise SystemExit(code)
"""


def test_a_lock_that_another_thread_held_is_free_in_a_child_and_lives_no_longer_than_its_owner():
    subprocess.run([sys.executable, "-c", LOCKS], check=True)
