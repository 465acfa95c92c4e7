"""The comparison with NNabla: what counts as a difference, and that its page covers the library."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import atled as nn  # noqa: E402
import atled.functions as F  # noqa: E402
from nnabla_check.cases import SOLVERS, all_cases  # noqa: E402  # after the path is set
from nnabla_check.comparison import compare, is_absent  # noqa: E402
from nnabla_check.page import page  # noqa: E402
from nnabla_check.worker import Library, run_case  # noqa: E402
from nnabla_signatures import SIGNATURES  # noqa: E402

PAGE = (ROOT / "docs" / "nnabla_differences.md").read_text("utf-8")
CASE = {"id": "relu-0", "function": "relu", "compare": "values"}


def kinds(mine, theirs, **case):
    return [difference.what for difference in compare({**CASE, **case}, theirs, mine)]


def array(*values):
    return np.array(values)


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ({"y0": array(1.0, 100.0)}, {"y0": array(1.005, 100.0)}, []),
        ({"y0": array(1.0, 100.0)}, {"y0": array(1.05, 100.0)}, ["values"]),
        ({"y0": array(np.nan, np.inf)}, {"y0": array(np.nan, np.inf)}, []),
        ({"y0": array(1.0, np.inf)}, {"y0": array(1.0, -np.inf)}, ["values"]),
        ({"y0": array(1.0), "g0": array(1.0)}, {"y0": array(1.0), "g0": array(2.0)}, ["gradients"]),
        ({"y0": array(1.0)}, {"y0": array(1.0, 2.0)}, ["shape"]),
        ({"y0": array(1.0)}, {"y0": array(1.0), "g0": array(2.0)}, ["gradients"]),
        ({"error": array("E")}, {"y0": array(1.0)}, ["refusal"]),
        ({"error": array("E")}, {"error": array("E")}, ["case"]),
        ({"y0": array(1.0), "backward_error": array("E")}, {"y0": array(1.0), "g0": array(1.0)}, ["backward"]),
        ({"order": array("a b")}, {"order": array("b a")}, ["values"]),
    ],
)
def test_differences_are_found(mine, theirs, expected):
    assert kinds(mine, theirs) == expected


def test_draws_are_compared_by_their_distribution():
    draw = np.random.RandomState(0).randn(2, 20000)
    assert kinds({"y0": draw[0]}, {"y0": draw[1]}, compare="distribution") == []
    assert kinds({"y0": draw[0] * 1.2}, {"y0": draw[1]}, compare="distribution") == ["values"]
    assert kinds({"y0": draw[0] + 0.2}, {"y0": draw[1]}, compare="distribution") == ["values"]


def test_cases_have_names_of_their_own_and_cover_all_functions_and_solvers():
    cases = [case for case, _ in all_cases()]
    assert len({case["id"] for case in cases}) == len(cases)
    assert {case["function"] for case in cases if case["kind"] == "function"} == set(dir(F))
    assert {case["function"] for case in cases if case["kind"] == "solver"} == set(SOLVERS)


def test_the_page_covers_all_functions_of_nnablas_and_leaves_nothing_unexplained():
    for name in (*SIGNATURES, *(f"S.{solver}" for solver in SOLVERS)):
        assert f"\n| {name} | " in PAGE, f"make check-nnabla has not seen {name}"
    assert "unexplained" not in PAGE


def test_a_function_that_nnabla_does_not_have_is_no_difference():
    library = SimpleNamespace(nn=nn, functions=SimpleNamespace())
    case, arrays = next((case, arrays) for case, arrays in all_cases() if case["id"] == "relu-0")
    absent = run_case(library, case, arrays, None)
    assert is_absent(absent) and compare(case, absent, {"y0": array(1.0)}) == []
    assert kinds({"error": array("E")}, {"error": array("E")}) == ["case"]


def test_the_page_names_functions_of_our_own():
    text = page([{**CASE, "kind": "function"}], [], ["relu6"], {"atled": {}, "nnabla": {}})
    assert "Not in NNabla, so compared with nothing: `relu6`." in text and "| relu6 |" not in text


def test_the_page_tells_how_far_the_losses_of_programs_are_apart():
    theirs = {"lenet_digits": [2.0] * 40, "vat_digits": [2.0] * 40}
    mine = {"lenet_digits": [2.0] * 19 + [2.001] + [1.0] * 20, "vat_digits": [2.1] * 40}
    text = page([], [], [], {"atled": mine, "nnabla": theirs})
    assert "| lenet_digits | 20 losses | 5e-04 | 2.000 | 1.000 |" in text
    assert "| vat_digits | final loss, 10% allowed | 5.0% | 2.000 | 2.100 |" in text


@pytest.mark.parametrize("wanted", ["affine-0", "split-1", "batch_normalization-0", "solver-Adam-1", "PF-0-affine"])
def test_a_case_runs_in_atled(wanted, tmp_path):
    case, arrays = next((case, arrays) for case, arrays in all_cases() if case["id"] == wanted)
    (tmp_path / "atled").mkdir()
    results = run_case(Library("atled"), case, arrays, tmp_path)
    assert not {"error", "backward_error"} & results.keys()
    assert results


def case_named(identity):
    return next((case, arrays) for case, arrays in all_cases() if case["id"] == identity)


def test_a_call_is_saved_as_a_network_that_the_other_library_runs(tmp_path):
    library = Library("atled")
    (tmp_path / "atled").mkdir()
    case, arrays = case_named("affine-0")
    own = run_case(library, case, arrays, tmp_path)
    (tmp_path / "atled").rename(tmp_path / "nnabla")
    network, given = case_named("network-affine-0")
    assert given is arrays or given.keys() == arrays.keys()
    loaded = run_case(library, network, given, tmp_path)
    assert list(loaded) == ["y0"]
    np.testing.assert_array_equal(loaded["y0"], own["y0"])


def test_a_call_that_cannot_be_saved_is_a_refusal_of_its_network(tmp_path):
    library = Library("atled")
    for name in ("atled", "nnabla"):
        (tmp_path / name).mkdir()
    case, arrays = case_named("identity-0")
    case = {**case, "inputs": ["y0"]}  # the name of an output
    run_case(library, case, {"y0": arrays["in0"]}, tmp_path)
    (refused,) = (tmp_path / "atled").iterdir()
    refused.rename(tmp_path / "nnabla" / refused.name)
    network, _ = case_named("network-identity-0")
    loaded = run_case(library, network, {}, tmp_path)
    assert str(loaded["error"]).startswith("nnabla does not save it: ValueError: ")
    assert [d.what for d in compare(network, loaded, {"y0": array(1.0)})] == ["refusal"]
