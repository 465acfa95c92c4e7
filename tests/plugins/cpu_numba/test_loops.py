"""A loop runs its rows step by step on arrays that move, and comes back early for Python's turns."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from atled.loop_block import LoopBlock
from atled.plugin import LoopRowWord, LoopWord, MoveWord, RowWord, call_form
from atled_cpu_numba import pool
from atled_cpu_numba.store import IRKernel

# Block: addresses of x, y and z, int64 numbers. z = x + y; code 7 if y is 13.
ADD = """
define i64 @add(i64 %block, i64 %part, i64 %parts) {
  %words = inttoptr i64 %block to ptr
  %x.int = load i64, ptr %words
  %y.at = getelementptr i64, ptr %words, i64 1
  %y.int = load i64, ptr %y.at
  %z.at = getelementptr i64, ptr %words, i64 2
  %z.int = load i64, ptr %z.at
  %x.p = inttoptr i64 %x.int to ptr
  %y.p = inttoptr i64 %y.int to ptr
  %z.p = inttoptr i64 %z.int to ptr
  %x = load i64, ptr %x.p
  %y = load i64, ptr %y.p
  %z = add i64 %x, %y
  store i64 %z, ptr %z.p
  %bad = icmp eq i64 %y, 13
  %code = select i1 %bad, i64 7, i64 0
  ret i64 %code
}
"""

# Block: address of one counter per part. Counts its part.
TALLY = """
define i64 @tally(i64 %block, i64 %part, i64 %parts) {
  %words = inttoptr i64 %block to ptr
  %counters.int = load i64, ptr %words
  %counters = inttoptr i64 %counters.int to ptr
  %slot = getelementptr i64, ptr %counters, i64 %part
  %before = atomicrmw add ptr %slot, i64 1 monotonic
  ret i64 0
}
"""

add, tally = IRKernel("add", ADD), IRKernel("tally", TALLY)


@pytest.fixture(scope="module", autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATLED_CACHE_DIR", str(tmp_path_factory.mktemp("store")))
        yield


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    yield
    pool.set_thread_count(None)


def put_row(loop: LoopBlock, number: int, kernel: int, block: Sequence[int], parts: int = 1) -> int:
    """A row with its block, and codes up to 9; the number of the block's first word."""
    first = loop.add(block)
    loop[loop.row(number, LoopRowWord.KERNEL)] = kernel
    loop.point(loop.row(number, LoopRowWord.BLOCK), first)
    loop[loop.row(number, LoopRowWord.PARTS)] = parts
    loop[loop.row(number, LoopRowWord.FIRST_CODE)] = 10 * (number + 1)
    loop[loop.row(number, LoopRowWord.CODE_COUNT)] = 9
    return first


class RunningSum:
    """The loop `s += x[k]; rows[k] = s`, from 100 on."""

    def __init__(self, x: Sequence[int], *, step: int = 1) -> None:
        self.x = np.array(x, np.int64)
        self.count = len(x)
        self.start = np.array([100], np.int64)
        self.rows = np.full(max(self.count, 1), -1, np.int64)
        self.memory = np.full(3, -1, np.int64)  # the last state, the other buffer, the count of steps
        self.zero = np.zeros(1, np.int64)
        last, other, steps = (self.memory.ctypes.data + 8 * i for i in range(3))
        self.loop = loop = LoopBlock(pool.loop_kernel()[1], moves=4, rows=2)
        state = put_row(loop, 0, add.address(), [0, 0, 0])
        out = put_row(loop, 1, add.address(), [0, self.zero.ctypes.data, 0])
        first = 0 if step > 0 else 8 * (self.count - 1)
        self.move(0, BASE=self.start.ctypes.data, FOLLOWS=loop.move(2, MoveWord.ADDRESS))
        self.move(1, BASE=self.x.ctypes.data + first, STRIDE=8 * step)
        self.move(2, BASE=last, OTHER=other, FINAL=last, FIRST=self.start.ctypes.data, BYTES=8)
        self.move(3, BASE=self.rows.ctypes.data, STRIDE=8, BYTES=8)
        for word, number in ((state, 0), (state + 1, 1), (state + 2, 2), (out, 2), (out + 2, 3)):
            loop.patch(word, number)
        loop[LoopWord.COUNT] = self.count
        loop[LoopWord.STEPS_AT] = steps

    def move(self, number: int, **words: int) -> None:
        for name, value in words.items():
            self.loop[self.loop.move(number, MoveWord[name])] = value

    def run(self) -> int:
        return run(self.loop.words)


