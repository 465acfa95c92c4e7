"""Layers that make one step of many, or one direction of two."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts
from atled.neon.backends.backend import Tensor
from atled.neon.layers.base import Layer
from atled.neon.layers.shapes import interpret_in_shape


class _Summary(Layer):
    """A layer without parameters that takes (rows, steps)."""

    owns_delta = True
    nrows = nsteps = 0

    def configure(self, in_obj: Any) -> _Summary:
        """Take the sizes of what will come, (rows, steps); rows alone are one step."""
        super().configure(in_obj)
        self.nrows, self.nsteps = interpret_in_shape(self.in_shape)
        self.out_shape = self._summed(self.nrows, self.nsteps)
        return self

    def _summed(self, rows: int, steps: int) -> tuple[int, int]:
        """Rows and steps of the outputs."""
        return rows, 1

    def _taken(self, call: str, given: Any, shape: Any) -> None:
        """Refuse what does not fit."""
        self._check_allocated(call)
        rows, steps = shape
        self._check_size(call, "inputs" if call == "fprop" else "errors", given, (rows, steps * self._present.bsz))

    @property
    def _used(self) -> int:
        """How many steps count."""
        return self._steps_that_count(self.nsteps)

    def _split(self, what: str, x: Tensor) -> Any:
        """Views of the steps that count but the last one, of the last one, of all of them, and of the others."""
        batch, end = self._present.bsz, self._used * self._present.bsz
        return self._seen(
            f"{self._used} steps of {what}",
            x,
            lambda x: (x[:, : end - batch], x[:, end - batch : end], x[:, :end], x[:, end:]),
        )

    def _without_error(self, steps: Tensor, beta: float) -> None:
        """Have deltas of steps that do not count hold `beta` times what they held."""
        if steps.shape[1]:
            zero = self._seen("zero", self.outputs, self._present.zeros_like)
            self._present.spread_steps(zero, steps, 1.0, beta)


class RecurrentSum(_Summary):
    """(rows, steps) -> (rows, 1): the sum of the steps."""

    @property
    def _factor(self) -> float:
        return 1.0

    def fprop(self, inputs: Any, inference: bool = False) -> Any:
        """(rows, batch) of (rows, steps * batch).  ValueError, TypeError: other inputs."""
        self._taken("fprop", inputs, (self.nrows, self.nsteps))
        self.inputs = inputs
        self._present.sum_steps(self._split("inputs", inputs)[2], self.outputs, self._factor)
        return self.outputs

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`alpha * error + beta * deltas` at each step, of which the mean has its part; None where nobody asks."""
        self._taken("bprop", error, self.out_shape)
        if self.deltas is not None:
            _, _, counted, others = self._split("deltas", self.deltas)
            self._present.spread_steps(error, counted, alpha * self._factor, beta)
            self._without_error(others, beta)
        return self.deltas


class RecurrentMean(RecurrentSum):
    """(rows, steps) -> (rows, 1): the mean of the steps."""

    @property
    def _factor(self) -> float:
        return 1.0 / self._used


class RecurrentLast(_Summary):
    """(rows, steps) -> (rows, 1): the last step."""

    def fprop(self, inputs: Any, inference: bool = False) -> Any:
        """(rows, batch) of (rows, steps * batch).  ValueError, TypeError: other inputs."""
        self._taken("fprop", inputs, (self.nrows, self.nsteps))
        self.inputs = inputs
        self._present.fprop_skipnode(self._split("inputs", inputs)[1], self.outputs)
        return self.outputs

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`alpha * error + beta * deltas` at the last step, `beta * deltas` before; None where nobody asks."""
        self._taken("bprop", error, self.out_shape)
        if self.deltas is not None:
            before, last, _, others = self._split("deltas", self.deltas)
            self._present.spread_steps(error, last, alpha, beta)
            for steps in (before, others):
                self._without_error(steps, beta)
        return self.deltas


class BiSum(_Summary):
    """(2 * n, steps) -> (n, steps): the sum of both directions.  ValueError: an odd count of rows."""

    def _summed(self, rows: int, steps: int) -> tuple[int, int]:
        if rows % 2:
            remedy = "put it behind a layer of two directions"
            raise ValueError(
                four_parts(f"{self._told} on inputs {self.in_shape}", f"{rows} rows have no halves", "", remedy)
            )
        return rows // 2, steps

    def fprop(self, inputs: Any, inference: bool = False) -> Any:
        """The sum of the halves, (n, steps * batch).  ValueError, TypeError: other inputs."""
        self._taken("fprop", inputs, (self.nrows, self.nsteps))
        self.inputs = inputs
        half = self.nrows // 2
        self.outputs[:] = inputs[:half] + inputs[half:]
        return self.outputs

    def bprop(self, error: Any, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`alpha * error + beta * deltas` in both halves; None where nobody asks."""
        self._taken("bprop", error, self.out_shape)
        if self.deltas is not None:
            half, be = self.nrows // 2, self._present
            for target in (self.deltas[:half], self.deltas[half:]):
                be.bprop_skipnode(error, target, alpha, beta)
        return self.deltas
