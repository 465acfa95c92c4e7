"""BiBNRNN: both directions of a plain recurrent layer, with batch normalization of what the inputs give."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.recurrence.bi_plain import OF_ZEROS, BiRNN

_RHO, _EPS = 0.9, 1e-3
"""Weight of the running statistics, and what is added to variances."""


class BiBNRNN(BiRNN):
    """BiRNN with products of W_input and the inputs normalized per row, over all steps and examples.

    beta, gamma: (2 * nout, 1); what is added, and by what is multiplied.  gmean, gvar: running statistics, for
    inference. Arguments as of BiRNN; `get_params` gives a list of three pairs.
    """

    saved = ("W", "beta", "gamma", "gmean", "gvar")

    def __init__(
        self,
        output_size: int,
        init: Any,
        init_inner: Any = None,
        activation: Any = None,
        reset_cells: bool = False,
        split_inputs: bool = False,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(output_size, init, init_inner, activation, reset_cells, split_inputs, name, parallelism)
        self.rho, self.eps = _RHO, _EPS
        self.beta: Any = None
        self.gamma: Any = None
        self.gmean: Any = None
        self.gvar: Any = None
        self.states = [[], [], []]

    def init_params(self, shape: Any) -> None:
        """Make W and dW as BiRNN does; beta, gmean and gvar are 0 at first, gamma is 1."""
        super().init_params(shape)
        be, rows = self._present, (2 * self.nout, 1)
        for name in ("beta", "gmean", "gvar"):
            if getattr(self, name) is None:
                setattr(self, name, be.zeros(rows))
        if self.gamma is None:
            self.gamma = be.ones(rows)
        self.grad_beta, self.grad_gamma, self._xsum, self._xvar = (be.zeros(rows) for _ in range(4))

    def _gradients(self) -> list[Tensor]:
        return [self.dW, self.grad_beta, self.grad_gamma]

    def _make_states(self) -> list[Tensor]:
        self._raw = self._present.zeros(self.outputs.shape, dtype=self.h_buffer.dtype)
        return super()._make_states()

    def _feed(self, inference: bool) -> None:
        self._products(self._raw)
        statistics = (self._xsum, self._xvar, self.gmean, self.gvar, self.gamma, self.beta)
        self._present.compound_fprop_bn(
            self._raw, *statistics, self._inner, self.eps, self.rho, True, inference=inference
        )

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = OF_ZEROS) -> Any:
        """As of BiRNN, with the gradients of beta and gamma, too; for an `fprop` in training."""
        self._begin_bprop(error)
        self._backward(error)
        self._of_states(error)
        be = self._present
        be.update_fc_bias(error, self._db)
        gradients, statistics = (self.grad_gamma, self.grad_beta), (self._xsum, self._xvar, self.gamma)
        be.compound_bprop_bn(error, *gradients, error, self._raw, *statistics, self.eps)
        return self._of_products(error, alpha, 0.0 if beta is OF_ZEROS else beta)

    def get_params(self) -> Any:
        """[((W, dW), states), ((beta, grad_beta), states), ((gamma, grad_gamma), states)]."""
        pairs = (self.W, self.dW), (self.beta, self.grad_beta), (self.gamma, self.grad_gamma)
        return list(zip(pairs, self.states, strict=True))
