"""The bias of fully connected layers, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atled.keyed import Description
from atled.neon.calls.checks import check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class BiasCalls(DescribedCalls):
    """Adds biases, and sums errors."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def add_fc_bias(self, inputs: Tensor, bias: Tensor) -> Described:
        """`inputs = inputs + bias`, in place.

        inputs: (F, N) float.  bias: (F, 1).
        ValueError: other shapes, or tensors of another backend.  TypeError: no tensor.
        """
        check_tensors(self, "add_fc_bias", inputs=inputs, bias=bias)
        check_shapes("add_fc_bias", {"bias": (inputs.shape[0], 1)}, inputs=inputs, bias=bias)
        d = Description(self.context)
        d.assign(inputs.view, d.call("Add2", d.leaf(inputs.view), d.leaf(bias.view)))
        return Described(d)

    @layer_call
    def update_fc_bias(self, err: Tensor, out: Tensor) -> Described:
        """`out = sum of err over the batch`.

        err: (F, N) float.  out: (F, 1).
        ValueError: other shapes, or tensors of another backend.  TypeError: no tensor.
        """
        check_tensors(self, "update_fc_bias", err=err, out=out)
        check_shapes("update_fc_bias", {"out": (err.shape[0], 1)}, err=err, out=out)
        d = Description(self.context)
        d.assign(out.view, d.call("Sum", d.leaf(err.view), axes=(1,), keep_dims=True))
        return Described(d)
