"""Programs run their rows in order, and the pool every part of a row exactly once, whatever else is going on."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import RowWord, call_form
from atled_contexts import native_executor
from atled_cpu_numba import pool, pool_ir
from atled_cpu_numba.store import IRKernel
from atled_cpu_numba.threads import most_threads

# Block: address of a counter, address of a log, value. Appends 100 * value + part to the log.
APPEND = """
define i64 @append(i64 %block, i64 %part, i64 %parts) {
  %words = inttoptr i64 %block to ptr
  %counter.int = load i64, ptr %words
  %log.at = getelementptr i64, ptr %words, i64 1
  %log.int = load i64, ptr %log.at
  %value.at = getelementptr i64, ptr %words, i64 2
  %value = load i64, ptr %value.at
  %counter = inttoptr i64 %counter.int to ptr
  %log = inttoptr i64 %log.int to ptr
  %place = atomicrmw add ptr %counter, i64 1 seq_cst
  %slot = getelementptr i64, ptr %log, i64 %place
  %hundreds = mul i64 %value, 100
  %entry = add i64 %hundreds, %part
  store i64 %entry, ptr %slot
  ret i64 0
}
"""

# Block: address of one counter per part, loops, parts. Counts its part and stays busy; code 7 if `parts` is another.
COUNT = """
define i64 @count(i64 %block, i64 %part, i64 %parts) {
entry:
  %words = inttoptr i64 %block to ptr
  %counters.int = load i64, ptr %words
  %loops.at = getelementptr i64, ptr %words, i64 1
  %loops = load i64, ptr %loops.at
  %told.at = getelementptr i64, ptr %words, i64 2
  %told = load i64, ptr %told.at
  %counters = inttoptr i64 %counters.int to ptr
  %slot = getelementptr i64, ptr %counters, i64 %part
  %before = atomicrmw add ptr %slot, i64 1 monotonic
  %right = icmp eq i64 %told, %parts
  br i1 %right, label %busy, label %wrong
busy:
  %i = phi i64 [ 0, %entry ], [ %next, %busy ]
  %next = add i64 %i, 1
  %kept = load volatile i64, ptr %words
  %more = icmp slt i64 %next, %loops
  br i1 %more, label %busy, label %end
end:
  ret i64 0
wrong:
  ret i64 7
}
"""

# Block: first failing part, code. Fails from that part on, with code + part.
FAIL = """
define i64 @fail(i64 %block, i64 %part, i64 %parts) {
  %words = inttoptr i64 %block to ptr
  %first = load i64, ptr %words
  %code.at = getelementptr i64, ptr %words, i64 1
  %code = load i64, ptr %code.at
  %fine = icmp slt i64 %part, %first
  %own = add i64 %code, %part
  %result = select i1 %fine, i64 0, i64 %own
  ret i64 %result
}
"""

append, count, fail = IRKernel("append", APPEND), IRKernel("count", COUNT), IRKernel("fail", FAIL)


@pytest.fixture(scope="module", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATLED_CACHE_DIR", str(tmp_path_factory.mktemp("store")))
        yield


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    yield
    pool.set_thread_count(None)


class Program:
    """Rows and the blocks they point at."""

    def __init__(self, *rows: tuple[IRKernel, list[int], int]) -> None:
        self.blocks = [np.array(block, np.int64) for _, block, _ in rows]
        table = [
            [kernel.address(), block.ctypes.data, parts, 0, 0]
            for (kernel, _, parts), block in zip(rows, self.blocks, strict=True)
        ]
        self.rows = np.array(table, np.int64).reshape(-1, len(RowWord))

    def run(self, start: int = 0, stop: int | None = None) -> int:
        return pool.run_program(self.rows.ctypes.data, start, len(self.rows) if stop is None else stop)


def form(
    kernel: IRKernel, block: Iterable[int], parts: int, addresses: Sequence[int] = (), floats: Sequence[int] = ()
) -> np.ndarray:
    """What `run_call` takes: the words of the block that addresses and floats are put into."""
    return call_form(kernel.address(), parts, list(block), addresses, floats)


class Counted:
    """A row of the count kernel with its counters."""

    def __init__(self, parts: int, loops: int = 0) -> None:
        self.counters = np.zeros(max(parts, 1), np.int64)
        self.row = (count, [self.counters.ctypes.data, loops, max(parts, 1)], parts)


def log_program(values: list[int], parts: int) -> tuple[Program, np.ndarray]:
    state = np.zeros(1 + len(values) * parts, np.int64)  # counter, then log
    counter, log = state.ctypes.data, state[1:].ctypes.data
    return Program(*((append, [counter, log, value], parts) for value in values)), state


def test_rows_run_in_order() -> None:
    values = list(range(200))
    program, state = log_program(values, 1)
    assert program.run() == 0
    assert state.tolist() == [200, *(100 * value for value in values)]


def test_only_the_rows_asked_for_run() -> None:
    program, state = log_program([5, 6, 7, 8], 1)
    assert program.run(1, 3) == 0
    assert state.tolist() == [2, 600, 700, 0, 0]
    assert program.run(2, 2) == 0
    assert program.run(3, 1) == 0
    assert state[0] == 2


def test_a_row_starts_after_all_parts_of_the_one_before() -> None:
    pool.set_thread_count(3)
    program, state = log_program(list(range(50)), 7)
    assert program.run() == 0
    assert (state[1:].reshape(50, 7) // 100 == np.arange(50)[:, None]).all()
    assert (np.sort(state[1:].reshape(50, 7) % 100, axis=1) == np.arange(7)).all()


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("parts", [1, 9])
def test_the_first_failing_row_stops_the_program(threads: int, parts: int) -> None:
    pool.set_thread_count(threads)
    before, after = Counted(parts), Counted(parts)
    program = Program(before.row, (fail, [0, 5], parts), after.row)
    assert program.run() == (1 + 1) << 16 | 5
    assert before.counters.tolist() == [1] * parts
    assert after.counters.tolist() == [0] * parts


@pytest.mark.parametrize("threads", [1, 4])
def test_the_code_of_the_lowest_failing_part_is_returned(threads: int) -> None:
    pool.set_thread_count(threads)
    program = Program(*((fail, [3, 100], 40) for _ in range(100)))
    assert [program.run(row, row + 1) for row in range(100)] == [(row + 1) << 16 | 103 for row in range(100)]


@pytest.mark.parametrize("parts", [0, 1, 5])
@pytest.mark.parametrize(("code", "reported"), [(1, 1), (65535, 65535), (65536, 65535), (-1, 65535), (1 << 62, 65535)])
def test_codes_are_packed_into_16_bits(code: int, reported: int, parts: int) -> None:
    program = Program((fail, [0, code], parts))
    row_of_five = Program((fail, [4, code - 4], 5))
    assert program.run() == 1 << 16 | reported
    assert row_of_five.run() == 1 << 16 | reported
    call = form(fail, program.blocks[0], parts)
    assert pool.run_call(call.ctypes.data) == reported


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_part_runs_exactly_once(threads: int) -> None:
    pool.set_thread_count(threads)
    counted = [Counted(parts, loops=50 * (parts % 3)) for parts in range(1, 65)]
    program = Program(*(one.row for one in counted))
    for _ in range(50):
        assert program.run() == 0
    for one in counted:
        assert one.counters.tolist() == [50] * len(one.counters)


def test_more_parts_than_a_ticket_can_count_run_exactly_once() -> None:
    pool.set_thread_count(2)
    parts = pool_ir.LEFT_MASK + 2
    counters = np.zeros(parts, np.int64)
    assert Program((count, [counters.ctypes.data, 1, parts], parts)).run() == 0
    assert (counters == 1).all()


@pytest.mark.skipif(not pool.HAS_PTHREADS, reason="there are no workers here")
def test_the_caller_takes_parts_from_the_first_on_and_a_worker_from_the_last() -> None:
    """So the same thread finds the same end of the data in its cache, row after row."""
    pool.set_thread_count(2)
    taken: dict[int, list[int]] = {}
    both = threading.Barrier(2, timeout=60)

    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    def note(block: int, part: int, parts: int) -> int:
        own = taken.setdefault(threading.get_ident(), [])
        own.append(part)
        if len(own) == 1:  # neither thread does it all
            both.wait()
        return 0

    row = np.array([[ctypes.cast(note, ctypes.c_void_p).value, 0, 8, 0, 0]], np.int64)
    assert pool.run_program(row.ctypes.data, 0, 1) == 0
    (first, caller), (last, worker) = sorted((parts[0], parts) for parts in taken.values())
    assert (first, last) == (0, 7) and taken[threading.get_ident()] is caller
    assert caller == [*range(len(caller))] and worker == [*range(7, len(caller) - 1, -1)]


def test_a_single_kernel_runs_in_parts() -> None:
    pool.set_thread_count(4)
    for parts in (0, 1, 2, 64):
        one = Counted(parts, loops=100)
        made = form(count, one.row[1], parts)
        for _ in range(20):
            assert pool.run_call(made.ctypes.data) == 0
        assert one.counters.tolist() == [20] * max(parts, 1)


# Block: address of the result, then an address and a float. Writes those two there, and 1 as if it were the address.
KEEP = """
define i64 @keep(i64 %block, i64 %part, i64 %parts) {
  %words = inttoptr i64 %block to ptr
  %result.int = load i64, ptr %words
  %result = inttoptr i64 %result.int to ptr
  %first.at = getelementptr i64, ptr %words, i64 1
  %first = load i64, ptr %first.at
  %second.at = getelementptr i64, ptr %words, i64 2
  %second = load i64, ptr %second.at
  store i64 %first, ptr %result
  %next = getelementptr i64, ptr %result, i64 1
  store i64 %second, ptr %next
  store i64 1, ptr %first.at
  ret i64 0
}
"""
keep = IRKernel("keep", KEEP)


@pytest.mark.parametrize("real", [0.5, -1.0, 3, float("inf")])
@pytest.mark.parametrize("address", [0, -1, 1 << 62])
def test_a_call_gets_its_values_in_a_block_of_its_own(address: int, real: float) -> None:
    result = np.zeros(2, np.int64)
    call = form(keep, [result.ctypes.data, 77, 88], 1, addresses=[-1, 1], floats=[2])
    before = call.copy()
    for _ in range(2):
        assert pool.run_call(call.ctypes.data, 5, address, real) == 0
        assert (result[0], result.view(np.float64)[1]) == (address, real)
    assert (call == before).all()


def test_a_call_with_values_that_do_not_fit_its_form_is_refused() -> None:
    result = np.zeros(2, np.int64)
    call = form(keep, [result.ctypes.data, 0, 0], 1, addresses=[1], floats=[2])
    for values in [(), (1,), (1, 2.0, 3), ("x", 2.0), (1, "x"), (1.5, 2.0), (1 << 70, 2.0)]:
        with pytest.raises((TypeError, OverflowError)):
            pool.run_call(call.ctypes.data, *values)
    assert not result.any()


def run_at_once(functions: list[Callable[[], None]]) -> None:
    """Run the functions in a thread each; their exceptions end up with the caller."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def work_with(seed: int, repetitions: int = 60) -> None:
    """Run a random program some times and check its counters."""
    generator = random.Random(seed)
    counted = [Counted(generator.randint(1, 20), generator.choice([0, 10, 1000])) for _ in range(20)]
    program = Program(*(one.row for one in counted))
    for _ in range(repetitions):
        assert program.run() == 0
    for one in counted:
        assert (one.counters == repetitions).all()


