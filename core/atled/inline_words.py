"""The words of inline caches, from which an executor makes a function's last calls again, all of it natively."""

from __future__ import annotations

from enum import IntEnum


class InlineWord(IntEnum):
    """The words of the inline cache of one function; from ENTRIES on the addresses of its entries."""

    OBJECTS = 0  # address of the words of `InlineObjectWord`
    INPUTS = 1  # how many the function has
    ATTRIBUTES = 2  # of those that are in the key of a call
    FLOATS = 3  # of the other ones
    COUNT = 4  # of entries
    ENTRIES = 5


class InlineEntryWord(IntEnum):
    """The words of an entry: a call that was made before. Objects are told by their addresses.

    From GIVEN on, shape and code of each input, 0 and 0 for one that was absent, then the attributes.
    """

    OWNER = 0  # the object that keeps all of this alive
    TABLE = 1  # the table of calls that it is from
    SIZE = 2  # elements of the first input
    FORM = 3  # address of the form (`FormWord`), of a kernel that runs with the interpreter lock held
    RING = 4  # the list of the spare arrays for the result
    POSITION = 5  # address of the place in that list where one was last found, int64
    SHAPE = 6  # of the result
    CODE = 7  # of the result's cell
    GIVEN = 8


class InlineObjectWord(IntEnum):
    """What is the same for all inline caches: where the slots of objects are, in bytes, and addresses of objects.

    An array is `free` for a result if nothing but its ring refers to it, nothing but the array to its cell, and nothing
    but the cell to its storage; if the cell has the result's code and these slots hold what they do in a new array:
    PENDING and COPIES None, ZEROED, IS_DATA and EXPORTED False, USE the object UNUSED.
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
    STORAGE_ADDRESS = 10
    STORAGE_EXPORTED = 11
    NONE = 12
    FALSE = 13
    UNUSED = 14
    NOBODYS = 15  # stands in a ring for an array, and is none
    FLOAT = 16  # the type
