"""Numbers at equal distances, and identity matrices."""

from __future__ import annotations

from atled.plugin import Call, Prepared, Registrar
from atled_cuda_cupy.compiling import has_type, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.sized import kernel, sized
from atled_cuda_cupy.launching import queued


def accepts(call: Call) -> bool | str:
    """True for dtypes that kernels have, else the reason."""
    return has_type(call.outputs[0]) or f"no kernel stores {call.outputs[0].dtype}"


def prepare(call: Call) -> Prepared:
    """One launch, a thread for each element."""
    where, y = device(call.device_id), call.outputs[0]
    is_eye = call.spec.name == "Eye"
    name = "identity" if is_eye else "numbers_at_distances"
    sizes = {"COUNT": y.size}
    if is_eye:
        # Beyond the matrix on either side there is nothing, however far.
        offset = max(-y.shape[0], min(call.attributes["offset"], y.shape[1]))
        sizes |= {"COLUMNS": max(y.shape[1], 1), "OFFSET": offset}
    launch = sized(
        where,
        kernel("patterns", name),
        name,
        sizes,
        where.blocks(y.size) if y.size else 0,
        256,
        {"T": type_names(y.dtype)[0]},
        divisors=("COLUMNS",) if is_eye else (),
        floats=call.float_count,
    )
    return queued(call, launch)


def register(registrar: Registrar) -> None:
    """Hand both over."""
    for op in ("Arange", "Eye"):
        registrar.implementation(op, "cuda", prepare, accepts=accepts, note="kernel", integers=True)
