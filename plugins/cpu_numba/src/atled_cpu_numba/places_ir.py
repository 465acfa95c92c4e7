"""LLVM IR of where threads run: a worker leaves its caller's processor, and is fetched there while it has none.

The scheduler likes to put a thread on the processor of the one that woke it. There it would take the caller's time,
or wait for it to end, so a worker that finds itself beside the caller moves and stays away from there. That is decided
anew wherever the caller is met again; what the process's first thread may use bounds it. Where there is no other
processor, it naps instead of polling, and is not woken: a part that it takes brings nothing.

A worker may lose its processor to another process in the midst of a part, for as many slices of some milliseconds as
there are others, while the caller has nothing else to do. A caller that has waited for a while therefore asks whether
the worker's clock of time on processors has moved since it last looked. If not, the worker is bound to the caller's
processor, where the caller sleeps until the part is finished; then it is sent away again. A worker that runs but takes
long stays where it is.
"""

from __future__ import annotations

MOST_PROCESSORS = 1024  # of the C library's cpu_set_t
PROCESSOR_SET_BYTES = MOST_PROCESSORS // 8

# Of a worker without a processor, after which it looks whether it has got one: a thousandth of the time goes into that.
NAP_NS = 10_000_000

PLACES_IR = """
declare i32 @getpid()
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @nanosleep(ptr, ptr)

define internal i64 @current_processor() alwaysinline {
  %number = call i32 @sched_getcpu()
  %result = sext i32 %number to i64
  ret i64 %result
}

; Whether the calling thread has a processor that is not the caller's of the job.
define internal i1 @leave_processor(i64 %pool) alwaysinline {
entry:
  %base = inttoptr i64 %pool to ptr
  %processor.at = getelementptr i8, ptr %base, i64 {PROCESSOR}
  %taken = load atomic i64, ptr %processor.at monotonic, align 8
  %own = call i64 @current_processor()
  %same = icmp eq i64 %taken, %own
  br i1 %same, label %move, label %end
move:
  %moved = call i1 @keep_from(i32 0, i64 %own)
  ret i1 %moved
end:
  ret i1 true
}

define internal void @nap() noinline {
  %time = alloca [2 x i64]
  %rest.at = getelementptr i64, ptr %time, i64 1
  store i64 0, ptr %time
  store i64 {NAP_NS}, ptr %rest.at
  %ignored = call i32 @nanosleep(ptr %time, ptr null)
  ret void
}

; Have the calling thread run on all processors of the process but this one, if there are any.
define internal i64 @move_from(i64 %number) noinline {
  %moved = call i1 @keep_from(i32 0, i64 %number)
  ret i64 0
}

; The same of a thread of the process (0: the calling one); whether it now does.
define internal i1 @keep_from(i32 %thread, i64 %number) noinline {
entry:
  %known = icmp ult i64 %number, {MOST_PROCESSORS}
  br i1 %known, label %ask, label %end
ask:
  %others = alloca [{PROCESSOR_SET_BYTES} x i8]
  %process = call i32 @getpid()
  %failed = call i32 @sched_getaffinity(i32 %process, i64 {PROCESSOR_SET_BYTES}, ptr %others)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %leave, label %end
leave:
  %index = lshr i64 %number, 6
  %bit = and i64 %number, 63
  %word.at = getelementptr i64, ptr %others, i64 %index
  %word = load i64, ptr %word.at
  %flag = shl i64 1, %bit
  %mask = xor i64 %flag, -1
  %without = and i64 %word, %mask
  store i64 %without, ptr %word.at
  %refused = call i32 @sched_setaffinity(i32 %thread, i64 {PROCESSOR_SET_BYTES}, ptr %others)  ; if it is empty
  %moved = icmp eq i32 %refused, 0
  ret i1 %moved
end:
  ret i1 false
}

; Have a thread run on this processor alone: whether the system allows it.
define internal i1 @bind_to(i32 %thread, i64 %number) {
entry:
  %known = icmp ult i64 %number, {MOST_PROCESSORS}
  br i1 %known, label %bind, label %refused
bind:
  %one = alloca [{PROCESSOR_SET_BYTES} x i8]
  call void @llvm.memset.p0.i64(ptr %one, i8 0, i64 {PROCESSOR_SET_BYTES}, i1 false)
  %index = lshr i64 %number, 6
  %bit = and i64 %number, 63
  %word.at = getelementptr i64, ptr %one, i64 %index
  %flag = shl i64 1, %bit
  store i64 %flag, ptr %word.at
  %failed = call i32 @sched_setaffinity(i32 %thread, i64 {PROCESSOR_SET_BYTES}, ptr %one)
  %fine = icmp eq i32 %failed, 0
  ret i1 %fine
refused:
  ret i1 false
}

; What the owner of a job does that waits for parts of workers: nothing if they all run.
define internal void @attend(i64 %pool) noinline {
entry:
  %time = alloca [2 x i64]
  %base = inttoptr i64 %pool to ptr
  %workers.at = getelementptr i8, ptr %base, i64 {WORKERS}
  %workers = load i64, ptr %workers.at
  %table.at = getelementptr i8, ptr %base, i64 {WORKER_TABLE}
  %table = load ptr, ptr %table.at
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %next, %following ]
  %known = phi i1 [ false, %entry ], [ %known.next, %following ]
  %offset = mul i64 %i, {WORKER_BYTES}
  %worker = getelementptr i8, ptr %table, i64 %offset
  %claimed = load atomic i64, ptr %worker acquire, align 8
  %has.part = icmp ne i64 %claimed, 0
  br i1 %has.part, label %ask, label %following
ask:
  %clock.at = getelementptr i8, ptr %worker, i64 {CLOCK}
  %clock = load i64, ptr %clock.at
  %clock.id = trunc i64 %clock to i32
  %failed = call i32 @clock_gettime(i32 %clock.id, ptr %time)
  %told = icmp eq i32 %failed, 0
  br i1 %told, label %compare, label %following
compare:
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %before.at = getelementptr i8, ptr %worker, i64 {RUN_NS}
  %before = load i64, ptr %before.at
  store i64 %now, ptr %before.at
  %stands = icmp eq i64 %now, %before
  br i1 %stands, label %fetch, label %following
following:
  %known.next = phi i1 [ %known, %each ], [ %known, %ask ], [ true, %compare ]
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %workers
  br i1 %more, label %each, label %end
end:
  br i1 %known.next, label %leave, label %yield
fetch:
  %own = call i64 @current_processor()
  %thread.at = getelementptr i8, ptr %worker, i64 {THREAD}
  %thread.word = load i64, ptr %thread.at
  %thread = trunc i64 %thread.word to i32
  %bound = call i1 @bind_to(i32 %thread, i64 %own)
  br i1 %bound, label %sleep, label %yield
sleep:
  call void @sleep_during_part(i64 %pool, ptr %worker)
  %sent = call i1 @keep_from(i32 %thread, i64 %own)
  br label %leave
yield:  ; whoever has the part may be waiting for this very processor
  call void @yield_core()
  br label %leave
leave:
  ret void
}

; Until a worker has finished the part it has.
define internal void @sleep_during_part(i64 %pool, ptr %worker) {
entry:
  %base = inttoptr i64 %pool to ptr
  %sleeps.at = getelementptr i8, ptr %base, i64 {CALLER_SLEEPS}
  %mutex = getelementptr i8, ptr %base, i64 {CALLER_MUTEX}
  %condition = getelementptr i8, ptr %base, i64 {CALLER_CONDITION}
  %ignored.lock = call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %sleeps.at seq_cst, align 8
  br label %look
look:
  %claimed = load atomic i64, ptr %worker seq_cst, align 8
  %has.part = icmp ne i64 %claimed, 0
  br i1 %has.part, label %sleep, label %end
sleep:
  %ignored.wait = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
end:
  store atomic i64 0, ptr %sleeps.at monotonic, align 8
  %ignored.unlock = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}
"""

WITHOUT_PLACES_IR = """
define internal i64 @current_processor() alwaysinline {
  ret i64 -1
}

define internal i1 @leave_processor(i64 %pool) alwaysinline {
  ret i1 true
}

define internal void @nap() {
  ret void
}

define internal i64 @move_from(i64 %number) {
  ret i64 0
}

define internal void @attend(i64 %pool) noinline {
  call void @yield_core()  ; whoever has the part may be waiting for this very processor
  ret void
}
"""
