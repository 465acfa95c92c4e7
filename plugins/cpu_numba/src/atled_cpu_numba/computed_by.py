"""Who computes each op on backend `cpu`: a kernel, a formula, or the adopted reference with the reason.

Every op that has neither a kernel nor a formula is adopted, and `explain` says so. For the functions of NNabla that is
decided here, by their times; a test fails for one without a decision. For all other ops `RULE` is the reason.
Times are those of `make bench-functions`, as shares of NNabla 1.39's for the same call on one core.
"""

from __future__ import annotations

from collections.abc import Mapping

KERNELS: Mapping[str, tuple[str, ...]] = {
    "int64_casts": ("Cast",),
    "kernels.products.matmul": ("Affine", "BatchMatmul"),
    "kernels.convolution.choice": (
        "Convolution",
        "ConvolutionDataGrad",
        "Deconvolution",
        "DepthwiseConvolution",
        "DepthwiseDeconvolution",
    ),
    "kernels.convolution.weight": ("ConvolutionWeightGrad",),
    "kernels.random.augmentation": ("ImageAugmentation",),
    "kernels.composed": ("BinaryError", "CELU", "CReLU", "KLMultinomial", "LRN", "ScaleToNorm"),
    "kernels.binarized": (
        "BinaryConnectAffine",
        "BinaryConnectConvolution",
        "BinaryWeightAffine",
        "BinaryWeightConvolution",
    ),
    "kernels.broadcasting": ("BroadcastTo", "PReLU"),
    "kernels.embedding": ("Embed", "EmbedGrad"),
    "kernels.enlarging": ("Unpooling",),
    "kernels.reduction.extremum": (
        "ArgMax",
        "ArgMin",
        "Max",
        "MaxMinGather",
        "MaxMinGrad",
        "MaxTies",
        "Min",
        "MinTies",
    ),
    "kernels.reduction.log_sum_exp": ("LogSumExp",),
    "kernels.reduction.products": ("Prod",),
    "kernels.reduction.scans": ("CumProd", "CumSum"),
    "kernels.reduction.truth": ("All", "Any"),
    "kernels.filling": ("Constant", "Sink"),
    "kernels.flipping": ("Flip",),
    "kernels.fourier.transforms": ("FFT", "IFFT"),
    "kernels.reduction.full_reduction": ("GlobalAveragePooling", "ReduceMean", "ReduceSum"),
    "kernels.incremental": ("INQAffine", "INQConvolution"),
    "kernels.joining": ("Concatenate", "Split", "Stack"),
    "kernels.labels": ("CategoricalCrossEntropy", "CategoricalCrossEntropyGrad", "OneHot"),
    "kernels.largest": ("TopKData",),
    "kernels.mean_subtraction": ("MeanSubtraction",),
    "kernels.noise": ("VATNoise", "VATNoiseGrad"),
    "kernels.padding": ("Pad",),
    "kernels.recurrent.sequences": (
        "GRUSequence",
        "GRUSequenceGrad",
        "LSTMSequence",
        "LSTMSequenceGrad",
        "RNNSequence",
        "RNNSequenceGrad",
    ),
    "kernels.reduction.any_axes": ("Sum", "Mean"),
    "kernels.reduction.whole_numbers": ("All", "Any", "Max", "Min", "Prod", "Sum"),
    "kernels.reduction.whole_scans": ("CumProd", "CumSum"),
    "kernels.scores": ("ConfusionMatrix", "TopNError"),
    "kernels.softmax": ("Softmax", "SoftmaxCrossEntropy", "SoftmaxCrossEntropyGrad"),
    "kernels.normalization.channels": ("BatchNormalization", "BatchNormalizationGrad"),
    "kernels.pooling.planes": (
        "AveragePooling",
        "AveragePoolingGrad",
        "MaxPooling",
        "MaxPoolingGather",
        "MaxPoolingGrad",
        "SumPooling",
        "SumPoolingGrad",
    ),
    "kernels.pooling.cut_windows": (
        "WindowMax",
        "WindowMaxGather",
        "WindowMaxGrad",
        "WindowNorm",
        "WindowSum",
        "WindowSumGrad",
    ),
    "kernels.pooling.regions": ("RoiPooling", "RoiPoolingGather", "RoiPoolingGrad"),
    "kernels.products.dot": ("Dot",),
    "kernels.products.whole_products": ("Affine", "BatchMatmul"),
    "kernels.random.places": ("RandomCrop", "RandomFlip", "RandomShift"),
    "kernels.repetition": ("Repeat", "Tile"),
    "kernels.shifting": ("Shift", "ShiftGrad"),
    "kernels.slicing": ("Slice", "SliceGrad"),
    "kernels.random.normal": ("Randn",),
    "kernels.random.random_state": ("Dropout", "Rand", "Randint"),
    "kernels.random.outcomes": ("ChoiceIndices", "MultinomialCounts"),
    "kernels.random.streams": ("MRGUniform",),
    "kernels.suppression": ("NmsDetection2d",),
    "kernels.taking": ("Take", "TakeGrad"),
    "kernels.transposition": ("Transpose",),
    # What those above leave over.
    "kernels.strided_copies": (
        "ClipGradByNorm",
        "ClipGradByValue",
        "Concatenate",
        "Flip",
        "MatrixDiag",
        "MatrixDiagPart",
        "Pad",
        "Slice",
        "SliceGrad",
        "Split",
        "Stack",
        "Transpose",
    ),
}
"""Modules of kernels and the ops that each computes; one is imported when the first of its ops is asked for."""

