"""Every op with a scalar formula, and every fused chain of them: OpenCL C written from the formula."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from atled.plugin import OPENCL, ArrayDesc, Call, Implementation, Prepared, Program, op_spec, plan_layout, write_c
from atled_opencl.runtime import NUMBERS, Launch, device, queued

# No double: not every device has it.
_TYPES = {"float32": "float", "float16": "half", **OPENCL.wholes}
_COPY, _FILL = Program(("x",), (), (("y", "x"),)), Program((), ("val",), (("y", "val"),))


def provide(op: str) -> Implementation | None:
    """The implementation of any op that has a formula or copies; None for other ops."""
    spec = op_spec(op)
    if spec.program is None and not spec.copies and op not in ("Cast", "Constant"):
        return None
    made = functools.partial(Implementation, accepts=accepts, note="formula", op_version=None, casts=True, strides=True)
    return made(op, "opencl", prepare, fuses=op not in ("Cast", "Constant"), integers=True)


def accepts(call: Call) -> bool | str:
    """True for the dtypes that the kernels load and store, else the reason."""
    for desc in (*call.inputs, *call.outputs):
        if desc is not None and desc.dtype.name not in _TYPES:
            return f"no {desc.dtype} here: not every OpenCL device has it"
        if desc is not None and desc.size >= 2**31:
            return "the kernels count elements in 32 bits"
    if call.has_integers and "**" in str(call.spec.program):
        return "powers of integers may be errors"
    return True


def prepare(call: Call) -> Prepared:
    """Compile the call's formula, or take the kernel that there is."""
    program = call.spec.program or (_COPY if call.inputs else _FILL)
    operands = [desc for desc in (*call.inputs, *call.outputs) if desc is not None]
    heeds = bool(call.spec.inplace)
    launch = launch_formula(call, program, operands, heeds)
    return queued(call, lambda *arrays: [(launch, arrays, 0)], heeds_failure=heeds)


def launch_formula(call: Call, program: Program, operands: Sequence[ArrayDesc], heeds: bool = False) -> Launch:
    """A formula over arrays that broadcast: inputs, outputs, the flag if it heeds that, floats of the call."""
    where = device(call.device_id)
    # The layout only asks for shapes and strides here; a copy may write any dtype.
    shapes, strides = [desc.shape for desc in operands], [desc.strides for desc in operands]
    layout, words, _, _ = plan_layout(program, shapes, ["float32"] * len(operands), None, strides)
    sizes = [*map(int, words[: layout.first_address]), *map(int, words[layout.first_stride : layout.first_attribute])]
    source = _source(program, layout, (*(x.dtype.name for x in operands), call.compute_dtype.name), where.widest, heeds)
    grid = sizes[layout.length_word], math.prod(sizes[layout.first_size : layout.first_address])
    return Launch(where, source, "formula", grid, sizes, bool(program.attributes))


@functools.lru_cache(maxsize=4096)
def _source(program: Program, layout: Any, dtypes: tuple[str, ...], wide: str, heeds: bool) -> str:  # Any: a layout
    """The kernel: a function of scalars from the formula, and around it where each operand is.

    dtypes: of the operands, then the one to compute in.
    """
    names = [*(f"in_{x}" for x in program.inputs), *(f"out_{y}" for y in program.output_names)]
    count, (*types, real) = len(program.inputs), [_TYPES[dtype] for dtype in dtypes]
    parameters = [f"long start{p}" for p in range(len(names) + heeds)]
    parameters += [f"__global {kind} *{name}" for kind, name in zip(types, names, strict=True)]
    parameters += ["__global long *flag"] * heeds + [NUMBERS[0]] * bool(program.attributes)
    lines = [f"__kernel void formula({', '.join(parameters)}, __constant int *w) {{"]
    stop = "i >= w[0] || *flag" if heeds else "i >= w[0]"
    lines += ["    long i = get_global_id(0), row = get_global_id(1);", f"    if ({stop}) return;"]
    inner = layout.first_inner_stride - len(names)  # a word: the sizes have no addresses
    for p, step in enumerate(layout.inner_strides):
        lines.append(f"    long at{p} = start{p} + i * {step if step in (0, 1) else f'w[{inner + p}]'};")
    for axis in reversed(range(layout.rank)):
        strides = [1 + layout.rank + p * layout.rank + axis for p in range(len(names))]
        lines += [f"    at{p} += row % w[{1 + axis}] * w[{stride}];" for p, stride in enumerate(strides)]
        lines.append(f"    row /= w[{1 + axis}];")
    loads = [f"vload_half(at{p}, {names[p]})" if types[p] == "half" else f"{names[p]}[at{p}]" for p in range(count)]
    # Before any store: an output may be an input.
    inputs, kinds = [f"x_{x}" for x in program.inputs], [kind.replace("half", "float") for kind in types[:count]]
    lines += [f"    {kind} {x} = {load};" for kind, x, load in zip(kinds, inputs, loads, strict=True)]
    results = [f"y_{y}" for y in program.output_names]
    arguments = [*inputs, *map(NUMBERS[1].format, range(len(program.attributes))), *(f"&{y}" for y in results)]
    lines += [f"    {real} {', '.join(results)};", f"    compute({', '.join(arguments)});"]
    for p, (y, expression) in enumerate(zip(results, program.expressions, strict=True), start=count):
        # A copy keeps whole numbers that a float does not hold.
        y = f"x_{expression}" if str(expression) in program.inputs else y
        y = f"({y}) != 0" if dtypes[p] == "bool" else y
        store = f"vstore_half((float)({y}), at{p}, {names[p]})" if types[p] == "half" else f"{names[p]}[at{p}] = {y}"
        lines.append(f"    {store};")
    # Attributes in the widest type: 1 - beta loses digits in float.
    computed = write_c(program, "compute", real=dtypes[-1], dialect=OPENCL, attribute_real=wide)
    return "\n".join([computed, *lines, "}", ""])
