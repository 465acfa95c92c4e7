"""A program that is being drawn: its names, as the plain interpreter has them, and how statements are taken in."""

from __future__ import annotations

import contextlib
import gc
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fuzzing_programs.plain import front
from fuzzing_programs.plain.graph import Call, Value, calls_before
from fuzzing_programs.plain.state import STATE
from fuzzing_programs.running import HELPERS

_MOST_ELEMENTS = 500_000  # of a parameter
_ASSIGNS = re.compile(r"[\w, ]+ = |\[[\w, ]+\] = |with nn.context_scope")


class UnsuitableError(Exception):
    """What was drawn does not fit; nothing was changed."""


class Sketch:
    """A program that is being drawn.

    names: what it has defined so far, as the plain interpreter has it.
    leaves, parameters, results, statistics, labels: names of Variables by role.  sharing: those over common arrays.
    arrays, views, solvers, steps, nets: names of NdArrays, NumPy views, solvers, compiled steps, functions.
    regular: names of roots that were run repeatedly.
    is_on_device: whether it is for a device, which runs as programs what is run repeatedly.
    is_over: whether it can go no further.
    """

    def __init__(self, seed: str, is_on_device: bool = False) -> None:
        self.random = Random(seed)
        self.is_on_device = is_on_device
        self.statements: list[str] = []
        self.features: Counter[str] = Counter()
        self.is_over = False
        self.is_large = self.random.random() < 0.12
        self.leaves: list[str] = []
        self.parameters: list[str] = []
        self.results: list[str] = []
        self.statistics: list[str] = []
        self.labels: list[str] = []
        self.arrays: list[str] = []
        self.views: list[str] = []
        self.solvers: list[str] = []
        self.steps: list[str] = []
        self.nets: dict[str, str] = {}
        self.sharing: set[str] = set()
        self.regular: list[str] = []
        self._counts: Counter[str] = Counter()
        STATE.reset()
        self.names: dict[str, Any] = {**front.names(), "gc": gc, "look": lambda read: read(), "attempt": _call}
        exec(HELPERS, self.names)

    def number(self) -> int:
        return self.random.randrange(1000)

    def fresh(self, kind: str) -> str:
        """A new name."""
        self._counts[kind] += 1
        return f"{kind}{self._counts[kind]}"

    def of(self, name: str) -> Any:
        """What a name stands for."""
        return self.names[name]

    def do(self, text: str, feature: str) -> None:
        """Take a statement into the program."""
        try:
            exec(text, self.names)
        except (ValueError, RuntimeError, TypeError, IndexError) as error:
            # A call that is refused changes nothing; of other statements a part may have been done.
            self.is_over = not _ASSIGNS.match(text)
            raise UnsuitableError(text) from error
        self.statements.append(text)
        self.features[feature] += 1

    def parameter(self, shape: tuple[int, ...], scale: float = 1.0) -> str:
        found = [name for name in self.parameters if self.of(name).shape == shape]
        if found and self.random.random() < 0.6:
            self.features["shared parameter"] += 1
            return self.random.choice(found)
        if math.prod(shape) > _MOST_ELEMENTS:
            raise UnsuitableError
        name = self.fresh("w")
        factor = "" if scale == 1.0 else f" * np.float32({scale:.3f})"
        self.do(
            f"{name} = nn.Variable.from_numpy_array(draw({self.number()}, {shape}){factor}, need_grad=True)", "leaf"
        )
        self.parameters.append(name)
        return name

    def statistic(self, shape: tuple[int, ...], value: float, kind: str) -> str:
        found = [name for name in self.statistics if self.of(name).shape == shape and name[0] == kind]
        if found and self.random.random() < 0.4:
            return self.random.choice(found)
        name = self.fresh(kind)
        self.do(f"{name} = nn.Variable.from_numpy_array(np.full({shape}, {value}, np.float32))", "leaf")
        self.statistics.append(name)
        return name

    def indices(self, shape: tuple[int, ...], stop: int) -> str:
        name = self.fresh("t")
        self.do(f"{name} = nn.Variable.from_numpy_array(whole({self.number()}, {shape}, {stop}))", "leaf of int")
        self.labels.append(name)
        return name

    def sampled(self, values: str, flows: bool) -> str:
        name = self.fresh("c")
        flag = self.random.choice((True, None)) if flows else None
        self.do(f"{name} = nn.Variable.from_numpy_array({values}, need_grad={flag})", "leaf of a sample")
        return name

    def other(self, shape: tuple[int, ...]) -> str:
        found = [name for name in (*self.leaves, *self.results, *self.parameters) if self.of(name).shape == shape]
        if found and self.random.random() < 0.8:
            return self.random.choice(found)
        return self.leaf(shape)

    def layer(self) -> str:
        return self.random.choice(("one", "two"))

    def leaf(self, shape: tuple[int, ...]) -> str:
        name = self.fresh("x")
        flag = self.random.choice((True, False, None))
        is_wide = self.random.random() < 0.1
        values = f"draw({self.number()}, {shape}){'.astype(np.float64)' if is_wide else ''}"
        feature = "leaf of float64" if is_wide else "leaf"
        self.do(f"{name} = nn.Variable.from_numpy_array({values}, need_grad={flag})", feature)
        self.leaves.append(name)
        return name

    def pick(self, names: Sequence[str], condition: Callable[[Any], bool] = lambda _: True) -> str:
        """One of the names for which a condition holds."""
        found = [name for name in names if condition(self.of(name))]
        if not found:
            raise UnsuitableError
        # The latest ones are what a program goes on with, mostly.
        return self.random.choice(found[-4:] if self.random.random() < 0.7 else found)

    def observed(self, text: str) -> str:
        """A statement, sometimes under a trace or a verification."""
        chance = self.random.random()
        if chance < 0.05:
            self.features["trace"] += 1
            return f"with nn.trace():\n    {text}"
        if chance < 0.08:
            self.features["verify"] += 1
            return f"with nn.verify(1.0):\n    {text}"
        return text

    def computed(self, condition: Callable[[Any], bool] = lambda _: True) -> str:
        """The name of a result that was computed, all of its graph included."""
        return self.pick(self.results, lambda v: is_computed(v.value) and condition(v))

    def calls(self) -> list[Call]:
        held = [self.of(name).value for name in (*self.results, *self.leaves)]
        held += [self.of(name).loss.value for name in self.steps]
        return calls_before(held)

    def draw_one(self, ways: Sequence[Callable[[], Any]], odds: Sequence[int]) -> None:
        """One statement, or some that belong together."""
        with contextlib.suppress(UnsuitableError):
            self.random.choices(ways, odds)[0]()


def _call(step: Callable[[], Any]) -> None:
    step()


def is_computed(value: Value) -> bool:
    """Whether a result was computed, with everything before it."""
    return value.call is not None and all(v.made for call in calls_before([value]) for v in call.outputs)


def refuse_unlike(root: Value) -> None:
    """Leave alone what has no gradient to go back to, or one that is refused."""
    if root.call is None:
        raise UnsuitableError
