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
    ENTRIES = 5


class InlineEntryWord(IntEnum):
    """The words of an entry: a call that was made before. Objects are told by their addresses.

    From GIVEN on, shape and code of each input, 0 and 0 for one that was absent, then the attributes.
    """

    OWNER = 0  # the object that keeps all of this alive
    TABLE = 1  # the table of calls that it is from
    SIZE = 2  # elements of the first input
    FORM = 3  # address of the form (`FormWord`), of a kernel that runs with the interpreter lock held; 0: there is none
    RUN = 4  # else this is called: run(*inputs, result, *floats), what the `address` of a storage gives for a shape
    FAIL = 5  # fail(exception) is called with what came of that, and raises
    RING = 6  # the list of the spare arrays for the result
    POSITION = 7  # address of the place in that list where one was last found, int64
    SHAPE = 8  # of the result
    CODE = 9  # of the result's cell
    ADDRESS = 10  # where the slot `address` of the storages is, in bytes
    EXPORTED = 11  # the same of their slot `exported`
    GIVEN = 12


class InlineObjectWord(IntEnum):
    """What is the same for all inline caches: where the slots of objects are, in bytes, and addresses of objects.

    An array is `free` for a result if nothing but its ring refers to it, nothing but the array to its cell, and nothing
    but the cell to its storage; if the cell has the result's code and these slots hold what they do in a new array:
    PENDING and COPIES None, ZEROED, IS_DATA and that of the storage False, USE the object UNUSED.
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
