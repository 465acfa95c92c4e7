"""Programs drawn from a seed: statement by statement, each run by the plain interpreter to know what can come next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

from atled.ops.spec import SPECS
from fuzzing_programs.inference_statements import InferenceStatements
from fuzzing_programs.setting import Setting

_MOST = 1e4
"""Beyond that a program ends: float32 would soon have no digits left."""


class Program(NamedTuple):
    """A program.

    setting: how it is to run.  features: how often each was drawn.
    """

    seed: str
    setting: Setting
    statements: list[str]
    features: Counter[str]


class Drawer(InferenceStatements):
    """All kinds of statements, and how often each is drawn."""

    def begin(self) -> None:
        """A few leaves."""
        batch = self.random.choice((32, 48)) if self.is_large else self.random.choice((1, 2, 3, 5, 6))
        width = self.random.choice((64, 130)) if self.is_large else self.random.choice((1, 3, 4, 8, 16))
        side = self.random.choice((16, 20)) if self.is_large else self.random.choice((3, 4, 6, 7))
        channels = self.random.choice((1, 2, 3, 4))
        shapes = [(batch, width), (batch, channels, side, side), (3, batch, 4)]
        for shape in self.random.sample(shapes, self.random.randint(1, 2)):
            self.leaf(shape)
        if self.random.random() < 0.25:
            self.do("nn.set_auto_forward(True)", "auto_forward")

    def is_tame(self) -> bool:
        """Whether all numbers are such that float32 can follow."""
        values = [self.of(name).value for name in (*self.leaves, *self.parameters, *self.results, *self.statistics)]
        arrays = [cell.values for v in values for cell in (v.arrays.data.cell, v.arrays.grad.cell)]
        arrays += [call.arrays.data.cell.values for c in self.calls() for call in c.outputs]
        arrays += [self.of(name).cell.values for name in self.arrays]
        return all(np.isfinite(each).all() and np.abs(each).max(initial=0) < _MOST for each in arrays)

    def run(self, count: int) -> None:
        """Draw so many statements, about."""
        self.begin()
        for _ in range(self.random.randint(1, 4)):
            self.draw_one((self.call,), (1,))
        ways: dict[Callable[[], Any], int] = {
            self.call: 30, self.call_into: 6, self.forward: 7, self.backward: 12, self.several: 8, self.sink: 2,
            self.look: 7, self.late: 5, self.drop: 6, self.collect: 2, self.write: 8, self.write_inside: 4,
            self.write_gradient: 3,
            self.view: 3, self.view_used: 12, self.flags: 5, self.shared: 3, self.rewire: 6,
            self.at_once: 5, self.derivative: 3, self.batch: 2,
            self.update: 8, self.compiled: 4, self.loop: 5, self.epoch: 6, self.irregular: 10,
            self.steady: 5, self.toggle: 1,
        }  # fmt: skip
        if not self.is_on_device:  # where all is computed at each call
            ways.update({self.infer: 5})
        else:
            ways.update({self.pipeline: 3, self.epoch: 10, self.loop: 7, self.compiled: 7})
        while len(self.statements) < count:
            kept = len(self.statements)
            self.draw_one(tuple(ways), tuple(ways.values()))
            if self.is_over:
                return
            if not self.is_tame():
                del self.statements[kept:]
                return
        self.finish()

    def finish(self) -> None:
        """Look at everything that is left."""
        for name in (*self.leaves, *self.parameters, *self.statistics):
            self.statements.append(f"look(lambda: {name}.d)")
            self.statements.append(f"look(lambda: {name}.g)")
        for name in self.arrays:
            self.statements.append(f"look(lambda: {name}.data)")
        for name in self.solvers:
            self.statements.append(
                f"look(lambda: np.concatenate([np.zeros(1), *(v.d.reshape(-1) "
                f"for _, s in sorted({name}.get_states().items()) for _, v in sorted(s.pstate.items()))]))"
            )
        for name in self.results:
            if math.prod(self.of(name).shape):
                self.statements.append(f"{name}.forward()")
                self.statements.append(f"look(lambda: {name}.d)")


_CONTEXTS = {
    "cpu": {"cpu:float": 20, "cpu:double": 3, "reference:float": 2},
    "sim": {"sim:float": 20, "sim:double": 3, "sim:half": 3, "sim:tf32": 1},
}
_OFTEN_REFUSED = (
    "Affine", "Convolution", "Tanh", "Sigmoid", "Mul2", "Add2", "Sum", "Mean", "MaxPooling", "BatchNormalization",
    "Transpose", "Reshape", "AddScalar", "MulScalar", "SoftmaxCrossEntropy", "SgdUpdate", "AdamUpdate", "TanhGrad",
)  # fmt: skip


def draw(seed: int, number: int, backend: str = "cpu") -> Program:
    """The program of a number, the same for equal seeds; backend: what is to compute it, "cpu" or "sim"."""
    text = f"programs {seed} {number}"
    drawer = Drawer(text, is_on_device=backend == "sim")
    drawer.run(drawer.random.choice((8, 15, 25, 40)))
    contexts = _CONTEXTS[backend]
    context = drawer.random.choices(tuple(contexts), tuple(contexts.values()))[0]
    as_large = drawer.random.random() < 0.5
    modes = _modes(drawer.random) if backend == "sim" else ()
    if any("refuse" in mode for mode in modes):
        others = ("reference",) if context == "sim:tf32" else ("reference", "reference", "cpu")
        context += f" {drawer.random.choice(others)}:{context.partition(':')[2]}"
    drawer.features[context] += 1
    drawer.features["as if large"] += as_large
    drawer.features.update(mode.partition("(")[0] for mode in modes)
    return Program(text, Setting(context, as_large, modes), drawer.statements, drawer.features)


def _modes(random: Random) -> tuple[str, ...]:
    """What a simulated device is told."""
    layout = random.choice(("channel_last", "channel_last", "channel_first", ""))
    refused = sorted(random.sample([op for op in _OFTEN_REFUSED if op in SPECS], random.randint(1, 3)))
    omitted = sorted(name for name, spec in SPECS.items() if spec.auxiliary)
    ways = {
        "atled_sim.compile_formulas()": 0.5,
        "atled_sim.defer_checks()": 0.3,
        "atled_sim.defer_checks(heeded=False)": 0.1,
        f"atled_sim.omit({omitted})": 0.4,
        f"atled_sim.prefer_layout({layout!r})": 0.2,
        f"atled_sim.refuse({refused})": 0.2,
    }
    return tuple(text for text, chance in ways.items() if random.random() < chance)
