"""LLVM IR of the program loop and the thread pool, so that neither needs the interpreter, nor numba, to run.

One parallel job at a time is published in the pool's memory (offsets below). Its *ticket* holds a generation in the
upper 32 bits, the first unclaimed part in 16 more, the count of unclaimed parts in the lowest 16; and whoever changes
these by compare-and-exchange owns a part. The caller takes the first part, workers the last one, so that in a row of
jobs the same thread has the same end of the data: with two threads each finds its half in its own cache. A late thread
cannot take a part of the wrong job, since the generation would differ; and what it reads of the job after a successful
claim stays as it is until it reports that part as finished, since the caller waits for that. Nobody waits for a thread
that has claimed nothing: with all cores taken by others, the caller does all parts itself. A worker that the scheduler
takes off its core while it has a part is fetched to the caller's (`places_ir`).

Workers poll the ticket for some hundred microseconds after their last part, then sleep on a condition variable. A
worker counts itself as a sleeper and looks at the ticket again; a caller publishes the ticket and looks for sleepers;
both in sequentially consistent order, so at least one of them sees the other.
"""

from __future__ import annotations

import re

from atled.plugin import RowWord
from atled_cpu_numba import loop_ir, places_ir, pool_calls_ir
from atled_cpu_numba.machine_kind import machine_kind

# Byte offsets in the pool's memory. What different threads write is kept 128 bytes apart: two cache lines, since some
# processors fetch them in pairs.
TICKET = 0
KERNEL = 128  # of the job: kernel, block, parts, set before the ticket
BLOCK = 136
PARTS = 144
PROCESSOR = 152  # the caller's when it published the job, or -1 if the system does not tell
FINISHED = 256  # parts finished by workers
ERROR = 264  # smallest part << 32 | its code, of the parts that failed; _NO_ERROR
CALLER_SLEEPS = 272  # 1 while the owner waits on its condition variable for a worker's part
BUSY = 384  # 1 while a caller owns the job
GENERATION = 392  # of the last ticket, written by the owner
SLEEPERS = 512
WORKERS = 640  # count of worker threads; NOT_STARTED before they are started
STOP = 648  # 1: workers are to leave
SPIN = 656  # polls before a worker sleeps
TURN = 664  # ticks after which a program gives the interpreter a turn
WORKER_TABLE = 672  # address of what each worker has for itself
LOOK = 680  # polls of a waiting owner between two looks at what the workers do
MUTEX = 768
CONDITION = 1024  # the largest known pthread types take 64 bytes each
CALLER_MUTEX = 1280  # of the owner that sleeps
CALLER_CONDITION = 1408
POOL_BYTES = 1536

# Byte offsets in what each worker has for itself; what it writes is apart from what the owner of the job does.
CLAIMED = 0  # 1 while it has a part
POOL = 128  # address
THREAD = 136  # the system's number of the thread, where threads choose their processor
CLOCK = 144  # the identity of the clock that tells how long the thread has run, as `clock_gettime` takes it
NO_CLOCK = 1 << 20  # of no thread: the owner learns nothing, and leaves its processor to whoever waits for it
RUN_NS = 152  # what that clock showed when the owner last looked
WORKER_BYTES = 256

NOT_STARTED = -1

# Where a program is to go on: the bits of its row, and that this is a loop which came back early.
ROW_BITS = (1 << 48) - 1
RESUMED_SHIFT = 59
RESUMED = 1 << RESUMED_SHIFT
ROW_AND_RESUMED = ROW_BITS | RESUMED

_ROW_WORDS = {"ROW_WORDS": len(RowWord), **{f"ROW_{word.name}": int(word) for word in RowWord}}

# Order of the addresses that the entry function `atled_pool` hands out.
FUNCTIONS = (
    "python_run_program",
    "python_run_call",
    "work",
    "initialize",
    "stop",
    "spin",
    "move_from",
    "ticks",
    "loop",
)

_NO_ERROR = (1 << 63) - 1

LEFT_BITS = 16
LEFT_MASK = (1 << LEFT_BITS) - 1
FIRST_PART = 1 << LEFT_BITS  # one, in the bits of the first unclaimed part

_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}

