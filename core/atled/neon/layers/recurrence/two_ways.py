"""TwoWays: what recurrent layers of two directions share: views of W and dW, and gradients over all steps."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts
from atled.neon.backends.backend import Tensor
from atled.neon.layers.recurrence.recurrent_layer import RecurrentLayer


class TwoWays(RecurrentLayer):
    """A layer with a forward direction, whose states are the upper half of the outputs, and a backward one.

    The states lie in h_buffer (2 * nout, (steps + 2) * batch), which has one step of padding at each end: the state
    from which a direction starts. outputs are its inner part.
    """

    directions = 2
    # Names of the plain layer, which say nothing here.
    W_input: Any = None
    W_input_f: Any = None
    W_input_b: Any = None
    W_recur_f: Any = None
    W_recur_b: Any = None
    b_f: Any = None
    b_b: Any = None
    dW_input_f: Any = None
    dW_input_b: Any = None
    dW_recur_f: Any = None
    dW_recur_b: Any = None
    db_f: Any = None
    db_b: Any = None
    # Those of both directions in one.
    _W_input: Any = None
    _W_recur: Any = None
    _b: Any = None
    _dW_input: Any = None
    _dW_recur: Any = None
    _db: Any = None

    def __init__(
        self,
        output_size: int,
        init: Any,
        init_inner: Any,
        activation: Any,
        reset_cells: bool,
        split_inputs: bool,
        name: str | None,
        parallelism: str,
    ) -> None:
        super().__init__(output_size, init, init_inner, activation, reset_cells, name, parallelism)
        self.split_inputs = split_inputs
        self.h_buffer: Any = None
        self._inner: Any = None
        self._padding: tuple[Any, ...] = ()

    def _nin(self, rows: int) -> int:
        if not self.split_inputs:
            return rows
        if rows % 2:
            remedy = "give an even count of rows, or leave split_inputs out"
            wrong = f"split_inputs halves the {rows} rows of its inputs"
            raise ValueError(four_parts(f"{self._told} on inputs {self.in_shape}", wrong, "", remedy))
        return rows // 2

    def _show(self, of: Tensor, prefix: str) -> None:
        units, nin = self.gates * self.nout, self.nin
        blocks = {
            "W_input": self._block(of, 0, 2 * units, nin),
            "W_recur": self._block(of, 2 * nin, 2 * units, self.nout),
            "b": self._block(of, 2 * (nin + self.nout), 2 * units, 1),
        }
        for name, both in blocks.items():
            setattr(self, f"{prefix}{name}_f", both[:units])
            setattr(self, f"{prefix}{name}_b", both[units:])
            setattr(self, f"_{prefix}{name}", both)

    def _blocks(self) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        return [self.W_input_f, self.W_input_b], [self.W_recur_f, self.W_recur_b], [self.b_f, self.b_b]

    def _make_outputs(self, shared_outputs: Tensor | None) -> None:
        be = self._present
        self.h_buffer = be.iobuf((self.out_shape[0], self.nsteps + 2))
        self.outputs = self._inner = self.h_buffer[:, be.bsz : -be.bsz]
        self._padding = self.h_buffer[: self.nout, : be.bsz], self.h_buffer[self.nout :, -be.bsz :]
        if shared_outputs is not None:
            # The memory of another layer has no room for padding: it gets a copy.
            self.outputs = be.iobuf(self.out_shape, shared=shared_outputs)

    def fprop(self, inputs: Tensor, inference: bool = False) -> Any:
        """The states of all steps, (2 * nout, steps * batch): of the forward direction, below them of the backward one.

        inputs: (nin, steps * batch), step by step; with split_inputs (2 * nin, ...), the upper half for the forward
        direction.

        TypeError: no tensor.  ValueError: other sizes.  RuntimeError: `allocate` was not called.
        """
        self._check_allocated("fprop")
        self.init_buffers(inputs)
        self._begin()
        self._feed(inference)
        self._unroll(self._used)
        self._end()
        if self.outputs is not self._inner:
            self._copy(self._inner, self.outputs)
        return self.outputs

    def _last_states(self, _: Tensor) -> list[Tensor]:
        return self._ends_of(self._inner)

    def _ends_of(self, states: Tensor) -> list[Tensor]:
        """What each direction gives last: the last step that is computed, and the first one."""
        batch, nout, end = self._present.bsz, self.nout, self._used * self._present.bsz
        return [states[:nout, end - batch : end], states[nout:, :batch]]

    def _feed(self, inference: bool) -> None:
        """Products of W_input and the inputs of all steps."""
        self._products(self._fed)

    @property
    def _fed(self) -> Tensor:
        """Where the products of the inputs go."""
        fed: Tensor = self._inner
        return fed

    def _products(self, fed: Tensor) -> None:
        """Those of W_input and the inputs of all steps."""
        be = self._present
        if not self.split_inputs:
            be.compound_dot(self._W_input, self.x, fed)
            return
        for half, weight, target in zip(
            self._halves("x", self.x), (self.W_input_f, self.W_input_b), self._halves("fed", fed), strict=True
        ):
            be.compound_dot(weight, half, target)

    def _halves(self, name: str, tensor: Tensor) -> Any:
        """The upper and the lower rows, views that stay."""
        middle = tensor.shape[0] // 2
        return self._seen(f"halves of {name}", tensor, lambda each: (each[:middle], each[middle:]))

    def _unroll(self, used: int) -> None:
        """Compute the states of so many steps."""
        raise NotImplementedError

    def _backward(self, error: Tensor) -> Tensor:
        """Errors before the activations."""
        raise NotImplementedError

    def _gradients_of(self, deltas: Tensor, alpha: float, beta: float) -> Any:
        """Gradients of all parameters, and the errors of the inputs, from those before the activations."""
        self._of_states(deltas)
        self._present.update_fc_bias(deltas, self._db)
        return self._of_products(deltas, alpha, beta)

    def _of_states(self, deltas: Tensor) -> None:
        """The gradient of W_recur: neighbours within the sequence only."""
        for target, later, before in self._of("deltas", deltas, self._neighbours):
            if later.shape[1]:
                self._present.compound_dot(later, before, target)
            else:
                target.fill(0)

    def _neighbours(self, deltas: Tensor) -> tuple[Any, ...]:
        """Of each direction the gradient, deltas of all steps but the first one, and the states before, transposed."""
        units, nout, batch, end = self.gates * self.nout, self.nout, self._present.bsz, self._used * self._present.bsz
        forward, backward, states = deltas[:units], deltas[units:], self._inner
        return (
            (self.dW_recur_f, forward[:, batch:end], states[:nout, : end - batch].T),
            (self.dW_recur_b, backward[:, : end - batch], states[nout:, batch:end].T),
        )

    def _of_products(self, deltas: Tensor, alpha: float, beta: float) -> Any:
        """The gradient of W_input, and the errors of the inputs."""
        into = self._deltas_columns
        if not self.split_inputs:
            self._of_product("both", deltas, self.x, self._W_input, self._dW_input, into, alpha, beta)
            return self.deltas
        upper, lower = zip(
            self._halves("deltas", deltas),
            self._halves("x", self.x),
            (self.W_input_f, self.W_input_b),
            (self.dW_input_f, self.dW_input_b),
            (None, None) if into is None else self._halves("errors", into),
            strict=True,
        )
        self._of_product("upper", *upper, alpha, beta)
        self._of_product("lower", *lower, alpha, beta)
        return self.deltas

    def _of_product(
        self,
        name: str,
        deltas: Tensor,
        x: Tensor,
        weight: Tensor,
        gradient: Tensor,
        into: Any,
        alpha: float,
        beta: float,
    ) -> None:
        """The gradients of one product `weight x`."""
        be = self._present
        be.compound_dot(deltas, self._seen(f"x {name}", x, lambda each: each.T), gradient)
        if into is not None:
            transposed = self._seen(f"weight {name}", weight, lambda each: each.T)
            be.compound_dot(transposed, deltas, into, alpha=alpha, beta=beta)