def run(block: np.ndarray) -> int:
    """Run a loop as the second row of a program."""
    counters, rows = np.zeros(1, np.int64), np.zeros((2, len(RowWord)), np.int64)
    counted = np.array([counters.ctypes.data])
    rows[0, :3] = tally.address(), counted.ctypes.data, 1
    rows[1, :3] = pool.loop_kernel()[0], block.ctypes.data, 1
    status = pool.run_program(rows.ctypes.data, 0, 2)
    assert counters[0] == 1
    return status


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("step", [1, -1])
def test_states_alternate_and_rows_advance(count: int, step: int) -> None:
    one = RunningSum(list(range(count)), step=step)
    expected = 100 + np.cumsum(one.x[::step])
    for _ in range(2):
        assert one.run() == 0
        assert one.rows[:count].tolist() == expected.tolist()
        assert one.memory[0] == (expected[-1] if count else 100)
        assert one.memory[2] == count


@pytest.mark.parametrize("count", [-1, 0, 2, 3, 4])
def test_a_count_is_read_when_the_loop_runs(count: int) -> None:
    one = RunningSum([1, 2, 3])
    given = np.array([count], np.int64)
    one.loop[LoopWord.COUNT_AT] = given.ctypes.data
    status = one.run()
    if 0 <= count <= 3:
        assert status == 0
        assert one.memory[0] == 100 + sum(range(1, count + 1))
        assert one.memory[2] == count
        assert one.rows.tolist() == [101, 103, 106][:count] + [-1] * (3 - count)
    else:
        assert status == 2 << 16 | (1 if count < 0 else 2)
        assert (one.rows == -1).all() and (one.memory == -1).all()