# The time in ticks, of a length that is measured: by instructions of a few nanoseconds, which calls of the system are
# not. On other machines it stands still, and a program ends before the interpreter has its turn.
_CYCLES = ("declare i64 @llvm.readcyclecounter()", "%now = call i64 @llvm.readcyclecounter()")
_COUNTER = (  # no instruction as text: LLVM for another kind of machine than its own cannot read it
    "declare i64 @llvm.read_volatile_register.i64(metadata)",
    '%now = call i64 @llvm.read_volatile_register.i64(metadata !{!"cntvct_el0"})',
)
_TICKS = {"x86_64": _CYCLES, "aarch64": _COUNTER}

_PROGRAM = """
define internal i64 @ticks(i64 %unused) alwaysinline {
  {TICKS}
  ret i64 %now
}

; A code as it is reported: 0, 1 to 65535, and 65535 for everything else.
define internal i64 @code_of(i64 %result) alwaysinline {
  %big = icmp ugt i64 %result, 65535
  %code = select i1 %big, i64 65535, i64 %result
  ret i64 %code
}

; Rows start..stop of the words of `RowWord`. How long each takes is measured when it first runs: to look at the
; time at every row would take longer than some kernels do. Returns 0, (row + 1) << 16 | code of the first row that
; fails (step << 40 more if it is a loop), or -(row + 1) of the first row that wants workers before they are started,
; or, when the interpreter is to have its turn, the smallest integer + what to go on with: a row, with RESUMED if it is
; a loop that came back early, and with UNSTARTED_BIT if that did so since it wants workers. In front of a row that is
; counted, and within it, the interpreter gets no turn.
define internal i64 @run_program(i64 %pool, i64 %rows, i64 %begin.at, i64 %stop) {
entry:
  %start = and i64 %begin.at, {ROW_BITS}
  %resumed.bit = lshr i64 %begin.at, {RESUMED_SHIFT}
  %resumed = and i64 %resumed.bit, 1
  %table = inttoptr i64 %rows to ptr
  %base = inttoptr i64 %pool to ptr
  %turn.at = getelementptr i8, ptr %base, i64 {TURN}
  %turn = load i64, ptr %turn.at
  %any = icmp slt i64 %start, %stop
  br i1 %any, label %row, label %end
row:
  %i = phi i64 [ %start, %entry ], [ %next, %look ], [ %next, %held ]
  %before = phi i64 [ 0, %entry ], [ %spent, %look ], [ %spent, %held ]
  %part = phi i64 [ %resumed, %entry ], [ 0, %look ], [ 0, %held ]
  %word = mul i64 %i, {ROW_WORDS}
  %at = getelementptr i64, ptr %table, i64 %word
  %kernel.at = getelementptr i64, ptr %at, i64 {ROW_KERNEL}
  %kernel = load i64, ptr %kernel.at
  %block.at = getelementptr i64, ptr %at, i64 {ROW_BLOCK}
  %block = load i64, ptr %block.at
  %parts.at = getelementptr i64, ptr %at, i64 {ROW_PARTS}
  %parts = load i64, ptr %parts.at
  %ticks.at = getelementptr i64, ptr %at, i64 {ROW_TICKS}
  %ticks = load atomic i64, ptr %ticks.at monotonic, align 8
  %count.at = getelementptr i64, ptr %at, i64 {ROW_COUNT}
  %count.word = load i64, ptr %count.at
  %counts = icmp ne i64 %count.word, 0
  %timed = icmp ne i64 %ticks, 0
  br i1 %timed, label %run, label %watch
watch:
  %begin = call i64 @ticks(i64 0)
  br label %run
run:
  %since = phi i64 [ 0, %row ], [ %begin, %watch ]
  %shared = icmp sgt i64 %parts, 1
  br i1 %shared, label %together, label %alone
alone:
  %going = phi i64 [ %part, %run ], [ 1, %early ]
  %function = inttoptr i64 %kernel to ptr
  %result = call i64 %function(i64 %block, i64 %going, i64 1)
  %failed = icmp ne i64 %result, 0
  br i1 %failed, label %unusual.alone, label %passed
unusual.alone:
  %special = call i1 @is_special(i64 %result)
  br i1 %special, label %loop, label %failure.alone
failure.alone:
  %code.alone = call i64 @code_of(i64 %result)
  br label %failure
loop:
  %failed.bit = and i64 %result, {FAILED_BIT}
  %failed.within = icmp ne i64 %failed.bit, 0
  br i1 %failed.within, label %failure.loop, label %early
failure.loop:
  %code.loop = and i64 %result, 65535
  %step.bits = and i64 %result, {STEP_BITS}
  %step.high = shl i64 %step.bits, 24
  br label %failure
early:
  %start.bit = and i64 %result, {UNSTARTED_BIT}
  %is.turn = icmp eq i64 %start.bit, 0
  %goes.on = and i1 %counts, %is.turn
  br i1 %goes.on, label %alone, label %leave
leave:                                 ; the bits of what it wants are those of what is returned
  %row.early = or i64 %i, %result
  %row.resumed = or i64 %row.early, {RESUMED}
  ret i64 %row.resumed
together:
  %code.together = call i64 @share(i64 %pool, i64 %kernel, i64 %block, i64 %parts)
  %fine = icmp eq i64 %code.together, 0
  br i1 %fine, label %passed, label %unusual
unusual:
  %not.started = icmp slt i64 %code.together, 0
  br i1 %not.started, label %unstarted, label %failure
passed:
  br i1 %timed, label %add, label %measure
measure:
  %now = call i64 @ticks(i64 0)
  %difference = sub i64 %now, %since
  %measured = or i64 %difference, 1
  store atomic i64 %measured, ptr %ticks.at monotonic, align 8
  br label %add
add:
  %taken = phi i64 [ %ticks, %passed ], [ %measured, %measure ]
  %spent = add i64 %before, %taken
  %next = add i64 %i, 1
  br i1 %counts, label %count, label %counted
count:
  %counter = inttoptr i64 %count.word to ptr
  %done = load i64, ptr %counter
  %done.next = add i64 %done, 1
  store i64 %done.next, ptr %counter
  br label %counted
counted:
  %more = icmp slt i64 %next, %stop
  br i1 %more, label %look, label %end
look:
  %due = icmp ugt i64 %spent, %turn
  br i1 %due, label %held, label %row
held:
  %following = getelementptr i64, ptr %count.at, i64 {ROW_WORDS}
  %following.count = load i64, ptr %following
  %is.held = icmp ne i64 %following.count, 0
  br i1 %is.held, label %row, label %paused
paused:
  %row.paused = or i64 %next, -9223372036854775808
  ret i64 %row.paused
unstarted:
  %row.unstarted = xor i64 %i, -1
  ret i64 %row.unstarted
failure:
  %code = phi i64 [ %code.alone, %failure.alone ], [ %code.loop, %failure.loop ], [ %code.together, %unusual ]
  %step = phi i64 [ 0, %failure.alone ], [ %step.high, %failure.loop ], [ 0, %unusual ]
  %number = add i64 %i, 1
  %high = shl i64 %number, 16
  %packed = or i64 %high, %code
  %status = or i64 %packed, %step
  ret i64 %status
end:
  ret i64 0
}

; One row: 0 or the code (of a loop step << 40 more); -1 if it wants workers before they are started; what a loop that
; comes back early returns, which goes on with part = 1.
define internal i64 @run_kernel(i64 %pool, i64 %kernel, i64 %block, i64 %parts, i64 %part) {
  %shared = icmp sgt i64 %parts, 1
  br i1 %shared, label %together, label %alone
alone:
  %function = inttoptr i64 %kernel to ptr
  %result = call i64 %function(i64 %block, i64 %part, i64 1)
  %special = call i1 @is_special(i64 %result)
  br i1 %special, label %loop, label %usual
usual:
  %code.alone = call i64 @code_of(i64 %result)
  ret i64 %code.alone
loop:
  %failed.bit = and i64 %result, {FAILED_BIT}
  %failed.within = icmp ne i64 %failed.bit, 0
  br i1 %failed.within, label %failure, label %early
failure:
  %code.loop = and i64 %result, 65535
  %step.bits = and i64 %result, {STEP_BITS}
  %step.high = shl i64 %step.bits, 24
  %status = or i64 %step.high, %code.loop
  ret i64 %status
early:
  ret i64 %result
together:
  %code = call i64 @share(i64 %pool, i64 %kernel, i64 %block, i64 %parts)
  ret i64 %code
}

; All parts by the calling thread, in order, up to the first that fails.
define internal i64 @run_parts(i64 %kernel, i64 %block, i64 %parts) {
entry:
  %function = inttoptr i64 %kernel to ptr
  br label %each
each:
  %part = phi i64 [ 0, %entry ], [ %next, %passed ]
  %result = call i64 %function(i64 %block, i64 %part, i64 %parts)
  %failed = icmp ne i64 %result, 0
  br i1 %failed, label %failure, label %passed
passed:
  %next = add i64 %part, 1
  %more = icmp slt i64 %next, %parts
  br i1 %more, label %each, label %end
failure:
  %code = call i64 @code_of(i64 %result)
  ret i64 %code
end:
  ret i64 0
}
"""

