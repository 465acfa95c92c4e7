"""The mode `auto_forward`: whether functions of Variables compute at the call."""

from __future__ import annotations

from contextvars import ContextVar

from atled_contexts.surroundings import SetWithin, change_everywhere, change_here


class _Default:
    """Whether functions of Variables compute at the call outside of all `auto_forward` blocks."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = False


_AUTO_FORWARD: ContextVar[bool | None] = ContextVar("atled_auto_forward", default=None)
_default = _Default()


def get_auto_forward() -> bool:
    """Whether functions of Variables compute at the call."""
    in_block = _AUTO_FORWARD.get()
    return _default.value if in_block is None else in_block


def set_auto_forward(auto: bool) -> None:
    """Switch computing at the call on or off: for the rest of the `auto_forward` block around, else for the program."""
    if _AUTO_FORWARD.get() is None:
        _default.value = bool(auto)
        change_everywhere()
    else:
        _AUTO_FORWARD.set(bool(auto))
        change_here()


def auto_forward(auto: bool = True) -> SetWithin[bool | None]:
    """Within the block, functions of Variables compute at the call; the graph is recorded all the same."""
    return SetWithin(_AUTO_FORWARD, bool(auto), comes_again=True)
