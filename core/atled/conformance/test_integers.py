"""Where dtypes follow from the operands, integers are computed as NumPy does: modulo the range of their dtype."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from atled.conformance.cases import Topic, over, samples_of
from atled.conformance.running import evaluate
from atled.conformance.subject import Subject
from atled.graph.nodes.ir import Graph, IRValue
from atled.ops.elementwise import ElementwiseGradient
from atled.ops.formula import has_powers
from atled.ops.samples import Sample
from atled.ops.spec import SPECS, OpSpec

_DTYPES = ("int32", "uint8", "int64", "int16")


def _exact(subject: Subject) -> list[Topic]:
    """Per op that keeps integers, if an implementation takes them, one dtype; integers have no gradients."""
    return [
        Topic(spec.name, (backend, dtype), f"{spec.name}-{backend}-{dtype}")
        for backend, spec in subject.implemented()
        if not isinstance(spec, ElementwiseGradient) and spec.integers == "exact"
        if any(made.integers for made in subject.implementations(spec.name, backend))
        for dtype in [_DTYPES[crc32(spec.name.encode()) % len(_DTYPES)]]
    ]


def _whole(spec: OpSpec, sample: Sample, dtype: str) -> list[np.ndarray | None]:
    """The inputs of a sample in a dtype of integers, of its whole range."""
    bounds = np.iinfo(dtype)
    # Powers with negative exponents are an error in NumPy.
    least, most = (0, 4) if spec.program is not None and has_powers(spec.program) else (bounds.min, bounds.max)
    rng = np.random.default_rng(0)
    return [
        rng.integers(least, most, array.shape, dtype, endpoint=True)
        if array is not None and spec.input_at(position).kind in ("compute", "precise")
        else array
        for position, array in enumerate(sample.draw())
    ]


@over(_exact)
def test_integers(subject: Subject, case: Topic) -> None:
    """Whatever the backend takes of them has the values of the reference, to the last bit, and its dtypes."""
    backend, dtype = case.value
    spec = SPECS[case.name]
    sample = samples_of(spec)[0]
    arrays = _whole(spec, sample, dtype)

    def build(graph: Graph, values: list[IRValue | None]) -> Sequence[IRValue]:
        made = graph.op(spec.name, *values, **sample.attributes)
        return made if isinstance(made, tuple) else (made,)

    expected = evaluate(build, arrays, subject.reference("float"), by_operands=True).results
    found = evaluate(build, arrays, subject.mixed(backend), by_operands=True).results
    for name, want, got in zip(spec.outputs, expected, found, strict=False):
        assert got.dtype == want.dtype, f"{spec.name}.{name} of {dtype}: {got.dtype} instead of {want.dtype}"
        np.testing.assert_array_equal(got, want, f"{spec.name}.{name} of {dtype}")