_JOB = """
; Claim and run one part of the published job: 1, or 0 if none is left. Does not count it as finished.
; from.end: the last part, for a worker, which notes at %claimed.at that it has one; else the first.
define internal i1 @run_part(i64 %pool, i1 %from.end, ptr %claimed.at) alwaysinline {
entry:
  %ticket.at = inttoptr i64 %pool to ptr
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket.at monotonic, align 8
  %left = and i64 %ticket, {LEFT_MASK}
  %none = icmp eq i64 %left, 0
  br i1 %none, label %nothing, label %claim
claim:
  %fewer = sub i64 %ticket, 1
  %later = add i64 %fewer, {FIRST_PART}
  %after = select i1 %from.end, i64 %fewer, i64 %later
  %exchange = cmpxchg ptr %ticket.at, i64 %ticket, i64 %after acq_rel monotonic
  %claimed = extractvalue { i64, i1 } %exchange, 1
  br i1 %claimed, label %owned, label %look
owned:
  br i1 %from.end, label %note, label %run
note:
  store atomic i64 1, ptr %claimed.at release, align 8
  br label %run
run:
  %base = inttoptr i64 %pool to ptr
  %kernel.at = getelementptr i8, ptr %base, i64 {KERNEL}
  %block.at = getelementptr i8, ptr %base, i64 {BLOCK}
  %parts.at = getelementptr i8, ptr %base, i64 {PARTS}
  %kernel = load i64, ptr %kernel.at
  %block = load i64, ptr %block.at
  %parts = load i64, ptr %parts.at
  %ahead = lshr i64 %ticket, {LEFT_BITS}
  %first = and i64 %ahead, {LEFT_MASK}
  %beyond = add i64 %first, %left
  %last = sub i64 %beyond, 1
  %part = select i1 %from.end, i64 %last, i64 %first
  %function = inttoptr i64 %kernel to ptr
  %result = call i64 %function(i64 %block, i64 %part, i64 %parts)
  %failed = icmp ne i64 %result, 0
  br i1 %failed, label %failure, label %done
failure:
  %code = call i64 @code_of(i64 %result)
  %high = shl i64 %part, 32
  %error = or i64 %high, %code
  %error.at = getelementptr i8, ptr %base, i64 {ERROR}
  %previous = atomicrmw min ptr %error.at, i64 %error monotonic
  br label %done
done:
  ret i1 true
nothing:
  ret i1 false
}

; All parts, by the calling thread and whatever workers come in time. -1 if workers are yet to be started.
define internal i64 @share(i64 %pool, i64 %kernel, i64 %block, i64 %parts) noinline {
entry:
  %base = inttoptr i64 %pool to ptr
  %workers.at = getelementptr i8, ptr %base, i64 {WORKERS}
  %workers = load atomic i64, ptr %workers.at acquire, align 8
  switch i64 %workers, label %try [ i64 {NOT_STARTED}, label %unstarted
                                    i64 0, label %sequential ]
unstarted:
  ret i64 -1
try:
  %busy.at = getelementptr i8, ptr %base, i64 {BUSY}
  %exchange = cmpxchg ptr %busy.at, i64 0, i64 1 acquire monotonic
  %owned = extractvalue { i64, i1 } %exchange, 1
  br i1 %owned, label %fit, label %sequential
fit:
  %fits = icmp ule i64 %parts, {LEFT_MASK}
  br i1 %fits, label %publish, label %release
release:
  store atomic i64 0, ptr %busy.at release, align 8
  br label %sequential
sequential:
  %code.sequential = call i64 @run_parts(i64 %kernel, i64 %block, i64 %parts)
  ret i64 %code.sequential
publish:
  %kernel.at = getelementptr i8, ptr %base, i64 {KERNEL}
  %block.at = getelementptr i8, ptr %base, i64 {BLOCK}
  %parts.at = getelementptr i8, ptr %base, i64 {PARTS}
  %finished.at = getelementptr i8, ptr %base, i64 {FINISHED}
  %error.at = getelementptr i8, ptr %base, i64 {ERROR}
  %generation.at = getelementptr i8, ptr %base, i64 {GENERATION}
  store i64 %kernel, ptr %kernel.at
  store i64 %block, ptr %block.at
  store i64 %parts, ptr %parts.at
  %processor = call i64 @current_processor()
  %processor.at = getelementptr i8, ptr %base, i64 {PROCESSOR}
  store atomic i64 %processor, ptr %processor.at monotonic, align 8
  store atomic i64 0, ptr %finished.at monotonic, align 8
  store atomic i64 {NO_ERROR}, ptr %error.at monotonic, align 8
  %last = load i64, ptr %generation.at
  %generation = add i64 %last, 1
  store i64 %generation, ptr %generation.at
  %high = shl i64 %generation, 32
  %ticket = or i64 %high, %parts
  store atomic i64 %ticket, ptr %base seq_cst, align 8
  %sleepers.at = getelementptr i8, ptr %base, i64 {SLEEPERS}
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %asleep = icmp sgt i64 %sleepers, 0
  br i1 %asleep, label %alarm, label %own
alarm:
  %others = sub i64 %parts, 1
  %fewer = icmp slt i64 %sleepers, %others
  %wanted = select i1 %fewer, i64 %sleepers, i64 %others
  call void @wake(i64 %pool, i64 %wanted)
  br label %own
own:
  %done = phi i64 [ 0, %publish ], [ 0, %alarm ], [ %done.next, %own.next ]
  %ran = call i1 @run_part(i64 %pool, i1 false, ptr null)
  br i1 %ran, label %own.next, label %wait.first
own.next:
  %done.next = add i64 %done, 1
  br label %own
wait.first:
  %look.at = getelementptr i8, ptr %base, i64 {LOOK}
  %limit = load i64, ptr %look.at
  br label %wait
wait:
  %polls = phi i64 [ 0, %wait.first ], [ %polls.next, %wait.pause ], [ 0, %wait.look ]
  %finished = load atomic i64, ptr %finished.at acquire, align 8
  %sum = add i64 %finished, %done
  %complete = icmp eq i64 %sum, %parts
  br i1 %complete, label %end, label %wait.longer
wait.longer:
  %polls.next = add i64 %polls, 1
  %patient = icmp slt i64 %polls, %limit
  br i1 %patient, label %wait.pause, label %wait.look
wait.look:
  call void @attend(i64 %pool)
  br label %wait
wait.pause:
  {PAUSE}
  br label %wait
end:
  %error = load atomic i64, ptr %error.at monotonic, align 8
  store atomic i64 0, ptr %busy.at release, align 8
  %no.error = icmp eq i64 %error, {NO_ERROR}
  %low = and i64 %error, 65535
  %code = select i1 %no.error, i64 0, i64 %low
  ret i64 %code
}

; Pause `count` times; timed to learn how long a poll takes.
define internal i64 @spin(i64 %count) {
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %next, %each ]
  {PAUSE}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %each, label %end
end:
  ret i64 0
}
"""

