"""What optimizers ask of their arguments, and the words in which they refuse them."""

from __future__ import annotations

import math
from typing import Any

from atled.errors import four_parts
from atled.neon.calls.checks import check_numbers


def refused_layer(asked: str, layer: Any) -> TypeError:
    """The error of what is no layer."""
    wrong = f"{type(layer).__name__} has no get_params"
    return TypeError(four_parts(asked, wrong, "", "pass a list of layers, such as model.layers_to_optimize"))


def check_finite(of: str, **given: Any) -> None:
    """Refuse what is no finite number; bools, which some forms of calls have elsewhere, are none."""
    for name, each in given.items():
        if isinstance(each, bool):
            remedy = "pass arguments behind the first ones by their names, such as stochastic_round=True"
            raise TypeError(four_parts(f"{of}({name}={each})", f"{name} is a bool", "", remedy))
    check_numbers(of, **given)
    for name, each in given.items():
        if not math.isfinite(each):
            raise ValueError(four_parts(of, f"{name} is {each}", "", f"give a finite number as {name}"))


def check_positive(of: str, **given: Any) -> None:
    """Refuse what is no number larger than 0."""
    check_finite(of, **given)
    for name, each in given.items():
        if not each > 0:
            raise ValueError(four_parts(of, f"{name} is {each}", "", "give a number larger than 0, or None"))


def check_addend(of: str, **given: Any) -> None:
    """Refuse what is no number from 0 on: added to squares, it would make their roots NaN."""
    check_finite(of, **given)
    for name, each in given.items():
        if each < 0:
            raise ValueError(four_parts(of, f"{name} is {each}", "", "give a number from 0 on"))


def check_share(of: str, **given: Any) -> None:
    """Refuse what is no number from 0 on and less than 1."""
    check_finite(of, **given)
    for name, each in given.items():
        if not 0 <= each < 1:
            raise ValueError(four_parts(of, f"{name} is {each}", "", "give a number from 0 on and less than 1"))
