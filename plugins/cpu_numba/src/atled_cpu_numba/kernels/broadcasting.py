"""Ops that are a scalar formula once an input has axes of size 1 where it is repeated: PReLU and BroadcastTo.

Such axes change the description of an array and not its memory, so the kernel of the formula takes the arrays as they
are.
"""

from __future__ import annotations

from atled.plugin import ArrayDesc, Call, Native, Prepared, op_spec
from atled_cpu_numba import elementwise
from atled_cpu_numba.kernels.shared.layout import NO_WORD


def accepts(call: Call) -> bool | str:
    """As the formula."""
    return elementwise.accepts(_formula(call))


def prepare(call: Call) -> Prepared:
    """PReLU: x0, x1 -> y.  BroadcastTo: x, y -> z, of which x is not read."""
    prepared = elementwise.prepare(_formula(call))
    native = prepared.native
    assert native is not None
    if call.spec.name == "PReLU":
        return Prepared(native=native, note="formula")
    whole = Native(
        native.address,
        native.block,
        (NO_WORD, *native.arguments),
        attributes=native.attributes,
        parts=native.parts,
        errors=native.errors,
        owner=native.owner,
    )
    return Prepared(native=whole, note="formula")


def _formula(call: Call) -> Call:
    """The call of the elementwise op that does the same."""
    x, repeated = call.inputs
    assert x is not None
    assert repeated is not None
    if call.spec.name == "PReLU":
        start = call.attributes["base_axis"] if repeated.size != 1 else x.ndim
        slope = _aligned(ArrayDesc((repeated.size,) if repeated.size != 1 else (), repeated.dtype), x.ndim, start)
        return _call("BroadcastPReLU", (x, slope), call)
    axis = call.attributes["axis"]
    start = x.ndim - repeated.ndim if axis == -1 else axis
    return _call("Identity", (_aligned(repeated, x.ndim, start),), call)


def _aligned(desc: ArrayDesc, ndim: int, start: int) -> ArrayDesc:
    """With axes of size 1 around its own, which begin at `start`."""
    return ArrayDesc((1,) * start + desc.shape + (1,) * (ndim - start - desc.ndim), desc.dtype)


def _call(op: str, inputs: tuple[ArrayDesc, ...], call: Call) -> Call:
    return Call(op_spec(op), inputs, call.outputs, {}, device_id=call.device_id, type_config=call.type_config)
