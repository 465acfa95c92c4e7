"""Statements of trainings: solvers, compiled steps, graphs that run again and again or are built again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzzing_programs.expressions import elementwise
from fuzzing_programs.graph_statements import GraphStatements
from fuzzing_programs.plain.graph import calls_before
from fuzzing_programs.sketch import UnsuitableError, refuse_unlike

_SOLVERS = (
    "Sgd(0.05)", "Momentum(0.05, 0.9)", "Nesterov(0.05, 0.9)", "Adadelta(1.0, 0.9, 1e-2)", "Adagrad(0.05, 1e-2)",
    "RMSprop(0.02, 0.9, 1e-2)", "Adam(0.02, 0.9, 0.99, 1e-2)", "Adamax(0.02, 0.9, 0.99, 1e-2)",
    "AMSGRAD(0.02, 0.9, 0.99, 1e-2)",
)  # fmt: skip
# A large epsilon: without it the direction of a step from a gradient of almost 0 is that of its rounding errors.


class TrainingStatements(GraphStatements):
    """A program that can train."""

    def solver(self) -> str:
        """A solver's name."""
        if not self.parameters:
            raise UnsuitableError
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
                raise UnsuitableError
            refuse_unlike(self.of(root).value)
            made = {value.arrays.data.cell for call in calls for value in call.outputs}
            if any(self.of(w).grad.cell in made for w in self.parameters):
                raise UnsuitableError  # bound by nn.grad: a step never writes gradients, while its parts do
            leaves = {value for call in calls for value in call.inputs}
            trained = [each.variable for each in self.of(solver).tracked]
            if not any(w.need_grad and w.value in leaves for w in trained):
                raise UnsuitableError  # refused: it would train nothing
            inputs = [x for x in self.leaves if self.of(x).value in leaves and self.of(x).value.call is None][:2]
            name = self.fresh("step")
            decay = self.random.choice(("", ", weight_decay=0.01", ", weight_decay=0.01, scale_grad=0.5"))
            self.do(f"{name} = nn.compile_step({root}, {solver}, [{', '.join(inputs)}]{decay})", "compile_step")
            self.steps.append(name)
        name = self.random.choice(self.steps)
        for _ in range(self.random.randint(1, 2) if not self.is_on_device else self.random.randint(2, 7)):
            shapes = [x.shape for x in self.of(name).inputs] if self.random.random() < 0.6 else []
            batch = ", ".join(f"draw({self.number()}, {shape})" for shape in shapes)
            self.do(self.observed(f"{name}({batch})"), "run of a compiled step")
            if self.is_on_device and self.random.random() < 0.4:
                self.do(self.random.choice(self._moves([f"{name}.loss"])), "array moved")
        self.do(f"look(lambda: {name}.loss.d)", "look at values")

    def _times(self, least: int, most: int) -> int:
        """How often a loop runs; on a device often enough for programs, and for arrays that are trusted to stay."""
        return self.random.randint(least, most) + (self.random.randint(1, 8) if self.is_on_device else 0)

    def _moves(self, roots: Sequence[str], leaves: Sequence[str] = ()) -> list[str]:
        """Statements that bring arrays to the host, or back, or change what a device program reads."""
        inputs = [*self.parameters, *(leaves or self.leaves)]
        found = [f"look(lambda: {root}.d)" for root in roots] * 2
        for w in self.random.sample(inputs, min(3, len(inputs))):
            number, shape = self.number(), self.of(w).shape
            found += [
                f"look(lambda: {w}.d)",
                f"look(lambda: {w}.g)",
                f"{w}.d = {w}.d.copy()",
                f"{w}.d[...] *= 0.5",
                f"{w}.data *= 0.5",
                f"{w}.data.copy_from(nn.NdArray.from_numpy_array(draw({number}, {shape})))",
                f"{w}.d = draw({number}, {shape})",
                f"{w}.grad.zero()",
                f"held = {w}.{self.random.choice('dg')}",
            ]
            like = [other for other in inputs if other != w and self.of(other).shape == shape]
            found += [f"{w}.data.copy_from({other}.data)" for other in like[:1]]
        found += [f"{solver}.set_learning_rate(0.03)" for solver in self.solvers[:1]]
        return [*found, "held = None", "held = None", "nn.clear_memory_cache()"]

    def pipeline(self) -> None:
        """Calls on NdArrays, again and again."""
        self.at_once()
        name, other = self.pick(self.arrays), self.fresh("a")
        text = self.random.choice(("F.tanh({a})", "F.sigmoid({a}) * {a}", "{a} * 0.5 + {a}", "F.relu({a}) - {a}"))
        lines = [f"{other} = {text.format(a=name)}"]
        lines += [f"{name} *= 0.5"] if self.random.random() < 0.5 else []
        lines += [f"{name}.copy_from({other})"] if self.random.random() < 0.5 else []
        if self.random.random() < 0.6:
            lines += [f"if number == {self.random.randrange(6)}:", f"    look(lambda: {other}.data)"]
        body = "\n".join(f"    {line}" for line in lines)
        self.do(f"for number in range({self._times(3, 5)}):\n{body}", "NdArrays repeatedly")
        self.arrays.append(other)

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
        text = f"for number in range({self._times(2, 5)}):\n{body}"
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
        refuse_unlike(self.of(root).value)
        solver = self.solver() if self.parameters else ""
        calls = calls_before([self.of(root).value])
        leaves = {value for call in calls for value in call.inputs}
        inputs = [x for x in self.leaves if self.of(x).value in leaves and self.of(x).value.call is None][:1]
        count = self._times(2, 8)
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
        for number in self.random.sample(range(count), self.random.randint(0, 3)) if self.is_on_device else ():
            lines += [f"if number == {number}:", f"    {self.random.choice(self._moves([root], read))}"]
            self.features["array moved"] += 1
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
                self.go_back(root)

    def steady(self) -> None:
        """A short formula in regular steps, until values are computed again instead of stored; then something else."""
        self.net(elementwise)
        net, x = list(self.nets.items())[-1]
        root = self.fresh("v")
        self.do(f"{root} = {net}({x})", "root of a function")
        self.results.append(root)
        lines = [f"{root}.forward()", f"attempt(lambda: {root}.backward())"]
        body = "\n".join(f"    {line}" for line in lines)
        self.do(f"for number in range({self._times(3, 5)}):\n{body}", "steady steps")
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
                self.go_back(root)
