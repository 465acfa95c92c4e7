"""Division of indices by numbers that are known before the launch, as a multiplication and a shift."""

from __future__ import annotations


def divisor(number: int, is_wide: bool) -> tuple[int, int]:
    """The words with which `quotient` of prelude.cuh divides by a number; itself where indices have 64 bits.

    Source: Granlund, Montgomery, "Division by invariant integers using multiplication", PLDI 1994, figure 4.1.
    """
    if is_wide:
        return number, 0
    number = max(number, 1)
    shift = (number - 1).bit_length()
    factor = ((1 << 32) * ((1 << shift) - number)) // number + 1
    return (factor - (1 << 32) if factor >= 1 << 31 else factor), shift  # its 32 bits as an int
