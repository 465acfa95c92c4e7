"""Training in half precision: a loss scale that finds its own size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.arrays.array import NdArray
from atled.solvers import Solver
from atled.variable import Variable

__all__ = ["DynamicLossScalingUpdater"]

_MOST_TRIES = 100


def _identity(x: Any = None) -> Any:
    return x


class DynamicLossScalingUpdater:
    """One training step with the loss multiplied by a number that keeps small gradients out of float16's underflow.

    The scale grows by `scaling_factor` after more than N updates without an overflow, and shrinks by it when a
    gradient is infinite or not a number; the step is then tried again with fresh data.

        updater = DynamicLossScalingUpdater(solver, loss, feed_a_batch)
        for i in range(steps):
            updater.update()

    Args:
        solver: with its parameters set.
        loss: to be minimised; recorded under a Context of type config "half".
        data_feeder: called without arguments before each forward; fills the inputs of the graph.
        scale: the first loss scale.
        scaling_factor: what it grows and shrinks by.
        N: updates before it grows.
        clear_buffer: let forward and backward give memory back early.
        accum_grad: forwards and backwards per update, whose gradients are added.
        weight_decay: rate; None: none.
        comm: communicator whose `all_reduce` adds the gradients of all processes; None: one process.
        grads: the gradients to exchange.

    All of them are attributes, and may be changed between updates. Source: Micikevicius et al. 2018, "Mixed precision
    training", section 3.2.
    """

    def __init__(
        self,
        solver: Solver,
        loss: Variable,
        data_feeder: Callable[[], Any] = _identity,
        scale: float = 8.0,
        scaling_factor: float = 2.0,
        N: int = 2000,
        clear_buffer: bool = True,
        accum_grad: int = 1,
        weight_decay: float | None = None,
        comm: Any = None,
        grads: Sequence[NdArray] = (),
    ) -> None:
        self.solver = solver
        self.loss = loss
        self.data_feeder = data_feeder
        self.scale = scale
        self.scaling_factor = scaling_factor
        self.N = N
        self.clear_buffer = clear_buffer
        self.accum_grad = accum_grad
        self.weight_decay = weight_decay
        self.comm = comm
        self.grads = grads
        self._counter = 0

    def update(self) -> None:
        """Feed data, compute gradients, exchange them, undo the scale, decay weights, update the parameters.

        After 100 overflows in a row the step is given up: the parameters stay as they are, the scale stays small.
        """
        for _ in range(_MOST_TRIES + 1):
            if self._gradients_are_finite():
                self._step()
                return
            self.scale /= self.scaling_factor
            self._counter = 0

    def _gradients_are_finite(self) -> bool:
        """Compute the gradients of the scaled loss."""
        self.solver.zero_grad()
        for _ in range(self.accum_grad):
            self.data_feeder()
            # Overflow is how a scale that is too large shows: looked for below, and no reason for NumPy to warn.
            with np.errstate(over="ignore", invalid="ignore"):
                self.loss.forward(clear_no_need_grad=self.clear_buffer)
                self.loss.backward(self.scale, clear_buffer=self.clear_buffer)
        if self.comm is not None and len(self.grads):
            self.comm.all_reduce(self.grads, division=False, inplace=False)
        return not self.solver.check_inf_or_nan_grad()

    def _step(self) -> None:
        self.solver.scale_grad(1.0 / self.scale)
        if self.weight_decay is not None:
            self.solver.weight_decay(self.weight_decay)
        self.solver.update()
        if self._counter > self.N:
            self.scale *= self.scaling_factor
            self._counter = 0
        self._counter += 1


def __dir__() -> list[str]:
    return sorted(__all__)
