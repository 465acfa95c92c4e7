"""Ops that have no formula of their own and are computed by one: ClipGradByValue, Sink, VATNoiseGrad."""

from __future__ import annotations

from atled.plugin import Call, Prepared, Program, Registrar
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.elementwise import accepts, launch_formula
from atled_cuda_cupy.launching import queued

_COPY, _ZERO = Program(("x",), (), (("y", "x"),)), Program((), (), (("y", "0"),))
_SCALED = Program(("gy",), ("eps",), (("w", "eps * gy"),))


def register(registrar: Registrar) -> None:
    """Hand over the ops."""
    for op, prepare in (
        ("ClipGradByValue", prepare_copy),
        ("Sink", prepare_zero),
        ("VATNoiseGrad", prepare_noise_grad),
    ):
        registrar.implementation(op, "cuda", prepare, accepts=accepts, note="formula")


def prepare_copy(call: Call) -> Prepared:
    """ClipGradByValue: x, min, max -> y, a copy of x."""
    x, _, _ = call.inputs
    assert x is not None
    launch = launch_formula(device(call.device_id), _COPY, [x, call.outputs[0]])
    return queued(call, lambda x, low, high, y: [(launch, (x, y), 0)])


def prepare_zero(call: Call) -> Prepared:
    """Sink: x... -> y, a single 0."""
    launch = launch_formula(device(call.device_id), _ZERO, call.outputs)
    return queued(call, lambda *arrays: [(launch, arrays[-1:], 0)])


def prepare_noise_grad(call: Call) -> Prepared:
    """VATNoiseGrad: gy, w, which is overwritten."""
    gy, w = call.inputs
    assert gy is not None and w is not None
    launch = launch_formula(device(call.device_id), _SCALED, [gy, w], heeds=True)
    return queued(call, lambda gy, w, flag: [(launch, (gy, w, flag), 0)], heeds_failure=True)
