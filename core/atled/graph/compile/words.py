"""Run-time words: where the numbers that change from run to run are in the table of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.arrays.place import Place
from atled.graph.compile.step import Step


class Words:
    """The words of the steps of a plan that are put into the queue of one device.

    count: of the words.  first: by step the first of its words.
    float_words, float_numbers: the words that are floats, and which floats of the plan they are.
    random_states: the first of two words, and the slot of the random state that they show.
    changes: whether any of them may change.
    """

    def __init__(self, steps: Sequence[Step], floats: Sequence[tuple[Any, ...]]) -> None:
        self.first: dict[Step, int] = {}
        self.random_states: list[tuple[int, int]] = []
        words: list[int] = []
        numbers: list[int] = []
        count = 0
        for step in steps:
            self.first[step] = count
            words += range(count, count + len(step.floats))
            numbers += step.floats
            count += len(step.floats)
            if step.random_slot >= 0:
                self.random_states.append((count, step.random_slot))
                count += 2
        self.count = count
        self.float_words = np.array(words, np.intp)
        self.float_numbers = np.array(numbers, np.intp)
        self.changes = bool(self.random_states) or any(floats[number][0] != "constant" for number in numbers)


def words_by_place(steps: Sequence[Step], floats: Sequence[tuple[Any, ...]]) -> dict[Place, Words]:
    """The words of all devices whose steps have any."""
    places: dict[Place, list[Step]] = {}
    for step in steps:
        is_bound = step.prepared is not None and step.prepared.bind is not None
        if step.queue is not None and is_bound and (step.floats or step.random_slot >= 0):
            places.setdefault(step.queue, []).append(step)
    return {place: Words(users, floats) for place, users in places.items()}
