"""Inferences of the plain interpreter: outputs of a graph as a function of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fuzzing_programs.plain.graph import Value, Variable, calls_before
from fuzzing_programs.plain.state import STATE


class Inference:
    """`nn.inference`: the graph as it is now, on what its other leaves hold at a call."""

    def __init__(self, output: Variable, inputs: Sequence[Variable]) -> None:
        self._output = output.value
        self._inputs = [variable.value for variable in inputs]
        self._calls = calls_before([output.value])
        if any(call.random_state is not None or call.spec.mutated for call in self._calls):
            raise ValueError("a function that draws random numbers or changes arrays")

    def __call__(self, *arrays: Any) -> np.ndarray:
        made: dict[Value, np.ndarray] = dict(zip(self._inputs, arrays, strict=True))
        for call in self._calls:
            given = [None if v is None else np.asarray(made.get(v, v.present), np.float64) for v in call.inputs]
            with np.errstate(all="ignore"):
                results = call.spec.reference(*given, **call.attributes)
            for output, result in zip(call.outputs, results if isinstance(results, tuple) else (results,), strict=True):
                made[output] = STATE.disturbed(np.asarray(result)).reshape(output.shape)
        return made[self._output]
