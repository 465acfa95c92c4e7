"""Layers that compute with the signs of their weights: BinaryConnect and BinaryWeight, affine maps and convolutions.

A formula writes the weight, then the plain layer runs as it does alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from atled.plugin import ArrayDesc, Call, Prepared, Program, Registrar, op_spec
from atled_cuda_cupy import cupy_names as cp
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels import convolution, products, reduction
from atled_cuda_cupy.kernels.elementwise import accepts as accepts_formula
from atled_cuda_cupy.kernels.elementwise import launch_formula
from atled_cuda_cupy.launching import Launch

Part = tuple[Launch | Prepared, Sequence[Any]]
"""What is put into the queue, and its arrays."""
_ALIGNED = 256  # bytes that parts of the workspace are aligned to
_SIGN = "where(w > 0, 1, -1)"


def accepts(call: Call) -> bool | str:
    """True where the plain layer and formulas are computed, else the reason."""
    weight = call.inputs[1]
    assert weight is not None
    if not weight.size:
        return "the weight is empty"
    plain = _plain(call)
    fits = products.accepts(plain) if plain.spec.name == "Affine" else convolution.accepts(plain)
    return accepts_formula(call) if fits is True else fits


def _plain(call: Call) -> Call:
    """The layer with the weight that is made for it."""
    spec: Any = call.spec  # Any: a ReplacedWeight, which the plugin API does not name
    name = "Affine" if call.spec.name.endswith("Affine") else "Convolution"
    return _inner(call, name, (call.inputs[0], call.inputs[1], call.inputs[-1]), call.outputs, spec.plain_attributes)


def _inner(
    call: Call,
    name: str,
    inputs: tuple[ArrayDesc | None, ...],
    outputs: tuple[ArrayDesc, ...],
    attributes: Callable[[Any], Any],
) -> Call:
    return Call(
        op_spec(name),
        inputs,
        outputs,
        attributes(call.attributes),
        device_id=call.device_id,
        type_config=call.type_config,
        deterministic=call.deterministic,
        local_errors=call.local_errors,
    )


def _layer(call: Call) -> Prepared:
    plain = _plain(call)
    return products.prepare(plain) if plain.spec.name == "Affine" else convolution.prepare(plain)


def _in_a_row(call: Call, parts: Callable[..., Sequence[Part]], workspace: int, note: str) -> Prepared:
    """Parts of a call one behind the other; parts(*arrays) gives them for the arrays of one run."""
    where = device(call.device_id)

    def run(*arrays: Any) -> None:  # Any: arrays of this device
        with where:
            for part, given in parts(*arrays):
                if isinstance(part, Launch):
                    part.run(given, b"")
                else:
                    assert part.run is not None
                    part.run(*given)

    def bind(arrays: Sequence[Any], table: Any, start: int) -> Callable[[], object]:  # Any: as above
        launches = []
        for part, given in parts(*arrays):
            if isinstance(part, Launch):
                launches.append(part.bind(given, 0, 0))
            else:
                assert part.bind is not None
                launches.append(part.bind(given, table, start))
        return lambda: [launch() for launch in launches]

    return Prepared(run, queued=True, bind=bind, workspace=workspace, note=note, heeds_failure=True)


def prepare_connect(call: Call) -> Prepared:
    """The signs, and the layer with them."""
    _, weight, binary, _ = call.inputs
    assert weight is not None
    assert binary is not None
    program = Program(("w",), (), (("b", _SIGN),))
    signs = launch_formula(device(call.device_id), program, [weight, binary], heeds=True)
    layer = _layer(call)

    def parts(x: Any, weight: Any, binary: Any, bias: Any, y: Any, *others: Any) -> Sequence[Part]:  # Any: as above
        *workspace, flag = others
        return [(signs, (weight, binary, flag)), (layer, (x, binary, bias, y, *workspace))]

    return _in_a_row(call, parts, layer.workspace, layer.note)


def prepare_weight(call: Call) -> Prepared:
    """Sizes, their means, the signs scaled by these, and the layer with those."""
    _, weight, binary, alpha, _ = call.inputs
    assert weight is not None
    assert binary is not None
    assert alpha is not None
    spec: Any = call.spec  # Any: as in `_plain`
    where, kept = device(call.device_id), spec.output_shape(weight.shape)
    axes = tuple(axis for axis, size in enumerate(kept) if size == 1)
    mean = ArrayDesc(kept, weight.dtype)
    sizes = launch_formula(where, Program(("w",), (), (("a", "abs(w)"),)), [weight, weight])
    averaging = reduction.prepare_reduction(
        _inner(call, "Mean", (weight,), (mean,), lambda _: {"axes": axes, "keep_dims": True})
    )
    program = Program(("w", "m"), (), (("b", _SIGN), ("s", "where(w > 0, m, -m)")))
    scaling = launch_formula(where, program, [weight, mean, binary, weight], heeds=True)
    flat = [ArrayDesc((alpha.size,), desc.dtype) for desc in (mean, alpha)]
    copying = launch_formula(where, Program(("m",), (), (("a", "m"),)), flat, heeds=True)
    layer = _layer(call)
    # What the layer and the means want, the sizes, which the scaled signs replace, and the means.
    most = max(layer.workspace, averaging.workspace)
    *starts, end = accumulate(-(-size // _ALIGNED) * _ALIGNED for size in (most, weight.nbytes, mean.nbytes))

    def parts(x: Any, weight: Any, binary: Any, alpha: Any, bias: Any, y: Any, *others: Any) -> Sequence[Part]:
        workspace, flag = others  # Any: as above
        scaled = cp.ndarray(weight.shape, weight.dtype, workspace.data + starts[0])
        means = cp.ndarray(mean.shape, mean.dtype, workspace.data + starts[1])
        return [
            (sizes, (weight, scaled)),
            (averaging, (scaled, means, *([workspace] if averaging.workspace else []))),
            (scaling, (weight, means, binary, scaled, flag)),
            (copying, (means, alpha, flag)),
            (layer, (x, scaled, bias, y, *([workspace] if layer.workspace else []))),
        ]

    return _in_a_row(call, parts, end, layer.note)


def register(registrar: Registrar) -> None:
    """Hand all of them over."""
    for layer in ("Affine", "Convolution"):
        for op, prepare in ((f"BinaryConnect{layer}", prepare_connect), (f"BinaryWeight{layer}", prepare_weight)):
            registrar.implementation(op, "cuda", prepare, accepts=accepts, note="signs, then the plain layer")
