"""How a convolution of images with the batch innermost is computed: by Winograd's sums or by direct ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atled.plugin import Call, Prepared
from atled_cpu_numba.kernels.chwn.problem import problem_of, refusal, weight_problem_of
from atled_cpu_numba.kernels.winograd.forward import told
from atled_cpu_numba.on_demand import on_demand

if TYPE_CHECKING:
    from atled_cpu_numba.kernels.chwn import direct, direct_weight, winograd, winograd_weight
else:
    direct, direct_weight, winograd, winograd_weight = on_demand(
        "kernels.chwn", "direct", "direct_weight", "winograd", "winograd_weight"
    )


def refused(call: Call) -> str:
    """Why a convolution or its adjoint on strided arrays is not computed as they are, "" if it is."""
    return refusal(call, call.inputs[:1])


def prepare(call: Call) -> Prepared:
    """x, weight, bias? -> y.  ConvolutionDataGrad: gy, weight -> gx.  A call that is not `refused`."""
    problem = problem_of(call)
    if not winograd.suits(problem):
        return direct.prepare(problem)
    flag = problem.direct_for
    return told(direct.prepare(problem), flag) if flag else winograd.prepare(problem)


def weight_refused(call: Call) -> str:
    """Why a gradient with respect to the weight, of strided arrays, is not computed as they are, "" if it is."""
    return refusal(call, call.inputs)


def prepare_weight(call: Call) -> Prepared:
    """ConvolutionWeightGrad: x, gy -> gw.  A call that is not `weight_refused`."""
    problem = weight_problem_of(call)
    if not winograd_weight.suits(problem):
        return direct_weight.prepare(problem)
    flag = problem.direct_for
    return told(direct_weight.prepare(problem), flag) if flag else winograd_weight.prepare(problem)
