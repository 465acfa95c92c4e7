"""Running kernels: native programs, and the threads that share the parts of large ones.

A program is a C-contiguous int64 array of rows, whose words `RowWord` names. Rows run in order, without the interpreter
lock. A row of more than one part is shared with worker threads, of which there is one less than `thread_count()`. Only
one caller at a time has them; another one meanwhile does its parts alone. Kernels cut their results into parts, never
the sums that make one result: so results do not depend on the threads there are.

A program that the main thread runs gives Python a turn after a tenth of a second, between two rows, so that a handler
of a signal can end it: Ctrl-C does not wait for the whole program. No handler runs within a row, nor before one that is
counted (`RowWord.COUNT`): of rows that move parameters all run, or none.

Workers start with the first such row. They are daemon threads that sleep when there is nothing to do.
"""

from __future__ import annotations

import ctypes
import operator
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable

from atled.plugin import four_parts
from atled_cpu_numba import pool_calls_ir, pool_ir, processor
from atled_cpu_numba.native_builtins import Definition, builtin
from atled_cpu_numba.store import IRKernel
from atled_cpu_numba.threads import most_threads, parse_thread_count, usable_processors

# How long a worker polls before it sleeps. Waking one costs the caller 8 us, and 50 us go by until it begins: more than
# sharing a small row brings. Polling covers the small rows of a training step, and the Python between two steps.
SPIN_S = 200e-6

# How long a caller waits for a worker's part before it looks whether that thread runs, and between two looks, of which
# each is a call of the system. Shorter, and an interruption would be taken for the loss of a processor.
LOOK_S = 25e-6

# How long a program may run before Python looks for signals: Ctrl-C takes effect within this and one row.
TURN_S = 0.1

HAS_PTHREADS = os.name == "posix"
_HAS_PLACES = sys.platform == "linux"  # sched_getcpu, sched_setaffinity, clock_gettime


class PoolWarning(RuntimeWarning):
    """Large kernels run on fewer threads than asked for."""


def run_program(rows_address: int, start: int, stop: int) -> int:
    """Run rows start <= row < stop of a program in order, up to the first that fails.

    rows_address: of the first of all rows, (n, len(RowWord)) int64.
    Returns 0, or (row + 1) << 16 | code, where code is what the kernel returned, or 65535 if that does not fit into 16
    bits; of several failing parts of a row, the lowest one's; for a loop step << 40 more. A wrong address
    is not noticed: it ends the process.
    In the main thread, what a handler of a signal raises (KeyboardInterrupt) comes through between two rows.
    """
    return _load().run_program(rows_address, start, stop)


def run_call(form_address: int, *values: float) -> int:
    """Run one kernel; returns 0 or its code, as `run_program` does.

    form_address: of a form (`FormWord`), which names the kernel and holds its argument block; each call copies that
        onto the stack, so that several threads may call.
    values: what to put into the block, as the form says: addresses, then floats.
    parts = 0 in the form runs the kernel as one part with the interpreter lock held: for kernels of some microseconds
    at most, where giving the lock away and back would double the cost of the call.
    """
    return _load().run_call(form_address, *values)


def loop_kernel() -> tuple[int, int]:
    """The address of the kernel that runs loops, and the first word of each loop's block (`LoopWord`).

    Its rows are those of its block, for each step in order, as `run_program` runs them: with the workers, and with
    turns for Python. It is a row of a program, or a call, of one part.
    """
    native = _load()
    return native.loop, native.root_address


def thread_count() -> int:
    """Threads that work on one large kernel, the caller included.

    What `set_thread_count` said, else ATLED_NUM_THREADS, else the count of processors that this process may run on.
    Raises ValueError if ATLED_NUM_THREADS is not a count from 1 to `most_threads()`.
    """
    if not HAS_PTHREADS:
        return 1
    if _chosen_count is not None:
        return _chosen_count
    text = os.environ.get("ATLED_NUM_THREADS", "").strip()
    if not text:
        return usable_processors()
    try:
        return parse_thread_count(text)
    except ValueError as error:
        remedy = f"set it to a count from 1 to {most_threads()}, or unset it"
        raise ValueError(four_parts(f"ATLED_NUM_THREADS={text}", str(error), "", remedy)) from None