_WITH_PTHREADS = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_trylock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define internal void @yield_core() {
  %ignored = call i32 @sched_yield()
  ret void
}

define internal i64 @initialize(i64 %pool) {
  %base = inttoptr i64 %pool to ptr
  %mutex = getelementptr i8, ptr %base, i64 {MUTEX}
  %condition = getelementptr i8, ptr %base, i64 {CONDITION}
  %caller.mutex = getelementptr i8, ptr %base, i64 {CALLER_MUTEX}
  %caller.condition = getelementptr i8, ptr %base, i64 {CALLER_CONDITION}
  %failed.mutex = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %failed.condition = call i32 @pthread_cond_init(ptr %condition, ptr null)
  %failed.caller.mutex = call i32 @pthread_mutex_init(ptr %caller.mutex, ptr null)
  %failed.caller.condition = call i32 @pthread_cond_init(ptr %caller.condition, ptr null)
  %failed.workers = or i32 %failed.mutex, %failed.condition
  %failed.caller = or i32 %failed.caller.mutex, %failed.caller.condition
  %failed = or i32 %failed.workers, %failed.caller
  %code = sext i32 %failed to i64
  ret i64 %code
}

; Wake `count` sleepers. Taking the mutex once makes sure that a worker which counted itself but did not see the ticket
; is waiting by now. Only tried: while a worker that holds it is off its core, the job is better begun than announced.
define internal void @wake(i64 %pool, i64 %count) noinline {
entry:
  %base = inttoptr i64 %pool to ptr
  %mutex = getelementptr i8, ptr %base, i64 {MUTEX}
  %condition = getelementptr i8, ptr %base, i64 {CONDITION}
  %locked = call i32 @pthread_mutex_trylock(ptr %mutex)
  %free = icmp eq i32 %locked, 0
  br i1 %free, label %unlock, label %each
unlock:
  %ignored.unlock = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ 0, %unlock ], [ %next, %each ]
  %ignored.signal = call i32 @pthread_cond_signal(ptr %condition)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %each, label %end
