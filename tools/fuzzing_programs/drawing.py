"""Programs drawn from a seed: statement by statement, each run by the plain interpreter to know what can come next."""

from __future__ import annotations

import contextlib
import gc
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from fuzzing_programs.expressions import Expression, elementwise, expression, loss
from fuzzing_programs.plain import front
from fuzzing_programs.plain.graph import Call, Value, calls_before
from fuzzing_programs.plain.state import STATE
from fuzzing_programs.running import HELPERS

_MOST = 1e4
"""Beyond that a program ends: float32 would soon have no digits left."""


class Program(NamedTuple):
    """A program.

    context: the backend that computes.  as_large: whether the library is to treat small arrays as it does large ones.
    features: how often each was drawn.
    """

    seed: str
    context: str
    as_large: bool
    statements: list[str]
    features: Counter[str]


class _Unsuitable(Exception):
    """What was drawn does not fit; nothing was changed."""


_ASSIGNS = re.compile(r"[\w, ]+ = |\[[\w, ]+\] = |with nn.context_scope")

_SOLVERS = (
    "Sgd(0.05)", "Momentum(0.05, 0.9)", "Nesterov(0.05, 0.9)", "Adadelta(1.0, 0.9, 1e-2)", "Adagrad(0.05, 1e-2)",
    "RMSprop(0.02, 0.9, 1e-2)", "Adam(0.02, 0.9, 0.99, 1e-2)", "Adamax(0.02, 0.9, 0.99, 1e-2)",
    "AMSGRAD(0.02, 0.9, 0.99, 1e-2)",
)  # fmt: skip
# A large epsilon: without it the direction of a step from a gradient of almost 0 is that of its rounding errors.


