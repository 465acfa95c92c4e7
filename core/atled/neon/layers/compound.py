"""Layers in a row that are written as one: lists of them, which containers flatten."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts
from atled.neon.layers.activation import Activation
from atled.neon.layers.base import Layer
from atled.neon.layers.bias import Bias
from atled.neon.layers.convolution import Convolution, Convolution_bias
from atled.neon.layers.deconvolution import Deconvolution
from atled.neon.layers.linear import BinaryLinear, Linear
from atled.neon.layers.normalization import BatchNorm


class CompoundLayer(list[Layer]):
    """A list of layers, which subclasses begin and `add_postfilter_layers` goes on with.

    bias: an initializer; None for no bias.  batch_norm: whether there is a BatchNorm.
    activation: a transform; None for none.
    name: of the first layer; the names of others are `name_bias`, `name_bnorm` and `name_<class of the transform>`.

    AttributeError: both bias and batch_norm.
    """

    binary = False
    """Whether weights are signs, and products of a BatchNorm those with powers of two."""

    def __init__(
        self, bias: Any = None, batch_norm: bool = False, activation: Any = None, name: str | None = None
    ) -> None:
        super().__init__()
        if bias is not None and batch_norm:
            asked = f"{type(self).__name__} {name!r}" if name else type(self).__name__
            remedy = "leave one out: normalization takes any bias away, and adds one of its own"
            raise AttributeError(four_parts(asked, "bias and batch_norm are both given", "", remedy))
        self.bias = bias
        self.batch_norm = batch_norm
        self.activation = activation
        self.base_name = name

    def add_postfilter_layers(self) -> None:
        """Append Bias, BatchNorm and Activation, as they were asked for, behind the first layer."""
        base = self[-1].name if self.base_name is None else self.base_name
        if self.bias is not None:
            self.append(Bias(self.bias, name=f"{base}_bias"))
        self._add_followers(base)

    def _add_followers(self, base: str) -> None:
        if self.batch_norm:
            self.append(BatchNorm(name=f"{base}_bnorm", binary=self.binary))
        if self.activation is not None:
            kind = getattr(self.activation, "__name__", type(self.activation).__name__)
            self.append(Activation(self.activation, name=f"{base}_{kind}"))


class Affine(CompoundLayer):
    """Linear, then Bias or BatchNorm, then Activation.  nout: rows of the outputs.  init: of W (nout, nin)."""

    def __init__(
        self,
        nout: int,
        init: Any,
        bias: Any = None,
        batch_norm: bool = False,
        activation: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(bias, batch_norm, activation, name)
        self.append((BinaryLinear if self.binary else Linear)(nout, init, name=name))
        self.add_postfilter_layers()


class BinaryAffine(Affine):
    """BinaryLinear, then Bias or a binary BatchNorm, then Activation.  Arguments: as for Affine."""

    binary = True


class Conv(CompoundLayer):
    """Convolution, or Convolution_bias where there is a bias, then BatchNorm, then Activation.

    fshape, init, strides, padding, dilation: as for Convolution.
    """

    def __init__(
        self,
        fshape: Any,
        init: Any,
        strides: Any = None,
        padding: Any = None,
        dilation: Any = None,
        bias: Any = None,
        batch_norm: bool = False,
        activation: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(bias, batch_norm, activation, name)
        if bias is None:
            first = Convolution(fshape, strides, padding, dilation, init, name=name)
        else:
            first = Convolution_bias(fshape, strides, padding, dilation, init, bias, name=name)
        self.append(first)
        self._add_followers(first.name)


class Deconv(CompoundLayer):
    """Deconvolution, then Bias or BatchNorm, then Activation.

    fshape, init, strides, padding, dilation: as for Deconvolution.
    """

    def __init__(
        self,
        fshape: Any,
        init: Any,
        strides: Any = None,
        padding: Any = None,
        dilation: Any = None,
        bias: Any = None,
        batch_norm: bool = False,
        activation: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(bias, batch_norm, activation, name)
        self.append(Deconvolution(fshape, strides, padding, dilation, init, name=name))
        self.add_postfilter_layers()
