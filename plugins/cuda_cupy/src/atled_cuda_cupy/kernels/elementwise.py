"""Every op with a scalar formula, every fused chain of them, casts, copies and fills, alone and in groups."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.plugin import ArrayDesc, Call, Implementation, Prepared, Program, Registrar, has_powers, op_spec
from atled_cuda_cupy.compiling import has_type
from atled_cuda_cupy.devices import Device, device
from atled_cuda_cupy.kernels.broadcasting import broadcasting, pack_of
from atled_cuda_cupy.kernels.formula_text import formula_text, group_text
from atled_cuda_cupy.launching import Launch, queued

_COPY, _FILL = Program(("x",), (), (("y", "x"),)), Program((), ("val",), (("y", "val"),))
_WITHOUT_FORMULA = "Cast", "Constant"
_THREADS = 256
_WAVES = 4  # of blocks: so few that what is done once per thread costs nothing
_PARAMETER_BYTES = 4096  # of a kernel; newer drivers take more
_MOST_MEMBERS = 64
_NEVER = 2**31 - 1  # no block has this number


def register(registrar: Registrar) -> None:
    """Hand over the family."""
    registrar.family("cuda", provide)


def provide(op: str) -> Implementation | None:
    """The implementation of any op that has a formula or copies; None for other ops."""
    spec = op_spec(op)
    if spec.program is None and not spec.copies and op not in _WITHOUT_FORMULA:
        return None
    return Implementation(
        op,
        "cuda",
        prepare,
        accepts=accepts,
        note="formula",
        op_version=None,
        fuses=op != "Constant",
        casts=True,
        integers=True,
        prepare_group=prepare_group,
        strides=True,
    )


def accepts(call: Call) -> bool | str:
    """True for the dtypes that kernels have a type for, else the reason."""
    for desc in (*call.inputs, *call.outputs):
        if desc is not None and not has_type(desc):
            return f"kernels have no type for {desc.dtype}"
    if call.has_integers and call.compute_dtype.kind in "iub" and has_powers(_program(call)):
        return "kernels have no powers of integers"
    return True


def prepare(call: Call) -> Prepared:
    """Have the call's formula compiled, for its dtypes and the way in which its operands broadcast."""
    heeds = bool(call.spec.inplace)
    launch = launch_formula(device(call.device_id), _program(call), _operands(call), heeds=heeds, compute=_told(call))
    return queued(call, launch, heeds_failure=heeds)


def launch_formula(
    where: Device, program: Program, operands: Sequence[ArrayDesc], *, heeds: bool = False, compute: str = ""
) -> Launch:
    """A formula over arrays that broadcast; it is given inputs, outputs, the flag if it heeds that.

    operands: inputs, then outputs. Its floats are the first ones of the launch.  compute: as of `formula_text`.
    """
    itemsizes = [desc.dtype.itemsize for desc in operands]
    found = broadcasting(program, [desc.shape for desc in operands], itemsizes, [desc.strides for desc in operands])
    source = formula_text(program, tuple(_name(desc.dtype) for desc in operands), found.pattern, heeds, compute)
    packs = -(-found.size // found.pattern.pack)
    most = _WAVES * where.multiprocessors * (where.threads // _THREADS)
    grid = min(-(-packs // _THREADS), most)
    floats = len(program.attributes)
    return Launch(where, source, "formula", grid, _THREADS, found.words, floats=floats, wide=found.is_wide)


def prepare_group(calls: Sequence[Call]) -> Prepared:
    """Calls of one formula as few launches, each over a table of arrays."""
    first = calls[0]
    program, heeds = _program(first), bool(first.spec.inplace)
    inputs, outputs = len(program.inputs), len(program.outputs)
    new = [n for n, place in enumerate(_places(first)) if place >= inputs]
    members = _members_per_launch(len(calls), inputs + len(new), len(program.attributes))
    parts = range(0, len(calls), members)
    launches = [_launch_group(calls[begin : begin + members], members) for begin in parts]

    def steps(*arrays: Any) -> list[Any]:  # Any: arrays of this device; steps of `queued`
        flag = arrays[len(calls) * (inputs + outputs) :]
        made = arrays[len(calls) * inputs :]
        tables: list[Any] = []
        for n in range(len(calls)):
            tables += [*arrays[n * inputs : (n + 1) * inputs], *(made[n * outputs + output] for output in new)]
        width = inputs + len(new)
        tables += [None] * (width * (len(parts) * members - len(calls)))
        return [
            (launch, (*tables[begin * width : (begin + members) * width], *flag), begin * len(program.attributes))
            for launch, begin in zip(launches, parts, strict=True)
        ]

    floats = len(calls) * len(program.attributes)
    note = f"{len(calls)} calls as {len(launches)} launch{'es' if len(launches) > 1 else ''}"
    return queued(first, steps, floats=floats, heeds_failure=heeds, note=note)


def _members_per_launch(count: int, arrays: int, floats: int) -> int:
    """How many calls one launch is for, a power of two: their arrays, floats and sizes are parameters of the kernel."""
    members = 1
    while members < min(count, _MOST_MEMBERS):
        members *= 2
    while members * (8 * arrays + 8 * floats + 8) + 64 > _PARAMETER_BYTES:
        members //= 2
    return members


def _launch_group(calls: Sequence[Call], members: int) -> Launch:
    """One launch for up to `members` calls."""
    first = calls[0]
    where, program, operands = device(first.device_id), _program(first), _operands(first)
    pack = pack_of(program, min(desc.dtype.itemsize for desc in operands))
    sizes = [call.outputs[0].size for call in calls]
    # A few packs for each thread, or one where that leaves places for blocks empty.
    chunk = _THREADS * pack
    if sum(sizes) >= 4 * chunk * where.multiprocessors * (where.threads // _THREADS):
        chunk *= 4
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + -(-size // chunk))
    absent = members - len(calls)
    words = [chunk, *sizes, *[0] * absent, *ends[:-1], *[_NEVER] * absent]
    dtypes = tuple(_name(desc.dtype) for desc in operands)
    source = group_text(program, dtypes, pack, members, _places(first), bool(first.spec.inplace), _told(first))
    floats = members * len(program.attributes)
    return Launch(where, source, "group", ends[-1], _THREADS, words, floats=floats, wide=False)


def _places(call: Call) -> tuple[int, ...]:
    """Where the array of each output is among those of a call: an input that is changed in place, or behind them."""
    changed, new = call.spec.inplace, itertools.count(len(call.inputs))
    return tuple(changed[n] if n in changed else next(new) for n in range(len(call.outputs)))


def _program(call: Call) -> Program:
    """The formula of a call; those that copy, cast and fill have one as well."""
    return call.spec.program or (_COPY if call.inputs else _FILL)


def _told(call: Call) -> str:
    """The dtype to compute in, where it follows from the operands of ops that may be in one formula with casts."""
    return call.compute_dtype.name if call.by_operands else ""


def _operands(call: Call) -> list[ArrayDesc]:
    return [desc for desc in (*call.inputs, *call.outputs) if desc is not None]


@functools.cache
def _name(dtype: np.dtype) -> str:
    """Of a dtype; NumPy puts it together each time."""
    return dtype.name
