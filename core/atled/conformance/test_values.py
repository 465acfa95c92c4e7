"""Every op gives what its reference gives, in every precision, for usual and unusual arrays."""

from __future__ import annotations

import numpy as np
import pytest

from atled.conformance import cases
from atled.conformance.cases import Case, RefusedCase, over
from atled.conformance.checks import check_refused, check_values, output_names
from atled.conformance.running import call, oracle, typed, widened
from atled.conformance.skipping import skip_refused
from atled.conformance.subject import rounded
from atled.errors import in_words
from atled_contexts import SelectionError

_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (2, 0, 3), (1,), (1, 1, 1, 1), (7,), (33, 3))
_LARGE = (7, 1237, 3)  # some tens of thousands of elements, of sizes that fit no vector
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 88.9, -104.5)
_HUGE = (3e38, -3e38)  # close to the largest float32; for one input only: of several, the order of operations decides


@over(cases.samples)
def test_values(case: Case) -> None:
    """The op gives what its reference gives, within the spec's tolerance, and runs on the backend that was asked."""
    skip_refused(case)
    check_values(case.spec, case.sample, case.context)


@over(cases.other_precisions)
def test_precisions(case: Case) -> None:
    """The same in every other type config, with results of its dtype."""
    skip_refused(case)
    outcome = check_values(case.spec, case.sample, case.context)
    for name, desc, got in zip(
        output_names(case.spec, outcome.results), case.call.outputs, outcome.results, strict=True
    ):
        assert got.dtype == desc.dtype, f"{case.name}.{name} is {got.dtype} instead of {desc.dtype}"


@over(cases.elementwise)
def test_edge_shapes(case: Case) -> None:
    """An elementwise op computes 0-dimensional, empty, tiny and odd arrays."""
    skip_refused(case)
    for shape in _SHAPES:
        _check_shape(case, shape)


@over(cases.elementwise)
def test_large_arrays(case: Case) -> None:
    """An elementwise op computes arrays that are worth several threads or blocks, down to the last element."""
    skip_refused(case)
    _check_shape(case, _LARGE)


def _check_shape(case: Case, shape: tuple[int, ...]) -> None:
    try:
        check_values(case.spec, case.resized(shape).sample, case.context)
    except Exception as error:
        raise AssertionError(f"for arrays of shape {shape}: {in_words(error)}") from error


@over(cases.elementwise)
def test_special_values(case: Case) -> None:
    """NaN, infinities and large numbers give what the reference gives for them, in its precision or in float64."""
    skip_refused(case)
    spec = case.spec
    values = np.array([*_SPECIAL, *(_HUGE if len(spec.inputs) == 1 else ())])
    # Pairs of inputs see each pair of values.
    crossed = [np.repeat(values, values.size), np.tile(values, values.size)]
    arrays = typed([crossed[position % 2] for position in range(len(spec.inputs))], case.type_config)
    with np.errstate(all="ignore"):
        exact, _ = oracle(spec, [widened(a) for a in arrays], case.sample.attributes)
        same, _ = oracle(spec, arrays, case.sample.attributes)
    outcome = call(spec, arrays, case.sample.attributes, case.context)
    for name, want, alike, got in zip(output_names(spec, exact), exact, same, outcome.results, strict=True):
        # What overflows on the way differs by the order of operations: either way is right.
        fits = _alike(rounded(want, got.dtype), got, case.tolerance) | _alike(
            rounded(alike, got.dtype), got, case.tolerance
        )
        if not fits.all():
            at = int(np.argmin(fits))
            given = ", ".join(repr(float(a[at])) for a in arrays if a is not None)
            pytest.fail(f"{case.name}.{name} of {given} is {got[at]}, the reference gives {want[at]}")


def _alike(want: np.ndarray, got: np.ndarray, tolerance: float) -> np.ndarray:
    # Widened: NumPy's comparisons do not know NaN in bfloat16.
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    return np.isclose(wide_got, wide_want, rtol=tolerance, atol=tolerance, equal_nan=True)


@over(cases.refused)
def test_refusals(case: RefusedCase) -> None:
    """What the spec says must be refused is refused, with the error it promises."""
    try:
        check_refused(case.spec, case.refused, case.context)
    except SelectionError as error:
        pytest.skip(f"the plugin refuses the call for another reason: {str(error).splitlines()[0]}")
