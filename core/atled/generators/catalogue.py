"""The op specs of the library, and the calls that their samples make."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.dtypes import is_float
from atled.graph.nodes.dispatch import describe_call
from atled.ops.elementwise import Elementwise, ElementwiseGradient, Numbered, derived_name, derived_spec
from atled.ops.samples import Sample
from atled.ops.spec import SPECS, OpSpec
from atled.type_configs import compute_dtype
from atled_contexts import Context

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
        self._made: dict[str, list[Call]] = {}

    def of(self, type_config: str) -> list[Call]:
        """One call per sample."""
        if type_config not in self._made:
            self._made[type_config] = [self._call(sample, arrays, type_config) for sample, arrays in self._arrays]
        return self._made[type_config]

    def _call(self, sample: Sample, arrays: Sequence[Any], type_config: str) -> Call:
        dtype = compute_dtype(type_config)
        descs = [
            None if array is None else ArrayDesc(array.shape, dtype if is_float(array.dtype) else array.dtype)
            for array in arrays
        ]
        attributes = self.spec.check_attributes(sample.attributes, descs)
        inputs = [*descs, _RANDOM_STATE] if self.spec.random else descs
        return describe_call(self.spec, inputs, attributes, Context("reference"), type_config, self.device_id)
