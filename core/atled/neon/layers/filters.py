"""FilterLayer: what convolutions and deconvolutions have in common."""

from __future__ import annotations

from typing import Any

from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.windows import filter_sizes, geometry


class FilterLayer(ParameterLayer):
    """A layer whose weights are filters on images.

    fshape, strides, padding, dilation, init, bsum: as for Convolution.
    nglayer: the backend's parameter object, once it is configured.
    """

    maps = "K"
    """Of the sizes of filters the name of the last one: maps of what comes out."""

    def __init__(
        self,
        fshape: Any,
        strides: Any = None,
        padding: Any = None,
        dilation: Any = None,
        init: Any = None,
        bsum: bool = False,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(init, name, parallelism)
        self.fshape = fshape
        self.strides = strides
        self.padding = padding
        self.dilation = dilation
        self.bsum = bsum
        self.nglayer: Any = None
        self._sizes: dict[str, Any] = {
            **filter_sizes(self._told, fshape, self.maps),
            **geometry(self._told, "strides", "str", strides),
            **geometry(self._told, "padding", "pad", padding),
            **geometry(self._told, "dilation", "dil", dilation),
        }

    def fprop(self, inputs: Tensor, inference: bool = False, beta: float = 0.0) -> Tensor:
        """`outputs = result + beta * outputs`.

        inputs: (maps * depth * height * width, batch) float.  inference: no effect.
        RuntimeError: there is no memory yet.  ValueError: another shape.  TypeError: no tensor.
        """
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, self._taken)
        self.inputs = inputs
        self._forward(inputs, beta)
        return self.outputs

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """The gradients of parameters, and `deltas = alpha * gradient + beta * deltas`, where deltas are asked for.

        error: of the shape of the outputs, float. Raises as `fprop`.
        """
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        if self.deltas is not None:
            self._backward(error, alpha, beta)
        self._update(error)
        return self.deltas

    @property
    def _taken(self) -> tuple[int, ...]:
        """The shape of the inputs."""
        raise NotImplementedError

    def _forward(self, inputs: Tensor, beta: float) -> None:
        """Write the outputs."""
        raise NotImplementedError

    def _backward(self, error: Tensor, alpha: float, beta: float) -> None:
        """Write the deltas."""
        raise NotImplementedError

    def _update(self, error: Tensor) -> None:
        """Write the gradients of parameters."""
        raise NotImplementedError
