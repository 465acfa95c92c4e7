"""Layers, under neon's name of the module."""

from __future__ import annotations

from atled.neon.layers.activation import Activation, DataTransform
from atled.neon.layers.base import Layer
from atled.neon.layers.bias import Bias
from atled.neon.layers.branch import BranchNode, SkipNode
from atled.neon.layers.compound import Affine, BinaryAffine, CompoundLayer, Conv, Deconv
from atled.neon.layers.convolution import Convolution, Convolution_bias
from atled.neon.layers.cost import GeneralizedCost, GeneralizedCostMask, GeneralizedGANCost
from atled.neon.layers.deconvolution import Deconvolution
from atled.neon.layers.dropout import Dropout
from atled.neon.layers.linear import BinaryLinear, Linear
from atled.neon.layers.local_response import LRN
from atled.neon.layers.lookup import LookupTable
from atled.neon.layers.normalization import BatchNorm, BatchNormAutodiff
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.pooling import Pooling
from atled.neon.layers.regions import RoiPooling
from atled.neon.layers.reshape import Reshape

__all__ = [
    "LRN",
    "Activation",
    "Affine",
    "BatchNorm",
    "BatchNormAutodiff",
    "Bias",
    "BinaryAffine",
    "BinaryLinear",
    "BranchNode",
    "CompoundLayer",
    "Conv",
    "Convolution",
    "Convolution_bias",
    "DataTransform",
    "Deconv",
    "Deconvolution",
    "Dropout",
    "GeneralizedCost",
    "GeneralizedCostMask",
    "GeneralizedGANCost",
    "Layer",
    "Linear",
    "LookupTable",
    "ParameterLayer",
    "Pooling",
    "Reshape",
    "RoiPooling",
    "SkipNode",
]
