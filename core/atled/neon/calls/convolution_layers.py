"""Parameter objects of convolutions and deconvolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from atled.errors import four_parts
from atled.neon.calls.layer_objects import LayerObject, check_counts, checked_sizes
from atled.neon.calls.output_sizes import OutputSizes
from atled.neon.trees.tensor import Tensor


class ConvLayer(LayerObject):
    """Sizes of a convolution: images (C, D, H, W, N), filters (C, T, R, S, K), outputs (K, M, P, Q, N).

    C, K: maps of images and outputs.  DHW, TRS, MPQ: sizes of image, filter and output.  NCK: the three counts.
    padding, strides, dilation: depth, height, width.
    dimI, dimF, dimO: shapes as above; dimI2, dimF2, dimO2: with two axes; sizeI, sizeF, sizeO: counts of elements.
    nOut: elements that the layer gives per image.
    dot: whether it is a product of matrices: filters of one element, no padding, strides of 1.
    relu, bsum: what `fprop_conv` does where it is not told; `batch_sum`: where sums go that a call has no
        tensor for.

    For calls of the core's ops, in whose arrays the last axis is the first one, and axes of one element are left out:
    images, filters, outputs: sizes and order of axes.  geometry: attributes.
    """

    maker = "conv_layer"

    def __init__(
        self,
        dtype: Any,
        counts: Sequence[int],
        image: Sequence[int],
        window: Sequence[int],
        output: Sequence[int],
        geometry: Sequence[Sequence[int]],
        relu: bool = False,
        bsum: Any = False,
    ) -> None:
        """counts: N, C, K.  geometry: padding, strides and dilation."""
        N, C, K = self.NCK = tuple(counts)
        super().__init__(dtype, N)
        self.C, self.K = C, K
        self.D, self.H, self.W = self.DHW = tuple(image)
        self.T, self.R, self.S = self.TRS = tuple(window)
        self.M, self.P, self.Q = self.MPQ = tuple(output)
        self.padding, self.strides, self.dilation = map(tuple, geometry)
        self.dimI = (C, *self.DHW, N)
        self.dimF = (C, *self.TRS, K)
        self.dimO = (K, *self.MPQ, N)
        self.dimI2, self.dimF2, self.dimO2 = map(_two_axes, (self.dimI, self.dimF, self.dimO))
        self.sizeI, self.sizeF, self.sizeO = map(math.prod, (self.dimI, self.dimF, self.dimO))
        self.nOut = self.sizeO // N
        self.dot = self.TRS == self.strides == (1, 1, 1) and self.padding == (0, 0, 0)
        self.relu, self.bsum = bool(relu), bsum if isinstance(bsum, Tensor) else bool(bsum)
        self.batch_sum: Tensor | None = None
        self._axes = self._axes_of_windows()
        order = (len(self._axes) + 1, *range(len(self._axes) + 1))
        self.images, self.filters, self.outputs = (
            ((dims[0], *self.along(dims[1:-1]), dims[-1]), order) for dims in (self.dimI, self.dimF, self.dimO)
        )
        self.geometry = {
            "pad": self.along(self.padding),
            "stride": self.along(self.strides),
            "dilation": self.along(self.dilation),
        }

    def _axes_of_windows(self) -> tuple[int, ...]:
        """All but the first axis along which nothing happens: kernels are written for two axes."""
        sizes = zip(self.DHW, self.TRS, self.MPQ, self.padding, strict=True)
        idle = [axis for axis, (n, k, m, p) in enumerate(sizes) if n == k == m == 1 and p == 0]
        return tuple(axis for axis in range(3) if axis not in idle[:1])

    def along(self, values: Sequence[int]) -> tuple[int, ...]:
        """Of three numbers those of the axes that ops see."""
        return tuple(values[axis] for axis in self._axes)

    @property
    def biased(self) -> tuple[int, str, int]:
        """Maps that have a bias: how many, their axis, and whether they are of the images (0) or of the outputs (1)."""
        return self.K, "K", 1


class DeconvLayer(ConvLayer):
    """Sizes of a deconvolution: those of the convolution whose adjoint it is.

    C and (D, H, W) belong to what it gives, K and (M, P, Q) to what it takes: `bprop_conv` computes it, `fprop_conv`
    its gradient.
    """

    maker = "deconv_layer"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.nOut = self.sizeI // self.N

    @property
    def biased(self) -> tuple[int, str, int]:
        """Those of the images."""
        return self.C, "C", 0


class ConvolutionLayers(OutputSizes):
    """Makes parameter objects of convolutions."""

    def conv_layer(
        self,
        dtype: Any,
        N: int,
        C: int,
        K: int,
        D: int = 1,
        H: int = 1,
        W: int = 1,
        T: int = 1,
        R: int = 1,
        S: int = 1,
        pad_d: int = 0,
        pad_h: int = 0,
        pad_w: int = 0,
        str_d: int = 1,
        str_h: int = 1,
        str_w: int = 1,
        dil_d: Any = 1,
        dil_h: Any = 1,
        dil_w: int = 1,
        *,
        relu: bool = False,
        bsum: Any = False,
    ) -> ConvLayer:
        """The parameter object of a convolution.

        Args:
            dtype: of its tensors.  N: images of a batch.  C, K: maps of images and outputs.
            D, H, W: depth, height, width of an image.  T, R, S: of a filter.
            pad_d, ...: zeros on both sides.  str_d, ...: steps of the filter.  dil_d, ...: distance between its taps.
            relu: whether `fprop_conv` rectifies.  bsum: whether it sums its output, or the tensor for that. As neon's
                documents have it, bools in the places of dil_d and dil_h are relu and bsum.

        Raises:
            TypeError, ValueError: sizes that are none, a filter that does not fit.
        """
        if isinstance(dil_d, bool):
            relu, dil_d = dil_d, 1
            if isinstance(dil_h, bool):
                bsum, dil_h = dil_h, 1
        N, C, K, D, H, W, T, R, S = checked_sizes(
            "conv_layer", 1, {"N": N, "C": C, "K": K, "D": D, "H": H, "W": W, "T": T, "R": R, "S": S}
        )
        geometry = _geometry("conv_layer", (pad_d, pad_h, pad_w), (str_d, str_h, str_w), (dil_d, dil_h, dil_w))
        output = [
            self.output_dim(size, window, pad, stride, dilation=dilation)
            for size, window, pad, stride, dilation in zip((D, H, W), (T, R, S), *geometry, strict=True)
        ]
        widths = _widths((T, R, S), geometry[2])
        check_counts("conv_layer", (D, H, W), widths, output, "D H W")
        return ConvLayer(dtype, (N, C, K), (D, H, W), (T, R, S), output, geometry, relu, bsum)

    def deconv_layer(
        self,
        dtype: Any,
        N: int,
        C: int,
        K: int,
        M: Any = None,
        P: Any = None,
        Q: Any = None,
        T: int = 1,
        R: int = 1,
        S: int = 1,
        pad_d: int = 0,
        pad_h: int = 0,
        pad_w: int = 0,
        str_d: int = 1,
        str_h: int = 1,
        str_w: int = 1,
        dil_d: int = 1,
        dil_h: int = 1,
        dil_w: int = 1,
    ) -> DeconvLayer:
        """The parameter object of a deconvolution, `H = (P - 1) * str_h - 2 * pad_h + dil_h * (R - 1) + 1`.

        Args:
            dtype: of its tensors.  N: images of a batch.
            C: maps of what it gives.  K: of what it takes.
            M, P, Q: depth, height, width of what it takes. Two numbers alone are P and Q, as in neon's documents.
            T, R, S: of a filter.
            pad_d, ...: what is cut off on both sides.  str_d, ...: steps of the filter.  dil_d, ...: of its taps.

        Raises:
            TypeError, ValueError: sizes that are none, padding that leaves nothing.
        """
        if Q is None and M is not None:
            M, P, Q = None, M, P
        names = "N", "C", "K", "M", "P", "Q", "T", "R", "S"
        given = N, C, K, 1 if M is None else M, P, Q, T, R, S
        N, C, K, M, P, Q, T, R, S = checked_sizes("deconv_layer", 1, dict(zip(names, given, strict=True)))
        geometry = _geometry("deconv_layer", (pad_d, pad_h, pad_w), (str_d, str_h, str_w), (dil_d, dil_h, dil_w))
        widths = _widths((T, R, S), geometry[2])
        image = [
            (count - 1) * stride - 2 * pad + width
            for count, stride, pad, width in zip((M, P, Q), geometry[1], geometry[0], widths, strict=True)
        ]
        if min(image) < 1:
            wrong = f"padding of {tuple(geometry[0])} leaves an image of {tuple(image)}"
            raise ValueError(four_parts(f"deconv_layer(M={M}, P={P}, Q={Q})", wrong, "", "use less padding"))
        return DeconvLayer(dtype, (N, C, K), image, (T, R, S), (M, P, Q), geometry)


def _geometry(call: str, *given: Sequence[Any]) -> list[list[int]]:
    """Padding, strides and dilation, checked."""
    least = {"pad": 0, "str": 1, "dil": 1}
    return [
        checked_sizes(call, least[kind], {f"{kind}_{axis}": value for axis, value in zip("dhw", values, strict=True)})
        for kind, values in zip(least, given, strict=True)
    ]


def _widths(window: Sequence[int], dilation: Sequence[int]) -> list[int]:
    return [step * (size - 1) + 1 for size, step in zip(window, dilation, strict=True)]


def _two_axes(dims: tuple[int, ...]) -> tuple[int, int]:
    return math.prod(dims[:-1]), dims[-1]
