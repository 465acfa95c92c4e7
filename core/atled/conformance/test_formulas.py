"""What implementations compile in: formulas of other steps, and several calls as one launch."""

from __future__ import annotations

import numpy as np
import pytest

from atled.conformance import cases
from atled.conformance.cases import Case, over
from atled.conformance.checks import compare
from atled.conformance.direct import Launch
from atled.conformance.formulas import AttachedLaunch, attached_calls, may_be_grouped, run_group, with_formulas
from atled.conformance.skipping import accepting
from atled.dtypes import is_float
from atled.errors import in_words
from atled.graph.compile.formulas import takes_formulas

_MEMBERS = 3


@over(cases.samples)
def test_attached(case: Case) -> None:
    """Formulas are computed at all inputs and outputs for which an implementation says so, if it accepts the call."""
    if not takes_formulas(case.spec):
        pytest.skip("the op takes no formulas")
    results = dict(enumerate(case.expected()[0]))
    for made in accepting(case):
        names = (*case.spec.input_names, *case.spec.outputs)
        unknown = [name for name in made.attaches if name not in names]
        assert not unknown, f"{made}: attaches {unknown[0]!r}, which is no input or output of {case.name}"
        for where, call in attached_calls(case, made):
            answer = True if made.accepts is None else made.accepts(call)
            if answer is not True:
                assert isinstance(answer, str) and answer.strip(), (
                    f"{made}: accepts gave {answer!r}, no reason, {where}"
                )
                continue
            try:
                launch = AttachedLaunch(case, made, call=call)
                launch.fill()
                launch.run("run")
            except Exception as error:
                raise AssertionError(f"{made}: it failed with a formula {where}: {in_words(error)}") from error
            for want, got in zip(with_formulas(call, results), launch.results(), strict=True):
                compare(f"{made}: {case.name} with a formula {where}", want, got, case.tolerance)


@over(cases.samples)
def test_groups(case: Case) -> None:
    """A group of calls gives what the calls give one by one, to the last bit."""
    if not may_be_grouped(case):
        pytest.skip("such calls are in no group")
    for made in accepting(case):
        if made.prepare_group is None:
            continue
        alone, together = ([Launch(case, made) for _ in range(_MEMBERS)] for _ in range(2))
        for seed, (one, other) in enumerate(zip(alone, together, strict=True)):
            one.fill(seed)
            other.fill(seed)
            one.run("run")
        try:
            run_group(made.prepare_group([case.call] * _MEMBERS), together)
        except Exception as error:
            raise AssertionError(f"{made}: a group of {_MEMBERS} failed: {in_words(error)}") from error
        for number, (one, other) in enumerate(zip(alone, together, strict=True)):
            for want, got in zip(one.results(), other.results(), strict=True):
                same = np.array_equal(want, got, equal_nan=is_float(want.dtype))
                assert same, f"{made}: call {number} of a group gives something else than alone"
