"""Linear: products with a matrix of weights."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.shapes import interpret_in_shape


class Linear(ParameterLayer):
    """`y = W x`, of each column.

    nout: how many rows y has.  init: of W (nout, nin).  bsum: whether `batch_sum` (nout, 1) gets the row sums of y.
    After `set_batch_size` or `set_seq_len` the first `size * steps` columns are computed, and others left as they are.

    nin, nsteps: rows of x, and steps.
    """

    def __init__(
        self, nout: int, init: Any, bsum: bool = False, name: str | None = None, parallelism: str = "Disabled"
    ) -> None:
        super().__init__(init, name, parallelism)
        self.nout = nout
        self.bsum = bsum
        self.nin = 0
        self.nsteps = 0

    def configure(self, in_obj: Any) -> Linear:
        """Take sizes (nin, nsteps), or all of an image; see Layer."""
        super().configure(in_obj)
        self.nin, self.nsteps = interpret_in_shape(self.in_shape)
        self.out_shape = self.nout, self.nsteps
        self.weight_shape = self.nout, self.nin
        return self

    def fprop(self, inputs: Tensor, inference: bool = False, beta: float = 0.0) -> Tensor:
        """`outputs = W x + beta * outputs`.

        inputs: (nin, nsteps * batch) float.  inference: no effect.
        RuntimeError: there is no memory yet.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, (self.nin, self.outputs.shape[1]))
        self.inputs = inputs
        self._product(self._used("x", inputs), self._used("y", self.outputs), beta)
        return self.outputs

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """`dW = e x^T`, and `deltas = alpha * W^T e + beta * deltas`, where deltas are asked for.

        error: (nout, nsteps * batch) float. Raises as `fprop`.
        """
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        be, used = self._present, self._used("e", error)
        if self.deltas is not None:
            transposed = self._seen("W.T", self._factor, _transposed)
            be.compound_dot(transposed, used, self._used("d", self.deltas), alpha, beta)
        be.compound_dot(used, self._seen("x.T", self._used("x", self.inputs), _transposed), self.dW)
        return self.deltas

    @property
    def _factor(self) -> Any:
        """The matrix that inputs are multiplied by."""
        return self.W

    def _product(self, x: Tensor, y: Tensor, beta: float) -> None:
        """`y = W x + beta * y`."""
        self._present.compound_dot(self.W, x, y, beta=beta, bsum=self.batch_sum)

    def _used(self, name: str, tensor: Tensor) -> Tensor:
        """The columns that count."""
        if self.actual_bsz is None and self.actual_seq_len is None:
            return tensor
        size = self._present.bsz if self.actual_bsz is None else self.actual_bsz
        steps = self.nsteps if self.actual_seq_len is None else self.actual_seq_len
        count = size * steps
        view: Tensor = self._seen(f"{name} {count}", tensor, lambda whole: whole[:, :count])
        return view


class BinaryLinear(Linear):
    """`y = sign(W) x`: W is kept as it is learnt, and rounded to -1 and 1 at each step.

    Errors go back through sign(W), and dW is what it would be without rounding (the straight-through estimator:
    Courbariaux et al. 2016, "Binarized Neural Networks").

    W_binary: sign(W) of the last step.
    """

    W_binary: Any = None

    def allocate(self, shared_outputs: Tensor | None = None, accumulate_updates: bool = False) -> None:
        """See ParameterLayer."""
        super().allocate(shared_outputs, accumulate_updates)
        if self.W_binary is None:
            self.W_binary = self._present.empty_like(self.W)

    @property
    def _factor(self) -> Any:
        return self.W_binary

    def _product(self, x: Tensor, y: Tensor, beta: float) -> None:
        self._present.binarize(self.W, self.W_binary, stochastic=False)
        self._present.xnor_compound_dot(self.W_binary, x, y, beta)
        if self.batch_sum is not None:
            self._present.sum(y, axis=1, out=self.batch_sum)


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.T
