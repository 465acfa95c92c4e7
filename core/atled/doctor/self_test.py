"""The self-test: one op on one device of one backend, compared with the op's reference."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from atled import functions
from atled.arrays.array import NdArray
from atled.errors import in_words
from atled.explanation import explain
from atled.type_configs import compute_dtype
from atled_contexts import Context, backend_info, context_scope, trace

# Asked in this order; the first that the backend computes by something of its own is taken.
_FUNCTIONS = ("add2", "mul2", "relu", "exp", "affine", "softmax", "sum", "convolution")


# Any: strings, numbers and None, as JSON has them.
def self_test(backend: str, device_id: str) -> dict[str, Any]:
    """The result: backend, device, op, passed, seconds of the first call, error in words or ""."""
    found: dict[str, Any] = {"backend": backend, "device": device_id, "op": "", "passed": False, "seconds": None}
    try:
        type_config = backend_info(backend).type_configs[0]
        context = Context([f"{backend}:{type_config}"], device_id=device_id, fallback="raise")
        with context_scope(context):
            error = _try_one(backend, type_config, found)
    except Exception as failure:  # the plugin's or its driver's: that is what the user wants to know
        error = in_words(failure)
    return {**found, "passed": not error, "error": error}


def _try_one(backend: str, type_config: str, found: dict[str, Any]) -> str:
    # Given in the backend's own dtype: to cast them it would have to have `Cast`.
    dtype = compute_dtype(type_config)
    ramp = np.linspace(-1, 1, 12).reshape(4, 3).astype(dtype)
    for name in _FUNCTIONS:
        function = getattr(functions, name)
        arrays: list[np.ndarray] = [ramp for _ in function.spec.user_inputs]
        if name == "affine":
            arrays = [ramp, np.ones((3, 2), dtype), np.ones(2, dtype)]
        if name == "convolution":
            arrays = [ramp.reshape(1, 1, 4, 3), np.ones((2, 1, 2, 2), dtype), np.ones(2, dtype)]
        inputs = [NdArray.from_numpy_array(array) for array in arrays]
        chosen = explain(function, *inputs).calls[0].chosen
        if chosen is None or chosen.backend != backend:
            continue
        found["op"] = function.spec.name
        return _compare(backend, function, inputs, arrays, type_config, found)
    return f"it computes none of {', '.join(_FUNCTIONS)}"


def _compare(
    backend: str,
    function: Any,
    inputs: list[NdArray],
    arrays: list[np.ndarray],
    type_config: str,
    found: dict[str, Any],
) -> str:
    """What is wrong with a call, in words; "" where nothing is."""
    start = time.perf_counter()
    with trace() as ran:
        got = function(*inputs).data.astype(np.float64)
    found["seconds"] = time.perf_counter() - start
    spec = function.spec
    descs = [array.astype(np.float64) for array in arrays]
    wanted = spec.reference(*descs, **spec.check_attributes({}, inputs))
    want = np.asarray(wanted[0] if isinstance(wanted, list | tuple) else wanted)
    where = next((row.backend for row in ran.rows() if row.op == spec.name), "nowhere")
    if where != backend:
        return f"it ran on {where}"
    error = max(1e-4, spec.allowed_error(type_config))
    if not np.allclose(got, want, rtol=error, atol=error / 10):
        return f"it gave wrong values: up to {np.abs(got - want).max():.3g} from the reference"
    return ""
