"""RecurrentLayer: what layers of one and of two directions share: sizes, weights, inputs, when a state is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.shapes import interpret_in_shape


class RecurrentLayer(ParameterLayer):
    """A layer with states, which go from step to step, and from call to call.

    The states of the last step are those with which the next call starts, whatever tensor it gets: until inputs of
    another shape come, or `reset_state` is called. With reset_cells each call starts with zeros.

    nin, nout, nsteps: rows of inputs and units, both per direction, and steps.
    x: the inputs of the last call as (rows, steps * batch).

    ValueError: output_size is no whole number from 1 on.
    """

    directions = 1
    gates = 1

    def __init__(
        self,
        output_size: int,
        init: Any,
        init_inner: Any,
        activation: Any,
        reset_cells: bool,
        name: str | None,
        parallelism: str,
    ) -> None:
        super().__init__(init, name, parallelism)
        if not isinstance(output_size, int | np.integer) or output_size < 1:
            wrong, remedy = f"output_size is {shortened(output_size)}", "give a count of units from 1 on"
            raise ValueError(four_parts(self._told, wrong, "", remedy))
        self.output_size = self.nout = output_size
        self.init_inner = init_inner
        self.activation = activation
        self.reset_cells = reset_cells
        self.nin = 0
        self.nsteps = 0
        self.x: Any = None
        self._zero: Any = None
        self._zero_state: Any = None
        self._starts: list[Tensor] = []
        self._kept: list[Tensor] = []
        self._last = 0
        self._last_shape: tuple[int, ...] | None = None

    def configure(self, in_obj: Any) -> RecurrentLayer:
        """Take the sizes of what will come, (rows, steps); rows alone are one step.

        ValueError: there are no rows or steps, or the layer lacks an activation.
        """
        super().configure(in_obj)
        rows, steps = interpret_in_shape(self.in_shape)
        if rows < 1 or steps < 1:
            raise ValueError(
                four_parts(f"{self._told} on inputs {self.in_shape}", "they have no elements", "", "give (rows, steps)")
            )
        for named in self._activations():
            if not callable(getattr(self, named)):
                remedy = f"pass {named}=, such as atled.neon.transforms.Tanh()"
                raise ValueError(four_parts(self._told, f"it has no {named}", "", remedy))
        self.nin, self.nsteps = self._nin(rows), steps
        self.out_shape = self.directions * self.nout, steps
        self.weight_shape = self.directions * (self.nin + self.nout + 1), self.gates * self.nout
        return self

    def _activations(self) -> tuple[str, ...]:
        """Names of the attributes that are activations."""
        return ("activation",)

    def _nin(self, rows: int) -> int:
        """Rows of the inputs that a direction gets."""
        return rows

    def allocate(self, shared_outputs: Tensor | None = None, accumulate_updates: bool = False) -> None:
        """Make outputs, states and, once, parameters; anew where sizes or the batch are others than before."""
        self._check_configured("allocate")
        columns = self.nsteps * self._present.bsz
        if self.outputs is not None and self.outputs.shape != (self.out_shape[0], columns):
            self.outputs = None
        if self.W is not None:
            self._check_size("allocate", "its weights", self.W, self.weight_shape)
        is_new = self.outputs is None
        if is_new:
            self._make_outputs(shared_outputs)
            self.x = None
        super().allocate(shared_outputs, accumulate_updates)
        if is_new:
            self._zero = self._present.zeros((self.out_shape[0], self._present.bsz), dtype=self.W.dtype)
            self._zero_state = self._zero[: self.nout]
            self._starts = self._make_states()
            self._kept = [self._present.zeros_like(start) for start in self._starts]
            self._last_shape = None

    def _make_outputs(self, shared_outputs: Tensor | None) -> None:
        """Make outputs where they are no buffer as other layers have."""

    def _make_states(self) -> list[Tensor]:
        """Make what a call needs beside outputs; the states before the first steps."""
        raise NotImplementedError

    def init_params(self, shape: Any) -> None:
        """Make W, dW and their views; the initializers fill W gate by gate, and biases are 0.

        shape: of W.  ValueError: there is no initializer, or values of another shape.
        """
        super().init_params(shape)
        self._show(self.W, "")
        self._show(self.dW, "d")

    def _show(self, of: Tensor, prefix: str) -> None:
        """Have attributes be views of W or dW."""
        raise NotImplementedError

    def _block(self, of: Tensor, first: int, rows: int, columns: int) -> Tensor:
        """Rows of W or dW from one on, read row by row as a matrix of so many rows and columns."""
        count = rows * columns // of.shape[1]
        return of[first : first + count].reshape((rows, columns))

    def _fill(self, param: Tensor, init: Any, what: str = "weights") -> None:
        """Give weights their first values, gate by gate; see ParameterLayer."""
        if init is None or isinstance(init, Tensor | np.ndarray):
            super()._fill(param, init, what)
            return
        for each in (init, self.init_inner or init):
            self._check_initializer(what, each)
        self._show(param, "")
        of_inputs, inner, biases = self._blocks()
        for blocks, first in ((of_inputs, init), (inner, self.init_inner or init)):
            for block in blocks:
                for gate in range(self.gates):
                    first.fill(block[gate * self.nout : (gate + 1) * self.nout])
        for block in biases:
            block.fill(0)

    def _blocks(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The views of W: for inputs, for states, and biases; of each direction."""
        raise NotImplementedError

    def init_buffers(self, inputs: Tensor) -> None:
        """Take inputs; where their shape is not that of the last call, the state is cleared.

        inputs: (rows, steps * batch), step by step, or as many elements in another shape.
        TypeError: no tensor, or one of another dtype than the weights.  ValueError: of another size, or of another
        backend.
        """
        rows, columns = interpret_in_shape(self.in_shape)[0], self.nsteps * self._present.bsz
        if not isinstance(inputs, Tensor) or inputs.size != rows * columns:
            self._check_size("fprop", "inputs", inputs, (rows, columns))
        if inputs.backend is not self._present or self.outputs.shape[1] != columns:
            wrong = "the backend, or its batch size, is not that for which the layer was allocated"
            raise ValueError(four_parts(f"{self._told}.fprop", wrong, "", "configure and allocate it anew"))
        self._check_dtype("fprop", "inputs", inputs)
        if inputs is not self.inputs or self.x is None or self.x.view.read_only:  # a copy has what was there then
            self.x = inputs.reshape((rows, columns))
            self.inputs = inputs
        if self._last_shape not in (None, inputs.shape):
            self.reset_state()
        self._last_shape = inputs.shape

    def _check_dtype(self, call: str, what: str, given: Tensor) -> None:
        """TypeError: a tensor is of another dtype than the weights."""
        if given.dtype != self.W.dtype:
            wrong = f"{what} are {given.dtype}, the weights {self.W.dtype}"
            remedy = f"give a tensor of {self.W.dtype}"
            raise TypeError(four_parts(f"{self._told}.{call}", wrong, "", remedy))

    def reset_state(self) -> None:
        """Have the next call start with zeros."""
        for kept in self._kept:
            kept.fill(0)

    def _begin(self) -> None:
        """Set the states before the first steps, by calls that are the same each time: they may be recorded."""
        for start, kept in zip(self._starts, self._kept, strict=True):
            self._copy(self._zero_state if self.reset_cells else kept, start)

    def _end(self) -> None:
        """Keep the states behind the last steps."""
        self._last = self._used
        if not self.reset_cells:
            for kept, last in zip(self._kept, self._of("last", self._starts[0], self._last_states), strict=True):
                self._copy(last, kept)

    def _copy(self, source: Tensor, target: Tensor) -> None:
        """Have a tensor hold what another holds; a call of the backend, unlike an assignment of a few numbers."""
        self._present.fprop_skipnode(source, target)

    def _last_states(self, _: Tensor) -> list[Tensor]:
        """Views of the states behind the last steps, in the order of those before the first ones."""
        raise NotImplementedError

    @property
    def _used(self) -> int:
        """How many steps are computed."""
        return self._steps_that_count(self.nsteps)

    def _of(self, name: str, tensor: Tensor, see: Callable[[Any], Any]) -> Any:
        """What see makes of a tensor for as many steps as are computed; as `_seen`."""
        return self._seen(f"{name} of {self._used} steps", tensor, see)

    def _begin_bprop(self, error: Any) -> None:
        """Refuse an error that does not fit; that of steps which were not computed is 0 from now on."""
        self._check_allocated("bprop")
        if self.x is None:
            remedy = "call fprop first: gradients are those of its outputs"
            raise RuntimeError(four_parts(f"{self._told}.bprop", "there was no fprop", "", remedy))
        if not isinstance(error, Tensor) or error.shape != self.outputs.shape:
            self._check_size("bprop", "errors", error, self.outputs.shape)
        self._check_dtype("bprop", "errors", error)
        if self._used < self.nsteps:
            self._copy(*self._of("rest", error, self._rest))

    def _rest(self, error: Tensor) -> tuple[Tensor, Tensor]:
        """Zeros, and the steps of an error which were not computed."""
        rest = error[:, self._used * self._present.bsz :]
        return self._present.zeros(rest.shape, dtype=rest.dtype), rest

    @property
    def _deltas_columns(self) -> Any:
        """deltas as (rows, steps * batch); None where nobody asks for them."""
        return self.deltas if self.deltas is None else self.deltas.reshape(self.x.shape)
