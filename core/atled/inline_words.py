"""The words of inline caches, from which an executor makes a function's last calls again, all but a device's launch
natively.
"""

from __future__ import annotations

from enum import IntEnum


class InlineWord(IntEnum):
    """The words of the inline cache of one function; from ENTRIES on the addresses of its entries."""

    OBJECTS = 0  # address of the words of `InlineObjectWord`
    INPUTS = 1  # how many the function has; -1: any number but 0
    ATTRIBUTES = 2  # of those that are in the key of a call
    FLOATS = 3  # of the other ones
    COUNT = 4  # of entries
    RECORDS = 5  # 0: inputs and results are NdArrays; 1: Variables, and calls are recorded
    CELL = 6  # where the slot with the cell is, in bytes, in an NdArray or in the value of a Variable
    SHAPE = 7  # the same of the shape
    LAST = 8  # the number of the entry that was found last
    ENTRIES = 9


class InlineEntryWord(IntEnum):
    """The words of an entry: a call that was made before. Objects are told by their addresses.

    From GIVEN on, shape and code of each input, 0 and 0 for one that was absent, then the attributes, then, where calls
    are recorded, the names of the floats; at the end the results (`InlineResultWord`).
    """

    OWNER = 0  # the object that keeps all of this alive
    TABLE = 1  # the table of calls that it is from
    SIZE = 2  # elements of the first input
    INPUTS = 3  # how many the call has
    FORM = 4  # address of the form (`FormWord`), of a kernel that runs with the interpreter lock held; 0: there is none
    RUN = 5  # else this is called: run(*inputs, *results, *floats), what the `address` of a storage gives for a shape
    FAIL = 6  # fail(exception) is called with what came of that, and raises
    ADDRESS = 7  # where the slot `address` of the storages is, in bytes
    EXPORTED = 8  # the same of their slot `exported`
    ROOT = 9  # the same of their slot `_root`; -1: they have none
    VIEW_END = 10  # and of `_view_end`
    PATTERN = 11  # what a call is recorded from that gives one result
    CALL = 12  # a recorded call of a tuple of results, to be copied; no weak reference is to it
    OUTPUTS = 13  # how many results there are
    IS_TUPLE = 14  # 1: the call gives them in a tuple; 0: it gives the first one, those behind it are auxiliary
    IS_SAVING = 15  # 1: a recorded call that gives one result keeps some of all; 0: it keeps none
    RESULTS = 16  # which word is the first one of the first result
    GIVEN = 17


class InlineResultWord(IntEnum):
    """The words of a result of an entry."""

    RING = 0  # the iterator of the spare arrays, or of the spare cells where calls are recorded; 0: it is a view
    SHAPE = 1
    CODE = 2  # of its cell
    DETAILS = 3  # where a tuple is recorded, the details of its value, to be copied; else 0
    NEW = 4  # new(array or cell of the ring that is in use) makes another, which the ring has from then on
    IS_SAVED = 5  # 1: a recorded call keeps it for its gradient
    END = 6


class InlineObjectWord(IntEnum):
    """What is the same for all inline caches: where the slots of objects are, in bytes, and addresses of objects.

    An array is `free` for a result if nothing but its ring refers to it, nothing but the array to its cell, and nothing
    but the cell to its storage; if the cell has the result's code, COPIES is None, and EXPORTED of the storage False.
    It is taken with these slots as in a new array: PENDING None, ZEROED and IS_DATA False, USE the object UNUSED. The
    same holds of a cell in a ring of cells. EXPORTED becomes False where the views are gone: where VIEW_END is not
    None, and its VIEW_END_GONE is ROOT. Where some in a row are not free, the NEW of the result makes one.

    A view is an object of the type ARRAY, or a value, that has the cell of the first input.

    A recorded call makes an object of the type RECORDED, whose slots `VALUE_...` get the result's shape and cell, the
    PATTERN of the entry, the tuple of the inputs' values, what is extra, DETAILS, and a weak reference to a new
    VARIABLE, which refers to it. Extra is None, or ({names: floats} or None, saved or None, None), where saved is a
    list with the cell of each result that IS_SAVED, and None for others.

    Where a tuple is recorded, pattern, inputs and extra of its values are None. They have copies of the details of
    their results, whose DETAILS_PARENT is a copy of the CALL of the entry. That has the tuple of the inputs' values, a
    list of weak references to the values of the results, and a list with a None for each of these.
    """

    ARRAY_CELL = 0
    ARRAY_SHAPE = 1
    CELL_SIZE = 2
    CELL_CODE = 3
    CELL_STORAGE = 4
    CELL_PENDING = 5
    CELL_COPIES = 6
    CELL_ZEROED = 7
    CELL_IS_DATA = 8
    CELL_USE = 9
    NONE = 10
    FALSE = 11
    UNUSED = 12
    NOBODYS = 13  # stands in a ring for an array, and is none
    FLOAT = 14  # the type
    VARIABLE_VALUE = 15
    VALUE_SHAPE = 16
    VALUE_CELL = 17
    VALUE_PATTERN = 18
    VALUE_INPUTS = 19
    VALUE_EXTRA = 20
    VALUE_DETAILS = 21
    VALUE_HANDLE = 22
    VARIABLE = 23  # the type
    RECORDED = 24  # the type
    DETAILS = 25
    VIEW_END_GONE = 26
    ARRAY = 27  # the type
    CALL_INPUTS = 28
    CALL_OUTPUTS = 29
    CALL_AUXILIARY = 30
    CALL_BYTES = 31  # the size of such an object: the head, then slots
    DETAILS_PARENT = 32
    DETAILS_BYTES = 33  # likewise
