"""What a call gives, by shapes and dtypes of its operands alone, without a program around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.errors import four_parts
from atled.graph.keyed.entries import spec_of
from atled.graph.nodes.dispatch import outputs_by_operands
from atled.ops.elementwise import with_numbers
from atled.ops.spec import OpSpec


def outcome(
    op: str | OpSpec, operands: Sequence[ArrayDesc | type | None], attributes: Mapping[str, Any]
) -> tuple[ArrayDesc, ...]:
    """Shapes and dtypes of all outputs of a call, as `Description.desc` has them; raises what `run` would.

    operands: shapes and dtypes, `int`, `float` or `bool` for Python numbers, None for absent ones.
    """
    spec = spec_of(op)
    kinds = {position: each for position, each in enumerate(operands) if isinstance(each, type)}
    inputs: list[ArrayDesc | None] = [each for each in operands if not isinstance(each, type)]
    if kinds:
        if len(kinds) == len(operands) or spec.program is None:
            wrong = "it is not elementwise" if spec.program is None else "all its inputs are numbers"
            raise TypeError(
                four_parts(f"a call of {spec.name} with Python numbers", wrong, "", "make an array of one of them")
            )
        spec = with_numbers(spec, kinds)
        attributes = {**attributes, **dict.fromkeys(spec.float_names, 0.0)}
    if not spec.variadic:
        inputs += [None] * (len(spec.inputs) - len(inputs))
    return outputs_by_operands(spec, inputs, spec.check_attributes(attributes, inputs))
