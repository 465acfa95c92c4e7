"""Statements on arrays: writes, views, flags, code on NdArrays."""

from __future__ import annotations

from fuzzing_programs.plain.graph import calls_before
from fuzzing_programs.sketch import Sketch, UnsuitableError, is_computed


class ArrayStatements(Sketch):
    """A program that can write to its arrays."""

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

    def _is_view(self, y: str) -> bool:
        """Whether a result shows its input, as it does again after the next forward."""
        return bool(self.of(y).value.call.spec.views)

    def _has_views_of(self, x: str) -> bool:
        """Whether another result shares the memory of an array: replacing that is seen at the next forward only."""
        mine, cell = self.of(x).value, self.of(x).data.cell
        values = [v for name in self.results for call in calls_before([self.of(name).value]) for v in call.outputs]
        return any(value.arrays.data.cell is cell for value in values if value is not mine)

    def write_inside(self) -> None:
        """Write to a result, or put another array in the place of its own."""
        y = self.computed()
        if self.random.random() < 0.4 and not self._is_view(y) and not self._has_views_of(y):
            values = f"draw({self.number()}, {self.of(y).shape})"
            self.do(f"{y}.data = nn.NdArray.from_numpy_array({values})", "array of a result replaced")
            return
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
        if self.of(y).value.call is not None and not is_computed(self.of(y).value):
            raise UnsuitableError
        name = self.fresh("x")
        self.do(f"{name} = {y}.unlinked(need_grad={self.random.choice((True, False))})", "unlinked")
        self.leaves.append(name)
        self.sharing |= {name, y}

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
