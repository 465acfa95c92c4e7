"""Whoever takes strides computes on views what is computed on whole arrays, and writes nothing beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from atled.array_desc import ArrayDesc
from atled.call import Call
from atled.conformance import cases
from atled.conformance.cases import Case, over
from atled.conformance.checks import compare, output_names
from atled.conformance.direct import Launch
from atled.conformance.skipping import skip_refused
from atled.conformance.strided import BESIDE, apart, turned
from atled.errors import in_words
from atled_contexts import Implementation

_Strides = Callable[[Sequence[int]], tuple[int, ...]]
_WAYS: tuple[tuple[_Strides, _Strides], ...] = ((turned, apart), (apart, turned))  # of inputs, of outputs


@over(cases.on_views)
def test_strides(case: Case) -> None:
    """Inputs and outputs that an implementation takes with strides (`strides=`) may be views, if it accepts that."""
    skip_refused(case)
    expected, changed = case.expected()
    for made in case.subject.accepting(case):
        for ways in _WAYS:
            call = _on_views(case, made, *ways)
            if call is not None and _accepts(made, call):
                _check(case, made, call, None, expected, changed)
        if made.strides and _accepts(made, case.call):
            for skipped in (0, BESIDE):
                _check(case, made, case.call, skipped, expected, changed)


def _check(
    case: Case,
    made: Implementation,
    call: Call,
    skipped: int | None,
    expected: Sequence[np.ndarray],
    changed: Sequence[np.ndarray | None],
) -> None:
    """Prepare a call and run it, in each form; skipped: as of `Launch`."""
    part = "" if skipped is None else f", in C order behind {skipped} elements of larger memory"
    title = f"{case.backend} ({made.note or case.name}) on {call}{part}"
    try:
        launch = Launch(case, made, call=call, skipped=skipped)
    except Exception as error:
        raise AssertionError(f"{title}: accepts said yes, prepare failed: {in_words(error)}") from error
    for form in launch.forms:
        launch.fill()
        launch.run(form)
        for name, want, got in zip(output_names(case.spec, expected), expected, launch.results(), strict=True):
            compare(f"{title}, {form}: {name}", want, got, case.tolerance)
        for position in case.call.mutated:
            now = launch.inputs_now()[position]
            compare(f"{title}, {form}: in place", changed[position], now, case.tolerance)
        assert launch.is_intact, f"{title}, {form}: wrote beside its arrays, or between their elements"


def _on_views(case: Case, made: Implementation, of_input: _Strides, of_output: _Strides) -> Call | None:
    """The call with strides wherever the implementation takes them; None where that is nowhere."""
    spec, call = case.spec, case.call
    inputs = tuple(
        desc
        if desc is None or spec.input_at(n).kind == "random_state" or not made.takes_strides((spec.input_at(n).name,))
        else ArrayDesc(desc.shape, desc.dtype, of_input(desc.shape))
        for n, desc in enumerate(call.inputs)
    )
    outputs = []
    for n, desc in enumerate(call.outputs):
        strides = of_output(desc.shape) if made.takes_strides((spec.outputs[min(n, len(spec.outputs) - 1)],)) else None
        if n in spec.inplace:
            changed = inputs[spec.inplace[n]]
            strides = None if changed is None else changed.strides
        outputs.append(ArrayDesc(desc.shape, desc.dtype, strides))
    found = call.on(inputs, tuple(outputs))
    return found if found.strided else None


def _accepts(made: Implementation, call: Call) -> bool:
    return made.accepts is None or made.accepts(call) is True
