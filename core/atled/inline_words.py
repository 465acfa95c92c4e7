"""The words of inline caches, from which an executor makes a function's last calls again, all but a device's launch
natively.
"""

from __future__ import annotations

from enum import IntEnum


class InlineWord(IntEnum):
    """The words of the inline cache of one function; from ENTRIES on the addresses of its entries."""

    OBJECTS = 0  # address of the words of `InlineObjectWord`
    INPUTS = 1  # how many the function has
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
    are recorded, the names of the floats.
    """

    OWNER = 0  # the object that keeps all of this alive
    TABLE = 1  # the table of calls that it is from
    SIZE = 2  # elements of the first input
    FORM = 3  # address of the form (`FormWord`), of a kernel that runs with the interpreter lock held; 0: there is none
    RUN = 4  # else this is called: run(*inputs, result, *floats), what the `address` of a storage gives for a shape
    FAIL = 5  # fail(exception) is called with what came of that, and raises
    RING = 6  # the iterator of the spare arrays for the result, or of the spare cells where calls are recorded
    SHAPE = 7  # of the result
    CODE = 8  # of the result's cell
    ADDRESS = 9  # where the slot `address` of the storages is, in bytes
    EXPORTED = 10  # the same of their slot `exported`
    ROOT = 11  # the same of their slot `_root`; -1: they have none
    VIEW_END = 12  # and of `_view_end`
    PATTERN = 13  # what a call is recorded from
    GIVEN = 14


class InlineObjectWord(IntEnum):
    """What is the same for all inline caches: where the slots of objects are, in bytes, and addresses of objects.

    An array is `free` for a result if nothing but its ring refers to it, nothing but the array to its cell, and nothing
    but the cell to its storage; if the cell has the result's code and these slots hold what they do in a new array:
    PENDING and COPIES None, ZEROED, IS_DATA and EXPORTED of the storage False, USE the object UNUSED. The same holds of
    a cell in a ring of cells. EXPORTED becomes False where the views are gone: where VIEW_END is not None, and its
    VIEW_END_GONE is ROOT.

    A recorded call makes an object of the type RECORDED, whose slots `VALUE_...` get the result's shape and cell, the
    PATTERN of the entry, the tuple of the inputs' values, what is extra, DETAILS, and a weak reference to a new
    VARIABLE, which refers to it. Extra is None, or ({names: floats}, None, None).
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
