"""Why atled differs from NNabla 1.39 where it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nnabla_check.comparison import Difference


@dataclass(frozen=True)
class Explanation:
    """Why the differences of a function are as they should be.

    functions: a regular expression of their names.  what: kinds of difference, as in `Difference.what`.
    detail: a regular expression found in the difference's detail.
    case: a regular expression found in the case's description.
    """

    functions: str
    what: tuple[str, ...]
    reason: str
    detail: str = ""
    case: str = ""

    def covers(self, difference: Difference) -> bool:
        """Whether it explains a difference."""
        return (
            difference.what in self.what
            and re.fullmatch(self.functions, difference.function) is not None
            and re.search(self.detail, difference.detail) is not None
            and re.search(self.case, difference.call) is not None
        )


_BOTH = ("values", "gradients")
_ALL = ("values", "gradients", "shape")

# From the particular to the general: the first that covers a difference is given as its reason.
EXPLANATIONS: tuple[Explanation, ...] = (
    # What is a decision: atled follows release 1.0, or is stricter.
    Explanation(
        "average_pooling|max_pooling|sum_pooling",
        (*_ALL, "refusal"),  # of the file, which says the other shape
        "`ignore_border=False` gives ceil((in + 2 pad) / stride) as in release 1.0; 1.39 counts windows otherwise, "
        "which differs where the kernel is larger than the stride",
        case=r"ignore_border=False",
    ),
    Explanation(
        "average_pooling",
        ("values",),
        "a window without any element of the input gives 0; NNabla divides 0 by 0",
        detail="inf",
        case="including_pad=False",
    ),
    Explanation(
        "binary_(connect|weight)_(affine|convolution)",
        _BOTH,
        "a weight of exactly 0 becomes -1 as in release 1.0; 1.39 makes it +1",
        case="Exact",
    ),
    Explanation(
        "softmax_cross_entropy",
        ("values",),
        "the probability is clipped at the smallest normal float before the logarithm, so the loss is at most 87.34, "
        "as in release 1.0; 1.39 does not clip",
        case="1000",
    ),
    Explanation(
        "sigmoid_cross_entropy",
        _BOTH,
        "targets between 0 and 1 count as they are; NNabla truncates them to whole numbers",
        case="Uniform",
    ),
    Explanation(
        "calc_(normal_std|uniform_lim)_glorot",
        ("values",),
        "the formula of release 1.0, with k*in + out under the root; later versions have k*(in + out)",
    ),
    Explanation(
        "batch_matmul",
        ("refusal",),
        "leading axes need not agree, only the count of matrices, as in release 1.0; 1.39 broadcasts and refuses these",
    ),
    Explanation("pad", ("refusal",), "`pad_width` has a default, as in release 1.0", detail="pad_width"),
    Explanation(
        "top_k_data",
        ("gradients",),
        "among equal values another one is chosen: NNabla leaves open which, atled takes the first",
        case="Exact",
    ),
    Explanation(
        "clip_by_norm",
        _BOTH,
        "what is shorter than the norm is scaled up to it, as in release 1.0; 1.39 leaves it as it is",
        case="20",
    ),
    Explanation(
        "prod",
        ("gradients",),
        "the gradient is gy y / x as in release 1.0, which is NaN where x is 0; 1.39 makes that 0, which is not the "
        "derivative either",
        case=r" 0\.,",
    ),
    Explanation(
        "maximum2|minimum2|relu|sign",
        _BOTH,
        "NaN stays NaN, as in NumPy; what NNabla gives follows from comparisons, which are false",
        case="nan",
    ),
    # Where NNabla is wrong or inexact.
    Explanation(
        "batch_normalization",
        _BOTH,
        "the variance of values far from 0 is exact; NNabla's, the mean of squares less the square of the mean, loses "
        "digits to cancellation",
        case="99",
    ),
    Explanation(
        "batch_normalization",
        _BOTH,
        "one value per channel has no unbiased variance: NNabla divides by 0, atled takes the biased one",
        case=r"\(1, 3, 1, 1\), \(1, 3, 1, 1\), \(1, 3, 1, 1\)",
    ),
    Explanation(
        "clip_grad_by_value",
        _BOTH,
        "bounds of other shapes broadcast; NNabla reads beyond their ends",
        case=r"\(1, 3, 1\)",
    ),
    Explanation(
        "kl_multinomial",
        _BOTH,
        "base_axis 0, also counted from the end, sums over the whole array; NNabla's result is not initialized",
        case="base_axis=(-3|0)",
    ),
    Explanation(
        "kl_multinomial",
        ("gradients",),
        "at probability 0 atled gives the derivative of its formula, with the 1e-8 in it; NNabla's leaves that out",
        case="Exact",
    ),
    Explanation(
        "shift",
        _BOTH,
        "reflection goes on periodically; NNabla's goes wrong beyond twice the size",
        case="border_mode='reflect'",
    ),
    Explanation(
        "slice",
        ("shape", "gradients"),
        "a negative step without bounds runs through the whole axis backwards; NNabla's default bounds give nothing",
        case=r"step=\(-1, 3\)",
    ),
    Explanation(
        "vat_noise",
        ("values",),
        "base_axis 0 normalizes the array as a whole; NNabla reads memory that is not its own",
        case="base_axis=0",
    ),
    # What only atled computes.
    Explanation("i?fft", ("refusal",), "NNabla has no implementation for the CPU", detail="not implemented in CPU"),
    Explanation(
        "broadcast_to", ("backward",), "NNabla has no gradient here", detail="BroadcastTo backward .* not implemented"
    ),
    Explanation(
        "global_average_pooling",
        (*_ALL, "refusal"),  # of the file, which says the other shape
        "any count of spatial axes will do and stays; NNabla knows two and gives (N, C, 1, 1)",
    ),
    Explanation(
        ".*(convolution|pooling)",
        ("refusal",),
        "`channel_last` is computed everywhere; NNabla computes it on GPUs only, and has none of the depthwise ones",
        case="channel_last=True",
    ),
    Explanation(
        "(average|max|sum)_pooling",
        ("refusal",),
        "one axis will do; NNabla wants two or three",
        detail="2D and 3D Pooling",
    ),
    Explanation(
        "depthwise_(de)?convolution",
        ("refusal",),
        "any count of spatial axes will do; NNabla wants one or two",
        detail="requires 1D or 2D",
    ),
    Explanation(
        "(depthwise_)?(de)?convolution",
        ("refusal",),
        "`base_axis` may be counted from the end; NNabla's Python front end sizes its defaults without that",
        detail="(?i)pad size mismatch",
    ),
    Explanation(
        "sum|mean|max|min|prod|clip_grad_by_norm|transpose",
        (*_ALL, "refusal", "backward"),
        "axes may be counted from the end; NNabla refuses this, crashes, or gives what it finds beside the shape",
        case=r"axes=\((-1, 0|0, -1, 1)\)",
    ),
    Explanation(
        "clip_grad_by_norm|flip|random_flip",
        ("refusal",),
        "one axis may be given as a number",
        detail="'int' object is not iterable",
    ),
    Explanation(
        "(binary|sigmoid)_cross_entropy",
        ("refusal",),
        "axes of size 1 broadcast; NNabla wants equal shapes",
        detail="Dimensions of inputs must match",
    ),
    Explanation(
        "clip_grad_by_value",
        ("refusal",),
        "bounds broadcast; NNabla wants no axis of size 0 and equal counts of axes",
        detail="Dimensions differ|Size at shape",
    ),
    Explanation(
        "slice",
        ("refusal",),
        "NNabla sets a function up once more as it saves it; a negative start has become another one by then, and what "
        "is in the file does not hold together",
        detail="the description is damaged",
    ),
    Explanation("concatenate", ("refusal",), "one array will do", detail="at least 2 inputs"),
    Explanation("split", ("refusal",), "an axis of size 1 will do", detail="at least 2 outputs"),
    Explanation(
        "prelu|random_crop|random_flip|random_shift|vat_noise",
        ("refusal",),
        "`base_axis` may lie at or beyond the last axis, where that makes sense; NNabla refuses it",
        detail="refine_axis",
    ),
    Explanation(
        "pow2_quantize",
        ("refusal",),
        "n may be so small that only the sign and zero are left; NNabla refuses it",
        detail="bit width should be positive",
    ),
    Explanation(
        "(fixed_point|pow2)_quantize",
        ("refusal",),
        "`quantize=False` gives x itself in NNabla, which as a leaf cannot be computed; atled gives a copy",
        detail="has no parent",
    ),
    Explanation("randint", ("refusal",), "bounds may be any of 32 bits", detail="too large to convert"),
    Explanation(
        ".*",
        ("refusal",),
        "arrays without elements, or without axes, work as in NumPy; NNabla refuses them, or crashes",
        detail="NNabla only",
        case=r"\b0[,)]|\(\)|Sample\(\(3,\), start=\(-9",
    ),
    Explanation(
        ".*",
        ("backward",),
        "atled refuses a gradient that is not there for arrays without elements, too; NNabla skips those",
        detail="atled only: RuntimeError: backward through",
        case=r"\b0[,)]",
    ),
)


def reason(difference: Difference) -> str | None:
    """The explanation of a difference, None where there is none."""
    return next((item.reason for item in EXPLANATIONS if item.covers(difference)), None)


def unexplained(differences: Sequence[Difference]) -> list[Difference]:
    """Those without explanation."""
    return [difference for difference in differences if reason(difference) is None]


def unneeded(differences: Sequence[Difference]) -> list[str]:
    """The explanations of nothing, in words."""
    given = {reason(difference) for difference in differences}
    return [f"{item.functions}: {item.reason}" for item in EXPLANATIONS if item.reason not in given]