def test_rows_behind_the_end_of_a_counted_loop_become_zero_where_that_is_asked_for() -> None:
    one = RunningSum([1, 2, 3])
    one.move(3, FILLS=3)
    given = np.array([1], np.int64)
    one.loop[LoopWord.COUNT_AT] = given.ctypes.data
    assert one.run() == 0
    assert one.rows.tolist() == [101, 0, 0]


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64, np.bool_, np.int16])
@pytest.mark.parametrize("zero", [0, 1, 4, 9])
def test_a_condition_ends_it(dtype: type, zero: int) -> None:
    """A row of the loop copies the number that ends it from an array, eight bytes at a time."""
    one = RunningSum([1] * 6)
    wishes: np.ndarray = np.zeros(10, dtype)
    if wishes.dtype.kind == "f":
        wishes[:] = -0.0
    wishes[zero] = 2
    words = wishes.view(np.uint8).reshape(10, -1)
    padded = np.zeros((10, 8), np.uint8)
    padded[:, : words.shape[1]] = words
    shown = np.zeros(1, np.int64)
    loop = LoopBlock(pool.loop_kernel()[1], moves=1, rows=1)
    row = put_row(loop, 0, add.address(), [0, one.zero.ctypes.data, shown.ctypes.data])
    loop[loop.move(0, MoveWord.BASE)], loop[loop.move(0, MoveWord.STRIDE)] = padded.ctypes.data, 8
    loop.patch(row, 0)
    loop[LoopWord.COUNT], loop[LoopWord.STEPS_AT] = 7, one.memory.ctypes.data
    loop[LoopWord.END_AT] = shown.ctypes.data
    itemsize = wishes.dtype.itemsize
    loop[LoopWord.TRUTH_BYTES] = itemsize
    loop[LoopWord.TRUTH_BITS] = (1 << (8 * itemsize - 1)) - 1 if wishes.dtype.kind == "f" else -1
    assert run(loop.words) == 0
    assert one.memory[0] == min(zero + 1, 7)


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_loop_that_is_ended_keeps_its_last_states_and_clears_the_other_rows(backwards: int) -> None:
    for end in range(1, 6):
        one = RunningSum([5] * 6)
        given = np.array([0] * (end - 1) + [1] * 7, np.int64)
        flag = np.zeros(1, np.int64)
        loop = LoopBlock(pool.loop_kernel()[1], moves=5, rows=3)
        state = put_row(loop, 0, add.address(), [0, 0, 0])
        out = put_row(loop, 1, add.address(), [0, one.zero.ctypes.data, 0])
        truth = put_row(loop, 2, add.address(), [0, one.zero.ctypes.data, flag.ctypes.data])
        one.loop = loop
        last, other, steps = (one.memory.ctypes.data + 8 * i for i in range(3))
        one.move(0, BASE=one.start.ctypes.data, FOLLOWS=loop.move(2, MoveWord.ADDRESS))
        one.move(1, BASE=one.x.ctypes.data, STRIDE=8)
        one.move(2, BASE=last, OTHER=other, FINAL=last, FIRST=one.start.ctypes.data, BYTES=8)
        one.move(3, BASE=one.rows.ctypes.data, STRIDE=8, BYTES=8, FILLS=6, BACKWARDS=backwards)
        one.move(4, BASE=given.ctypes.data, STRIDE=8)
        for word, number in ((state, 0), (state + 1, 1), (state + 2, 2), (out, 2), (out + 2, 3), (truth, 4)):
            loop.patch(word, number)
        loop[LoopWord.COUNT], loop[LoopWord.STEPS_AT], loop[LoopWord.END_AT] = 6, steps, flag.ctypes.data
        loop[LoopWord.TRUTH_BYTES], loop[LoopWord.TRUTH_BITS] = 8, -1
        assert one.run() == 0
        assert one.memory[0] == 100 + 5 * end
        assert one.memory[2] == end
        rows = [100 + 5 * (k + 1) if k < end else 0 for k in range(6)]
        assert one.rows.tolist() == (rows[::-1] if backwards else rows)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_rows_may_be_taken_backwards_from_the_last_step_on(count: int) -> None:
    one = RunningSum([1, 2, 3, 4])
    one.move(1, BACKWARDS=1)
    one.move(3, BACKWARDS=1, FILLS=4)
    given = np.array([count], np.int64)
    one.loop[LoopWord.COUNT_AT] = given.ctypes.data
    assert one.run() == 0
    sums = 100 + np.cumsum(one.x[:count][::-1])[::-1]
    assert one.rows.tolist() == [*sums, *[0] * (4 - count)]
    assert one.memory[0] == (sums[0] if count else 100)


def test_an_error_tells_step_and_row() -> None:
    one = RunningSum([1, 2, 13, 4])
    assert one.run() == 2 << 40 | 2 << 16 | 17
    assert one.rows.tolist() == [101, 103, -1, -1]
    call = call_form(pool.loop_kernel()[0], 1, one.loop.words, [], [])
    assert pool.run_call(call.ctypes.data) == 2 << 40 | 17


def test_a_call_runs_a_loop_in_a_block_of_its_own() -> None:
    one = RunningSum(range(5))
    call = call_form(pool.loop_kernel()[0], 1, one.loop.words, [LoopWord.COUNT_AT], [])
    before = call.copy()
    given = np.array([3], np.int64)
    assert pool.run_call(call.ctypes.data, given.ctypes.data) == 0
    assert one.rows.tolist() == [100, 101, 103, -1, -1]
    assert (call == before).all()


def counting_loop(counters: np.ndarray, steps: int, parts: int = 1) -> LoopBlock:
    """A loop whose only row counts its parts."""
    loop = LoopBlock(pool.loop_kernel()[1], moves=0, rows=1)
    put_row(loop, 0, tally.address(), [counters.ctypes.data], parts)
    loop[LoopWord.COUNT] = steps
    return loop


@pytest.mark.parametrize("threads", [1, 3])
def test_the_rows_of_a_loop_are_shared_with_workers(threads: int) -> None:
    pool.set_thread_count(threads)
    counters = np.zeros(5, np.int64)
    loop = counting_loop(counters, 40, parts=5)
    assert run(loop.words) == 0
    call = call_form(pool.loop_kernel()[0], 1, loop.words, [], [])
    pool.set_thread_count(threads)  # other workers, which the call has to start
    assert pool.run_call(call.ctypes.data) == 0
    assert counters.tolist() == [80] * 5


