"""The wording of every error: what was asked, what is wrong, what was considered, what to do."""

from atled_contexts.errors import did_you_mean, in_words, listing, nearest
from atled_contexts.errors import message as four_parts

__all__ = ["did_you_mean", "four_parts", "in_words", "listing", "nearest"]
