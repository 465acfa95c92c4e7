"""The op specs of the library, and the calls that their samples make."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.dtypes import is_float
from atled.graph.nodes.dispatch import describe_call, in_front
from atled.ops.elementwise import Elementwise, ElementwiseGradient, Numbered, derived_name, derived_spec
from atled.ops.samples import Sample
from atled.ops.spec import SPECS, OpSpec
from atled.type_configs import compute_dtype
from atled_contexts import Context, Implementation

_RANDOM_STATE = ArrayDesc((2,), "int64")


def catalogue() -> list[OpSpec]:
    """The op specs of the library by name; not what follows from them: gradients of formulas, numbers in formulas."""
    found = [
        spec for spec in SPECS.values() if not isinstance(spec, ElementwiseGradient | Numbered) and spec.is_library
    ]
    return sorted(found, key=lambda spec: spec.name)


@functools.cache
def all_specs() -> tuple[OpSpec, ...]:
    """Every op spec there is, and the first gradients of the elementwise ones; sorted by name."""
    specs = {name: spec for name, spec in SPECS.items() if not (spec.removed or isinstance(spec, Numbered))}
    for spec in list(specs.values()):
        if isinstance(spec, Elementwise) and not spec.no_gradient and "Grad" not in spec.name:
            for wrt in spec.input_names:
                if spec.gradient_formula(wrt) is not None:
                    derived = derived_spec(derived_name(spec.name, wrt))
                    specs[derived.name] = derived
    return tuple(specs[name] for name in sorted(specs))


class SampleCalls:
    """The calls that the samples of a spec make, by type config.

    device_id: on which device; "": on none, for what depends on none.
    """

    def __init__(self, spec: OpSpec, device_id: str = "") -> None:
        self.spec = spec
        self.device_id = device_id
        self._arrays = [(sample, sample.draw()) for sample in spec.samples()]
        self._made: dict[tuple[str, bool], list[Call]] = {}

    def of(self, type_config: str) -> list[Call]:
        """One call per sample."""
        return self._calls(type_config, knows_layouts=True)

    def takers(self, offered: Sequence[Implementation], type_config: str) -> list[tuple[Implementation, Call] | None]:
        """Per sample which implementation of a backend would compute it, and what it is asked; None where none would.

        What knows no channel_last is asked for the call between transposes, as in a graph.
        """
        asked = [self._calls(type_config, knows_layouts=made.layout is not None) for made in offered]
        return [_taker(list(zip(offered, calls, strict=True))) for calls in zip(*asked, strict=True)]

    def _calls(self, type_config: str, *, knows_layouts: bool) -> list[Call]:
        key = type_config, knows_layouts
        if key not in self._made:
            self._made[key] = [self._call(sample, arrays, *key) for sample, arrays in self._arrays]
        return self._made[key]

    def _call(self, sample: Sample, arrays: Sequence[Any], type_config: str, knows_layouts: bool) -> Call:
        dtype = compute_dtype(type_config)
        descs = [
            None if array is None else ArrayDesc(array.shape, dtype if is_float(array.dtype) else array.dtype)
            for array in arrays
        ]
        attributes = self.spec.check_attributes(sample.attributes, descs)
        inputs: Sequence[ArrayDesc | None] = [*descs, _RANDOM_STATE] if self.spec.random else descs
        if self.spec.channelled and attributes["channel_last"] and not knows_layouts:
            inputs, attributes = in_front(self.spec, inputs, attributes)
        return describe_call(self.spec, inputs, attributes, Context("reference"), type_config, self.device_id)


def _taker(asked: Sequence[tuple[Implementation, Call]]) -> tuple[Implementation, Call] | None:
    """Which of the implementations that accept their call comes first."""
    accepting = [(made, call) for made, call in asked if made.accepts is None or made.accepts(call) is True]
    return max(accepting, key=_preference, default=None)


def _preference(asked: tuple[Implementation, Call]) -> float:
    made, call = asked
    return 0.0 if made.prefers is None else made.prefers(call)