def nested(inner: LoopBlock, steps: int) -> np.ndarray:
    """A loop of loops."""
    outer = LoopBlock(pool.loop_kernel()[1], moves=0, rows=1)
    put_row(outer, 0, pool.loop_kernel()[0], inner.words.tolist())
    outer[LoopWord.COUNT] = steps
    return outer.words


@pytest.mark.parametrize("threads", [1, 3])
def test_a_loop_may_be_a_row_of_a_loop(threads: int) -> None:
    pool.set_thread_count(threads)
    counters = np.zeros(3, np.int64)
    assert run(nested(counting_loop(counters, 7, parts=3), 6)) == 0
    assert counters.tolist() == [42] * 3


def test_an_error_of_a_loop_in_a_loop_is_one_of_its_row() -> None:
    one = RunningSum([1, 13])
    assert run(nested(one.loop, 3)) == 2 << 16 | 19  # 17 is more than the 9 codes that the row has


@pytest.mark.parametrize(("number", "rows"), [(1, [1, 0]), (0, [0, 1]), (-5, [1, 0])])
def test_a_choice_runs_some_of_the_rows(number: int, rows: list[int]) -> None:
    counters, choice = np.zeros(2, np.int64), np.array([number], np.int64)
    loop = LoopBlock(pool.loop_kernel()[1], moves=0, rows=2)
    for row in range(2):
        put_row(loop, row, tally.address(), [counters.ctypes.data + 8 * row])
    loop[LoopWord.COUNT], loop[LoopWord.SPLIT] = 1, 1
    loop[LoopWord.CHOICE_AT] = choice.ctypes.data
    loop[LoopWord.TRUTH_BYTES], loop[LoopWord.TRUTH_BITS] = 8, -1
    assert run(loop.words) == 0
    assert counters.tolist() == rows


def test_a_random_state_is_another_one_at_each_step() -> None:
    state = np.array([5, 20], np.int64)
    one = RunningSum([1, 2, 13])
    loop = LoopBlock(pool.loop_kernel()[1], moves=2, rows=1)
    row = put_row(loop, 0, add.address(), [state.ctypes.data + 8, 0, 0])
    one.loop = loop
    one.move(0, BASE=state.ctypes.data, DRAWS=1)
    one.move(1, BASE=one.rows.ctypes.data, STRIDE=8)
    loop[row + 1] = one.zero.ctypes.data
    loop.patch(row + 2, 1)
    loop[LoopWord.COUNT] = 3
    assert run(loop.words) == 0
    assert one.rows.tolist() == [21, 22, 23]
    assert state.tolist() == [5, 23]
    one.zero[0] = 13
    assert run(loop.words) == 2 << 16 | 17
    assert state.tolist() == [5, 23]


def test_a_loop_of_another_thread_runs_through() -> None:
    statuses: list[int] = []
    counters = np.zeros(1, np.int64)
    words = nested(counting_loop(counters, 1000), 3000)
    thread = threading.Thread(target=lambda: statuses.append(run(words)))
    thread.start()
    thread.join(60)
    assert statuses == [0] and counters[0] == 3_000_000


ENDLESS = """
import signal, sys
import numpy as np
sys.path.insert(0, {folder!r})
from test_loops import LoopWord, call_form, counting_loop, nested, pool, run

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
counters = np.zeros({parts}, np.int64)
inner = counting_loop(counters, 1000, parts={parts})
words = nested(inner, 1 << 60)
call = call_form(pool.loop_kernel()[0], 1, words, [], [])
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    pool.run_call(call.ctypes.data) if {as_call} else run(words)
except KeyboardInterrupt:
    done = counters.copy()
    words[LoopWord.COUNT] = 2
    assert run(words) == 0, "it begins anew"
    assert (counters - done == 2000).all(), (counters, done)
    print("interrupted")
"""


@pytest.mark.skipif(os.name != "posix", reason="timers that send signals")
@pytest.mark.parametrize(("as_call", "parts"), [(False, 2), (True, 1)])
def test_a_signal_ends_an_endless_loop(as_call: bool, parts: int) -> None:
    script = ENDLESS.format(folder=os.path.dirname(__file__), as_call=as_call, parts=parts)
    environment = {**os.environ, "ATLED_NUM_THREADS": str(parts)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr
