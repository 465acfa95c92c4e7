"""Statements of inferences, parts of which depend on leaves that stay as they are: large enough to be kept computed."""

from __future__ import annotations

from fuzzing_programs.training_statements import TrainingStatements

_SIDE = 96
"""Of square constants: what is read and written of one is more than 32 KiB, from where on it is kept."""

_PARTS = (
    "F.tanh({k})", "{k} * 0.5 + {other}", "F.transpose(F.sigmoid({k}), axes=(1, 0))", "F.softmax({k}, axis=1)",
    "F.exp(F.tanh({k}) * F.broadcast({row}, shape={square}))", "F.affine({k}, F.tanh({other}))", "{k}",
    "F.relu({k}) - {other}",
    "F.slice(F.concatenate({k}, {other}, axis=0), start=({half}, 0), stop=({end}, {side}), step=(1, 1))",
    "{k} / (1 + F.sum({other} ** 2, axis=1, keepdims=True))",
)  # fmt: skip
_MIXED = (
    "F.affine({x}, {part}, {bias})",
    "F.tanh({x}) * F.mean({part}, axis=0, keepdims=True)",
    "{x} + F.max({part}, axis=0, keepdims=True)",
)


class InferenceStatements(TrainingStatements):
    """A program that infers, too, from graphs of its own: a view that others hold of a leaf hides writes."""

    def infer(self) -> None:
        """Calls of an inference, between which some of its leaves are written; some calls of forward among them."""
        square, row = (_SIDE, _SIDE), (1, _SIDE)
        names = {name: self.fresh("k") for name in ("k", "other", "row", "bias", "x")}
        shapes = {"k": square, "other": square, "row": row, "bias": row[1:]}
        shapes["x"] = (self.random.choice((1, 3, 8)), _SIDE)
        for role, name in names.items():
            made = f"nn.Variable.from_numpy_array(draw({self.number()}, {shapes[role]}) * np.float32(0.3)"
            self.do(f"{name} = {made}, need_grad={self.random.random() < 0.5})", "leaf of an inference")
        root = names["x"]
        for _ in range(self.random.randint(1, 3)):
            k, other = self.random.sample(("k", "other"), 2)
            part = self.random.choice(_PARTS).format(
                k=names[k], other=names[other], row=names["row"], square=square, half=_SIDE // 2,
                end=_SIDE // 2 + _SIDE, side=_SIDE,
            )  # fmt: skip
            text = self.random.choice(_MIXED).format(x=root, part=part, bias=names["bias"])
            root = self.fresh("v")
            self.do(f"{root} = {self.random.choice(('{}', 'F.tanh({})', '{} * 0.5')).format(text)}", "partly constant")
        name = self.fresh("infer")
        self.do(f"{name} = nn.inference({root}, [{names['x']}])", "inference")
        written = [role for role in names if role != "x"]
        for _ in range(self.random.randint(3, 10)):
            if self.random.random() < 0.3:
                self._write_one(names, shapes, self.random.choice(written))
            if self.random.random() < 0.15:
                self.do(f"look(lambda: ({root}.forward(), {root}.d)[1])", "forward beside an inference")
                self._write_one(names, shapes, "x")
            if self.random.random() < 0.05:
                self.do("nn.clear_memory_cache()", "garbage collection")
            self.do(f"look(lambda: {name}(draw({self.number()}, {shapes['x']})))", "call of an inference")

    def _write_one(self, names: dict[str, str], shapes: dict[str, tuple[int, ...]], role: str) -> None:
        name, number, shape = names[role], self.number(), shapes[role]
        ways = (
            f"{name}.d = draw({number}, {shape}) * np.float32(0.3)",
            f"{name}.d[0] *= 0.5",
            f"{name}.data *= 0.5",
            f"{name}.data = nn.NdArray.from_numpy_array(draw({number}, {shape}) * np.float32(0.3))",
            f"{name}.data.copy_from(nn.NdArray.from_numpy_array(draw({number}, {shape}) * np.float32(0.3)))",
            f"{name}.data.zero()",
        )
        self.do(self.random.choice(ways), "write to a leaf of an inference")