def test_threads_may_run_programs_at_once() -> None:
    pool.set_thread_count(3)
    run_at_once([partial(work_with, seed) for seed in range(4)])


def test_the_count_of_threads_may_change_while_programs_run() -> None:
    def change() -> None:
        for number in range(40):
            pool.set_thread_count(1 + number % 5)

    run_at_once([change, partial(work_with, 0), partial(work_with, 1)])
    assert pool.thread_count() == 5


def worker_names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("atled-cpu")]


def test_workers_start_with_the_first_shared_row_and_end_when_the_count_changes() -> None:
    pool.set_thread_count(4)
    assert Program(Counted(1).row).run() == 0
    assert worker_names() == []
    assert Program(Counted(2).row).run() == 0
    assert worker_names() == ["atled-cpu-1", "atled-cpu-2", "atled-cpu-3"]
    pool.set_thread_count(1)
    assert worker_names() == []
    assert Program(Counted(8).row).run() == 0
    assert worker_names() == []


def test_the_environment_gives_the_count_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATLED_NUM_THREADS", "3")
    assert pool.thread_count() == 3
    pool.set_thread_count(2)
    assert pool.thread_count() == 2
    pool.set_thread_count(None)
    assert pool.thread_count() == 3
    monkeypatch.delenv("ATLED_NUM_THREADS")
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr("atled_cpu_numba.threads._granted", lambda: 1 << 20)
        assert pool.thread_count() == len(os.sched_getaffinity(0))
    monkeypatch.setattr("atled_cpu_numba.threads._granted", lambda: 1)
    assert pool.thread_count() == 1


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "100000"])
def test_a_wrong_count_in_the_environment_is_an_error_for_the_first_shared_row(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATLED_NUM_THREADS", text)
    pool.set_thread_count(None)
    one = Counted(4)
    with pytest.raises(ValueError, match=f"^ATLED_NUM_THREADS={text}: is .*\nWhat to do: set it to a count from 1 to "):
        Program(one.row).run()
    assert worker_names() == []
    assert not one.counters.any()
    monkeypatch.setenv("ATLED_NUM_THREADS", "2")
    assert Program(one.row).run() == 0


@pytest.mark.parametrize("threads", [0, -3, most_threads() + 1])
def test_a_count_below_one_or_far_above_the_processors_is_refused(threads: int) -> None:
    with pytest.raises(ValueError, match="give a count from 1 to"):
        pool.set_thread_count(threads)


def test_a_refused_thread_means_a_warning_and_fewer_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool.set_thread_count(4)
    one = Counted(8)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.warns(pool.PoolWarning, match="1 of 4 threads"):
        assert Program(one.row).run() == 0
    assert one.counters.tolist() == [1] * 8


def at_the_second_worker(monkeypatch: pytest.MonkeyPatch, handle: Callable[[], None]) -> None:
    """Have a handler of a signal run right after the second worker has started, before that is noted."""
    start, waiting = threading.Thread.start, [lambda: None, handle]

    def start_and_handle(thread: threading.Thread) -> None:
        start(thread)
        if thread.name.startswith("atled-cpu") and waiting:
            waiting.pop(0)()

    monkeypatch.setattr(threading.Thread, "start", start_and_handle)


def test_an_interrupt_while_workers_start_leaves_none_and_later_rows_have_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    pool.set_thread_count(4)
    at_the_second_worker(monkeypatch, interrupt)
    former, others = pool._load().pool, set(threading.enumerate())
    one = Counted(8)
    with pytest.raises(KeyboardInterrupt):
        Program(one.row).run()
    for thread in set(threading.enumerate()) - others:  # the second one, of which the pool knows nothing
        thread.join(60)
    assert worker_names() == [] and not one.counters.any()
    assert Program(one.row).run() == 0
    assert worker_names() == ["atled-cpu-1", "atled-cpu-2", "atled-cpu-3"]
    present = pool._load().pool
    assert present is not former
    assert ctypes.c_int64.from_address(present.address + pool_ir.WORKERS).value == 3


def test_what_a_handler_computes_while_workers_start_is_done_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pool.set_thread_count(4)
    inner, outer = Counted(8), Counted(8)
    at_the_second_worker(monkeypatch, lambda: codes.append(Program(inner.row).run()))
    codes: list[int] = []
    assert Program(outer.row).run() == 0
    assert codes == [0] and inner.counters.tolist() == outer.counters.tolist() == [1] * 8
    assert worker_names() == ["atled-cpu-1", "atled-cpu-2", "atled-cpu-3"]
    assert ctypes.c_int64.from_address(pool._load().pool.address + pool_ir.WORKERS).value == 3


@pytest.mark.parametrize("arguments", [(), (1, 2), (1, 2, 3, 4), ("x", 0, 0), (0, 0, None), (1 << 70, 0, 0)])
def test_wrong_arguments_are_errors(arguments: tuple[object, ...]) -> None:
    assert Program().run() == 0  # from here on the names stand for the built-in functions
    with pytest.raises((TypeError, OverflowError)):
        pool.run_program(*arguments)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises((TypeError, OverflowError)):
        pool.run_call("x", *arguments)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises((TypeError, OverflowError)):
        pool.run_call(1 << 70)


def test_the_built_in_functions_document_themselves() -> None:
    assert Program().run() == 0
    assert "65535" in (pool.run_program.__doc__ or "")
    assert pool.run_call.__text_signature__ == "(form_address, /, *values)"  # type: ignore[attr-defined]  # built-in


# A process of its own for what concerns processes: {0} runs after the pool has worked with three idle workers.
PROCESS = """
import os, sys, threading, time
sys.path.insert(0, {folder!r})
from test_pool import Counted, Program, count, pool, work_with
pool.set_thread_count(4)
work_with(1)
{body}
"""


def run_process(body: str) -> str:
    program = PROCESS.format(folder=os.path.dirname(__file__), body=body)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Newer Pythons warn of every fork while there are threads; that is what the test is about.
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_interpreter_ends_with_idle_workers() -> None:
    assert run_process("print('done')") == "done\n"


needs_places = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux do threads choose their processor")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")

