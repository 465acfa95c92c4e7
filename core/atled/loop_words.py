"""What an executor runs as a loop: the words of its block, and of the tables in there."""

from __future__ import annotations

from enum import IntEnum


class LoopWord(IntEnum):
    """The first words of the block of a loop, a step that runs rows of its own by the kernel `executor.loop_kernel()`.

    Words behind them, and those of the tables there, are told by their number in the block; addresses are bytes.
    """

    OWN = 0  # the executor's own word, which `loop_kernel` gives
    SELF = 1  # address of the block, for fixups; set by the kernel, as are STEP to TO
    COUNT = 2  # of steps; the most there may be where COUNT_AT gives it
    COUNT_AT = 3  # address of the count, int64, or 0
    STEPS_AT = 4  # address where the count of steps that were done is wanted, int64, or 0
    END_AT = 5  # address of a number that is not 0 behind the last step, or 0
    CHOICE_AT = 6  # address of a number by which rows are chosen: those before SPLIT, if it is 0 the others; or 0
    SPLIT = 7
    TRUTH_BYTES = 8  # of either number: 1, 2, 4 or 8
    TRUTH_BITS = 9  # and those of its bits that count: not the sign of a float
    FIXUPS = 10  # word at which the table begins: what is put into words before the first step
    FIXUP_COUNT = 11
    MOVES = 12  # arrays that are elsewhere at each step
    MOVE_COUNT = 13
    PATCHES = 14  # words that are told so
    PATCH_COUNT = 15
    ROWS = 16
    ROW_COUNT = 17
    STEP = 18
    ROW = 19
    WITHIN = 20
    LIMIT = 21
    FROM = 22
    TO = 23


class FixupWord(IntEnum):
    """The words of a fixup of a loop: word TARGET becomes word SOURCE + BYTES."""

    TARGET = 0
    SOURCE = 1
    BYTES = 2


class MoveWord(IntEnum):
    """The words of an array of a loop that is elsewhere at each step.

    Where OTHER is not 0 it alternates between the two, and is at BASE in the last step of the count. Where FOLLOWS is
    not 0 it is at BASE in the first step, later where the array was in the step before whose ADDRESS that word is; such
    ones stand before those. Otherwise it goes on by STRIDE; if BACKWARDS is not 0, from the row of the last step to
    that at BASE. After the last step FINAL, if not 0, has what it held last, or what is at FIRST if there was no step;
    and of rows that FILLS counts those without a step become 0.
    """

    BASE = 0
    OTHER = 1
    STRIDE = 2  # bytes
    FOLLOWS = 3  # a word
    BACKWARDS = 4
    DRAWS = 5  # 1 for a random state, which stays where it is: its count is raised by 1 before each step
    FINAL = 6
    FIRST = 7
    BYTES = 8  # size of what FINAL gets
    FILLS = 9
    ADDRESS = 10  # set by the kernel, as the others are
    PACE = 11
    MASK = 12


class PatchWord(IntEnum):
    """The words of a patch of a loop: at each step word TARGET becomes word SOURCE + BYTES."""

    TARGET = 0
    SOURCE = 1
    BYTES = 2


class LoopRowWord(IntEnum):
    """The words of a row of a loop; a code of its kernel is reported as FIRST_CODE + min(code, CODE_COUNT)."""

    KERNEL = 0
    BLOCK = 1  # address of its argument block
    PARTS = 2
    FIRST_CODE = 3
    CODE_COUNT = 4


class TogetherWord(IntEnum):
    """The words of the block of a kernel that runs one kernel on several blocks: the first of `abreast_kernels()`.

    Of BLOCKS * PARTS shares, PARTS are of each block.
    """

    KERNEL = 0
    PARTS = 1
    BLOCKS = 2  # how many; then comes the address of each
    FIRST = 3


class ApartWord(IntEnum):
    """The first words of the block of a kernel that runs steps of several rows: the second of `abreast_kernels()`.

    Each of its shares has a set of blocks, and takes one step after the other of those that no share has taken. Behind
    these words are the rows (`ApartRowWord`), the patches (`ApartPatchWord`), and the address of each set.
    """

    STEPS = 0
    TAKEN = 1  # so many steps are; 0 before each run
    ROWS = 2
    PATCHES = 3
    FIRST = 4


class ApartRowWord(IntEnum):
    """The words of such a row; a code of its kernel is returned as FIRST_CODE + min(code, CODE_COUNT)."""

    KERNEL = 0
    BLOCK = 1  # bytes from the begin of a set
    FIRST_CODE = 2
    CODE_COUNT = 3


class ApartPatchWord(IntEnum):
    """The words of such a patch: word WORD of a set goes on by STRIDE bytes from step to step."""

    WORD = 0
    STRIDE = 1


LOOP_ERRORS = {1: "its count of steps is negative", 2: "its count of steps is greater than the rows of its arrays"}
"""The codes of a loop's own errors; those of its rows are greater."""