EITHER_LAYOUT = (*KERNELS["kernels.enlarging"], *KERNELS["kernels.pooling.cut_windows"])
"""Ops whose kernels take images with the channels in front or behind."""

CHANNELS_BEHIND = frozenset(
    ("AveragePooling", "AveragePoolingGrad", "MaxPooling", "MaxPoolingGrad", "SumPooling", "SumPoolingGrad")
)
"""Ops of whose calls some are taken with the channels behind; `kernels.pooling.channel_last` says which."""

INTEGERS = frozenset(
    (
        "kernels.broadcasting",
        "kernels.embedding",
        "kernels.enlarging",
        "kernels.flipping",
        "kernels.joining",
        "kernels.products.whole_products",
        "kernels.reduction.truth",
        "kernels.reduction.whole_numbers",
        "kernels.reduction.whole_scans",
        "kernels.repetition",
        "kernels.shifting",
        "kernels.slicing",
        "kernels.strided_copies",
        "kernels.taking",
        "kernels.transposition",
    )
)
"""The modules among them that compute integers, or move them as floats of their size; their `accepts` says which."""

STRIDES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "kernels.convolution.choice": {"Convolution": ("x", "weight", "y"), "ConvolutionDataGrad": ("gy", "weight", "gx")},
    "kernels.convolution.weight": {"ConvolutionWeightGrad": ("x", "gy", "gw")},
    "kernels.products.dot": {"Dot": ("x", "y", "z")},
    "kernels.products.matmul": {"Affine": ("x", "weight", "y"), "BatchMatmul": ("a", "b", "y")},
    "kernels.reduction.any_axes": {"Sum": ("x",), "Mean": ("x",)},
    "kernels.reduction.extremum": dict.fromkeys(("ArgMax", "ArgMin", "Max", "MaxTies", "Min", "MinTies"), ("x",)),
    "kernels.reduction.products": {"Prod": ("x",)},
}
"""Inputs and outputs that kernels take with strides; formulas take them all."""

OMITS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "kernels.pooling.planes": {"MaxPooling": ("place",)},
    "kernels.reduction.extremum": {"Max": ("index",), "Min": ("index",)},
    "kernels.reduction.whole_numbers": {"Max": ("index",), "Min": ("index",)},
}
"""Auxiliary outputs that kernels leave out where nobody reads them."""

VERSIONS: Mapping[str, int] = {"INQAffine": 2, "INQConvolution": 2}
"""The versions of op specs that kernels are written for, where these are not the first ones."""

COPIES = ("Assign", "Broadcast", "Cast", "Identity", "TopKGrad")
"""Ops that the formula compiler computes as copies; for other dtypes the reference does."""

_ROWS = "NumPy copies whole rows at the speed of memory"
_LAPACK = "LAPACK, which NumPy brings, on the host"
_SMALL = "it reads nothing, and NumPy writes it at the speed of memory"

ADOPTED: Mapping[str, str] = {
    "Arange": _SMALL,
    "Diagonal": _ROWS,
    "DiagonalMatrix": _ROWS,
    "Eye": _SMALL,
    "Reshape": "a view: nothing is computed",
    "SVD": _LAPACK,
    "Solve": _LAPACK,
    "Unlink": "a view: nothing is computed",
}

RULE = "NNabla has no such function to be compared with; a kernel is written when somebody needs its speed"


def reason(op: str) -> str:
    """Why an op without kernel and formula has none."""
    return ADOPTED.get(op, RULE)
