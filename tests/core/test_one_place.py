"""An op that NNabla does not have is its row, or its class: nothing else in the repository is edited for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

# A plugin of pytest: before the first test is imported, the library has one more file of ops.
FAMILY = """
import importlib.util, sys
import atled.ops
spec = importlib.util.spec_from_file_location("atled.ops.two_more", {path!r})
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""

# What follows from the row and the class.
FOLLOWS = """
import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.conformance.checks import check_op
from atled_cpu_numba.computed_by import RULE

OPS = {"soft_shrink": ("SoftShrink", "formula"), "square_sum": ("SquareSum", "adopted reference")}

@pytest.mark.parametrize("function", OPS)
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_it_computes_what_it_says(function, backend):
    assert check_op(OPS[function][0], backend) >= 5

@pytest.mark.parametrize("function", OPS)
def test_explain_and_the_page_say_who_computes_it(function):
    import cpu_page

    op, note = OPS[function]
    with nn.context_scope(nn.Context("cpu:float")):
        assert note in str(nn.explain(getattr(F, function), nn.Variable((2, 3))))
    assert (f"| {op} | {RULE} |" in cpu_page.page()) == (note == "adopted reference")

@pytest.mark.parametrize("function", OPS)
def test_it_is_measured_without_nnabla(function):
    import functions
    from atled_contexts import reset_default_context
    from function_rows.timing import function_case

    rows = {row.name: row for row in functions.rows()}
    assert rows[f"{function}, with backward"].libraries == ("atled", "reference")
    try:
        found, expected = (
            function_case(library, function, backward=True).results() for library in ("atled", "reference")
        )
    finally:
        reset_default_context()
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)
"""

LISTS = [
    "benchmarks/test_functions.py",
    "core/test_functions_api.py",
    "tools/test_cpu_page.py",
    "tools/test_nnabla_check.py",
]
# Not what needs `make generated` first, and of the rest what lists functions or ops.
CHOSEN = "soft_shrink or square_sum or every or cover or nothing_better or nnabla_does_not_have or follows"


@pytest.mark.slow
def test_two_more_ops_need_no_other_edit(tmp_path: Path) -> None:
    (tmp_path / "two_more_family.py").write_text(FAMILY.format(path=str(TESTS / "two_more_ops.py")))
    (tmp_path / "test_follows.py").write_text(FOLLOWS)
    arguments = ["-p", "two_more_family", "-p", "no:cacheprovider", "-k", CHOSEN]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *arguments, *(str(TESTS / path) for path in LISTS), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    for claim in (
        "test_every_function_of_nnablas_is_there",
        "test_every_function_of_nnablas_is_decided",
        "test_every_function_is_measured_and_compared_where_nnabla_has_it",
        "test_the_page_covers_all_functions_of_nnablas",
        "test_cases_have_names_of_their_own_and_cover_all_functions",
        "test_a_function_has_a_name_and_a_docstring[reference-square_sum]",
        "test_it_computes_what_it_says[cpu-soft_shrink]",
    ):
        assert claim in done.stdout, f"{claim} did not run"