end:
  ret void
}

; Have the owner of the job, which sleeps, look at what is finished.
define internal void @wake_caller(i64 %pool) noinline {
  %base = inttoptr i64 %pool to ptr
  %mutex = getelementptr i8, ptr %base, i64 {CALLER_MUTEX}
  %condition = getelementptr i8, ptr %base, i64 {CALLER_CONDITION}
  %ignored.lock = call i32 @pthread_mutex_lock(ptr %mutex)
  %ignored.signal = call i32 @pthread_cond_signal(ptr %condition)
  %ignored.unlock = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; A worker's life: poll, run parts, sleep; until told to stop. worker: the address of what it has for itself.
define internal i64 @work(i64 %worker) {
entry:
  %claimed.at = inttoptr i64 %worker to ptr
  %pool.at = getelementptr i8, ptr %claimed.at, i64 {POOL}
  %pool = load i64, ptr %pool.at
  %base = inttoptr i64 %pool to ptr
  %caller.sleeps.at = getelementptr i8, ptr %base, i64 {CALLER_SLEEPS}
  %finished.at = getelementptr i8, ptr %base, i64 {FINISHED}
  %sleepers.at = getelementptr i8, ptr %base, i64 {SLEEPERS}
  %stop.at = getelementptr i8, ptr %base, i64 {STOP}
  %spin.at = getelementptr i8, ptr %base, i64 {SPIN}
  %mutex = getelementptr i8, ptr %base, i64 {MUTEX}
  %condition = getelementptr i8, ptr %base, i64 {CONDITION}
  %limit = load i64, ptr %spin.at
  br label %poll
poll:
  %polls = phi i64 [ 0, %entry ], [ %polls.next, %pause ], [ 0, %report ], [ 0, %tell ], [ 0, %awake ]
  %short = and i64 %polls, 63  ; by far the most polls cost nothing but a look
  %due = icmp eq i64 %short, 0
  br i1 %due, label %place, label %take
place:
  %placed = call i1 @leave_processor(i64 %pool)
  br i1 %placed, label %take, label %nap
nap:
  call void @nap()
  br label %take
take:
  %ran = call i1 @run_part(i64 %pool, i1 true, ptr %claimed.at)
  br i1 %ran, label %report, label %idle
report:  ; an owner that sleeps says so before it looks at `CLAIMED`: it sees the part given up, or is seen asleep
  %before = atomicrmw add ptr %finished.at, i64 1 release
  store atomic i64 0, ptr %claimed.at seq_cst, align 8
  %sleeping = load atomic i64, ptr %caller.sleeps.at seq_cst, align 8
  %is.asleep = icmp ne i64 %sleeping, 0
  br i1 %is.asleep, label %tell, label %poll
tell:
  call void @wake_caller(i64 %pool)
  br label %poll
idle:
  %stopping = load atomic i64, ptr %stop.at monotonic, align 8
  %leave = icmp ne i64 %stopping, 0
  br i1 %leave, label %end, label %stay
stay:
  %polls.next = add i64 %polls, 1
  %patient = icmp slt i64 %polls, %limit
  br i1 %patient, label %pause, label %sleep
pause:
  {PAUSE}
  br label %poll
sleep:
  %ignored.lock = call i32 @pthread_mutex_lock(ptr %mutex)
  %sleepers = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  %ticket = load atomic i64, ptr %base seq_cst, align 8
  %left = and i64 %ticket, {LEFT_MASK}
  %stopping.late = load atomic i64, ptr %stop.at seq_cst, align 8
  %reasons = or i64 %left, %stopping.late
  %quiet = icmp eq i64 %reasons, 0
  br i1 %quiet, label %wait, label %awake
wait:
  %ignored.wait = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %awake
awake:
  %sleepers.before = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  %ignored.unlock = call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %poll
end:
  ret i64 0
}

; Tell all workers to leave; parts that they have claimed are finished first.
define internal i64 @stop(i64 %pool) {
  %base = inttoptr i64 %pool to ptr
  %stop.at = getelementptr i8, ptr %base, i64 {STOP}
  %mutex = getelementptr i8, ptr %base, i64 {MUTEX}
  %condition = getelementptr i8, ptr %base, i64 {CONDITION}
  store atomic i64 1, ptr %stop.at seq_cst, align 8
  %ignored.lock = call i32 @pthread_mutex_lock(ptr %mutex)
  %ignored.wake = call i32 @pthread_cond_broadcast(ptr %condition)
  %ignored.unlock = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret i64 0
}
"""

# There are no workers then: `share` takes the sequential way.
_WITHOUT_PTHREADS = """
define internal void @yield_core() {
  ret void
}

define internal void @wake(i64 %pool, i64 %count) {
  ret void
}

define internal i64 @initialize(i64 %pool) {
  ret i64 0
}

define internal i64 @work(i64 %pool) {
  ret i64 0
}

define internal i64 @stop(i64 %pool) {
  ret i64 0
}
"""


def pool_ir(*, pthreads: bool, places: bool) -> str:
    """LLVM IR of all functions; the entry `i64 atled_pool(i64 index)` returns the address of FUNCTIONS[index].

    pthreads: whether the process has the POSIX thread functions.  places: whether it has those of Linux by which a
        thread learns and chooses its processor.
    """
    declaration, pause = _PAUSE.get(machine_kind(), ("", ""))
    declared_ticks, ticks = _TICKS.get(machine_kind(), ("", "%now = add i64 0, 0"))
    threads = _WITH_PTHREADS if pthreads else _WITHOUT_PTHREADS
    processors = places_ir.PLACES_IR if places else places_ir.WITHOUT_PLACES_IR
    text = "\n".join(
        (
            declaration,
            declared_ticks,
            _PROGRAM,
            _JOB,
            loop_ir.LOOP_IR,
            threads,
            processors,
            pool_calls_ir.CALLS_IR,
            _entry(),
        )
    )
    constants = {**vars(loop_ir), **vars(pool_calls_ir), **vars(places_ir), **globals(), **loop_ir.LOOP_WORDS}
    constants.update(pool_calls_ir.FORM_WORDS)
    constants.update(_ROW_WORDS)
    constants.update(NO_ERROR=_NO_ERROR, PAUSE=pause, TICKS=ticks)
    return re.sub(r"\{([A-Z_]+)\}", lambda match: str(constants[match[1]]), text)


def _entry() -> str:
    cases = "\n".join(f"    i64 {index}, label %{name}" for index, name in enumerate(FUNCTIONS))
    returns = "\n".join(f"{name}:\n  ret i64 ptrtoint (ptr @{name} to i64)" for name in FUNCTIONS)
    return f"""
define i64 @atled_pool(i64 %index) {{
  switch i64 %index, label %unknown [
{cases}
  ]
unknown:
  ret i64 0
{returns}
}}
"""
