"""Steps of a loop that do not wait for each other: rows of several of them together, or each step apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from atled.plugin import ApartPatchWord, ApartRowWord, ApartWord, TogetherWord
from atled_cpu_numba.store import Kernel

_TOGETHER = tuple(map(int, TogetherWord))
_APART = tuple(map(int, ApartWord)), tuple(map(int, ApartRowWord)), tuple(map(int, ApartPatchWord))


def _build_together(kernel_word: int, part_count: int, block_count: int, first: int) -> Callable[..., int]:
    from atled_cpu_numba.codegen import call3, words
    from atled_cpu_numba.kernels.shared.options import kernel

    @kernel
    def steps_together(block, part, parts):
        w = words(block)
        shares = w[part_count]
        pieces = w[block_count] * shares
        for piece in range(pieces * part // parts, pieces * (part + 1) // parts):
            number = piece // shares
            code = call3(w[kernel_word], w[first + number], piece - number * shares, shares)
            if code != 0:
                return code
        return 0

    return steps_together


def _build_apart(head: tuple[int, ...], row: tuple[int, ...], patch: tuple[int, ...]) -> Callable[..., int]:
    from atled_cpu_numba.codegen import add_atomically, call3, words
    from atled_cpu_numba.kernels.shared.options import kernel

    steps, taken, row_count, patch_count, first_row = head
    row_kernel, row_block, row_code, row_codes = row
    patch_word, patch_stride = patch
    row_words, patch_words = len(row), len(patch)

    @kernel
    def steps_apart(block, part, parts):
        w = words(block)
        first_patch = first_row + w[row_count] * row_words
        begin = w[first_patch + w[patch_count] * patch_words + part]
        own = words(begin)
        code, before = 0, 0
        step = add_atomically(block + 8 * taken, 1)
        while step < w[steps] and code == 0:
            for i in range(w[patch_count]):
                at = first_patch + i * patch_words
                own[w[at + patch_word]] += (step - before) * w[at + patch_stride]
            before = step
            for i in range(w[row_count]):
                at = first_row + i * row_words
                code = call3(w[at + row_kernel], begin + w[at + row_block], 0, 1)
                if code != 0:
                    code = w[at + row_code] + min(code, w[at + row_codes])
                    break
            step = add_atomically(block + 8 * taken, 1)
        return code

    return steps_apart


TOGETHER = Kernel("steps_together", partial(_build_together, *_TOGETHER), parameters=_TOGETHER)
APART = Kernel("steps_apart", partial(_build_apart, *_APART), parameters=_APART)
