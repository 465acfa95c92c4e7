"""Under a type config whose arrays are narrower than float32, sums are computed in float32."""

from __future__ import annotations

import pytest

from atled.conformance.cases import Topic, over
from atled.conformance.checks import check_values
from atled.conformance.subject import Subject
from atled.dtypes import is_narrow
from atled.ops.samples import Sample, Uniform
from atled.ops.spec import SPECS
from atled.type_configs import compute_dtype
from atled_contexts import SelectionError

_COUNT = 20000
_NUMBERS = Uniform((2, _COUNT), 0.1, 0.3)  # a sum in float16 would stay at 512, in bfloat16 at 64
_ONES = (0.9, 1.1)
_SUMS = {
    "Sum": Sample(_NUMBERS, axes=(1,)),
    "Mean": Sample(_NUMBERS, axes=(1,)),
    "Affine": Sample(_NUMBERS, Uniform((_COUNT, 3), *_ONES), None),
    "BatchMatmul": Sample(Uniform((1, 2, _COUNT), 0.1, 0.3), Uniform((1, _COUNT, 3), *_ONES)),
    "Convolution": Sample(Uniform((1, 2, 100, 100), 0.1, 0.3), Uniform((1, 2, 100, 100), *_ONES), None),
}


def _narrow(subject: Subject) -> list[Topic]:
    return [
        Topic(spec.name, (backend, type_config), f"{spec.name}-{backend}-{type_config}")
        for backend, spec in subject.implemented()
        if spec.name in _SUMS
        for type_config in subject.type_configs(backend)
        if is_narrow(compute_dtype(type_config))
    ]


@over(_narrow)
def test_narrow_sums(subject: Subject, case: Topic) -> None:
    """A long sum of small numbers does not stop growing where the next one is less than half a unit of the dtype."""
    try:
        check_values(SPECS[case.name], _SUMS[case.name], subject.context(*case.value))
    except SelectionError as error:
        pytest.skip(str(error).splitlines()[0])