def set_thread_count(count: int | None) -> None:
    """Have `count` threads work on large kernels, the caller included; 1 means no workers, None the default.

    Returns when the workers there were have ended. Raises ValueError for a count below 1 or above `most_threads()`.
    """
    global _chosen_count
    if count is not None and not 1 <= operator.index(count) <= most_threads():
        remedy = f"the calling thread counts as one: give a count from 1 to {most_threads()}"
        raise ValueError(four_parts(f"set_thread_count({count!r})", "is not a count of threads here", "", remedy))
    with _lock:
        _chosen_count = count
        former = None if _native is None else _native.replace_pool()
    if former is not None:
        former.stop()


class _Pool:
    """The memory of one set of workers (layout: pool_ir), and their threads."""

    def __init__(self, native: _Native) -> None:
        self._native = native
        self._memory = _Aligned(pool_ir.POOL_BYTES)
        self.address = self._memory.address
        self._threads: list[threading.Thread] = []
        self._tells_who_runs = False
        self._write(pool_ir.WORKERS, pool_ir.NOT_STARTED)
        self._write(pool_ir.TURN, native.turn)
        code = native.initialize(self.address)
        if code:
            raise OSError(code, "the system refuses a mutex for the threads of the cpu plugin")

    def start(self) -> None:
        """Start the workers, unless another caller has just done so."""
        if ctypes.c_int64.from_address(self.address + pool_ir.WORKERS).value != pool_ir.NOT_STARTED:
            return
        wanted = thread_count() - 1
        if wanted:
            poll_s = self._native.poll_s()
            self._write(pool_ir.SPIN, max(1, int(SPIN_S / poll_s)))
            self._write(pool_ir.LOOK, max(1, int(LOOK_S / poll_s)))
            self._tells_who_runs = _HAS_PLACES and self._native.tells_who_runs(poll_s)
        self._workers = _Aligned(wanted * pool_ir.WORKER_BYTES)
        self._write(pool_ir.WORKER_TABLE, self._workers.address)
        self._write(pool_ir.WORKERS, 0)  # what a handler of a signal computes meanwhile is done without any
        try:
            refusal = self._start_threads(wanted)
        except BaseException:  # what such a handler raises: a thread may run that is not noted, and use the memory here
            self._native.replace_pool()
            self.stop()
            raise
        self._write(pool_ir.WORKERS, len(self._threads))
        if refusal:
            warnings.warn(
                f"the cpu plugin has {len(self._threads) + 1} of {wanted + 1} threads: {refusal}. Raise the limit of "
                f"threads (ulimit -u), or set ATLED_NUM_THREADS={len(self._threads) + 1}.",
                PoolWarning,
                stacklevel=2,
            )

    def _start_threads(self, count: int) -> RuntimeError | None:
        """Start up to `count` workers; returns why there are fewer."""
        for number in range(1, count + 1):
            own = self._workers.address + (number - 1) * pool_ir.WORKER_BYTES
            _write_word(own + pool_ir.POOL, self.address)
            # Daemons, since the interpreter is not to wait at its end for threads that never return by themselves.
            thread = threading.Thread(target=self._native.work, args=(own,), name=f"atled-cpu-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # a limit of the system, or the interpreter is ending
                return error
            if _HAS_PLACES:
                assert thread.native_id is not None and thread.ident is not None
                _write_word(own + pool_ir.THREAD, thread.native_id)
                clock = time.pthread_getcpuclockid(thread.ident) if self._tells_who_runs else pool_ir.NO_CLOCK
                _write_word(own + pool_ir.CLOCK, clock)
            self._threads.append(thread)
        return None

    def stop(self) -> None:
        """End the workers, after the parts they are at. Callers that still use this pool then work alone."""
        self._native.stop(self.address)
        for thread in self._threads:
            thread.join()

    def _write(self, offset: int, value: int) -> None:
        _write_word(self.address + offset, value)


class _Aligned:
    """Bytes, zero at first, that begin a pair of cache lines."""

    def __init__(self, size: int) -> None:
        self._buffer = ctypes.create_string_buffer(size + 128)
        self.address = (ctypes.addressof(self._buffer) + 127) & ~127


def _write_word(address: int, value: int) -> None:
    ctypes.c_int64.from_address(address).value = value


def native_functions() -> IRKernel:
    """The pool's functions as one kernel, which returns the address of each by its number."""
    return IRKernel("atled_pool", pool_ir.pool_ir(pthreads=HAS_PTHREADS, places=_HAS_PLACES), python_api=True)


class _Native:
    """The native functions, and the root that they find the pool through; one per process, made on first use."""

    def __init__(self) -> None:
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)  # calls release the interpreter lock
        entry = function(native_functions().address())
        self._addresses = {name: entry(index) for index, name in enumerate(pool_ir.FUNCTIONS)}
        self.work, self.initialize, self.stop, self._spin, self.move_from, self._ticks = (
            function(self._addresses[name]) for name in ("work", "initialize", "stop", "spin", "move_from", "ticks")
        )
        self.loop = self._addresses["loop"]
        self.turn = self._turn()
        self._root = (ctypes.c_int64 * (pool_calls_ir.ROOT_BYTES // 8))()
        self._start = _start_workers  # the reference that the address in the root stands for
        self._root[pool_calls_ir.START // 8] = id(self._start)
        self.root_address = ctypes.addressof(self._root)
        self._pools: list[_Pool] = []
        self.replace_pool()
        self._definitions: list[Definition] = []
        self.run_program = self._builtin("run_program", "rows_address, start, stop, /")
        self.run_call = self._builtin("run_call", "form_address, /, *values")

    @property
    def pool(self) -> _Pool:
        """The pool in force."""
        return self._pools[-1]

    def replace_pool(self) -> _Pool | None:
        """Put a pool without workers in force; returns the former one, which the caller may stop.

        Former ones are kept, some KiB each: a program may be running on one in another thread.
        """
        former = self._pools[-1] if self._pools else None
        self._pools.append(_Pool(self))
        self._root[pool_calls_ir.MAIN_THREAD // 8] = threading.main_thread().ident or 0
        self._root[pool_calls_ir.POOL_IN_FORCE // 8] = self.pool.address
        return former

    def poll_s(self) -> float:
        """Seconds that a waiting thread spends between two looks."""
        count = 1000
        times = []
        for _ in range(3):
            start = time.perf_counter()
            self._spin(count)
            times.append(time.perf_counter() - start)
        return min(times) / count

    def tells_who_runs(self, poll_s: float) -> bool:
        """Whether a thread's clock of time on processors moves between two looks at it; where it ticks rarely, a thread
        that runs would seem to stand.
        """
        for _ in range(3):
            before = time.thread_time_ns()
            self._spin(max(1, int(LOOK_S / poll_s)))
            if time.thread_time_ns() == before:
                return False
        return True

    def _turn(self) -> int:
        """TURN_S in ticks."""
        seconds, ticks = -time.perf_counter(), -self._ticks(0)
        self._spin(20_000)  # some 100 us: long beside the two clocks
        seconds, ticks = seconds + time.perf_counter(), ticks + self._ticks(0)
        return int(ticks / seconds * TURN_S)

    def _builtin(self, name: str, parameters: str) -> Callable[..., int]:
        """The native function `python_<name>` as a Python one."""
        doc = f"{name}({parameters})\n--\n\n{globals()[name].__doc__}"
        definition = Definition(name, self._addresses["python_" + name], doc)
        self._definitions.append(definition)
        return builtin(definition, self.root_address, __name__)


_lock = threading.RLock()
_native: _Native | None = None
_chosen_count: int | None = None


def _load() -> _Native:
    """The native functions; from then on the names in this module stand for the built-in ones, without this detour."""
    global _native
    with _lock:
        if _native is None:
            processor.require_executable()
            _native = _Native()
            globals().update(run_program=_native.run_program, run_call=_native.run_call)
        return _native


def _start_workers() -> None:
    """Called by the native functions, at the first row of more than one part."""
    with _lock:
        assert _native is not None
        _native.pool.start()


def _after_fork() -> None:
    """In a child: only the forking thread is there, so the parent's workers and locks are replaced."""
    global _lock
    _lock = threading.RLock()
    if _native is not None:
        _native.replace_pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
