"""Batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.neon.backends.autodiff import Autodiff
from atled.neon.backends.backend import Tensor
from atled.neon.calls.checks import check_numbers
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.shapes import maps_of


class BatchNorm(ParameterLayer):
    """`y = gamma * (x - mean) / sqrt(var + eps) + beta`, with mean and variance of each row, or of each map of images.

    In training they are those of the batch, and `gmean = rho * gmean + (1 - rho) * mean`, `gvar` likewise; in inference
    they are gmean and gvar. Both begin at 0, which is not made up for: a few steps have too small ones.

    rho: how much of the running statistics stays.  eps: added to variances.
    binary: whether products are those with the nearest power of two, as compound_fprop_bn says.
    gamma, beta, gmean, gvar: (rows or maps, 1), float32 at least.
    states: of the optimizer, a list for beta and one for gamma.

    ValueError: rho is not from 0 to 1, or eps is negative.  TypeError: they are no numbers.
    """

    saved = "beta", "gamma", "gmean", "gvar"

    def __init__(self, rho: float = 0.9, eps: float = 1e-3, name: str | None = None, binary: bool = False) -> None:
        super().__init__(name=name)
        check_numbers(self._told, rho=rho, eps=eps)
        if not 0 <= rho <= 1 or not eps >= 0:
            remedy = "give a rho from 0 to 1, and an eps from 0 on"
            raise ValueError(four_parts(self._told, f"rho is {rho}, eps is {eps}", "", remedy))
        self.rho = rho
        self.eps = eps
        self.binary = binary
        self.beta: Any = None
        self.gamma: Any = None
        self.gmean: Any = None
        self.gvar: Any = None
        self.grad_beta: Any = None
        self.grad_gamma: Any = None
        self.xmean: Any = None
        self.xvar: Any = None
        self.states = [[], []]

    def configure(self, in_obj: Any) -> BatchNorm:
        """Take sizes, which do not change; see Layer."""
        super().configure(in_obj)
        self.out_shape = self.in_shape
        self.weight_shape = maps_of(self.in_shape), 1
        return self

    def _has_parameters(self) -> bool:
        return self.grad_gamma is not None

    def init_params(self, shape: Any) -> None:
        """Make parameters, those that were not loaded: gamma of ones, others of zeros.  shape: (rows or maps, 1)."""
        be = self._present
        for name in self.saved:
            if getattr(self, name) is not None:
                self._check_size("allocate", f"the {name} it was given", getattr(self, name), tuple(shape))
        for name in (*self.saved, "grad_beta", "grad_gamma", "xmean", "xvar"):
            if getattr(self, name) is None:
                make = be.ones if name == "gamma" else be.zeros
                setattr(self, name, make(shape, dtype=self._param_dtype, **self.get_param_attrs()))

    @property
    def _param_dtype(self) -> np.dtype:
        """Sums of float16 over a batch would be too coarse."""
        return np.promote_types(self._present.default_dtype, np.float32)

    def fprop(self, inputs: Tensor, inference: bool = False, beta: float = 0.0) -> Tensor:
        """`outputs = normalized inputs + beta * outputs`.

        inputs: (features, steps * batch) float.
        RuntimeError: there is no memory yet.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, self.outputs.shape)
        self.inputs = inputs
        x, y = self._by_map("x", inputs), self._by_map("y", self.outputs)
        self._normalize(x, y, inference, beta)
        return self.outputs

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """The gradients of gamma and beta, and deltas, where they are asked for; else they are written to the error.

        error: (features, steps * batch) float.
        Raises as `fprop`, and ValueError for alpha and beta other than 1 and 0.
        """
        if alpha != 1 or beta != 0:
            wrong, remedy = f"it has no alpha={alpha}, beta={beta}", "put SkipNode() before it"
            raise ValueError(four_parts(f"{self._told}.bprop", wrong, "", remedy))
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        target = error if self.deltas is None else self.deltas
        self._derive(self._by_map("x", self.inputs), self._by_map("e", error), self._by_map("d", target))
        return self.deltas

    def _by_map(self, name: str, tensor: Tensor) -> Tensor:
        """The view with a row for each element of gamma."""
        view: Tensor = self._seen(name, tensor, lambda whole: whole.reshape((self.weight_shape[0], -1)))
        return view

    def _normalize(self, x: Tensor, y: Tensor, inference: bool, beta: float) -> None:
        self._present.compound_fprop_bn(
            x,
            self.xmean,
            self.xvar,
            self.gmean,
            self.gvar,
            self.gamma,
            self.beta,
            y,
            self.eps,
            self.rho,
            True,
            accumbeta=beta,
            binary=self.binary,
            inference=inference,
        )

    def _derive(self, x: Tensor, error: Tensor, deltas: Tensor) -> None:
        self._present.compound_bprop_bn(
            deltas, self.grad_gamma, self.grad_beta, error, x, self.xmean, self.xvar, self.gamma, self.eps, self.binary
        )

    def _gradients(self) -> list[Tensor]:
        return [self.grad_beta, self.grad_gamma]

    def get_params(self) -> Any:
        """[((beta, grad_beta), states), ((gamma, grad_gamma), states)]."""
        of_beta, of_gamma = self.states
        return [((self.beta, self.grad_beta), of_beta), ((self.gamma, self.grad_gamma), of_gamma)]


class BatchNormAutodiff(BatchNorm):
    """BatchNorm as an op-tree, whose gradients are those of Autodiff: an example of a layer without a `bprop` by hand.

    rho, eps: as for BatchNorm.
    """

    def __init__(self, rho: float = 0.99, eps: float = 1e-6, name: str | None = None) -> None:
        super().__init__(rho, eps, name)

    def _normalize(self, x: Tensor, y: Tensor, inference: bool, beta: float) -> None:
        be = self._present
        if inference:
            tree = (x - self.gmean) / be.sqrt(self.gvar + self.eps) * self.gamma + self.beta
        else:
            self.xmean[:] = be.mean(x, axis=1)
            self.xvar[:] = be.var(x, axis=1)
            self.gmean[:] = self.gmean * self.rho + self.xmean * (1.0 - self.rho)
            self.gvar[:] = self.gvar * self.rho + self.xvar * (1.0 - self.rho)
            tree = self._tree(x)
        y[:] = tree + y * beta if beta else tree

    def _derive(self, x: Tensor, error: Tensor, deltas: Tensor) -> None:
        gradients = Autodiff(self._tree(x), self._present, next_error=error)
        gradients.back_prop_grad([x, self.gamma, self.beta], [deltas, self.grad_gamma, self.grad_beta])

    def _tree(self, x: Tensor) -> Any:
        """The outputs of training."""
        be = self._present
        return (x - be.mean(x, axis=1)) / be.sqrt(be.var(x, axis=1) + self.eps) * self.gamma + self.beta
