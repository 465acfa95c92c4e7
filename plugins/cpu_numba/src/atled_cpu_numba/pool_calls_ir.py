"""LLVM IR of the two built-in functions by which Python calls the pool; ctypes takes three times as long per call.

Their `self` is a Python int, the address of the *root*: three words, the address of the pool in force, that of the
Python function that starts its workers, and the identity of the main thread, the one that Python handles signals in.
"""

from __future__ import annotations

from atled.plugin import FormWord

POOL_IN_FORCE = 0  # byte offsets in the root
START = 8
MAIN_THREAD = 16
ROOT_BYTES = 24

# The words of a form, which the texts below take by number.
FORM_WORDS = {f"FORM_{word.name}": int(word) for word in FormWord}

# PyCFunctionFast, METH_FASTCALL: PyObject *f(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
CALLS_IR = """
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_BadArgument()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare i32 @PyErr_CheckSignals()
declare i64 @PyThread_get_thread_ident()
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Read `count` Python ints into `values`; false with an exception set if one is none.
define internal i1 @read_ints(ptr %objects, ptr %values, i64 %given, i64 %count) alwaysinline {
entry:
  %as.many = icmp eq i64 %given, %count
  br i1 %as.many, label %each, label %miscounted
miscounted:
  %ignored = call i32 @PyErr_BadArgument()
  ret i1 false
each:
  %i = phi i64 [ 0, %entry ], [ %next, %stored ]
  %object.at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object.at
  %value = call i64 @PyLong_AsLongLong(ptr %object)
  %suspect = icmp eq i64 %value, -1
  br i1 %suspect, label %ask, label %stored
ask:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %bad, label %stored
bad:
  ret i1 false
stored:
  %value.at = getelementptr i64, ptr %values, i64 %i
  store i64 %value, ptr %value.at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %each, label %good
good:
  ret i1 true
}

; Have Python start the workers: true, or false with an exception set.
define internal i1 @start_workers(ptr %root) {
  %start.at = getelementptr i8, ptr %root, i64 {START}
  %start = load ptr, ptr %start.at
  %result = call ptr @PyObject_CallNoArgs(ptr %start)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %bad, label %good
good:
  call void @Py_DecRef(ptr %result)
  ret i1 true
bad:
  ret i1 false
}

define internal ptr @python_run_program(ptr %self, ptr %arguments, i64 %given) {
entry:
  %values = alloca i64, i64 3
  %read = call i1 @read_ints(ptr %arguments, ptr %values, i64 %given, i64 3)
  br i1 %read, label %begin, label %refused
refused:
  ret ptr null
begin:
  %root.address = call i64 @PyLong_AsLongLong(ptr %self)
  %root = inttoptr i64 %root.address to ptr
  %start.at = getelementptr i64, ptr %values, i64 1
  %stop.at = getelementptr i64, ptr %values, i64 2
  %rows = load i64, ptr %values
  %start = load i64, ptr %start.at
  %stop = load i64, ptr %stop.at
  br label %run
run:
  %from = phi i64 [ %start, %begin ], [ %row, %started ], [ %going.on, %undisturbed ]
  %state = call ptr @PyEval_SaveThread()
  br label %unlocked
unlocked:
  %from.unlocked = phi i64 [ %from, %run ], [ %going.on, %paused.thread ]
  %pool = load atomic i64, ptr %root acquire, align 8
  %result = call i64 @run_program(i64 %pool, i64 %rows, i64 %from.unlocked, i64 %stop)
  %going.on = and i64 %result, {ROW_AND_RESUMED}
  %paused = call i1 @is_special(i64 %result)  ; the others are small, or not negative
  br i1 %paused, label %look, label %locked
look:
  %start.bit = and i64 %result, {UNSTARTED_BIT}
  %wants.workers = icmp ne i64 %start.bit, 0
  br i1 %wants.workers, label %start.loop, label %paused.thread
start.loop:
  call void @PyEval_RestoreThread(ptr %state)
  %ok.loop = call i1 @start_workers(ptr %root)
  br i1 %ok.loop, label %undisturbed, label %refused
paused.thread:                         ; other threads handle no signals, and need no turn
  %thread = call i64 @PyThread_get_thread_ident()
  %main.at = getelementptr i8, ptr %root, i64 {MAIN_THREAD}
  %main = load i64, ptr %main.at
  %is.main = icmp eq i64 %thread, %main
  br i1 %is.main, label %turn, label %unlocked
turn:
  call void @PyEval_RestoreThread(ptr %state)
  %signals = call i32 @PyErr_CheckSignals()
  %disturbed = icmp ne i32 %signals, 0
  br i1 %disturbed, label %refused, label %undisturbed
undisturbed:
  br label %run
locked:
  call void @PyEval_RestoreThread(ptr %state)
  %finished = icmp sge i64 %result, 0
  br i1 %finished, label %end, label %unstarted
unstarted:
  %row = xor i64 %result, -1
  %ok = call i1 @start_workers(ptr %root)
  br i1 %ok, label %started, label %refused
started:
  br label %run
end:
  %object = call ptr @PyLong_FromLongLong(i64 %result)
  ret ptr %object
}

; The first argument is the address of a form (`FormWord`), the others are what its words are to be set to.
define internal ptr @python_run_call(ptr %self, ptr %arguments, i64 %given) {
entry:
  %any = icmp sgt i64 %given, 0
  br i1 %any, label %first, label %miscounted
miscounted:
  %ignored = call i32 @PyErr_BadArgument()
  ret ptr null
first:
  %address.at = alloca i64
  %read = call i1 @read_ints(ptr %arguments, ptr %address.at, i64 1, i64 1)
  br i1 %read, label %open, label %refused
refused:
  ret ptr null
open:
  %form.address = load i64, ptr %address.at
  %form = inttoptr i64 %form.address to ptr
  %kernel.at = getelementptr i64, ptr %form, i64 {FORM_KERNEL}
  %kernel = load i64, ptr %kernel.at
  %parts.at = getelementptr i64, ptr %form, i64 {FORM_PARTS}
  %size.at = getelementptr i64, ptr %form, i64 {FORM_BLOCK_WORDS}
  %addresses.at = getelementptr i64, ptr %form, i64 {FORM_ADDRESSES}
  %floats.at = getelementptr i64, ptr %form, i64 {FORM_FLOATS}
  %words.at = getelementptr i64, ptr %form, i64 {FORM_VALUES}
  %parts = load i64, ptr %parts.at
  %size = load i64, ptr %size.at
  %addresses = load i64, ptr %addresses.at
  %floats = load i64, ptr %floats.at
  %count = add i64 %addresses, %floats
  %expected = add i64 %count, 1
  %matching = icmp eq i64 %given, %expected
  br i1 %matching, label %copy, label %miscounted
copy:                                  ; each call has a block of its own: calls may come from several threads
  %block = alloca i64, i64 %size, align 64
  %template = getelementptr i64, ptr %words.at, i64 %count
  %bytes = shl i64 %size, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %block, ptr align 8 %template, i64 %bytes, i1 false)
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %each, label %begin
each:
  %i = phi i64 [ 0, %copy ], [ %next, %stored ]
  %next = add i64 %i, 1
  %object.at = getelementptr ptr, ptr %arguments, i64 %next
  %object = load ptr, ptr %object.at
  %is.address = icmp slt i64 %i, %addresses
  br i1 %is.address, label %integer, label %real
integer:
  %whole = call i64 @PyLong_AsLongLong(ptr %object)
  %suspect.whole = icmp eq i64 %whole, -1
  br i1 %suspect.whole, label %ask, label %store
real:
  %number = call double @PyFloat_AsDouble(ptr %object)
  %bits = bitcast double %number to i64
  %suspect.real = fcmp oeq double %number, -1.0
  br i1 %suspect.real, label %ask, label %store
ask:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %refused, label %plausible
plausible:
  %minus.one = select i1 %is.address, i64 -1, i64 -4616189618054758400    ; the bits of -1.0
  br label %store
store:
  %value = phi i64 [ %whole, %integer ], [ %bits, %real ], [ %minus.one, %plausible ]
  %word.at = getelementptr i64, ptr %words.at, i64 %i
  %word = load i64, ptr %word.at
  %wanted = icmp sge i64 %word, 0
  br i1 %wanted, label %put, label %stored
put:
  %value.at = getelementptr i64, ptr %block, i64 %word
  store i64 %value, ptr %value.at
  br label %stored
stored:
  %more = icmp slt i64 %next, %count
  br i1 %more, label %each, label %begin
begin:
  %block.address = ptrtoint ptr %block to i64
  %brief = icmp sle i64 %parts, 0
  br i1 %brief, label %locked, label %unlocked
locked:                                ; giving the interpreter lock away and back takes longer than a small kernel
  %code.locked = call i64 @run_kernel(i64 0, i64 %kernel, i64 %block.address, i64 1, i64 0)
  br label %end
unlocked:
  %root.address = call i64 @PyLong_AsLongLong(ptr %self)
  %root = inttoptr i64 %root.address to ptr
  br label %run
run:
  %part = phi i64 [ 0, %unlocked ], [ 0, %start ], [ 1, %start.loop ], [ 1, %turn ]
  %state = call ptr @PyEval_SaveThread()
  %pool = load atomic i64, ptr %root acquire, align 8
  %result = call i64 @run_kernel(i64 %pool, i64 %kernel, i64 %block.address, i64 %parts, i64 %part)
  call void @PyEval_RestoreThread(ptr %state)
  %finished = icmp sge i64 %result, 0
  br i1 %finished, label %end, label %unusual
unusual:
  %early = call i1 @is_special(i64 %result)
  br i1 %early, label %loop, label %start
start:
  %ok = call i1 @start_workers(ptr %root)
  br i1 %ok, label %run, label %refused
loop:
  %start.bit = and i64 %result, {UNSTARTED_BIT}
  %wants.workers = icmp ne i64 %start.bit, 0
  br i1 %wants.workers, label %start.loop, label %turn
start.loop:
  %ok.loop = call i1 @start_workers(ptr %root)
  br i1 %ok.loop, label %run, label %refused
turn:                                  ; other threads than the main one have no signals: this does nothing there
  %signals = call i32 @PyErr_CheckSignals()
  %disturbed = icmp ne i32 %signals, 0
  br i1 %disturbed, label %refused, label %run
end:
  %code = phi i64 [ %code.locked, %locked ], [ %result, %run ]
  %object.result = call ptr @PyLong_FromLongLong(i64 %code)
  ret ptr %object.result
}
"""
