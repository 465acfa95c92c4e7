"""Batch normalization of rows, and its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atled.errors import four_parts
from atled.keyed import Description
from atled.neon.calls.checks import asked, check_numbers, check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class NormalizationCalls(DescribedCalls):
    """Normalizes rows over the batch."""

    if TYPE_CHECKING:
        context: Context

    @layer_call
    def compound_fprop_bn(
        self,
        x: Tensor,
        xsum: Tensor,
        xvar: Tensor,
        gmean: Tensor,
        gvar: Tensor,
        gamma: Tensor,
        beta: Tensor,
        y: Tensor,
        eps: float,
        rho: float,
        compute_batch_sum: bool,
        accumbeta: float = 0.0,
        relu: bool = False,
        binary: bool = False,
        inference: bool = False,
        outputs: Any = None,
        layer: Any = None,
    ) -> Described:
        """`y = gamma * (x - mean) / sqrt(var + eps) + beta + accumbeta * y`, with mean and variance of each row.

        Args:
            x: (F, N) float.
            xsum: (F, 1); gets the mean. With compute_batch_sum false it holds the sums of the rows before.
            xvar: (F, 1); gets the variance, of N elements.
            gmean, gvar: (F, 1); running statistics, `rho * gmean + (1 - rho) * mean` behind the call.
            gamma, beta: (F, 1) float.
            y: (F, N); the target, which may be x.
            eps, rho, accumbeta: numbers. Where accumbeta is 0, what y holds counts for nothing.
            compute_batch_sum: whether the sums are computed.
            relu: whether only what is positive counts, before `accumbeta * y` is added.
            binary: whether products are those with the nearest power of two: of the variance's squares, and with
                `1 / sqrt(var + eps)` and gamma.
            inference: whether gmean and gvar are taken for mean and variance; y alone is written then.
            outputs, layer: no effect.

        Raises:
            ValueError: shapes that do not fit, no batch, or tensors of another backend.
            TypeError: what is no tensor or number.
        """
        call = "compound_fprop_bn"
        rows = {"xsum": xsum, "xvar": xvar, "gmean": gmean, "gvar": gvar, "gamma": gamma, "beta": beta}
        check_numbers(call, eps=eps, rho=rho, accumbeta=accumbeta)
        self._check_rows(call, x, {"y": y}, rows)
        d = Description(self.context)
        of_x, epsilon = d.leaf(x.view), d.number(float(eps))
        if inference:
            mean, variance = d.leaf(gmean.view), d.leaf(gvar.view)
            centred = d.call("Sub2", of_x, mean)
        else:
            count = d.number(1.0 / x.shape[1])
            sums = d.call("Sum", of_x, axes=(1,), keep_dims=True) if compute_batch_sum else d.leaf(xsum.view)
            mean = d.call("Mul2", sums, count)
            centred = d.call("Sub2", of_x, mean)
            squares = d.call("Sum", _product(d, binary, centred, centred), axes=(1,), keep_dims=True)
            variance = d.call("Mul2", squares, count)
            for running, new in ((gmean, mean), (gvar, variance)):
                old = d.call("Mul2", d.leaf(running.view), d.number(float(rho)))
                d.assign(running.view, d.call("Add2", old, d.call("Mul2", new, d.number(1.0 - rho))))
            d.assign(xsum.view, mean)
            d.assign(xvar.view, variance)
        normal = _product(d, binary, centred, _inverse(d, variance, epsilon))
        value = d.call("Add2", _product(d, binary, normal, d.leaf(gamma.view)), d.leaf(beta.view))
        if relu:
            value = d.call("ReLU", value)
        if accumbeta:
            value = d.call("Add2", value, d.call("Mul2", d.leaf(y.view), d.number(float(accumbeta))))
        d.assign(y.view, value)
        return Described(d)

    @layer_call
    def compound_bprop_bn(
        self,
        delta_out: Tensor,
        grad_gamma: Tensor,
        grad_beta: Tensor,
        delta_in: Tensor,
        x: Tensor,
        xsum: Tensor,
        xvar: Tensor,
        gamma: Tensor,
        eps: float,
        binary: bool = False,
        layer: Any = None,
    ) -> Described:
        """The gradients of `compound_fprop_bn`, with `normal = (x - xsum) / sqrt(xvar + eps)`.

            grad_beta = sum of delta_in over the batch
            grad_gamma = sum of normal * delta_in over the batch
            delta_out = gamma / sqrt(xvar + eps) * (delta_in - (normal * grad_gamma + grad_beta) / N)

        Args:
            delta_out: (F, N); the target of the error of x, which may be delta_in.
            grad_gamma, grad_beta: (F, 1); targets.
            delta_in: (F, N) float; the error of y.
            x: (F, N) float.
            xsum, xvar: (F, 1); mean and variance, as compound_fprop_bn wrote them.
            gamma: (F, 1) float.
            eps: a number.
            binary: as in compound_fprop_bn; of `normal * delta_in` the product is exact.
            layer: no effect.

        Raises:
            ValueError: shapes that do not fit, no batch, or tensors of another backend.
            TypeError: what is no tensor or number.
        """
        call = "compound_bprop_bn"
        rows = {"grad_gamma": grad_gamma, "grad_beta": grad_beta, "xsum": xsum, "xvar": xvar, "gamma": gamma}
        check_numbers(call, eps=eps)
        self._check_rows(call, x, {"delta_out": delta_out, "delta_in": delta_in}, rows)
        d = Description(self.context)
        error, scale = d.leaf(delta_in.view), d.leaf(gamma.view)
        inverse = _inverse(d, d.leaf(xvar.view), d.number(float(eps)))
        normal = _product(d, binary, d.call("Sub2", d.leaf(x.view), d.leaf(xsum.view)), inverse)
        of_beta = d.call("Sum", error, axes=(1,), keep_dims=True)
        of_gamma = d.call("Sum", d.call("Mul2", normal, error), axes=(1,), keep_dims=True)
        shared = d.call("Add2", _product(d, binary, normal, of_gamma), of_beta)
        own = d.call("Sub2", error, d.call("Mul2", shared, d.number(1.0 / x.shape[1])))
        d.assign(grad_beta.view, of_beta)
        d.assign(grad_gamma.view, of_gamma)
        d.assign(delta_out.view, _product(d, binary, _product(d, binary, own, scale), inverse))
        return Described(d)

    def _check_rows(self, call: str, x: Tensor, like_x: dict[str, Tensor], rows: dict[str, Tensor]) -> None:
        """Refuse what is not shaped as x, or has not one element for each row of it."""
        given = {"x": x, **like_x, **rows}
        check_tensors(self, call, **given)
        if not x.shape[1]:
            wrong = "x has no columns, of which there would be a mean"
            raise ValueError(four_parts(asked(call, **given), wrong, "", "give a batch"))
        shapes = dict.fromkeys(like_x, x.shape) | dict.fromkeys(rows, (x.shape[0], 1))
        check_shapes(call, shapes, **given)


def _product(d: Description, binary: bool, one: int, other: int) -> int:
    """The product of two values; binary: with the second one rounded to a power of two."""
    return d.call("ShiftByValue" if binary else "Mul2", one, other)


def _inverse(d: Description, variance: int, epsilon: int) -> int:
    """`1 / sqrt(variance + epsilon)`."""
    return d.call("Div2", d.number(1.0), d.call("Sqrt", d.call("Add2", variance, epsilon)))
