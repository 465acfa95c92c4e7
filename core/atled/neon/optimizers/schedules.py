"""Schedules: how a learning rate changes with the epochs, which count from 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from atled.errors import four_parts, shortened
from atled.neon.calls.checks import check_numbers
from atled.neon.nervana_object import NervanaObject


class Schedule(NervanaObject):
    """Multiplies a rate by `change` every so many epochs, or from certain epochs on.

    step_config: None, for a rate that stays; a whole number n of epochs, for `lr * change ** floor(epoch / n)`; or a
        rising list of epochs, for `lr * change ** (how many of them are reached)`.
    change: a number; or, with a list of epochs, a list of the rates that hold from these on.

    ValueError: a step below 1, epochs that do not rise, lists of different lengths.  TypeError: other types.
    """

    def __init__(self, step_config: Any = None, change: Any = 1.0, name: str | None = None) -> None:
        super().__init__(name)
        asked = f"{self.classnm} with step_config={shortened(step_config)}, change={shortened(change)}"
        if isinstance(change, list | tuple):
            _check_steps(asked, step_config, change)
        else:
            check_numbers(self.classnm, change=change)
            if isinstance(step_config, list | tuple):
                _check_steps(asked, step_config, None)
            elif step_config is not None:
                _check_length(self.classnm, step_config=step_config)
        self.step_config = step_config
        self.change = change

    def get_learning_rate(self, learning_rate: float, epoch: int) -> float:
        """The rate in an epoch.  learning_rate: that of the optimizer."""
        steps, change = self.step_config, self.change
        if steps is None:
            return learning_rate
        if isinstance(change, list | tuple):
            return _latest(learning_rate, steps, change, epoch)
        reached = sum(epoch >= each for each in steps) if isinstance(steps, list | tuple) else epoch // steps
        rate: float = learning_rate * change**reached
        return rate


class StepSchedule(Schedule):
    """Rates that hold from certain epochs on; before the first of them that of the optimizer.

    step_config: a rising list of epochs.  change: a list of as many rates.
    """

    def __init__(self, step_config: Sequence[int], change: Sequence[float], name: str | None = None) -> None:
        asked = f"{self.classnm} with step_config={shortened(step_config)}, change={shortened(change)}"
        _check_steps(asked, step_config, change)
        super().__init__(step_config, change, name)


class PowerSchedule(Schedule):
    """`lr * change ** floor(epoch / step_config)`.

    step_config: whole number of epochs, from 1 on.  change: a number.
    """

    def __init__(self, step_config: int, change: float, name: str | None = None) -> None:
        _check_length(self.classnm, step_config=step_config)
        check_numbers(self.classnm, change=change)
        super().__init__(step_config, change, name)


class ExpSchedule(Schedule):
    """`lr / (1 + decay * epoch)`.  decay: a number from 0 on."""

    def __init__(self, decay: float, name: str | None = None) -> None:
        super().__init__(name=name)
        check_numbers(self.classnm, decay=decay)
        if not decay >= 0:
            raise ValueError(four_parts(self.classnm, f"decay is {decay}", "", "give a number from 0 on"))
        self.decay = decay

    def get_learning_rate(self, learning_rate: float, epoch: int) -> float:
        """The rate in an epoch."""
        return learning_rate / (1.0 + self.decay * epoch)


class PolySchedule(Schedule):
    """`lr * (1 - epoch // total_epochs) ** power`: as in neon, whose quotient is a whole one.

    So the rate stays until total_epochs, and is 0 then; there is no slope in between.

    total_epochs: whole number, from 1 on.  power: larger than 0.
    """

    def __init__(self, total_epochs: int, power: float, name: str | None = None) -> None:
        super().__init__(name=name)
        _check_length(self.classnm, total_epochs=total_epochs)
        check_numbers(self.classnm, power=power)
        if not power > 0:
            raise ValueError(four_parts(self.classnm, f"power is {power}", "", "give a number larger than 0"))
        self.total_epochs = total_epochs
        self.power = power

    def get_learning_rate(self, learning_rate: float, epoch: int) -> float:
        """The rate in an epoch.  ValueError: one far beyond the last, for which the power is no real number."""
        left = 1 - epoch // self.total_epochs
        if left < 0 and self.power != int(self.power):
            asked = f"the rate of {self.classnm} {self.name} in epoch {epoch}"
            wrong = f"{left} ** {self.power} is no real number"
            raise ValueError(four_parts(asked, wrong, "", f"train for {2 * self.total_epochs} epochs at most"))
        rate: float = learning_rate * left**self.power
        return rate


class ShiftSchedule(Schedule):
    """`lr * 2 ** (-shift_size * floor(epoch / interval))`: rates that a shift of bits gives.

    interval: whole number of epochs, from 1 on.  shift_size: bits per interval.
    """

    def __init__(self, interval: int, shift_size: int = 1, name: str | None = None) -> None:
        super().__init__(name=name)
        _check_length(self.classnm, interval=interval)
        check_numbers(self.classnm, shift_size=shift_size)
        self.interval = interval
        self.shift_size = shift_size

    def get_learning_rate(self, learning_rate: float, epoch: int) -> float:
        """The rate in an epoch."""
        rate: float = learning_rate * 2.0 ** (-self.shift_size * (epoch // self.interval))
        return rate


def _latest(learning_rate: float, steps: Sequence[int], rates: Sequence[float], epoch: int) -> float:
    """The rate of the last step that is reached; before the first one that of the optimizer."""
    reached = sum(epoch >= each for each in steps)
    return rates[reached - 1] if reached else learning_rate


def _check_length(of: str, **given: Any) -> None:
    """Refuse what is no length of a step in epochs."""
    check_numbers(of, **given)
    for name, each in given.items():
        if not each >= 1 or not math.isfinite(each):
            raise ValueError(four_parts(of, f"{name} is {each}", "", "give a whole number of epochs, from 1 on"))


def _check_steps(asked: str, steps: Any, rates: Any) -> None:
    """Refuse what is no list of epochs, with as many rates where there are any."""
    for what, each in ("step_config", steps), ("change", [] if rates is None else rates):
        if not isinstance(each, list | tuple):
            raise TypeError(four_parts(asked, f"{what} is of type {type(each).__name__}", "", "give two lists"))
        check_numbers(asked, **{f"{what}[{n}]": number for n, number in enumerate(each)})
    if rates is not None and len(steps) != len(rates):
        raise ValueError(
            four_parts(asked, f"{len(steps)} epochs are not {len(rates)} rates", "", "give a rate for each epoch")
        )
    if any(one >= other for one, other in pairwise(steps)):
        raise ValueError(four_parts(asked, "the epochs do not rise", "", "give epochs in order, each once"))