FORK = """
def in_child(body):
    pid = os.fork()
    if pid == 0:
        body()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


@needs_fork
def test_a_child_after_fork_has_a_pool_of_its_own() -> None:
    body = """
def body():
    names = [thread.name for thread in threading.enumerate()]
    assert len(names) == 1, names
    work_with(2)
    assert threading.active_count() == 4
    in_child(lambda: work_with(3))
for _ in range(5):
    in_child(body)
    work_with(4)
"""
    run_process(FORK + body)


@needs_fork
def test_a_child_of_a_process_in_the_midst_of_programs_works() -> None:
    body = """
stop = False
def background():
    while not stop:
        work_with(5, repetitions=1)
thread = threading.Thread(target=background)
thread.start()
for _ in range(10):
    in_child(lambda: work_with(6, repetitions=5))
stop = True
thread.join()
"""
    run_process(FORK + body)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this platform cannot pin processes")
def test_a_process_on_one_processor_has_no_workers() -> None:
    body = """
pool.set_thread_count(None)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
work_with(7)
print(pool.thread_count(), threading.active_count())
"""
    environment = os.environ.pop("ATLED_NUM_THREADS", None)
    try:
        assert run_process(body) == "1 1\n"
    finally:
        if environment is not None:
            os.environ["ATLED_NUM_THREADS"] = environment


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processor time per thread is only read on Linux")
def test_idle_workers_sleep() -> None:
    # On Linux a sleeping thread is in state S; the workers get there 200 us after their last part.
    body = """
