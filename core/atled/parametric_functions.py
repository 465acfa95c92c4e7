"""Layers: functions that bring their own parameters, kept in the scope in which they are called."""

from __future__ import annotations

from atled.parametric.activation import prelu
from atled.parametric.affine import affine, embed
from atled.parametric.api import parametric_function_api
from atled.parametric.binary import (
    binary_connect_affine,
    binary_connect_convolution,
    binary_weight_affine,
    binary_weight_convolution,
)
from atled.parametric.convolution import (
    convolution,
    deconvolution,
    depthwise_convolution,
    depthwise_deconvolution,
)
from atled.parametric.factorized import cpd3_convolution, svd_affine, svd_convolution
from atled.parametric.incremental import inq_affine, inq_convolution
from atled.parametric.normalization import batch_normalization, mean_subtraction
from atled.parametric.quantized import (
    fixed_point_quantized_affine,
    fixed_point_quantized_convolution,
    pow2_quantized_affine,
    pow2_quantized_convolution,
)
from atled.parametric.recurrent import LSTMCell, lstm, lstm_cell
from atled.parametric.sequences import gru, rnn

__all__ = [
    "LSTMCell",
    "affine",
    "batch_normalization",
    "binary_connect_affine",
    "binary_connect_convolution",
    "binary_weight_affine",
    "binary_weight_convolution",
    "convolution",
    "cpd3_convolution",
    "deconvolution",
    "depthwise_convolution",
    "depthwise_deconvolution",
    "embed",
    "fixed_point_quantized_affine",
    "fixed_point_quantized_convolution",
    "gru",
    "inq_affine",
    "inq_convolution",
    "lstm",
    "lstm_cell",
    "mean_subtraction",
    "parametric_function_api",
    "pow2_quantized_affine",
    "pow2_quantized_convolution",
    "prelu",
    "rnn",
    "svd_affine",
    "svd_convolution",
]

for _name in __all__:
    # This is where users find them, so it is what help(), tracebacks and pickle are to say.
    globals()[_name].__module__ = __name__


def __dir__() -> list[str]:
    return sorted(__all__)
