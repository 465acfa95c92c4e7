"""Errors: their wording in four parts (asked, wrong, considered, to do), and the core's own exceptions."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from atled_contexts.errors import did_you_mean, in_words, listing, nearest
from atled_contexts.errors import message as four_parts

__all__ = [
    "CommandError",
    "DeviceLostError",
    "OutOfMemoryError",
    "RefusedError",
    "did_you_mean",
    "four_parts",
    "in_words",
    "listing",
    "nearest",
    "no_such",
    "shortened",
    "taken_apart",
]

_SHOWN_CHARACTERS = 200


class RefusedError(ValueError, RuntimeError):
    """Shapes, attributes or arrays that do not fit: ValueError, as Python has it, and RuntimeError, as NNabla has it.

    NNabla gives RuntimeError for everything that its engine refuses; programs that catch it catch this one, too.
    """


class OutOfMemoryError(RuntimeError):
    """An array for which there is no memory; the text says how much was asked for, and how much there is."""


class DeviceLostError(RuntimeError):
    """A device that is gone, with all that was only there; a plugin raises it where its driver says so.

    device: array class and id, such as "AcmeArray:0".  reason: what the driver said.
    """

    def __init__(self, device: str, reason: str) -> None:
        super().__init__(
            four_parts(
                f"use of device {device}",
                f"it was lost: {reason}",
                "an array that is in host memory or on another device as well has its values from there; what was only "
                "on the device is gone",
                "go on from what was saved last, on another device or in a new process",
            )
        )
        self._given = device, reason

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, by which pools of processes hand errors on: Python's own calls the class with the message."""
        return type(self), self._given, self.__dict__


def no_such(module: str, kind: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a module does not have, with the nearest one that it has.

    kind: what names of the module stand for, such as "layer".
    """
    remedy = did_you_mean(name, known, f"dir({module}) lists all")
    # With `obj` and no `name` Python adds no suggestion of its own, by another measure, behind ours.
    return AttributeError(four_parts(f"{module}.{name}", f"no such {kind}", "", remedy), obj=sys.modules.get(module))


def taken_apart(text: str) -> tuple[str, str, str]:
    """The text of an error as what is wrong, with what was asked before it, what was considered, and what to do.

    For a message that tells of an error within: one message has each part once.
    """
    text, _, remedy = text.partition("\nWhat to do: ")
    wrong, _, considered = text.partition("\nConsidered:")
    return wrong, considered.strip(), remedy


def shortened(value: Any) -> str:
    """The repr of what a user gave, cut where it is long: a million entries tell no more than the first ones."""
    try:
        text = repr(value)
    except ValueError:  # an int, or one within, of more digits than Python writes
        return f"<{type(value).__name__} of too many digits to show>"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}... ({len(text)} characters)"


class CommandError(Exception):
    """An error that the user can correct; shown without a traceback."""
