"""The wording of every error: what was asked, what is wrong, what was considered, what to do; refused calls."""

from atled_contexts.errors import did_you_mean, in_words, listing, nearest
from atled_contexts.errors import message as four_parts

__all__ = ["RefusedError", "did_you_mean", "four_parts", "in_words", "listing", "nearest"]


class RefusedError(ValueError, RuntimeError):
    """Shapes, attributes or arrays that do not fit: ValueError, as Python has it, and RuntimeError, as NNabla has it.

    NNabla gives RuntimeError for everything that its engine refuses; programs that catch it catch this one, too.
    """
