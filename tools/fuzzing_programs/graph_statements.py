"""Statements on graphs: calls, forward and backward of one root or several, handles, shapes, derivatives."""

from __future__ import annotations

from collections.abc import Callable

from fuzzing_programs.array_statements import ArrayStatements
from fuzzing_programs.expressions import Expression, elementwise, expression, loss
from fuzzing_programs.plain.graph import Value, calls_before
from fuzzing_programs.plain.state import STATE
from fuzzing_programs.sampled import sampled_op
from fuzzing_programs.sketch import UnsuitableError, refuse_unlike


class GraphStatements(ArrayStatements):
    """A program that can build and run graphs."""

    def call(self) -> None:
        x = self.pick([*self.leaves, *self.results, *self.results, *self.parameters[:1]])
        draw_call = sampled_op if self.random.random() < 0.15 and self.of(x).size else expression
        made = draw_call(self, x, self.of(x).shape)
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
                raise UnsuitableError  # not known to be read and written element by element
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

    def net(self, draw_call: Callable[..., Expression] | None = None) -> None:
        """A function that builds a graph; draw_call: what of, drawn as well where nothing is given."""
        x = self.pick(self.leaves)
        before, results = len(self.statements), list(self.results)
        body: list[str] = []
        inner = self.fresh("p")
        self.names[inner] = self.of(x)
        current, made_names = inner, [inner]
        draw_call = draw_call or self.random.choice((expression, expression, elementwise, elementwise, sampled_op))
        for _ in range(self.random.randint(2, 6)):
            made = draw_call(self, current, self.of(current).shape)
            names = [self.fresh("p") for _ in range(made.outputs)]
            text = f"{', '.join(names)} = {made.text}"
            try:
                exec(text, self.names)
            except (ValueError, TypeError) as error:
                raise UnsuitableError(text) from error
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
            raise UnsuitableError
        self.do(f"def {name}({inner}):\n{lines}", "function")
        self.nets[name] = x

    def some_net(self) -> tuple[str, str]:
        """The name of a function that builds a graph, and of its argument."""
        if not self.nets or self.random.random() < 0.5:
            self.net()
        name = self.random.choice(list(self.nets))
        x = self.nets[name]
        if x not in self.leaves:
            raise UnsuitableError
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

    def forward(self) -> None:
        y = self.pick(self.results)
        flags = self.random.choice(("", "", "clear_buffer=True", "clear_no_need_grad=True"))
        self.do(self.observed(f"{y}.forward({flags})"), "forward")

    def backward(self) -> None:
        if self.random.random() < 0.7:
            y = self.random.choice((self.root, lambda: self.pick(self.results)))()
            self.do(self.observed(f"{y}.forward()"), "forward")
        else:
            y = self.computed()
        self.go_back(y)

    def go_back(self, y: str) -> None:
        refuse_unlike(self.of(y).value)
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
            raise UnsuitableError
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
        refuse_unlike(self.of(name).value)
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
                raise UnsuitableError  # its structure is the library's own affair
            inputs = [v for v in self.of(y).value.call.inputs if v is not None]
            inside = [n for n, v in enumerate(inputs) if v.call is not None]
            if not inside:
                raise UnsuitableError
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

    def rewire(self) -> None:
        y = self.pick(self.results)
        x = self.pick(self.leaves, lambda leaf: leaf.shape == self.of(y).shape)
        mine, theirs = self.of(x).value, self.of(y).value
        if any(mine in call.inputs for call in calls_before([theirs])):
            raise UnsuitableError
        self.do(f"{x}.rewire_on({y})", "rewire_on")
        self.sharing |= {x, y}
        self.leaves.remove(x)
        self.results.append(x)
        self.results.remove(y)
        self.leaves.append(y)

    def derivative(self) -> None:
        """`nn.grad`."""
        y = self.pick(self.results)
        calls = calls_before([self.of(y).value])
        if any(type(call.spec).__name__ in ("_PythonOp", "Sink") for call in calls):
            raise UnsuitableError
        inside = {value for call in calls for value in call.inputs}
        known = [n for n in (*self.leaves, *self.parameters, *self.results) if self.of(n).value in inside]
        chosen = self.random.sample(known, min(len(known), self.random.randint(1, 2)))
        if not chosen:
            raise UnsuitableError
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
            raise UnsuitableError
        old, new = self.random.choice(sorted(sizes)), self.random.choice((1, 2, 4, 7))
        names = [x for x in (*self.leaves, *self.labels) if self.of(x).shape[:1] == (old,)]
        values = [self.of(x).value for x in names]
        if not self.sharing.isdisjoint(names) or not self._can_reset(set(values), new):
            raise UnsuitableError
        for x in names:
            shape = (new, *self.of(x).shape[1:])
            self.do(f"{x}.reset_shape({shape}, True)", "reset_shape")
            given = f"draw({self.number()}, {shape})" if x[0] != "t" else f"whole({self.number()}, {shape}, 2)"
            self.do(f"{x}.d = {given}", "write to a leaf")
        reset = set(values)
        for call in self.calls():
            if any(value in reset for value in call.inputs):
                reset.update(call.outputs)
        for value in reset:
            value.made = 0
        for name in self.results:
            if self.of(name).value in reset:  # what is computed from values of the former shape fits nowhere
                self.do(f"{name}.forward()", "forward")

    def _can_reset(self, leaves: set[Value], batch: int) -> bool:
        """Whether every graph can be computed with another batch size."""
        shapes = {value: (batch, *value.shape[1:]) for value in leaves}
        for call in self.calls():
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

    def toggle(self) -> None:
        self.do(f"nn.set_auto_forward({not STATE.auto})", "auto_forward")
