"""Loops of one formula on few elements: a kernel of their own, in which a step takes nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atled.call import Native
from atled.graph.compile.plan import Plan
from atled.graph.compile.step import Step
from atled.graph.nodes.loops import LoopOp

_FEW_ELEMENTS = 256
"""Of an array in a step: with more of them a launch for each step does no harm."""

_QUICK = 1 << 24
"""Elements times steps times ops: some tenths of a second, for which Python gets no turn."""


def is_formula(spec: LoopOp) -> bool:
    """Whether a loop may be one formula on few elements: only its plan can tell."""
    body = spec.body
    if spec.counted or spec.ended or spec.draw_count or not spec.length:
        return False
    if any(node.spec.program is None for node in body.nodes):
        return False
    most = max(desc.size for desc in (*body.inputs, *body.result_descs))
    return most <= _FEW_ELEMENTS and spec.length * most * len(body.nodes) <= _QUICK


def formula_steps(spec: LoopOp, plan: Plan) -> Native | None:
    """The only step of the plan of a body as often as the loop has steps; None where it is not that simple."""
    if len(plan.steps) != 1:
        return None
    (step,) = plan.steps
    if step.native is None or step.native.steps is None or -1 in step.arguments:
        return None
    roles = _roles(spec, plan, step)
    states = _states(spec, roles)
    parameters = _parameters(spec, plan, step)
    if states is None or parameters is None or len(set(roles)) < len(roles):
        return None
    sign = -1 if spec.backwards else 1
    first_row = len(spec.inputs) + spec.first_row
    slots = [plan.slots[slot] for slot in step.arguments]
    assert spec.length is not None
    strides = [
        sign * slot.desc.nbytes if role < spec.sequence_count or role >= first_row else 0
        for role, slot in zip(roles, slots, strict=True)
    ]
    made = step.native.steps(spec.length, strides, states)
    block = made.block.copy()
    constants, words = parameters
    for name, value in constants.items():
        block.view(np.float64)[made.attributes[name]] = value
    arguments = [-1] * (len(spec.inputs) + len(spec.outputs))
    for role, word in zip(roles, made.arguments, strict=True):
        arguments[role] = word
    attributes = {parameter: made.attributes[name] for parameter, name in words.items()}
    return Native(made.address, block, tuple(arguments), attributes=attributes, owner=made.owner)


def _roles(spec: LoopOp, plan: Plan, step: Step) -> list[int]:
    """Per argument of the step which one of the loop it is; nothing is counted, so inputs are those of the body."""
    results = {slot: len(spec.inputs) + number for number, slot in enumerate(plan.targets) if slot >= 0}
    sources = {slot: source for source, _, _, slot in plan.requests}
    return [sources[slot] if slot in sources else results[slot] for slot in step.arguments]


def _states(spec: LoopOp, roles: Sequence[int]) -> dict[int, int] | None:
    """By input of the step that is a state the output that is the next one; None where it is made elsewhere."""
    first, most = len(spec.inputs), max(desc.size for desc in spec.body.result_descs)
    inputs = {role: position for position, role in enumerate(roles) if role < first}
    outputs = {role - first: position - len(inputs) for position, role in enumerate(roles) if role >= first}
    found = {}
    for state in range(spec.state_count):
        if spec.sequence_count + state in inputs:
            if state not in outputs or spec.body.result_descs[state].size != most:
                return None
            found[inputs[spec.sequence_count + state]] = outputs[state]
    return found


def _parameters(spec: LoopOp, plan: Plan, step: Step) -> tuple[dict[str, float], dict[str, str]] | None:
    """The floats of the step: constants by name, and by parameter of the loop its only name; None if it has two."""
    assert step.node.spec is not None
    constants: dict[str, float] = {}
    names: dict[str, str] = {}
    for name, number in zip(step.node.spec.float_names, step.floats, strict=True):
        kind, value, *_ = plan.floats[number]
        if kind == "parameter":
            parameter = spec.float_names[value]
            if parameter in names:
                return None
            names[parameter] = name
        else:
            constants[name] = value
    return constants, names