class Drawer:
    """A program that is being drawn.

    names: what it has defined so far, as the plain interpreter has it.
    leaves, parameters, results, statistics, labels: names of Variables by role.  sharing: those over common arrays.
    arrays, views, solvers, steps, nets: names of NdArrays, NumPy views, solvers, compiled steps, functions.
    regular: names of roots that were run repeatedly.
    is_over: whether it can go no further.
    """

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)
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

    # What expressions ask for.

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
            raise _Unsuitable(text) from error
        self.statements.append(text)
        self.features[feature] += 1

    def parameter(self, shape: tuple[int, ...], scale: float = 1.0) -> str:
        found = [name for name in self.parameters if self.of(name).shape == shape]
        if found and self.random.random() < 0.6:
            self.features["shared parameter"] += 1
            return self.random.choice(found)
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
        self.do(f"{name} = nn.Variable.from_numpy_array(draw({self.number()}, {shape}), need_grad={flag})", "leaf")
        self.leaves.append(name)
        return name

    # Statements.

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

    def pick(self, names: Sequence[str], condition: Callable[[Any], bool] = lambda _: True) -> str:
        """One of the names for which a condition holds."""
        found = [name for name in names if condition(self.of(name))]
        if not found:
            raise _Unsuitable
        # The latest ones are what a program goes on with, mostly.
        return self.random.choice(found[-4:] if self.random.random() < 0.7 else found)

    def call(self) -> None:
        x = self.pick([*self.leaves, *self.results, *self.results, *self.parameters[:1]])
        made = expression(self, x, self.of(x).shape)
        names = [self.fresh("v") for _ in range(made.outputs)]
        text = f"{', '.join(names)} = {made.text}"
        if self.random.random() < 0.06:
            context = self.random.choice(("reference:float", "cpu:float"))
            text = f"with nn.context_scope(nn.Context(['{context}'])):\n    {text}"
            self.features["another Context"] += 1
        self.do(text, made.feature)
        self.results += names

    def call_into(self) -> None:
        """A result in an array that the program has, which others may read or write as well."""
        x = self.pick([*self.leaves, *self.results, *self.results])
        shape = self.of(x).shape
        text = self.random.choice(
            (f"F.tanh({x}", f"F.sigmoid({x}", f"F.relu({x}", f"F.sin({x}", f"F.mul_scalar({x}, val=0.5",
             f"F.add2({x}, {x}", f"F.mul2({x}, {x}"),
        )  # fmt: skip
        if len(shape) == 2 and self.random.random() < 0.2:
            text, shape = f"F.affine({x}, {self.parameter((shape[1], 8), 0.5)}", (shape[0], 8)
        chance = self.random.random()
        if self.arrays and chance < 0.5:
            target = self.pick(self.arrays, lambda array: array.shape == shape)
        elif chance < 0.7:
            leaf = self.pick([*self.leaves, *self.results], lambda v: v.shape == shape)
            target = f"{leaf}.data"
            calls = calls_before([self.of(x).value])
            if "affine" in text or any(call.spec.views for call in (*calls, *calls_before([self.of(leaf).value]))):
                raise _Unsuitable  # not known to be read and written element by element
        else:
            target = self.fresh("a")
            self.do(f"{target} = nn.NdArray({shape})", "NdArray")
            self.arrays.append(target)
        name = self.fresh("v")
        self.do(f"{name} = {text}, outputs=[{target}])", "outputs=")
        self.results.append(name)

    def end(self) -> str:
        """A loss, as a statement; its name."""
        x = self.pick(self.results or self.leaves)
        made = loss(self, x, self.of(x).shape)
        name = self.fresh("v")
        self.do(f"{name} = {made.text}", made.feature)
        self.results.append(name)
        return name

    def forward(self) -> None:
        y = self.pick(self.results)
        flags = self.random.choice(("", "", "clear_buffer=True", "clear_no_need_grad=True"))
        self.do(self.observed(f"{y}.forward({flags})"), "forward")

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
        return self.pick(self.results, lambda v: _is_computed(v.value) and condition(v))

    def backward(self) -> None:
        if self.random.random() < 0.7:
            y = self.random.choice((self.root, lambda: self.pick(self.results)))()
            self.do(self.observed(f"{y}.forward()"), "forward")
        else:
            y = self.computed()
        self._backward(y)

    def _backward(self, y: str) -> None:
        _refuse_unlike(self.of(y).value)
        chance = self.random.random()
        grad = "" if chance < 0.5 else self.random.choice(("0.5", "2", "clear_buffer=True"))
        if chance > 0.8:
            grad = f"draw({self.number()}, {self.of(y).shape})"
            if chance > 0.93:
                self.do(f"{y}.g = {grad}", "write to a gradient")
                grad = "None"
        self.do(self.observed(f"attempt(lambda: {y}.backward({grad}))"), "backward")

    def several(self) -> None:
        """Several roots in one run."""
        roots = list(dict.fromkeys(self.pick(self.results) for _ in range(self.random.randint(2, 4))))
        values = [self.of(name).value for name in roots]
        if any(value.call is None for value in values):
            raise _Unsuitable
        listed = ", ".join(roots)
        calls = calls_before(values)
        if self.random.random() < 0.3 and not any(call.is_gradient for call in calls):
            self.do(f"with nn.trace() as seen:\n    nn.forward_all([{listed}])", "forward_all")
            self.do("look(lambda: launches(seen))", "common parts counted")
        else:
            self.do(self.observed(f"nn.forward_all([{listed}])"), "forward_all")
        if self.random.random() < 0.4 and not any(call.random_state is not None or call.spec.mutated for call in calls):
            self.do(f"together = [v.d.tobytes() for v in ({listed},)]", "forward_all beside forward")
            order = self.random.sample(roots, len(roots))
            for name in order:
                self.do(f"{name}.forward()", "forward")
            alone = f"[v.d.tobytes() for v in ({listed},)]"
            self.do(f"look(lambda: together == {alone})", "forward_all beside forward")
        if self.random.random() < 0.7:
            given = [self.random.choice(("1", "0.5", f"draw({self.number()}, {v.shape})")) for v in values]
            grads = f", [{', '.join(given)}]" if self.random.random() < 0.5 else ""
            self.do(self.observed(f"attempt(lambda: nn.backward_all([{listed}]{grads}))"), "backward_all")

    def sink(self) -> None:
        ends = list(dict.fromkeys(self.pick(self.results) for _ in range(self.random.randint(1, 3))))
        name = self.fresh("v")
        one = self.random.random() < 0.6
        self.do(f"{name} = F.sink({', '.join(ends)}, one_input_grad={one})", "F.sink")
        self.results.append(name)
        self.do(f"{name}.forward()", "forward")
        if not one:
            for end in ends:
                if self.of(end).value.call is None:
                    return
                self.do(f"{end}.g = draw({self.number()}, {self.of(end).shape})", "write to a gradient")
        _refuse_unlike(self.of(name).value)
        self.do(f"attempt(lambda: {name}.backward())", "backward")

    def look(self) -> None:
        if self.random.random() < 0.6:
            y = self.computed()
            self.do(f"look(lambda: {y}.d)", "look at values")
            if self.random.random() < 0.4 and self.of(y).value.gradient_made:
                self.do(f"look(lambda: {y}.g)", "look at a gradient")
        else:
            x = self.pick([*self.leaves, *self.parameters])
            self.do(f"look(lambda: {x}.{self.random.choice('dg')})", "look at a leaf")

    def late(self) -> None:
        """A handle on a value in the midst of a graph, taken after it was computed."""
        y = self.computed()
        for _ in range(self.random.randint(1, 3)):
            if self.of(y).value.call.is_gradient:
                raise _Unsuitable  # its structure is the library's own affair
            inputs = [v for v in self.of(y).value.call.inputs if v is not None]
            inside = [n for n, v in enumerate(inputs) if v.call is not None]
            if not inside:
                raise _Unsuitable
            name = self.fresh("late")
            self.do(f"{name} = {y}.parent.inputs[{self.random.choice(inside)}]", "late handle")
            self.results.append(name)
            y = name
        self.do(f"look(lambda: {y}.d)", "look at values")
        if self.of(y).value.gradient_made:
            self.do(f"look(lambda: {y}.g)", "look at a gradient")

    def drop(self) -> None:
        name = self.pick(self.results)
        self.results.remove(name)
        self.do(f"del {name}", "handle dropped")

    def collect(self) -> None:
        self.do(self.random.choice(("gc.collect()", "gc.collect()", "nn.clear_memory_cache()")), "garbage collection")

    def write(self) -> None:
        x = self.pick([*self.leaves, *self.parameters, *self.statistics])
        shape = self.of(x).shape
        values = f"draw({self.number()}, {shape})"
        if x[0] == "s":  # a variance
            values = f"draw({self.number()}, {shape}, 0.5, 1.5)"
        elif x[0] == "n":
            values = "np.full((1,), 3.0, np.float32)"
        way = self.random.randrange(8)
        texts = (
            f"{x}.d = {values}",
            f"{x}.d[...] = {values}",
            f"{x}.data.fill(0.75)",
            f"{x}.data = nn.NdArray.from_numpy_array({values})",
            f"{x}.data *= 0.5",
            f"{x}.data += nn.NdArray.from_numpy_array({values})",
            f"{x}.d[0] = 0.5" if shape else f"{x}.d = 0.5",
            f"{x}.data.copy_from(nn.NdArray.from_numpy_array({values}))",
        )
        if x[0] in "msn" and way in (2, 4, 5, 6):
            way = 0
        if way == 3 and self._has_views_of(x):
            way = 0
        self.do(texts[way], "write to a leaf")

    def _has_views_of(self, x: str) -> bool:
        """Whether a program's result shares the memory of a leaf: replacing that is seen at the next forward only."""
        cell = self.of(x).data.cell
        values = [v for name in self.results for call in calls_before([self.of(name).value]) for v in call.outputs]
        return any(value.arrays.data.cell is cell for value in values)

    def write_inside(self) -> None:
        """Write to a result."""
        y = self.computed()
        self.do(f"{y}.d = draw({self.number()}, {self.of(y).shape})", "write to a result")

    def write_gradient(self) -> None:
        w = self.pick([*self.parameters, *self.parameters, *self.leaves])
        text = self.random.choice(
            ("{w}.grad.fill(0.25)", "{w}.grad.zero()", "{w}.g = 0.5", "{w}.g[...] *= 0.5", "{w}.g *= 2.0",
             "{w}.g[...] = np.clip({w}.g, -0.1, 0.1)",
             "{w}.grad.copy_from(F.clip_grad_by_norm({w}.grad, clip_norm=0.5))",
             "{w}.grad.data = F.tanh({w}.grad)"),
        )  # fmt: skip
        self.do(text.format(w=w), "write to a gradient")

    def view(self) -> None:
        x = self.pick([*self.leaves, *self.parameters, *self.parameters])
        name = self.fresh("view")
        self.do(f"{name} = {x}.{self.random.choice('ddg')}", "view held")
        self.views.append(name)

    def view_used(self) -> None:
        name = self.pick(self.views)
        if self.random.random() < 0.7:
            self.do(f"{name}[...] = draw({self.number()}, {self.of(name).shape})", "write through a view")
        else:
            self.views.remove(name)
            self.do(f"del {name}", "view dropped")

    def flags(self) -> None:
        y = self.pick([*self.leaves, *self.leaves, *self.parameters, *self.results, *self.results])
        if self.random.random() < 0.6:
            self.do(f"{y}.persistent = {self.random.random() < 0.7}", "persistent")
        else:
            self.do(f"{y}.need_grad = {self.random.choice((True, True, False))}", "need_grad")

    def shared(self) -> None:
        """A second leaf over the same arrays."""
        y = self.pick([*self.leaves, *self.parameters, *self.results])
        if self.of(y).value.call is not None and not _is_computed(self.of(y).value):
            raise _Unsuitable
        name = self.fresh("x")
        self.do(f"{name} = {y}.unlinked(need_grad={self.random.choice((True, False))})", "unlinked")
        self.leaves.append(name)
        self.sharing |= {name, y}

    def rewire(self) -> None:
        y = self.pick(self.results)
        x = self.pick(self.leaves, lambda leaf: leaf.shape == self.of(y).shape)
        mine, theirs = self.of(x).value, self.of(y).value
        if any(mine in call.inputs for call in calls_before([theirs])):
            raise _Unsuitable
        self.do(f"{x}.rewire_on({y})", "rewire_on")
        self.sharing |= {x, y}
        self.leaves.remove(x)
        self.results.append(x)
        self.results.remove(y)
        self.leaves.append(y)

    def at_once(self) -> None:
        """Code on NdArrays."""
        chance = self.random.random()
        if not self.arrays or chance < 0.25:
            name = self.fresh("a")
            shape = self.of(self.pick([*self.leaves, *self.parameters])).shape
            self.do(f"{name} = nn.NdArray.from_numpy_array(draw({self.number()}, {shape}))", "NdArray")
            self.arrays.append(name)
        elif chance < 0.55:
            source = self.pick(self.arrays)
            if self.random.random() < 0.4:
                source = f"{self.pick([*self.leaves, *self.parameters])}.data"
            name = self.fresh("a")
            text = self.random.choice(("F.tanh({a})", "F.sigmoid({a})", "{a} * 0.5", "{a} * {a}", "F.relu({a})"))
            self.do(f"{name} = {text.format(a=source)}", "NdArray")
            self.arrays.append(name)
        elif chance < 0.8:
            name = self.pick(self.arrays)
            same = self.pick(self.arrays, lambda array: array.shape == self.of(name).shape)
            change = self.random.choice(("*= 0.5", f"+= {same}", f"-= {same}", "+= 0.25", f"*= {same}"))
            self.do(f"{name} {change}", "NdArray in place")
        else:
            self.do(f"look(lambda: {self.pick(self.arrays)}.data)", "look at an NdArray")

    def derivative(self) -> None:
        """`nn.grad`."""
        y = self.pick(self.results)
        calls = calls_before([self.of(y).value])
        if any(type(call.spec).__name__ in ("_PythonOp", "Sink") for call in calls):
            raise _Unsuitable
        inside = {value for call in calls for value in call.inputs}
        known = [n for n in (*self.leaves, *self.parameters, *self.results) if self.of(n).value in inside]
        chosen = self.random.sample(known, min(len(known), self.random.randint(1, 2)))
        if not chosen:
            raise _Unsuitable
        names = [self.fresh("v") for _ in chosen]
        end = "F.sum({y})" if self.of(y).shape and self.random.random() < 0.3 else "{y}"
        bind = ", bind_grad_output=True" if self.random.random() < 0.1 and chosen[0][0] == "w" else ""
        self.do(f"[{', '.join(names)}] = nn.grad({end.format(y=y)}, [{', '.join(chosen)}]{bind})", "nn.grad")
        self.results += names
        if self.random.random() < 0.7:
            self.do(f"{names[0]}.forward()", "forward")

    def batch(self) -> None:
        """Another batch size."""
        sizes = {self.of(x).shape[0] for x in self.leaves if self.of(x).shape}
        if len(sizes) < 1:
            raise _Unsuitable
        old, new = self.random.choice(sorted(sizes)), self.random.choice((1, 2, 4, 7))
        names = [x for x in (*self.leaves, *self.labels) if self.of(x).shape[:1] == (old,)]
        values = [self.of(x).value for x in names]
        if not self.sharing.isdisjoint(names) or not self._can_reset(set(values), new):
            raise _Unsuitable
        for x in names:
            shape = (new, *self.of(x).shape[1:])
            self.do(f"{x}.reset_shape({shape}, True)", "reset_shape")
            given = f"draw({self.number()}, {shape})" if x[0] != "t" else f"whole({self.number()}, {shape}, 2)"
            self.do(f"{x}.d = {given}", "write to a leaf")
        reset = set(values)
        for call in self._calls():
            if any(value in reset for value in call.inputs):
                reset.update(call.outputs)
        for value in reset:
            value.made = 0
        for name in self.results:
            if self.of(name).value in reset:  # what is computed from values of the former shape fits nowhere
                self.do(f"{name}.forward()", "forward")

    def _calls(self) -> list[Call]:
        held = [self.of(name).value for name in (*self.results, *self.leaves)]
        held += [self.of(name).loss.value for name in self.steps]
        return calls_before(held)

    def _can_reset(self, leaves: set[Value], batch: int) -> bool:
        """Whether every graph can be computed with another batch size."""
        shapes = {value: (batch, *value.shape[1:]) for value in leaves}
        for call in self._calls():
            given = [None if v is None else shapes.get(v, v.shape) for v in call.inputs]
            if not any(value in shapes for value in call.inputs):
                continue
            try:
                made = call.shapes_for(given)
            except ValueError:
                return False
            if len(made) != len(call.outputs):
                return False
            shapes.update(zip(call.outputs, made, strict=True))
        return True

    # Training.

    def solver(self) -> str:
        """A solver's name."""
        if not self.parameters:
            raise _Unsuitable
        if self.solvers and self.random.random() < 0.75:
            return self.random.choice(self.solvers)
        name = self.fresh("solver")
        text = self.random.choice(_SOLVERS)
        self.do(f"{name} = S.{text}", text.partition("(")[0])
        chosen = [w for w in self.parameters if self.random.random() < 0.85] or self.parameters
        entries = ", ".join(f"'{w}': {w}" for w in chosen)
        layers = "**nn.get_parameters(), " if self.random.random() < 0.7 else ""
        self.do(f"{name}.set_parameters({{{layers}{entries}}})", "set_parameters")
        self.solvers.append(name)
        return name

    def update(self) -> None:
        solver = self.solver()
        if self.random.random() < 0.5:
            self.do(f"{solver}.zero_grad()", "zero_grad")
        if self.random.random() < 0.7:
            self.backward()
        for _ in range(self.random.randint(0, 3)):
            w = self.random.choice(self.parameters)
            text, feature = self.random.choice((
                (f"{solver}.weight_decay(0.01)", "weight_decay"),
                (f"{solver}.weight_decay(0.5)", "weight_decay"),
                (f"{solver}.scale_grad(2.0)", "scale_grad"),
                (f"{solver}.scale_grad(0.5)", "scale_grad"),
                (f"look(lambda: {w}.g)", "look at a gradient"),
                (f"look(lambda: {solver}.check_inf_or_nan_grad())", "check of gradients"),
                (f"{w}.g[...] = np.clip({w}.g, -0.1, 0.1)", "clipping"),
                (f"{w}.grad.copy_from(F.clip_grad_by_norm({w}.grad, clip_norm=0.5))", "clipping"),
                (f"{w}.data *= 0.5", "write to a leaf"),
                (f"{w}.d = draw({self.number()}, {self.of(w).shape})", "write to a leaf"),
                (f"{solver}.set_learning_rate(0.03)", "learning rate"),
            ))  # fmt: skip
            self.do(text, feature)
        self.do(self.observed(f"{solver}.update()"), "update")
        if self.random.random() < 0.3:
            w = self.random.choice(self.parameters)
            self.do(f"{solver}.set_parameters({{'{w}': {w}}}, reset=False, retain_state=True)", "set_parameters")

    def compiled(self) -> None:
        """A compiled step, run twice."""
        if not self.steps or self.random.random() < 0.4:
            solver, root = self.solver(), self.root()
            calls = calls_before([self.of(root).value])
            if any(call.spec.resumes(call.attributes) for call in calls):
                raise _Unsuitable
            _refuse_unlike(self.of(root).value)
            made = {value.arrays.data.cell for call in calls for value in call.outputs}
            if any(self.of(w).grad.cell in made for w in self.parameters):
                raise _Unsuitable  # bound by nn.grad: a step never writes gradients, while its parts do
            leaves = {value for call in calls for value in call.inputs}
            inputs = [x for x in self.leaves if self.of(x).value in leaves and self.of(x).value.call is None][:2]
            name = self.fresh("step")
            decay = self.random.choice(("", ", weight_decay=0.01", ", weight_decay=0.01, scale_grad=0.5"))
            self.do(f"{name} = nn.compile_step({root}, {solver}, [{', '.join(inputs)}]{decay})", "compile_step")
            self.steps.append(name)
        name = self.random.choice(self.steps)
        for _ in range(self.random.randint(1, 2)):
            shapes = [x.shape for x in self.of(name).inputs] if self.random.random() < 0.6 else []
            batch = ", ".join(f"draw({self.number()}, {shape})" for shape in shapes)
            self.do(self.observed(f"{name}({batch})"), "run of a compiled step")
        self.do(f"look(lambda: {name}.loss.d)", "look at values")

    def net(self, draw_call: Callable[..., Expression] | None = None) -> None:
        """A function that builds a graph; draw_call: what of, drawn as well where nothing is given."""
        x = self.pick(self.leaves)
        before, results = len(self.statements), list(self.results)
        body: list[str] = []
        inner = self.fresh("p")
        self.names[inner] = self.of(x)
        current, made_names = inner, [inner]
        draw_call = draw_call or self.random.choice((expression, elementwise))
        for _ in range(self.random.randint(2, 6)):
            made = draw_call(self, current, self.of(current).shape)
            names = [self.fresh("p") for _ in range(made.outputs)]
            text = f"{', '.join(names)} = {made.text}"
            try:
                exec(text, self.names)
            except (ValueError, TypeError) as error:
                raise _Unsuitable(text) from error
            body.append(text)
            self.features[made.feature] += 1
            made_names += names
            current = names[0]
        made = loss(self, current, self.of(current).shape)
        body.append(f"return {made.text}")
        # What was asked for on the way, such as parameters, comes before the function.
        assert self.results == results and len(self.statements) >= before
        for name in made_names:
            del self.names[name]
        name = self.fresh("net")
        lines = "\n".join(f"    {line}" for line in body)
        # Only what stays: a handle that the function uses must not be dropped.
        if any(f" {result}" in lines or f"({result}" in lines for result in self.results):
            raise _Unsuitable
        self.do(f"def {name}({inner}):\n{lines}", "function")
        self.nets[name] = x

    def some_net(self) -> tuple[str, str]:
        """The name of a function that builds a graph, and of its argument."""
        if not self.nets or self.random.random() < 0.5:
            self.net()
        name = self.random.choice(list(self.nets))
        x = self.nets[name]
        if x not in self.leaves:
            raise _Unsuitable
        return name, x

    def root(self) -> str:
        """A loss: of a result that is held, or one in whose graph nothing is."""
        if self.random.random() < 0.4:
            return self.end()
        net, x = self.some_net()
        name = self.fresh("v")
        self.do(f"{name} = {net}({x})", "root of a function")
        self.results.append(name)
        return name

    def loop(self) -> None:
        """A graph that is built again at every step."""
        name, x = self.some_net()
        solver = self.solver() if self.parameters else ""
        auto = self.random.random() < 0.7
        lines = [f"{x}.d = draw(100 + number, {self.of(x).shape})"] if self.random.random() < 0.7 else []
        lines += [f"root = {name}({x})"]
        lines += [] if auto else ["root.forward()"]
        lines += [f"{solver}.zero_grad()"] if solver and self.random.random() < 0.8 else []
        lines += [f"attempt(lambda: root.backward({self.random.choice(('', '0.5'))}))"]
        lines += [f"{solver}.weight_decay(0.01)"] if solver and self.random.random() < 0.3 else []
        lines += [f"{solver}.update()"] if solver and self.random.random() < 0.8 else []
        lines += ["look(lambda: root.d)"] if self.random.random() < 0.6 else []
        body = "\n".join(f"    {line}" for line in lines)
        text = f"for number in range({self.random.randint(2, 5)}):\n{body}"
        if auto:
            text = "with nn.auto_forward():\n" + "\n".join(f"    {line}" for line in text.splitlines())
        self.do(text, "dynamic graph" if auto else "graph rebuilt")
        if self.random.random() < 0.5:
            self.do("del root", "handle dropped")
        else:
            self.do("v0 = root", "handle kept")
            if "v0" not in self.results:
                self.results.append("v0")

    def epoch(self) -> None:
        """A static graph, run repeatedly."""
        root = self.root()
        _refuse_unlike(self.of(root).value)
        solver = self.solver() if self.parameters else ""
        calls = calls_before([self.of(root).value])
        leaves = {value for call in calls for value in call.inputs}
        inputs = [x for x in self.leaves if self.of(x).value in leaves and self.of(x).value.call is None][:1]
        count = self.random.randint(2, 8)
        odd = self.random.randrange(count + 3)  # the step, if there is one, in which something unusual happens
        lines = [f"{x}.d = draw(200 + number, {self.of(x).shape})" for x in inputs]
        lines += [f"{root}.forward()"]
        read = [x for x in (*self.leaves, *self.parameters) if self.of(x).value in leaves]
        changes = [f"{x}.data *= 0.5" for x in read]
        changes += [f"{x}.need_grad = not {x}.need_grad" for x in read]
        changes += [f"{x}.data = nn.NdArray.from_numpy_array(draw(7, {self.of(x).shape}))" for x in read]
        changes += [f"attempt(lambda: {root}.backward(0.5))", f"{root}.forward()", "nn.clear_memory_cache()"] * 2
        if odd < count and changes:
            lines += [f"if number == {odd}:", f"    {self.random.choice(changes)}"]
            self.features["odd step"] += 1
        lines += [f"{solver}.zero_grad()"] if solver and self.random.random() < 0.9 else []
        lines += [f"attempt(lambda: {root}.backward())"]
        lines += [f"{solver}.weight_decay(0.01)"] if solver and self.random.random() < 0.3 else []
        lines += [f"{solver}.update()"] if solver else []
        lines += [f"look(lambda: {root}.d)"] if self.random.random() < 0.6 else []
        self.do(
            f"for number in range({count}):\n" + "\n".join(f"    {line}" for line in lines),
            "static graph repeated",
        )
        self.regular.append(root)

    def irregular(self) -> None:
        """A step of a root that was run regularly, with something in between."""
        root = self.pick([name for name in self.regular if name in self.results])
        self.do(f"{root}.forward()", "irregular step")
        between: tuple[Callable[[], None], ...] = (
            self.write, self.view, self.view_used, self.write_gradient, self.collect, self.late, self.look, self.flags,
            self.drop,
        )  # fmt: skip
        for _ in range(self.random.randint(1, 2)):
            self.draw_one((*between, self.write, self.late), (1,) * (len(between) + 2))
            if self.random.random() < 0.8 and root in self.results:
                self._backward(root)

    def steady(self) -> None:
        """A short formula in regular steps, until values are computed again instead of stored; then something else."""
        self.net(elementwise)
        net, x = list(self.nets.items())[-1]
        root = self.fresh("v")
        self.do(f"{root} = {net}({x})", "root of a function")
        self.results.append(root)
        lines = [f"{root}.forward()", f"attempt(lambda: {root}.backward())"]
        body = "\n".join(f"    {line}" for line in lines)
        self.do(f"for number in range({self.random.randint(3, 5)}):\n{body}", "steady steps")
        self.regular.append(root)
        read = [value for call in calls_before([self.of(root).value]) for value in call.inputs]
        leaves = [name for name in (*self.leaves, *self.parameters) if self.of(name).value in read]
        for _ in range(self.random.randint(1, 3)):
            self.do(f"{root}.forward()", "forward")
            w = self.pick(leaves)
            shape = self.of(w).shape
            change, feature = self.random.choice((
                (f"{w}.data *= 0.5", "write to a leaf"),
                (f"{w}.d = draw({self.number()}, {shape})", "write to a leaf"),
                (f"{w}.need_grad = not {w}.need_grad", "need_grad"),
                (f"attempt(lambda: {root}.backward(0.5))", "backward"),
                ("gc.collect()", "garbage collection"),
                ("nn.clear_memory_cache()", "garbage collection"),
            ))  # fmt: skip
            self.do(change, feature)
            for _ in range(self.random.randint(1, 2)):
                self._backward(root)

    def toggle(self) -> None:
        self.do(f"nn.set_auto_forward({not STATE.auto})", "auto_forward")

    # All together.

    def is_tame(self) -> bool:
        """Whether all numbers are such that float32 can follow."""
        values = [self.of(name).value for name in (*self.leaves, *self.parameters, *self.results, *self.statistics)]
        arrays = [cell.values for v in values for cell in (v.arrays.data.cell, v.arrays.grad.cell)]
        arrays += [call.arrays.data.cell.values for c in self._calls() for call in c.outputs]
        arrays += [self.of(name).cell.values for name in self.arrays]
        return all(np.isfinite(each).all() and np.abs(each).max(initial=0) < _MOST for each in arrays)

    def run(self, count: int) -> None:
        """Draw so many statements, about."""
        self.begin()
        for _ in range(self.random.randint(1, 4)):
            self.draw_one((self.call,), (1,))
        ways: dict[Callable[[], Any], int] = {
            self.call: 30, self.call_into: 6, self.forward: 7, self.backward: 12, self.several: 8, self.sink: 2,
            self.look: 7, self.late: 5, self.drop: 6, self.collect: 2, self.write: 8, self.write_inside: 2,
            self.write_gradient: 3,
            self.view: 3, self.view_used: 12, self.flags: 5, self.shared: 3, self.rewire: 6,
            self.at_once: 5, self.derivative: 3, self.batch: 2,
            self.update: 8, self.compiled: 4, self.loop: 5, self.epoch: 6, self.irregular: 10,
            self.steady: 5, self.toggle: 1,
        }  # fmt: skip
        while len(self.statements) < count:
            kept = len(self.statements)
            self.draw_one(tuple(ways), tuple(ways.values()))
            if self.is_over:
                return
            if not self.is_tame():
                del self.statements[kept:]
                return
        self.finish()

    def draw_one(self, ways: Sequence[Callable[[], Any]], odds: Sequence[int]) -> None:
        """One statement, or some that belong together."""
        with contextlib.suppress(_Unsuitable):
            self.random.choices(ways, odds)[0]()

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


def _call(step: Callable[[], Any]) -> None:
    step()


def _is_computed(value: Value) -> bool:
    return value.call is not None and all(v.made for call in calls_before([value]) for v in call.outputs)


def _refuse_unlike(root: Value) -> None:
    """Leave alone what has no gradient to go back to, or one that is refused."""
    if root.call is None:
        raise _Unsuitable


def draw(seed: int, number: int) -> Program:
    """The program of a number, the same for equal seeds."""
    text = f"programs {seed} {number}"
    drawer = Drawer(text)
    drawer.run(drawer.random.choice((8, 15, 25, 40)))
    context = drawer.random.choices(("cpu:float", "cpu:double", "reference:float"), (20, 3, 2))[0]
    drawer.features[context] += 1
    as_large = drawer.random.random() < 0.5
    drawer.features["as if large"] += as_large
    return Program(text, context, as_large, drawer.statements, drawer.features)
