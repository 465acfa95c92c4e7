"""Formulas and groups for the kit: a call with formulas attached to it, and several calls as one launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from atled.array_desc import ArrayDesc
from atled.call import Call, Prepared
from atled.conformance.cases import Case
from atled.conformance.direct import NUMBER, Launch
from atled.dtypes import is_float
from atled.graph.compile.casting import CastingOp
from atled.ops.formula import Program
from atled_contexts import Implementation

# Before an input, exactly the input: `scale` is 1, `b` is 0. Behind an output something else.
_BEFORE = Program(("a", "b", "c"), ("scale",), (("x", "a * scale + b * c"),))
_BEHIND = Program(("y", "b", "c"), ("scale",), (("z", "y * scale + b * c"),))
_SCALE, _SHARE = 0.25, 0.5


def attached_calls(case: Case, made: Implementation) -> Iterator[tuple[str, Call]]:
    """The case's call with a formula at each place that the implementation names, alone and all together."""
    call, spec = case.call, case.spec
    inputs = [n for n, name in enumerate(spec.input_names) if name in made.attaches and _is_fit(call.inputs[n])]
    inputs = [n for n in inputs if n not in call.mutated and spec.inputs[n].kind == "compute"]
    outputs = [n for n, name in enumerate(spec.outputs) if name in made.attaches and _is_fit(call.outputs[n])]
    before = {n: _formula(call, _BEFORE, call.inputs[n]) for n in inputs}
    after = {n: _formula(call, _BEHIND, call.outputs[n]) for n in outputs}
    for n in inputs:
        yield f"before {spec.input_names[n]}", call.attached({n: before[n]}, {}, call.wanted)
    for n in outputs:
        unread = tuple(number != n for number in range(len(call.outputs)))
        yield f"behind {spec.outputs[n]}", call.attached({}, {n: after[n]}, call.wanted)
        yield f"behind {spec.outputs[n]}, which nobody else reads", call.attached({}, {n: after[n]}, unread)
    if before and after:
        yield "on both sides", call.attached(before, after, call.wanted)


def _is_fit(desc: ArrayDesc | None) -> bool:
    return desc is not None and is_float(desc.dtype)


def _formula(call: Call, program: Program, desc: Any) -> Call:
    """One on arrays like one of the call, with an operand of that shape and one of one element."""
    one = ArrayDesc((1,) * len(desc.shape), desc.dtype)
    spec = CastingOp(program, ["MulScalar", "Mul2", "Add2"], [desc.dtype])
    return Call(spec, (desc, desc, one), (desc,), {}, device_id=call.device_id, type_config=call.type_config)


class AttachedLaunch(Launch):
    """A call with formulas, with arrays of its own."""

    def values(self, seed: int) -> list[np.ndarray | None]:
        """The case's inputs; before inputs the formulas read these, behind outputs `operand`."""
        own, call = self.case.inputs(seed), self.call
        operands: list[np.ndarray | None] = []
        for position, formula in sorted(call.before.items()):
            zeros = np.zeros(formula.outputs[0].shape)
            operands += [own[position], zeros, np.ones((1,) * zeros.ndim)]
        for _, formula in sorted(call.after.items()):
            operand = behind(formula)
            operands += [operand, np.full((1,) * operand.ndim, _SHARE)]
        return [*(None if position in call.before else values for position, values in enumerate(own)), *operands]

    @property
    def floats(self) -> list[float]:
        """Those of the case, then those of the formulas."""
        return [*self.case.floats, *(1.0 for _ in self.call.before), *(_SCALE for _ in self.call.after)]


def behind(formula: Call) -> np.ndarray:
    """What a formula behind an output adds half of."""
    desc = formula.outputs[0]
    return np.random.default_rng(0).uniform(-1, 1, desc.shape).astype(desc.dtype)


def with_formulas(call: Call, expected: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a call with formulas, from those of the op: wanted ones, then what formulas make."""
    own = [values for position, values in expected.items() if call.wanted[position]]
    made = (
        expected[position] * _SCALE + behind(formula).astype(np.float64) * _SHARE
        for position, formula in sorted(call.after.items())
    )
    return [*own, *made]


def may_be_grouped(case: Case) -> bool:
    """Whether the engine makes groups of such calls."""
    shapes = {None if desc is None else desc.shape for desc in (*case.call.inputs, *case.call.outputs)}
    has_formula = case.spec.program is not None or case.spec.copies
    return len(shapes) == 1 and has_formula and not case.call.mutated


def run_group(prepared: Prepared, launches: list[Launch], failure: int = 0) -> None:
    """Run a group on the arrays of launches; failure: what the flag of the device says."""
    assert prepared.run is not None, "prepare_group gave no run"
    (first, *_) = launches
    arguments = [memory.argument for launch in launches for memory in launch.inputs if memory is not None]
    arguments += [memory.argument for launch in launches for memory in launch.outputs if memory is not None]
    if prepared.workspace:
        arguments.append(first.memory(ArrayDesc((prepared.workspace,), np.uint8)).argument)
    if prepared.may_fail or prepared.heeds_failure:
        flag = first.memory(ArrayDesc((1,), np.int64))
        flag.put(np.array([failure], np.int64))
        arguments.append(flag.argument)
    arguments += [NUMBER] if prepared.may_fail else []
    prepared.run(*arguments, *(number for launch in launches for number in launch.floats))
