"""Calls of functions that NNabla does not have, from the samples of their op specs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atled.ops.elementwise import Elementwise
from atled.ops.samples import Data, Sample
from atled.ops.spec import FUNCTIONS, OpSpec
from function_rows.calls import CALLS, LARGE
from function_rows.inputs import FunctionCall, Input


def call_of(name: str) -> FunctionCall | None:
    """The call that is measured of a function; None for one that is made of others and has no call in `calls`."""
    if name in CALLS or name not in FUNCTIONS:
        return CALLS.get(name)
    spec = FUNCTIONS[name]
    sample = _sample(spec)
    drawn = sample.inputs[: len(sample.inputs) - len(spec.states)]  # which the function makes
    inputs = [None if data is None else _input(spec, position, data) for position, data in enumerate(drawn)]
    return FunctionCall(inputs, _arguments(spec, sample), comparable=not spec.random)


def _sample(spec: OpSpec) -> Sample:
    """The largest sample of an op; of elementwise ones, which take any shape, one of the size that others have."""
    if isinstance(spec, Elementwise):
        return spec.sample([LARGE.rows] * len(spec.inputs))
    return max(spec.samples(), key=lambda sample: sum(int(np.prod(data.shape)) for data in sample.inputs if data))


def _input(spec: OpSpec, position: int, data: Data) -> Input:
    def make(rng: np.random.Generator) -> np.ndarray:
        array = data.draw(rng)
        return array.astype(np.float32) if array.dtype.kind == "f" else array

    return Input(make, grad=spec.input_at(position).gradient == "flows" and not spec.no_gradient)


def _arguments(spec: OpSpec, sample: Sample) -> Mapping[str, Any]:
    known = {attribute.name: attribute for attribute in spec.attributes}
    given = {known[key].argument: value for key, value in sample.attributes.items() if not known[key].hidden}
    return {**given, "seed": 5} if "seed" in known else given