def states():
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/stat") as file:
            found.append(file.read().rsplit(")", 1)[1].split()[0])
    return sorted(found)
end = time.monotonic() + 20
while states().count("R") > 1 and time.monotonic() < end:
    pass
assert states().count("R") == 1, states()
"""
    run_process(body)


@needs_places
def test_a_thread_moves_to_another_processor_of_the_process() -> None:
    processors = os.sched_getaffinity(os.getpid())
    found: list[set[int]] = []

    def move() -> None:
        for processor in sorted(processors):
            pool._load().move_from(processor)
            found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=move)
    thread.start()
    thread.join()
    # Where there is no other one, the thread stays.
    assert found == [processors - {processor} or processors for processor in sorted(processors)]
    assert os.sched_getaffinity(os.getpid()) == processors


class HeldUp:
    """A row of eight parts whose only worker is held up in the first it takes, as if it had lost its processor.

    It sleeps there: like that of a thread which waits for a processor, its clock of time on processors stands. The
    caller is a thread that is bound to the first of the process's processors.
    """

    def __init__(self) -> None:
        pool.set_thread_count(2)
        assert Program(Counted(2).row).run() == 0
        native = pool._load().pool
        self._pool, self._own = native.address, native._workers.address
        self.worker = native._threads[0].native_id or 0
        self.processors = os.sched_getaffinity(os.getpid())
        self.processor = min(self.processors)
        self.taken: dict[str, list[int]] = {"caller": [], "worker": []}
        self.result: int | None = None
        self._is_held, self._go_on = threading.Event(), threading.Event()
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        self._kernel = function(self._part)
        self._caller = threading.Thread(target=self._run)

    def _part(self, block: int, part: int, parts: int) -> int:
        if threading.current_thread() is self._caller:
            assert self._is_held.wait(60)
            self.taken["caller"].append(part)
        else:
            self._is_held.set()
            assert self._go_on.wait(60)
            self.taken["worker"].append(part)
        return 0

    def _run(self) -> None:
        os.sched_setaffinity(0, {self.processor})
        row = np.array([[ctypes.cast(self._kernel, ctypes.c_void_p).value, 0, 8, 0, 0]], np.int64)
        self.result = pool.run_program(row.ctypes.data, 0, 1)

    def word(self, offset: int, of_worker: bool = False) -> ctypes.c_int64:
        return ctypes.c_int64.from_address((self._own if of_worker else self._pool) + offset)

    def run_until(self, has_happened: Callable[[], bool]) -> set[int]:
        """Run the row, and let the worker go on when that has happened; where the worker was allowed to run then."""
        self._caller.start()
        end = time.monotonic() + 60
        while not has_happened() and time.monotonic() < end:
            time.sleep(0.001)
        happened, places = has_happened(), os.sched_getaffinity(self.worker)
        self._go_on.set()
        self._caller.join(60)
        assert happened and self.result == 0
        assert self.taken == {"caller": [*range(7)], "worker": [7]}
        return places


@needs_places
def test_a_worker_without_a_processor_is_fetched_to_the_caller_s_and_sent_away_when_its_part_is_finished() -> None:
    row = HeldUp()
    sleeps = row.word(pool_ir.CALLER_SLEEPS)
    assert row.run_until(lambda: sleeps.value == 1) == {row.processor}
    assert sleeps.value == 0
    assert os.sched_getaffinity(row.worker) == (row.processors - {row.processor} or {row.processor})


@needs_places
def test_a_worker_that_runs_but_takes_long_stays_where_it_is() -> None:
    row = HeldUp()
    row.word(pool_ir.CLOCK, of_worker=True).value = time.CLOCK_MONOTONIC  # which always moves
    seen, looks = row.word(pool_ir.RUN_NS, of_worker=True), set()

    def looked() -> bool:
        looks.add(seen.value)
        return len(looks) > 5

    before = os.sched_getaffinity(row.worker)
    assert row.run_until(looked) in (before, row.processors - {row.processor})  # it may have met the caller before
    assert row.word(pool_ir.CALLER_SLEEPS).value == 0


@needs_places
@pytest.mark.parametrize(("word", "value"), [(pool_ir.THREAD, -1), (pool_ir.CLOCK, pool_ir.NO_CLOCK)])
def test_where_the_system_refuses_to_fetch_a_worker_the_caller_waits(word: int, value: int) -> None:
    row = HeldUp()
    row.word(word, of_worker=True).value = value
    claimed, finished = row.word(pool_ir.CLAIMED, of_worker=True), row.taken["caller"]
    row.run_until(lambda: claimed.value == 1 and len(finished) == 7)
    assert row.word(pool_ir.CALLER_SLEEPS).value == claimed.value == 0


@needs_places
@pytest.mark.parametrize("tick_ns", [1, 10_000_000])
def test_only_a_clock_that_moves_while_a_thread_runs_tells_whether_it_does(
    monkeypatch: pytest.MonkeyPatch, tick_ns: int
) -> None:
    read = time.thread_time_ns
    monkeypatch.setattr(time, "thread_time_ns", lambda: read() // tick_ns * tick_ns)
    pool.set_thread_count(2)
    assert Program(Counted(2).row).run() == 0
    clock = ctypes.c_int64.from_address(pool._load().pool._workers.address + pool_ir.CLOCK).value
    assert (clock == pool_ir.NO_CLOCK) == (tick_ns > 1)


@needs_places
def test_more_threads_than_processors_run_each_part_exactly_once() -> None:
    run_process("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\npool.set_thread_count(3)\nwork_with(8)")


# Raises SIGINT, as Ctrl-C does.
INTERRUPT = """
declare i32 @raise(i32)
define i64 @interrupt(i64 %block, i64 %part, i64 %parts) {
  %ignored = call i32 @raise(i32 2)
  ret i64 0
}
"""
NOTHING = "define i64 @nothing(i64 %block, i64 %part, i64 %parts) {\n ret i64 0\n}"


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, even where the parent had it ignored, as shells have it for background jobs."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.fixture
def turns_at_once(interrupts: None) -> Iterator[None]:
    """Programs give the interpreter a turn after every row."""
    native = pool._load()
    native.pool._write(pool_ir.TURN, 0)
    yield
    native.pool._write(pool_ir.TURN, native.turn)


def interrupted_rows(count: int, at: int) -> np.ndarray:
    rows = np.zeros((count, len(RowWord)), np.int64)
    rows[:, RowWord.KERNEL] = IRKernel("nothing", NOTHING).address()
    rows[at, RowWord.KERNEL] = IRKernel("interrupt", INTERRUPT).address()
    rows[:, RowWord.PARTS] = 1
    return rows


def test_an_interrupt_ends_a_program_between_two_rows(turns_at_once: None) -> None:
    rows = interrupted_rows(8, at=3)
    with pytest.raises(KeyboardInterrupt):
        pool.run_program(rows.ctypes.data, 0, 8)
    assert (rows[:, RowWord.TICKS] > 0).tolist() == [True] * 4 + [False] * 4, "rows that ran were timed"
    rows[3, RowWord.KERNEL] = rows[0, RowWord.KERNEL]
    assert pool.run_program(rows.ctypes.data, 0, 8) == 0
    assert (rows[:, RowWord.TICKS] > 0).all()


@pytest.mark.parametrize(("first", "ran"), [(2, 8), (4, 8), (5, 4)])
def test_counted_rows_are_not_parted_from_the_row_before(turns_at_once: None, first: int, ran: int) -> None:
    rows, count = interrupted_rows(8, at=3), np.zeros(1, np.int64)
    rows[first:, RowWord.COUNT] = count.ctypes.data
    with pytest.raises(KeyboardInterrupt):
        pool.run_program(rows.ctypes.data, 0, 8)
    assert (rows[:, RowWord.TICKS] > 0).tolist() == [row < ran for row in range(8)]
    assert count[0] == max(0, ran - first)


def test_a_counted_row_that_fails_is_not_counted() -> None:
    program, count = Program((fail, [0, 5], 1), (fail, [1, 5], 1), (fail, [0, 5], 1)), np.zeros(1, np.int64)
    program.rows[1:, RowWord.COUNT] = count.ctypes.data
    assert program.run(1) == 3 << 16 | 5
    assert count[0] == 1


def test_a_program_in_another_thread_is_not_interrupted(turns_at_once: None) -> None:
    rows = interrupted_rows(8, at=3)
    results: list[int] = []
    ended = threading.Event()

    def run() -> None:
        results.append(pool.run_program(rows.ctypes.data, 0, 8))
        ended.set()

    thread = threading.Thread(target=run)
    with pytest.raises(KeyboardInterrupt):  # in the main thread
        thread.start()
        while True:
            ended.wait(0.01)  # Python 3.11 takes a thread for ended whose `join` was interrupted
    assert ended.wait(20)
    assert results == [0] and (rows[:, RowWord.TICKS] > 0).all()


def test_a_long_program_takes_turns_and_goes_on() -> None:
    handled: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
    try:
        rows = interrupted_rows(8, at=3)
        rows[:, RowWord.TICKS] = pool._load().turn + 1  # as if each had taken so long before
        assert pool.run_program(rows.ctypes.data, 0, 8) == 0
    finally:
        signal.signal(signal.SIGINT, former)
    assert handled == [signal.SIGINT]


def test_what_was_interrupted_can_be_run_again(turns_at_once: None) -> None:
    x, w = nn.Variable((3, 4)), nn.Variable((4, 5))
    x.d, w.d = np.arange(12).reshape(3, 4), 0
    y = F.softmax(F.affine(x, w))
    y.forward()
    rows = y.value.roots.forward.binding._rows
    assert len(rows) == 2
    kernel = rows[0, RowWord.KERNEL]
    rows[0, RowWord.KERNEL] = IRKernel("interrupt", INTERRUPT).address()
    with pytest.raises(KeyboardInterrupt):
        y.forward()
    rows[0, RowWord.KERNEL] = kernel
    answers: list[np.ndarray] = []

    def run() -> None:
        y.forward()
        answers.append(y.d.copy())

    thread = threading.Thread(target=run)  # which would wait for ever for a lock that is held
    thread.start()
    thread.join(20)
    np.testing.assert_allclose(answers[0], np.full((3, 5), 0.2), rtol=1e-6)


def test_a_plan_that_was_made_before_the_pool_was_loaded_calls_it_without_a_detour(monkeypatch: pytest.MonkeyPatch):
    with nn.context_scope(nn.Context("cpu")):
        executor = native_executor("cpu")
        detour, taken = type(executor).run_program, []
        vars(executor).pop("run_program", None)
        monkeypatch.setattr(type(executor), "run_program", lambda *given: taken.append(1) or detour(*given))
        y = F.relu(nn.Variable.from_numpy_array(np.array([-1.0, 2.0], np.float32)))
        for _ in range(3):
            y.forward()
    assert y.d.tolist() == [0, 2] and len(taken) == 1
