"""LLVM IR of the built-in function that makes a call again out of an inline cache, as a call of Python does.

It calls nothing of CPython but functions of the stable ABI, and reads the head of an object as that has it: the count
of references, then the type. Where the slots are it is told. The interpreter lock is held all along, so nothing changes
under its eyes, but for what a comparison of shapes may run, the making of a spare, a device's launch, and a collection
of garbage when objects are made: references of its own keep the entry, the values of Variables and what is launched on
alive meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from atled.plugin import FormWord, InlineEntryWord, InlineObjectWord, InlineResultWord, InlineWord

_TYPE = 8  # byte offset of the type in an object; the count is at its start, in 32 bits or 64
_MANY = 256  # inputs that are passed one by one; of more the text makes the call
_TRIES = 4  # what comes round in a ring and is looked at for one that is free
_EQUAL = 2  # Py_EQ

_COUNTS = {"HOLD": "Py_IncRef", "DROP": "Py_DecRef"}  # what `_FOR_EACH` calls, in a function of that name
_FOR_EACH = """define internal void @{NAME}(ptr %references, i64 %count) {
start:
  br label %check
check:
  %i = phi i64 [ 0, %start ], [ %next, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %next = add i64 %i, 1
  %object = call ptr @object(ptr %references, i64 %i)
  call void @{COUNT}(ptr %object)
  br label %check
done:
  ret void
}"""

_INLINE_CALLS = """
declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i32 @PyErr_BadArgument()
declare ptr @PyErr_Occurred()
declare ptr @PyIter_Next(ptr)
declare ptr @PyObject_GetItem(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @PyErr_Clear()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyWeakref_NewRef(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i64 @word(ptr %words, i64 %number) alwaysinline {
  %at = getelementptr i64, ptr %words, i64 %number
  %value = load i64, ptr %at
  ret i64 %value
}

define internal ptr @object(ptr %words, i64 %number) alwaysinline {
  %at = getelementptr ptr, ptr %words, i64 %number
  %value = load ptr, ptr %at
  ret ptr %value
}

; What a slot of an object refers to; `slot`: which of some words has its offset.
define internal ptr @slot(ptr %object, ptr %words, i64 %slot) alwaysinline {
  %offset = call i64 @word(ptr %words, i64 %slot)
  %at = getelementptr i8, ptr %object, i64 %offset
  %value = load ptr, ptr %at
  ret ptr %value
}

; Whether a slot holds the object of a word.
define internal i1 @slot_is(ptr %object, ptr %objects, i64 %slot, i64 %number) alwaysinline {
  %value = call ptr @slot(ptr %object, ptr %objects, i64 %slot)
  %wanted = call ptr @object(ptr %objects, i64 %number)
  %same = icmp eq ptr %value, %wanted
  ret i1 %same
}

; Have a slot of an object hold an object; the reference is taken over, that to what it held is given away.
define internal void @put(ptr %object, ptr %words, i64 %slot, ptr %value) alwaysinline {
  %offset = call i64 @word(ptr %words, i64 %slot)
  %at = getelementptr i8, ptr %object, i64 %offset
  store ptr %value, ptr %at
  ret void
}

; The same where it held something, to which it then refers no more.
define internal void @replace(ptr %object, ptr %words, i64 %slot, ptr %value) alwaysinline {
  %former = call ptr @slot(ptr %object, ptr %words, i64 %slot)
  call void @put(ptr %object, ptr %words, i64 %slot, ptr %value)
  call void @Py_DecRef(ptr %former)
  ret void
}

; Have a slot of an object hold the object of a word, as most do.
define internal void @reset(ptr %object, ptr %objects, i64 %slot, i64 %number) alwaysinline {
start:
  %same = call i1 @slot_is(ptr %object, ptr %objects, i64 %slot, i64 %number)
  br i1 %same, label %done, label %change
change:
  %value = call ptr @object(ptr %objects, i64 %number)
  call void @Py_IncRef(ptr %value)
  call void @replace(ptr %object, ptr %objects, i64 %slot, ptr %value)
  br label %done
done:
  ret void
}

; The words of a result of an entry.
define internal ptr @result(ptr %entry, i64 %number) alwaysinline {
  %first = call i64 @word(ptr %entry, i64 {ENTRY_RESULTS})
  %before = mul i64 %number, {RESULT_END}
  %at = add i64 %first, %before
  %words = getelementptr i64, ptr %entry, i64 %at
  ret ptr %words
}

define internal i1 @has_type(ptr %object, ptr %objects, i64 %number) alwaysinline {
  %type.at = getelementptr i8, ptr %object, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %wanted = call ptr @object(ptr %objects, i64 %number)
  %same = icmp eq ptr %type, %wanted
  ret i1 %same
}

define internal i1 @records(ptr %cache) alwaysinline {
  %word = call i64 @word(ptr %cache, i64 {RECORDS})
  %records = icmp ne i64 %word, 0
  ret i1 %records
}

; The cell of what comes round in a ring.
define internal ptr @cell_in_ring(ptr %item, ptr %cache, ptr %objects) alwaysinline {
start:
  %records = call i1 @records(ptr %cache)
  br i1 %records, label %done, label %is.array
is.array:
  %cell = call ptr @slot(ptr %item, ptr %objects, i64 {OBJECT_ARRAY_CELL})
  br label %done
done:
  %result = phi ptr [ %item, %start ], [ %cell, %is.array ]
  ret ptr %result
}

define internal i1 @has_references(ptr %object, i32 %wanted) alwaysinline {
  %count = load i32, ptr %object
  %equal = icmp eq i32 %count, %wanted
  ret i1 %equal
}

; Whether an array or a cell of a ring, to which there is one reference beside the ring's, is free for a result of an
; entry; `code`: that of its cell.
define internal i1 @is_free(ptr %item, ptr %cache, ptr %objects, ptr %entry, ptr %code) {
start:
  %nobodys = call ptr @object(ptr %objects, i64 {OBJECT_NOBODYS})
  %is.none = icmp eq ptr %item, %nobodys
  br i1 %is.none, label %no, label %is.some
is.some:
  %unheld = call i1 @has_references(ptr %item, i32 2)
  br i1 %unheld, label %has.cell, label %no
has.cell:
  %cell = call ptr @cell_in_ring(ptr %item, ptr %cache, ptr %objects)
  %records = call i1 @records(ptr %cache)
  %cell.count = select i1 %records, i32 2, i32 1
  %cell.unheld = call i1 @has_references(ptr %cell, i32 %cell.count)
  %copies = call i1 @slot_is(ptr %cell, ptr %objects, i64 {OBJECT_CELL_COPIES}, i64 {OBJECT_NONE})
  %found.code = call ptr @slot(ptr %cell, ptr %objects, i64 {OBJECT_CELL_CODE})
  %has.code = icmp eq ptr %found.code, %code
  %one = and i1 %cell.unheld, %copies
  %two = and i1 %one, %has.code
  br i1 %two, label %has.storage, label %no
has.storage:                           ; one with a code has some
  %storage = call ptr @slot(ptr %cell, ptr %objects, i64 {OBJECT_CELL_STORAGE})
  %storage.unheld = call i1 @has_references(ptr %storage, i32 1)
  br i1 %storage.unheld, label %seen, label %no
seen:
  %exported = call ptr @slot(ptr %storage, ptr %entry, i64 {ENTRY_EXPORTED})
  %false = call ptr @object(ptr %objects, i64 {OBJECT_FALSE})
  %hidden = icmp eq ptr %exported, %false
  br i1 %hidden, label %yes, label %shown
shown:                                 ; to a user, who may hold a view no more: `HostStorage.is_shown_no_more`
  %root.offset = call i64 @word(ptr %entry, i64 {ENTRY_ROOT})
  %has.views = icmp sgt i64 %root.offset, 0
  br i1 %has.views, label %has.end, label %no
has.end:
  %end = call ptr @slot(ptr %storage, ptr %entry, i64 {ENTRY_VIEW_END})
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %endless = icmp eq ptr %end, %none
  br i1 %endless, label %no, label %ended
ended:
  %root = call ptr @slot(ptr %storage, ptr %entry, i64 {ENTRY_ROOT})
  %gone = call ptr @slot(ptr %end, ptr %objects, i64 {OBJECT_VIEW_END_GONE})
  %is.gone = icmp eq ptr %root, %gone
  br i1 %is.gone, label %hide, label %no
hide:
  call void @Py_IncRef(ptr %false)
  call void @put(ptr %storage, ptr %entry, i64 {ENTRY_EXPORTED}, ptr %false)
  call void @Py_DecRef(ptr %exported)
  br label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Let an array or a cell of a ring that is free be as a new one.
define internal void @renew(ptr %item, ptr %cache, ptr %objects) {
  %cell = call ptr @cell_in_ring(ptr %item, ptr %cache, ptr %objects)
  call void @reset(ptr %cell, ptr %objects, i64 {OBJECT_CELL_PENDING}, i64 {OBJECT_NONE})
  call void @reset(ptr %cell, ptr %objects, i64 {OBJECT_CELL_ZEROED}, i64 {OBJECT_FALSE})
  call void @reset(ptr %cell, ptr %objects, i64 {OBJECT_CELL_IS_DATA}, i64 {OBJECT_FALSE})
  call void @reset(ptr %cell, ptr %objects, i64 {OBJECT_CELL_USE}, i64 {OBJECT_UNUSED})
  ret void
}

; An array or a cell for a result, with a reference to it: the next of its ring that is free, or one that is made where
; none is soon; null, maybe with an exception set, if there is none.
define internal ptr @spare(ptr %entry, ptr %cache, ptr %objects, ptr %result) {
start:
  %in.use = alloca ptr
  %ring = call ptr @object(ptr %result, i64 {RESULT_RING})
  %code = call ptr @object(ptr %result, i64 {RESULT_CODE})
  br label %try
try:
  %number = phi i64 [ 0, %start ], [ %next.number, %pass ]
  %item = call ptr @PyIter_Next(ptr %ring)
  %ended = icmp eq ptr %item, null
  br i1 %ended, label %refused, label %look
look:
  %free = call i1 @is_free(ptr %item, ptr %cache, ptr %objects, ptr %entry, ptr %code)
  br i1 %free, label %found, label %used
used:
  %next.number = add i64 %number, 1
  %more = icmp slt i64 %next.number, {TRIES}
  br i1 %more, label %pass, label %make
pass:
  call void @Py_DecRef(ptr %item)
  br label %try
make:
  %new = call ptr @object(ptr %result, i64 {RESULT_NEW})
  store ptr %item, ptr %in.use
  %made = call ptr @PyObject_Vectorcall(ptr %new, ptr %in.use, i64 1, ptr null)
  call void @Py_DecRef(ptr %item)
  ret ptr %made
refused:                               ; no memory for the next round, which the text, that has the call then, will say
  call void @PyErr_Clear()
  ret ptr null
found:
  call void @renew(ptr %item, ptr %cache, ptr %objects)
  ret ptr %item
}

; Spares for all results of an entry, with a reference to each; false, and none, maybe with an exception set, if there
; is none for one of them.
define internal i1 @spares(ptr %entry, ptr %cache, ptr %objects, ptr %items, i64 %outputs) {
start:
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %next, %found ]
  %next = add i64 %i, 1
  %result = call ptr @result(ptr %entry, i64 %i)
  %item = call ptr @spare(ptr %entry, ptr %cache, ptr %objects, ptr %result)
  %missing = icmp eq ptr %item, null
  br i1 %missing, label %none, label %found
found:
  %at = getelementptr ptr, ptr %items, i64 %i
  store ptr %item, ptr %at
  %more = icmp slt i64 %next, %outputs
  br i1 %more, label %each, label %all
none:
  call void @drop(ptr %items, i64 %i)
  ret i1 false
all:
  ret i1 true
}

; Whether all inputs are NdArrays.
define internal i1 @are_arrays(ptr %arguments, i64 %inputs, ptr %objects) {
start:
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %next, %is.one ]
  %next = add i64 %i, 1
  %x = call ptr @object(ptr %arguments, i64 %next)  ; the table is before them
  %of.type = call i1 @has_type(ptr %x, ptr %objects, i64 {OBJECT_ARRAY})
  br i1 %of.type, label %is.one, label %no
is.one:
  %more = icmp slt i64 %next, %inputs
  br i1 %more, label %each, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; What a call is given, with the values of Variables in the place of these; false if an input is none and not absent.
define internal i1 @read_values(ptr %arguments, i64 %count, i64 %inputs, ptr %objects, ptr %given) {
start:
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %bytes = shl i64 %count, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %given, ptr align 8 %arguments, i64 %bytes, i1 false)
  br label %input
input:
  %i = phi i64 [ 1, %start ], [ %next, %read ]  ; the table is before them
  %next = add i64 %i, 1
  %at = getelementptr ptr, ptr %given, i64 %i
  %x = load ptr, ptr %at
  %is.none = icmp eq ptr %x, %none
  br i1 %is.none, label %read, label %typed
typed:
  %is.variable = call i1 @has_type(ptr %x, ptr %objects, i64 {OBJECT_VARIABLE})
  br i1 %is.variable, label %valued, label %no
valued:
  %value = call ptr @slot(ptr %x, ptr %objects, i64 {OBJECT_VARIABLE_VALUE})
  %no.value = icmp eq ptr %value, null  ; of a Variable that was not initialised
  br i1 %no.value, label %no, label %replace
replace:
  store ptr %value, ptr %at
  br label %read
read:
  %more = icmp sle i64 %next, %inputs
  br i1 %more, label %input, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether attributes are those of an entry.
define internal i1 @has_attributes(ptr %entry, ptr %cache, ptr %arguments) {
start:
  %inputs = call i64 @word(ptr %entry, i64 {ENTRY_INPUTS})
  %attributes = call i64 @word(ptr %cache, i64 {ATTRIBUTES})
  %given = getelementptr i64, ptr %entry, i64 {ENTRY_GIVEN}
  %first.attribute = shl i64 %inputs, 1
  %attributes.given = getelementptr i64, ptr %given, i64 %first.attribute
  %behind.inputs = add i64 %inputs, 1  ; the table is before them
  %attributes.argument = getelementptr ptr, ptr %arguments, i64 %behind.inputs
  br label %attribute
attribute:
  %a = phi i64 [ 0, %start ], [ %next.a, %look ]
  %more.attributes = icmp slt i64 %a, %attributes
  br i1 %more.attributes, label %look, label %yes
look:
  %next.a = add i64 %a, 1
  %value = call ptr @object(ptr %attributes.argument, i64 %a)
  %wanted = call ptr @object(ptr %attributes.given, i64 %a)
  %is.same = icmp eq ptr %value, %wanted
  br i1 %is.same, label %attribute, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether inputs are those of an entry: 1 or 0, or -1 with an exception set.
define internal i32 @matches(ptr %entry, ptr %cache, ptr %objects, ptr %arguments) {
start:
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %inputs = call i64 @word(ptr %entry, i64 {ENTRY_INPUTS})
  %given = getelementptr i64, ptr %entry, i64 {ENTRY_GIVEN}
  br label %input
input:
  %i = phi i64 [ 0, %start ], [ %next, %same ]
  %next = add i64 %i, 1
  %x = call ptr @object(ptr %arguments, i64 %next)
  %shape.number = mul i64 %i, 2
  %code.number = add i64 %shape.number, 1
  %wanted.shape = call ptr @object(ptr %given, i64 %shape.number)
  %wanted.code = call ptr @object(ptr %given, i64 %code.number)
  %wants.none = icmp eq ptr %wanted.shape, null
  %is.none = icmp eq ptr %x, %none
  %differ = xor i1 %wants.none, %is.none
  br i1 %differ, label %no, label %alike
alike:
  br i1 %is.none, label %same, label %present
present:
  %cell = call ptr @slot(ptr %x, ptr %cache, i64 {CELL})
  %shape = call ptr @slot(ptr %x, ptr %cache, i64 {SHAPE})
  %no.cell = icmp eq ptr %cell, null   ; of an array that was not initialised
  %no.shape = icmp eq ptr %shape, null
  %not.computed = icmp eq ptr %cell, %none  ; a value that is only recorded
  %some.missing = or i1 %no.cell, %no.shape
  %incomplete = or i1 %some.missing, %not.computed
  br i1 %incomplete, label %no, label %complete
complete:
  %code = call ptr @slot(ptr %cell, ptr %objects, i64 {OBJECT_CELL_CODE})
  %has.code = icmp eq ptr %code, %wanted.code
  %settled = call i1 @slot_is(ptr %cell, ptr %objects, i64 {OBJECT_CELL_PENDING}, i64 {OBJECT_NONE})
  %ready = and i1 %has.code, %settled
  br i1 %ready, label %shapes, label %no
shapes:
  %identical = icmp eq ptr %shape, %wanted.shape
  br i1 %identical, label %same, label %compare
compare:
  %equal = call i32 @PyObject_RichCompareBool(ptr %shape, ptr %wanted.shape, i32 {EQUAL})
  %is.equal = icmp eq i32 %equal, 1
  br i1 %is.equal, label %same, label %unequal
unequal:
  ret i32 %equal
same:
  %more = icmp slt i64 %next, %inputs
  br i1 %more, label %input, label %yes
yes:
  ret i32 1
no:
  ret i32 0
}

; Whether all floats of a call are of that very type.
define internal i1 @are_floats(ptr %cache, ptr %objects, ptr %arguments, i64 %inputs) {
start:
  %attributes = call i64 @word(ptr %cache, i64 {ATTRIBUTES})
  %floats = call i64 @word(ptr %cache, i64 {FLOATS})
  %some = add i64 %inputs, %attributes
  %first = add i64 %some, 1  ; the table is before them
  %end = add i64 %first, %floats
  br label %check
check:
  %i = phi i64 [ %first, %start ], [ %next, %look ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %look, label %yes
look:
  %next = add i64 %i, 1
  %value = call ptr @object(ptr %arguments, i64 %i)
  %is.float = call i1 @has_type(ptr %value, ptr %objects, i64 {OBJECT_FLOAT})
  br i1 %is.float, label %check, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Call the function of an entry on the inputs, what is to hold the results and floats; 0, or -1 with an exception set.
define internal i64 @run_in_python(ptr %entry, ptr %cache, ptr %objects, ptr %arguments, ptr %items) {
start:
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %inputs = call i64 @word(ptr %entry, i64 {ENTRY_INPUTS})
  %attributes = call i64 @word(ptr %cache, i64 {ATTRIBUTES})
  %floats = call i64 @word(ptr %cache, i64 {FLOATS})
  %outputs = call i64 @word(ptr %entry, i64 {ENTRY_OUTPUTS})
  %addresses = add i64 %inputs, %outputs
  %values = add i64 %addresses, %floats
  %given = getelementptr i64, ptr %entry, i64 {ENTRY_GIVEN}
  %before.floats = sub i64 %attributes, %outputs
  %float.shift = add i64 %before.floats, 1  ; the table is before the inputs, no results are among them
  %passed = alloca ptr, i64 %values
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %next, %kept ]
  %next = add i64 %i, 1
  %is.result = icmp sge i64 %i, %inputs
  %is.float = icmp sge i64 %i, %addresses
  br i1 %is.float, label %number, label %whole
whole:
  br i1 %is.result, label %result, label %input
result:
  %result.number = sub i64 %i, %inputs
  %item = call ptr @object(ptr %items, i64 %result.number)
  %result.cell = call ptr @cell_in_ring(ptr %item, ptr %cache, ptr %objects)
  %result.words = call ptr @result(ptr %entry, i64 %result.number)
  %result.shape = call ptr @object(ptr %result.words, i64 {RESULT_SHAPE})
  br label %present
input:
  %x = call ptr @object(ptr %arguments, i64 %next)
  %is.absent = icmp eq ptr %x, %none
  br i1 %is.absent, label %borrowed, label %given.cell
given.cell:
  %input.cell = call ptr @slot(ptr %x, ptr %cache, i64 {CELL})
  %shape.number = shl i64 %i, 1
  %input.shape = call ptr @object(ptr %given, i64 %shape.number)
  br label %present
present:
  %cell = phi ptr [ %result.cell, %result ], [ %input.cell, %given.cell ]
  %shape = phi ptr [ %result.shape, %result ], [ %input.shape, %given.cell ]
  %storage = call ptr @slot(ptr %cell, ptr %objects, i64 {OBJECT_CELL_STORAGE})
  %address = call ptr @slot(ptr %storage, ptr %entry, i64 {ENTRY_ADDRESS})
  call void @Py_IncRef(ptr %address)  ; what makes a view may run anything
  %view = call ptr @PyObject_GetItem(ptr %address, ptr %shape)
  call void @Py_DecRef(ptr %address)
  %no.view = icmp eq ptr %view, null
  br i1 %no.view, label %failed, label %kept
number:
  %argument.number = add i64 %i, %float.shift
  %real = call ptr @object(ptr %arguments, i64 %argument.number)
  br label %borrowed
borrowed:
  %other = phi ptr [ %none, %input ], [ %real, %number ]
  call void @Py_IncRef(ptr %other)
  br label %kept
kept:
  %value = phi ptr [ %view, %present ], [ %other, %borrowed ]
  %value.at = getelementptr ptr, ptr %passed, i64 %i
  store ptr %value, ptr %value.at
  %more = icmp slt i64 %next, %values
  br i1 %more, label %each, label %begin
begin:
  %run = call ptr @object(ptr %entry, i64 {ENTRY_RUN})
  %returned = call ptr @PyObject_Vectorcall(ptr %run, ptr %passed, i64 %values, ptr null)
  %raised = icmp eq ptr %returned, null
  br i1 %raised, label %failed, label %done
done:
  call void @Py_DecRef(ptr %returned)
  call void @drop(ptr %passed, i64 %values)
  ret i64 0
failed:
  %count = phi i64 [ %i, %present ], [ %values, %begin ]
  call void @tell(ptr %entry)
  call void @drop(ptr %passed, i64 %count)
  ret i64 -1
}

{DROP}

; Have the entry raise the exception that is set in its words.
define internal void @tell(ptr %entry) {
start:
  %type.at = alloca ptr
  %error.at = alloca ptr
  %traceback.at = alloca ptr
  call void @PyErr_Fetch(ptr %type.at, ptr %error.at, ptr %traceback.at)
  call void @PyErr_NormalizeException(ptr %type.at, ptr %error.at, ptr %traceback.at)
  %type = load ptr, ptr %type.at
  %error = load ptr, ptr %error.at
  %traceback = load ptr, ptr %traceback.at
  call void @Py_DecRef(ptr %type)
  %untraced = icmp eq ptr %traceback, null
  br i1 %untraced, label %told, label %traced
traced:
  %ignored = call i32 @PyException_SetTraceback(ptr %error, ptr %traceback)
  call void @Py_DecRef(ptr %traceback)
  br label %told
told:
  %fail = call ptr @object(ptr %entry, i64 {ENTRY_FAIL})
  %returned = call ptr @PyObject_Vectorcall(ptr %fail, ptr %error.at, i64 1, ptr null)  ; null: it raises
  call void @Py_DecRef(ptr %error)
  ret void
}

; Run the kernel of a form on the inputs and what is to hold the results; what it returned.
define internal i64 @run(ptr %entry, ptr %cache, ptr %objects, ptr %arguments, ptr %items) {
start:
  %form = call ptr @object(ptr %entry, i64 {ENTRY_FORM})
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %kernel.address = call i64 @word(ptr %form, i64 {FORM_KERNEL})
  %size = call i64 @word(ptr %form, i64 {FORM_BLOCK_WORDS})
  %inputs = call i64 @word(ptr %entry, i64 {ENTRY_INPUTS})
  %attributes = call i64 @word(ptr %cache, i64 {ATTRIBUTES})
  %floats = call i64 @word(ptr %cache, i64 {FLOATS})
  %outputs = call i64 @word(ptr %entry, i64 {ENTRY_OUTPUTS})
  %addresses = add i64 %inputs, %outputs
  %values = add i64 %addresses, %floats
  %before.floats = sub i64 %attributes, %outputs
  %float.shift = add i64 %before.floats, 1  ; the table is before the inputs, no results are among them
  %words = getelementptr i64, ptr %form, i64 {FORM_VALUES}
  %template = getelementptr i64, ptr %words, i64 %values
  %block = alloca i64, i64 %size, align 64
  %bytes = shl i64 %size, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %block, ptr align 8 %template, i64 %bytes, i1 false)
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %next, %stored ]
  %next = add i64 %i, 1
  %is.result = icmp sge i64 %i, %inputs
  %is.float = icmp sge i64 %i, %addresses
  br i1 %is.float, label %number, label %whole
whole:
  br i1 %is.result, label %result, label %input
result:
  %result.number = sub i64 %i, %inputs
  %item = call ptr @object(ptr %items, i64 %result.number)
  %result.cell = call ptr @cell_in_ring(ptr %item, ptr %cache, ptr %objects)
  br label %array.address
input:
  %x = call ptr @object(ptr %arguments, i64 %next)
  %is.absent = icmp eq ptr %x, %none
  br i1 %is.absent, label %put, label %given.cell
given.cell:
  %input.cell = call ptr @slot(ptr %x, ptr %cache, i64 {CELL})
  br label %array.address
array.address:
  %cell = phi ptr [ %result.cell, %result ], [ %input.cell, %given.cell ]
  %storage = call ptr @slot(ptr %cell, ptr %objects, i64 {OBJECT_CELL_STORAGE})
  %address.object = call ptr @slot(ptr %storage, ptr %entry, i64 {ENTRY_ADDRESS})
  %address = call i64 @PyLong_AsLongLong(ptr %address.object)
  br label %put
number:
  %argument.number = add i64 %i, %float.shift
  %real = call ptr @object(ptr %arguments, i64 %argument.number)
  %double = call double @PyFloat_AsDouble(ptr %real)
  %bits = bitcast double %double to i64
  br label %put
put:
  %value = phi i64 [ 0, %input ], [ %address, %array.address ], [ %bits, %number ]
  %word = call i64 @word(ptr %words, i64 %i)
  %wanted = icmp sge i64 %word, 0
  br i1 %wanted, label %store, label %stored
store:
  %value.at = getelementptr i64, ptr %block, i64 %word
  store i64 %value, ptr %value.at
  br label %stored
stored:
  %more = icmp slt i64 %next, %values
  br i1 %more, label %each, label %begin
begin:
  %kernel = inttoptr i64 %kernel.address to ptr
  %block.address = ptrtoint ptr %block to i64
  %code = call i64 %kernel(i64 %block.address, i64 0, i64 1)
  ret i64 %code
}

; The cells that a recorded call keeps of its results, in a list; null with an exception set.
define internal ptr @saved(ptr %entry, ptr %objects, ptr %cells) {
start:
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %outputs = call i64 @word(ptr %entry, i64 {ENTRY_OUTPUTS})
  %list = call ptr @PyList_New(i64 %outputs)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %done, label %each
each:
  %i = phi i64 [ 0, %start ], [ %next, %each ]
  %next = add i64 %i, 1
  %result = call ptr @result(ptr %entry, i64 %i)
  %word = call i64 @word(ptr %result, i64 {RESULT_IS_SAVED})
  %is.saved = icmp ne i64 %word, 0
  %cell = call ptr @object(ptr %cells, i64 %i)
  %kept = select i1 %is.saved, ptr %cell, ptr %none
  call void @Py_IncRef(ptr %kept)
  %ignored = call i32 @PyList_SetItem(ptr %list, i64 %i, ptr %kept)
  %more = icmp slt i64 %next, %outputs
  br i1 %more, label %each, label %done
done:
  ret ptr %list
}

; The floats of a call by name; null with an exception set.
define internal ptr @floats(ptr %entry, ptr %cache, ptr %given, i64 %floats) {
start:
  %inputs = call i64 @word(ptr %entry, i64 {ENTRY_INPUTS})
  %attributes = call i64 @word(ptr %cache, i64 {ATTRIBUTES})
  %behind.inputs = add i64 %inputs, 1
  %first.float = add i64 %behind.inputs, %attributes
  %shapes.and.codes = shl i64 %inputs, 1
  %names.begin = add i64 %shapes.and.codes, %attributes
  %first.name = add i64 %names.begin, {ENTRY_GIVEN}
  %by.name = call ptr @PyDict_New()
  %no.dict = icmp eq ptr %by.name, null
  br i1 %no.dict, label %failed, label %each
each:
  %i = phi i64 [ 0, %start ], [ %next, %entered ]
  %next = add i64 %i, 1
  %float.number = add i64 %first.float, %i
  %name.number = add i64 %first.name, %i
  %float = call ptr @object(ptr %given, i64 %float.number)
  %name = call ptr @object(ptr %entry, i64 %name.number)
  %status = call i32 @PyDict_SetItem(ptr %by.name, ptr %name, ptr %float)
  %refused = icmp slt i32 %status, 0
  br i1 %refused, label %undo, label %entered
entered:
  %more = icmp slt i64 %next, %floats
  br i1 %more, label %each, label %done
undo:
  call void @Py_DecRef(ptr %by.name)
  br label %failed
failed:
  ret ptr null
done:
  ret ptr %by.name
}

; What a recorded call says beyond its pattern: its floats by name, and the cells that it keeps; null with an exception
; set. `cells`: of its results, where it keeps some.
define internal ptr @extra(ptr %entry, ptr %cache, ptr %objects, ptr %given, ptr %cells) {
start:
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %floats = call i64 @word(ptr %cache, i64 {FLOATS})
  %saving.word = call i64 @word(ptr %entry, i64 {ENTRY_IS_SAVING})
  %without.floats = icmp eq i64 %floats, 0
  %without.cells = icmp eq i64 %saving.word, 0
  %plain = and i1 %without.floats, %without.cells
  br i1 %plain, label %nothing, label %some
nothing:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
some:
  br i1 %without.floats, label %no.floats, label %name
no.floats:
  call void @Py_IncRef(ptr %none)
  br label %named
name:
  %by.name = call ptr @floats(ptr %entry, ptr %cache, ptr %given, i64 %floats)
  %no.dict = icmp eq ptr %by.name, null
  br i1 %no.dict, label %failed, label %named
named:
  %first = phi ptr [ %none, %no.floats ], [ %by.name, %name ]
  br i1 %without.cells, label %no.cells, label %keep
no.cells:
  call void @Py_IncRef(ptr %none)
  br label %kept
keep:
  %list = call ptr @saved(ptr %entry, ptr %objects, ptr %cells)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %without.list, label %kept
without.list:
  call void @Py_DecRef(ptr %first)
  br label %failed
kept:
  %second = phi ptr [ %none, %no.cells ], [ %list, %keep ]
  %tuple = call ptr @PyTuple_New(i64 3)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %undo, label %fill
fill:
  call void @Py_IncRef(ptr %none)
  %of.first = call i32 @PyTuple_SetItem(ptr %tuple, i64 0, ptr %first)
  %of.second = call i32 @PyTuple_SetItem(ptr %tuple, i64 1, ptr %second)
  %of.third = call i32 @PyTuple_SetItem(ptr %tuple, i64 2, ptr %none)
  ret ptr %tuple
undo:
  call void @Py_DecRef(ptr %first)
  call void @Py_DecRef(ptr %second)
  br label %failed
failed:
  ret ptr null
}

; Some objects in a tuple; null with an exception set. References to them are taken over.
define internal ptr @together(ptr %items, i64 %count) {
start:
  %tuple = call ptr @PyTuple_New(i64 %count)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %failed, label %fill
failed:
  call void @drop(ptr %items, i64 %count)
  ret ptr null
fill:
  %i = phi i64 [ 0, %start ], [ %next, %fill ]
  %next = add i64 %i, 1
  %item = call ptr @object(ptr %items, i64 %i)
  %ignored = call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %item)
  %more = icmp slt i64 %next, %count
  br i1 %more, label %fill, label %done
done:
  ret ptr %tuple
}

; The values of the inputs in a tuple, null with an exception set; references to them are taken over.
define internal ptr @input_values(ptr %entry, ptr %given) alwaysinline {
  %inputs = call i64 @word(ptr %entry, i64 {ENTRY_INPUTS})
  %first = getelementptr ptr, ptr %given, i64 1  ; the table is before them
  %values = call ptr @together(ptr %first, i64 %inputs)
  ret ptr %values
}

; A Variable on a new value; null with an exception set. References to what the value is to hold are taken over.
define internal ptr @variable(
  ptr %objects, ptr %shape, ptr %pattern, ptr %values, ptr %extra, ptr %details, ptr %cell
) {
start:
  call void @Py_IncRef(ptr %shape)
  %recorded.type = call ptr @object(ptr %objects, i64 {OBJECT_RECORDED})
  %value = call ptr @PyType_GenericAlloc(ptr %recorded.type, i64 0)
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %without.value, label %valued
without.value:
  call void @Py_DecRef(ptr %shape)
  call void @Py_DecRef(ptr %pattern)
  call void @Py_DecRef(ptr %values)
  call void @Py_DecRef(ptr %extra)
  call void @Py_DecRef(ptr %details)
  call void @Py_DecRef(ptr %cell)
  ret ptr null
valued:
  call void @put(ptr %value, ptr %objects, i64 {OBJECT_VALUE_SHAPE}, ptr %shape)
  call void @put(ptr %value, ptr %objects, i64 {OBJECT_VALUE_PATTERN}, ptr %pattern)
  call void @put(ptr %value, ptr %objects, i64 {OBJECT_VALUE_INPUTS}, ptr %values)
  call void @put(ptr %value, ptr %objects, i64 {OBJECT_VALUE_EXTRA}, ptr %extra)
  call void @put(ptr %value, ptr %objects, i64 {OBJECT_VALUE_DETAILS}, ptr %details)
  call void @put(ptr %value, ptr %objects, i64 {OBJECT_VALUE_CELL}, ptr %cell)
  %variable.type = call ptr @object(ptr %objects, i64 {OBJECT_VARIABLE})
  %variable = call ptr @PyType_GenericAlloc(ptr %variable.type, i64 0)
  %no.variable = icmp eq ptr %variable, null
  br i1 %no.variable, label %without.variable, label %referring
without.variable:
  call void @Py_DecRef(ptr %value)
  ret ptr null
referring:
  call void @put(ptr %variable, ptr %objects, i64 {OBJECT_VARIABLE_VALUE}, ptr %value)
  %handle = call ptr @PyWeakref_NewRef(ptr %variable, ptr null)
  %no.handle = icmp eq ptr %handle, null
  br i1 %no.handle, label %without.handle, label %done
without.handle:
  call void @Py_DecRef(ptr %variable)
  ret ptr null
done:
  call void @put(ptr %value, ptr %objects, i64 {OBJECT_VALUE_HANDLE}, ptr %handle)
  ret ptr %variable
}

; The Variable of a call that was computed into a cell; null with an exception set. References to the values of the
; inputs and to the cell are taken over. `cells`: of all its results, where it keeps some.
define internal ptr @recorded(ptr %entry, ptr %cache, ptr %objects, ptr %given, ptr %cell, ptr %cells) {
start:
  %values = call ptr @input_values(ptr %entry, ptr %given)
  %no.values = icmp eq ptr %values, null
  br i1 %no.values, label %failed, label %valued
valued:
  %extra = call ptr @extra(ptr %entry, ptr %cache, ptr %objects, ptr %given, ptr %cells)
  %no.extra = icmp eq ptr %extra, null
  br i1 %no.extra, label %without.extra, label %make
without.extra:
  call void @Py_DecRef(ptr %values)
  br label %failed
failed:
  call void @Py_DecRef(ptr %cell)
  ret ptr null
make:
  %result = call ptr @result(ptr %entry, i64 0)
  %shape = call ptr @object(ptr %result, i64 {RESULT_SHAPE})
  %pattern = call ptr @object(ptr %entry, i64 {ENTRY_PATTERN})
  %details = call ptr @object(ptr %objects, i64 {OBJECT_DETAILS})
  call void @Py_IncRef(ptr %pattern)
  call void @Py_IncRef(ptr %details)
  %variable = call ptr @variable(
    ptr %objects, ptr %shape, ptr %pattern, ptr %values, ptr %extra, ptr %details, ptr %cell
  )
  ret ptr %variable
}

; A new object whose slots hold what those of another one do; null with an exception set. `size`: which word has the
; bytes of such objects.
define internal ptr @copied(ptr %object, ptr %objects, i64 %size) {
start:
  %type.at = getelementptr i8, ptr %object, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %bytes = call i64 @word(ptr %objects, i64 %size)
  %end = lshr i64 %bytes, 3
  %made = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %none = icmp eq ptr %made, null
  br i1 %none, label %done, label %each
each:
  %i = phi i64 [ 2, %start ], [ %next, %stored ]
  %next = add i64 %i, 1
  %held = call ptr @object(ptr %object, i64 %i)
  %is.empty = icmp eq ptr %held, null
  br i1 %is.empty, label %stored, label %some
some:
  call void @Py_IncRef(ptr %held)
  %at = getelementptr ptr, ptr %made, i64 %i
  store ptr %held, ptr %at
  br label %stored
stored:
  %more = icmp slt i64 %next, %end
  br i1 %more, label %each, label %done
done:
  ret ptr %made
}

; The call that several Variables are the results of, without results; null with an exception set. References to the
; values of the inputs are taken over.
define internal ptr @recorded_call(ptr %entry, ptr %objects, ptr %given, i64 %outputs) {
start:
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %values = call ptr @input_values(ptr %entry, ptr %given)
  %no.values = icmp eq ptr %values, null
  br i1 %no.values, label %failed, label %valued
valued:
  %template = call ptr @object(ptr %entry, i64 {ENTRY_CALL})
  %call = call ptr @copied(ptr %template, ptr %objects, i64 {OBJECT_CALL_BYTES})
  %no.call = icmp eq ptr %call, null
  br i1 %no.call, label %without.call, label %called
without.call:
  call void @Py_DecRef(ptr %values)
  br label %failed
called:
  call void @replace(ptr %call, ptr %objects, i64 {OBJECT_CALL_INPUTS}, ptr %values)
  %references = call ptr @PyList_New(i64 %outputs)
  %no.references = icmp eq ptr %references, null
  br i1 %no.references, label %undo, label %referring
referring:
  call void @replace(ptr %call, ptr %objects, i64 {OBJECT_CALL_OUTPUTS}, ptr %references)
  %saved = call ptr @PyList_New(i64 %outputs)
  %no.saved = icmp eq ptr %saved, null
  br i1 %no.saved, label %undo, label %fill
fill:
  %i = phi i64 [ 0, %referring ], [ %next, %fill ]
  %next = add i64 %i, 1
  call void @Py_IncRef(ptr %none)
  %ignored = call i32 @PyList_SetItem(ptr %saved, i64 %i, ptr %none)
  %more = icmp slt i64 %next, %outputs
  br i1 %more, label %fill, label %filled
filled:
  call void @replace(ptr %call, ptr %objects, i64 {OBJECT_CALL_AUXILIARY}, ptr %saved)
  ret ptr %call
undo:
  call void @Py_DecRef(ptr %call)
  br label %failed
failed:
  ret ptr null
}

; The Variables of a call that was computed into cells, in a tuple; null with an exception set. References to the values
; of the inputs and to the cells are taken over.
define internal ptr @recorded_results(ptr %entry, ptr %objects, ptr %given, ptr %cells, i64 %outputs) {
start:
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %call = call ptr @recorded_call(ptr %entry, ptr %objects, ptr %given, i64 %outputs)
  %no.call = icmp eq ptr %call, null
  br i1 %no.call, label %without.call, label %called
without.call:
  call void @drop(ptr %cells, i64 %outputs)
  ret ptr null
called:
  %references = call ptr @slot(ptr %call, ptr %objects, i64 {OBJECT_CALL_OUTPUTS})
  %results = call ptr @PyTuple_New(i64 %outputs)
  %no.results = icmp eq ptr %results, null
  br i1 %no.results, label %without.results, label %each
without.results:
  call void @drop(ptr %cells, i64 %outputs)
  br label %undo
each:
  %i = phi i64 [ 0, %called ], [ %next, %referred ]
  %next = add i64 %i, 1
  %result = call ptr @result(ptr %entry, i64 %i)
  %template = call ptr @object(ptr %result, i64 {RESULT_DETAILS})
  %details = call ptr @copied(ptr %template, ptr %objects, i64 {OBJECT_DETAILS_BYTES})
  %no.details = icmp eq ptr %details, null
  br i1 %no.details, label %failed, label %detailed
detailed:
  call void @Py_IncRef(ptr %call)
  call void @replace(ptr %details, ptr %objects, i64 {OBJECT_DETAILS_PARENT}, ptr %call)
  call void @Py_IncRef(ptr %none)
  call void @Py_IncRef(ptr %none)
  call void @Py_IncRef(ptr %none)
  %shape = call ptr @object(ptr %result, i64 {RESULT_SHAPE})
  %cell = call ptr @object(ptr %cells, i64 %i)
  %variable = call ptr @variable(
    ptr %objects, ptr %shape, ptr %none, ptr %none, ptr %none, ptr %details, ptr %cell
  )
  %no.variable = icmp eq ptr %variable, null
  br i1 %no.variable, label %failed, label %made
made:
  %ignored = call i32 @PyTuple_SetItem(ptr %results, i64 %i, ptr %variable)
  %value = call ptr @slot(ptr %variable, ptr %objects, i64 {OBJECT_VARIABLE_VALUE})
  %reference = call ptr @PyWeakref_NewRef(ptr %value, ptr null)
  %no.reference = icmp eq ptr %reference, null
  br i1 %no.reference, label %failed, label %referred
referred:
  %also.ignored = call i32 @PyList_SetItem(ptr %references, i64 %i, ptr %reference)
  %more = icmp slt i64 %next, %outputs
  br i1 %more, label %each, label %done
failed:                                ; the value of this result had its cell, or has it
  %begun = phi i64 [ %i, %each ], [ %next, %detailed ], [ %next, %made ]
  %left = sub i64 %outputs, %begun
  %first.left = getelementptr ptr, ptr %cells, i64 %begun
  call void @drop(ptr %first.left, i64 %left)
  call void @Py_DecRef(ptr %results)
  br label %undo
undo:
  call void @Py_DecRef(ptr %call)
  ret ptr null
done:
  call void @Py_DecRef(ptr %call)
  ret ptr %results
}

; An array over the cell of another one, of the shape of a result; null with an exception set.
define internal ptr @view(ptr %cell, ptr %objects, ptr %result) {
start:
  %shape = call ptr @object(ptr %result, i64 {RESULT_SHAPE})
  call void @Py_IncRef(ptr %cell)
  call void @Py_IncRef(ptr %shape)
  %type = call ptr @object(ptr %objects, i64 {OBJECT_ARRAY})
  %array = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %no.array = icmp eq ptr %array, null
  br i1 %no.array, label %failed, label %made
failed:
  call void @Py_DecRef(ptr %cell)
  call void @Py_DecRef(ptr %shape)
  ret ptr null
made:
  call void @put(ptr %array, ptr %objects, i64 {OBJECT_ARRAY_CELL}, ptr %cell)
  call void @put(ptr %array, ptr %objects, i64 {OBJECT_ARRAY_SHAPE}, ptr %shape)
  ret ptr %array
}

; Have arrays of rings the shapes of the results.
define internal void @shape(ptr %entry, ptr %objects, ptr %items, i64 %outputs) {
start:
  br label %each
each:
  %i = phi i64 [ 0, %start ], [ %next, %shaped ]
  %next = add i64 %i, 1
  %item = call ptr @object(ptr %items, i64 %i)
  %result = call ptr @result(ptr %entry, i64 %i)
  %shape = call ptr @object(ptr %result, i64 {RESULT_SHAPE})
  %former = call ptr @slot(ptr %item, ptr %objects, i64 {OBJECT_ARRAY_SHAPE})
  %unchanged = icmp eq ptr %former, %shape
  br i1 %unchanged, label %shaped, label %change
change:
  call void @Py_IncRef(ptr %shape)
  call void @replace(ptr %item, ptr %objects, i64 {OBJECT_ARRAY_SHAPE}, ptr %shape)
  br label %shaped
shaped:
  %more = icmp slt i64 %next, %outputs
  br i1 %more, label %each, label %done
done:
  ret void
}

; Refer to some objects once more.
{HOLD}

; PyCFunctionFast: the table of calls, the inputs, the attributes and the floats of a call; `self` is the address of the
; cache. An array, a Variable or a tuple of such, or None if the call is to be made another way, to which a kernel that
; failed belongs; what a function in Python raises is an exception of this one.
define internal ptr @python_inline_call(ptr %self, ptr %arguments, i64 %count) {
start:
  %address = call i64 @PyLong_AsLongLong(ptr %self)
  %cache = inttoptr i64 %address to ptr
  %objects = call ptr @object(ptr %cache, i64 {OBJECTS})
  %none = call ptr @object(ptr %objects, i64 {OBJECT_NONE})
  %wanted = call i64 @word(ptr %cache, i64 {INPUTS})
  %attributes = call i64 @word(ptr %cache, i64 {ATTRIBUTES})
  %floats = call i64 @word(ptr %cache, i64 {FLOATS})
  %others = add i64 %attributes, %floats
  %with.table = add i64 %others, 1
  %inputs = sub i64 %count, %with.table
  %is.variadic = icmp slt i64 %wanted, 0
  %are.some = icmp sgt i64 %inputs, 0
  %are.wanted = icmp eq i64 %inputs, %wanted
  %is.complete = select i1 %is.variadic, i1 %are.some, i1 %are.wanted
  br i1 %is.complete, label %begin, label %miscounted
miscounted:
  %ignored = call i32 @PyErr_BadArgument()
  ret ptr null
begin:
  %table = call ptr @object(ptr %arguments, i64 0)
  %records = call i1 @records(ptr %cache)
  %are.few = icmp sle i64 %inputs, {MANY}
  br i1 %are.few, label %typed, label %unknown
typed:
  br i1 %records, label %of.variables, label %of.arrays
of.arrays:                             ; the text has looked at the types of inputs that have names
  br i1 %is.variadic, label %look.at.types, label %is.given
look.at.types:
  %are.arrays = call i1 @are_arrays(ptr %arguments, i64 %inputs, ptr %objects)
  br i1 %are.arrays, label %is.given, label %unknown
of.variables:
  %values = alloca ptr, i64 %count
  %are.read = call i1 @read_values(ptr %arguments, i64 %count, i64 %inputs, ptr %objects, ptr %values)
  br i1 %are.read, label %first.value, label %unknown
first.value:
  %value = call ptr @object(ptr %values, i64 1)
  %is.absent = icmp eq ptr %value, %none
  br i1 %is.absent, label %unknown, label %is.given
is.given:
  %given = phi ptr [ %arguments, %of.arrays ], [ %arguments, %look.at.types ], [ %values, %first.value ]
  %first.input = getelementptr ptr, ptr %given, i64 1
  %first = load ptr, ptr %first.input
  %first.cell = call ptr @slot(ptr %first, ptr %cache, i64 {CELL})
  %no.cell = icmp eq ptr %first.cell, null
  %not.computed = icmp eq ptr %first.cell, %none
  %empty = or i1 %no.cell, %not.computed
  br i1 %empty, label %unknown, label %sized
sized:
  %size.object = call ptr @slot(ptr %first.cell, ptr %objects, i64 {OBJECT_CELL_SIZE})
  %size = call i64 @PyLong_AsLongLong(ptr %size.object)
  %last = call i64 @word(ptr %cache, i64 {LAST})
  br label %search
search:
  %i = phi i64 [ 0, %sized ], [ %next, %other ], [ %next, %mismatch ]
  %next = add i64 %i, 1
  %entries = call i64 @word(ptr %cache, i64 {COUNT})
  %more = icmp slt i64 %i, %entries
  br i1 %more, label %look, label %unknown
look:                                  ; from the last one that was found: calls of a loop come in one order
  %from.last = add i64 %last, %i
  %beyond = icmp sge i64 %from.last, %entries
  %from.first = sub i64 %from.last, %entries
  %wrapped = select i1 %beyond, i64 %from.first, i64 %from.last
  %is.entry = icmp slt i64 %wrapped, %entries  ; there may be fewer than there were
  %here = select i1 %is.entry, i64 %wrapped, i64 %i
  %entry.number = add i64 %here, {ENTRIES}
  %entry = call ptr @object(ptr %cache, i64 %entry.number)
  %entry.table = call ptr @object(ptr %entry, i64 {ENTRY_TABLE})
  %entry.size = call i64 @word(ptr %entry, i64 {ENTRY_SIZE})
  %same.table = icmp eq ptr %table, %entry.table
  %same.size = icmp eq i64 %size, %entry.size
  %entry.inputs = call i64 @word(ptr %entry, i64 {ENTRY_INPUTS})
  %same.count = icmp eq i64 %inputs, %entry.inputs
  %of.table = and i1 %same.table, %same.size
  %likely = and i1 %of.table, %same.count
  br i1 %likely, label %of.size, label %other
of.size:
  %alike = call i1 @has_attributes(ptr %entry, ptr %cache, ptr %given)
  br i1 %alike, label %candidate, label %other
other:
  br label %search
candidate:
  %owner = call ptr @object(ptr %entry, i64 {ENTRY_OWNER})
  call void @Py_IncRef(ptr %owner)
  %match = call i32 @matches(ptr %entry, ptr %cache, ptr %objects, ptr %given)
  %matching = icmp eq i32 %match, 1
  br i1 %matching, label %make, label %unfit
unfit:
  call void @Py_DecRef(ptr %owner)
  %failed = icmp slt i32 %match, 0
  br i1 %failed, label %error, label %mismatch
mismatch:
  br label %search
error:
  ret ptr null
make:
  %last.at = getelementptr i64, ptr %cache, i64 {LAST}
  store i64 %here, ptr %last.at
  %real = call i1 @are_floats(ptr %cache, ptr %objects, ptr %given, i64 %inputs)
  br i1 %real, label %take, label %dropped
take:
  %held = select i1 %records, i64 %inputs, i64 0  ; arrays are held by who called
  call void @hold(ptr %first.input, i64 %held)
  %first.result = call ptr @result(ptr %entry, i64 0)
  %ring = call ptr @object(ptr %first.result, i64 {RESULT_RING})
  %is.view = icmp eq ptr %ring, null
  br i1 %is.view, label %share, label %seek
share:
  %shared.cell = call ptr @slot(ptr %first, ptr %cache, i64 {CELL})
  br i1 %records, label %record.view, label %make.view
record.view:
  call void @Py_IncRef(ptr %shared.cell)
  br label %record
make.view:
  %view = call ptr @view(ptr %shared.cell, ptr %objects, ptr %first.result)
  call void @Py_DecRef(ptr %owner)
  ret ptr %view
seek:
  %outputs = call i64 @word(ptr %entry, i64 {ENTRY_OUTPUTS})
  %is.tuple.word = call i64 @word(ptr %entry, i64 {ENTRY_IS_TUPLE})
  %is.tuple = icmp ne i64 %is.tuple.word, 0
  %items = alloca ptr, i64 %outputs
  %are.found = call i1 @spares(ptr %entry, ptr %cache, ptr %objects, ptr %items, i64 %outputs)
  br i1 %are.found, label %compute, label %spared
spared:
  %error.set = call ptr @PyErr_Occurred()
  %is.calm = icmp eq ptr %error.set, null
  br i1 %is.calm, label %let.go, label %stopped
stopped:
  call void @drop(ptr %first.input, i64 %held)
  call void @Py_DecRef(ptr %owner)
  ret ptr null
compute:
  %form = call ptr @object(ptr %entry, i64 {ENTRY_FORM})
  %in.python = icmp eq ptr %form, null
  br i1 %in.python, label %call, label %launch
call:
  %status = call i64 @run_in_python(ptr %entry, ptr %cache, ptr %objects, ptr %given, ptr %items)
  %called = icmp eq i64 %status, 0
  br i1 %called, label %computed, label %raised
raised:
  call void @drop(ptr %first.input, i64 %held)
  call void @drop(ptr %items, i64 %outputs)
  call void @Py_DecRef(ptr %owner)
  ret ptr null
launch:
  %code = call i64 @run(ptr %entry, ptr %cache, ptr %objects, ptr %given, ptr %items)
  %good = icmp eq i64 %code, 0
  br i1 %good, label %computed, label %undone
undone:
  call void @drop(ptr %items, i64 %outputs)
  br label %let.go
let.go:
  call void @drop(ptr %first.input, i64 %held)
  br label %dropped
dropped:
  call void @Py_DecRef(ptr %owner)
  br label %unknown
computed:
  %item = load ptr, ptr %items
  %auxiliary = getelementptr ptr, ptr %items, i64 1
  %auxiliary.count = sub i64 %outputs, 1
  br i1 %records, label %record.computed, label %shaped
record.computed:
  br i1 %is.tuple, label %record.tuple, label %record
record.tuple:
  %variables = call ptr @recorded_results(ptr %entry, ptr %objects, ptr %given, ptr %items, i64 %outputs)
  call void @Py_DecRef(ptr %owner)
  ret ptr %variables
record:
  %cell = phi ptr [ %shared.cell, %record.view ], [ %item, %record.computed ]
  %cells = phi ptr [ null, %record.view ], [ %items, %record.computed ]
  %rest = phi ptr [ null, %record.view ], [ %auxiliary, %record.computed ]
  %rest.count = phi i64 [ 0, %record.view ], [ %auxiliary.count, %record.computed ]
  %variable = call ptr @recorded(ptr %entry, ptr %cache, ptr %objects, ptr %given, ptr %cell, ptr %cells)
  call void @drop(ptr %rest, i64 %rest.count)
  call void @Py_DecRef(ptr %owner)
  ret ptr %variable
shaped:
  call void @shape(ptr %entry, ptr %objects, ptr %items, i64 %outputs)
  call void @Py_DecRef(ptr %owner)
  br i1 %is.tuple, label %tuple, label %single
tuple:
  %arrays = call ptr @together(ptr %items, i64 %outputs)
  ret ptr %arrays
single:
  call void @drop(ptr %auxiliary, i64 %auxiliary.count)
  ret ptr %item
unknown:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

define i64 @atled_inline_calls() {
  ret i64 ptrtoint (ptr @python_inline_call to i64)
}
"""


def inline_calls_ir() -> str:
    """The module; its entry `i64 atled_inline_calls()` returns the address of the built-in's function."""
    constants = {"TYPE": _TYPE, "MANY": _MANY, "TRIES": _TRIES, "EQUAL": _EQUAL}
    kinds = {"FORM": FormWord, "ENTRY": InlineEntryWord, "RESULT": InlineResultWord, "OBJECT": InlineObjectWord}
    for prefix, words in kinds.items():
        constants.update({f"{prefix}_{word.name}": int(word) for word in words})
    constants.update({word.name: int(word) for word in InlineWord})
    texts = {name: _filled(_FOR_EACH, {"NAME": name.lower(), "COUNT": count}) for name, count in _COUNTS.items()}
    return _filled(_INLINE_CALLS, {**constants, **texts})


def _filled(text: str, names: Mapping[str, object]) -> str:
    """A text with what each name in braces stands for."""
    return re.sub(r"\{([A-Z_]+)\}", lambda match: str(names[match[1]]), text)
