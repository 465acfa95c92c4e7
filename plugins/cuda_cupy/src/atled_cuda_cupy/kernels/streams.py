"""Random numbers whose states are arrays, and outcomes drawn by such numbers."""

from __future__ import annotations

from atled.plugin import CUDA, Call, Prepared, Registrar, write_stream_c
from atled_cuda_cupy.compiling import has_type, template, type_names
from atled_cuda_cupy.devices import device
from atled_cuda_cupy.kernels.sized import kernel
from atled_cuda_cupy.launching import Launch, queued

_THREADS = 128
_NAMES = {"MultinomialCounts": "count_outcomes", "ChoiceIndices": "choose_outcomes"}
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def prepare_streams(call: Call) -> Prepared:
    """MRGUniform: a thread for each stream."""
    rows, y = call.inputs[0], call.outputs[0]
    assert rows is not None
    streams, where = rows.shape[0], device(call.device_id)
    launch = Launch(
        where,
        write_stream_c(CUDA) + template("streams"),
        "draw_streams",
        where.blocks(streams, _THREADS) if streams else 0,
        _THREADS,
        (streams, y.size),
        {"T": type_names(y.dtype)[0]},
        floats=call.float_count,
        wide=y.size + streams >= 2**31 or 6 * streams >= 2**31,
    )
    return queued(call, launch)


def accepts_outcomes(call: Call) -> bool | str:
    """True where both inputs are of one float dtype and kernels store the result, else the reason."""
    made, names = call.outputs[0], {desc.dtype.name for desc in call.inputs if desc is not None}
    if len(names) != 1 or not names.issubset(_FLOATS):
        return f"the kernels read one float dtype, not {sorted(names)}"
    return has_type(made) or f"no kernel stores {made.dtype}"


def prepare_outcomes(call: Call) -> Prepared:
    """MultinomialCounts and ChoiceIndices: a thread for each row."""
    p, unis = call.inputs
    assert p is not None
    assert unis is not None
    (rows, outcomes), where = p.shape, device(call.device_id)
    name = _NAMES[call.spec.name]
    launch = Launch(
        where,
        kernel("outcomes", name),
        name,
        where.blocks(rows, _THREADS) if rows else 0,
        _THREADS,
        (rows, outcomes, unis.size // max(rows, 1)),
        {"T": type_names(call.outputs[0].dtype)[0], "P": type_names(p.dtype)[0]},
        wide=max(p.size, unis.size) >= 2**30,
    )
    return queued(call, launch, workspace=max(8 * p.size, 16) if name == "choose_outcomes" else 0)


def register(registrar: Registrar) -> None:
    """Hand them over."""
    registrar.implementation("MRGUniform", "cuda", prepare_streams, note="MRG31k3p", integers=True)
    for op in _NAMES:
        registrar.implementation(op, "cuda", prepare_outcomes, accepts=accepts_outcomes, note="kernel", integers=True)
