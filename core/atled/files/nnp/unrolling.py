"""Unrolling: networks with loops are written out, with one copy of everything in a loop for each turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from atled.errors import did_you_mean, four_parts
from atled.files.messages import Message, new_message

_SAVE_AGAIN = "save the network again"
# What stands for a loop's ends: they hand a value on, but for those that cut an array in pieces or put it together.
_PLAIN = {
    "RepeatStart": "Identity",
    "RepeatEnd": "Identity",
    "Delay": "Identity",
    "RecurrentInput": "Split",
    "RecurrentOutput": "Stack",
}
_INPUT_COUNTS = {"RepeatStart": 2, "RepeatEnd": 1, "Delay": 2, "RecurrentInput": 1, "RecurrentOutput": 1}

_Turns = Mapping[str, int]
"""The turn of each loop around something, by the loop's id."""


def unrolled(asked: str, network: Message) -> Message:
    """The network without loops; itself where it has none.

    A variable or function in loops (its repeat_id lists them, outer ones first) is there once per turn of each. Its
    copy is named by the turn: where the name holds `{id}`, `[turn]` stands in its place, else `_id[turn]` is added.

        RepeatStart    its first input in the first turn, later its second input at the end of the turn before
        Delay          its second input in the first turn, later its first input at the end of the turn before
        RepeatEnd      its input at the end of the last turn
        RecurrentInput one piece of its input along an axis per turn
        RecurrentOutput its input of all turns, stacked along an axis

    Raises ValueError where a loop is not described, or the description does not hold together.
    """
    looped = [item for item in (*network.variable, *network.function) if item.repeat_id]
    if not looped and not any(function.type in _PLAIN for function in network.function):
        return network
    return _Unrolling(asked, network).result()


class _Unrolling:
    def __init__(self, asked: str, network: Message) -> None:
        self.asked = asked
        self.network = network
        self.times = {info.id: info.times for info in network.repeat_info}
        self.variables = {variable.name: variable for variable in network.variable}

    def result(self) -> Message:
        made = new_message(self.asked, "Network")
        made.name, made.batch_size = self.network.name, self.network.batch_size
        for variable in self.network.variable:
            for turns in self._turns(variable):
                copy = made.variable.add()
                copy.CopyFrom(variable)
                copy.name = _named(variable, turns)
                copy.ClearField("repeat_id")
        copies = [copy for function in self.network.function for copy in self._copies(function)]
        made.function.extend(self._in_order(copies))
        return made

    def _turns(self, item: Message) -> Iterator[dict[str, int]]:
        """Every turn of the loops around a variable or function."""
        for loop in item.repeat_id:
            if self.times.get(loop, 0) < 1:
                self._refuse(
                    item.name,
                    f"it is in the loop {loop!r}, of which the network does not say how often it runs",
                    did_you_mean(loop, self.times, _SAVE_AGAIN),
                )
        counts = (range(self.times[loop]) for loop in item.repeat_id)
        for numbers in itertools.product(*counts):
            yield dict(zip(item.repeat_id, numbers, strict=True))

    def _copies(self, function: Message) -> Iterator[Message]:
        kind = function.type
        if kind in _PLAIN and len(function.input) != _INPUT_COUNTS[kind]:
            self._refuse(function.name, f"it has {len(function.input)} inputs, not {_INPUT_COUNTS[kind]}")
        for turns in self._turns(function):
            if kind == "RecurrentInput" and turns[self._loop(function)] > 0:
                continue  # one for all turns
            copy = new_message(self.asked, "Function")
            copy.CopyFrom(function)
            for field in ("repeat_id", "repeat_param", "recurrent_param", "input", "output"):
                copy.ClearField(field)
            copy.name = _named(function, turns)
            copy.input.extend(self._inputs(function, turns))
            copy.output.extend(self._outputs(function, turns))
            if kind in _PLAIN:
                self._make_plain(copy, function)
            yield copy

    def _inputs(self, function: Message, turns: dict[str, int]) -> Sequence[str]:
        if function.type not in _PLAIN or function.type == "RecurrentInput":
            return [self._name(function, name, turns) for name in function.input]
        loop = self._loop(function)
        if function.type in ("RepeatEnd", "RecurrentOutput"):
            last = self.times[loop] - 1
            wanted = range(last + 1) if function.type == "RecurrentOutput" else [last]
            return [self._name(function, function.input[0], {**turns, loop: turn}) for turn in wanted]
        first, later = function.input if function.type == "RepeatStart" else reversed(function.input)
        if turns[loop] == 0:
            return [self._name(function, first, {key: turn for key, turn in turns.items() if key != loop})]
        return [self._name(function, later, {**turns, loop: turns[loop] - 1})]

    def _outputs(self, function: Message, turns: dict[str, int]) -> Sequence[str]:
        if function.type != "RecurrentInput":
            return [self._name(function, name, turns) for name in function.output]
        loop = self._loop(function)
        return [self._name(function, function.output[0], {**turns, loop: turn}) for turn in range(self.times[loop])]

    def _loop(self, function: Message) -> str:
        """The loop of which a function is an end."""
        param = function.repeat_param if function.type.startswith("Repeat") else function.recurrent_param
        inside = function.type in ("RepeatStart", "Delay", "RecurrentInput")
        if param.repeat_id not in self.times or (inside and param.repeat_id not in function.repeat_id):
            self._refuse(function.name, f"it is an end of the loop {param.repeat_id!r}, which it is not in")
        return str(param.repeat_id)

    def _name(self, function: Message, name: str, turns: _Turns) -> str:
        """The name of the copy of a variable that a copy of a function means."""
        variable = self.variables.get(name)
        if variable is None:
            self._refuse(function.name, f"{name!r} is not a variable of the network")
        missing = [loop for loop in variable.repeat_id if loop not in turns]
        if missing:
            self._refuse(function.name, f"{name!r} is inside of the loop {missing[0]!r}, the function outside of it")
        return _named(variable, turns)

    def _make_plain(self, copy: Message, function: Message) -> None:
        copy.type = _PLAIN[function.type]
        if copy.type == "Split":
            copy.split_param.axis = function.recurrent_param.axis
        elif copy.type == "Stack":
            copy.stack_param.axis = function.recurrent_param.axis

    def _in_order(self, functions: Sequence[Message]) -> list[Message]:
        """Each function after those whose results it takes."""
        maker = {name: function for function in functions for name in function.output}
        order: list[Message] = []
        state: dict[int, str] = {}
        stack = list(reversed(functions))
        while stack:
            function = stack[-1]
            if state.get(id(function)) is None:
                state[id(function)] = "open"
                for name in reversed(function.input):
                    source = maker.get(name)
                    if source is None or state.get(id(source)) == "done":
                        continue
                    if state.get(id(source)) == "open":
                        self._refuse(function.name, "what it takes depends on what it gives")
                    stack.append(source)
                continue
            stack.pop()
            if state[id(function)] == "open":
                state[id(function)] = "done"
                order.append(function)
        return order

    def _refuse(self, name: str, wrong: str, remedy: str = _SAVE_AGAIN) -> NoReturn:
        raise ValueError(four_parts(f"{self.asked}, {name!r}", f"the description is damaged: {wrong}", "", remedy))


def _named(item: Message, turns: _Turns) -> str:
    """The name of the copy of a variable or function for a turn of the loops around it."""
    name: str = item.name
    for loop in item.repeat_id:
        place, turn = f"{{{loop}}}", f"[{turns[loop]}]"
        name = name.replace(place, turn) if place in name else f"{name}_{loop}{turn}"
    return name
