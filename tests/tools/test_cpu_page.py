"""The decision who computes each op on backend cpu: complete, and the page says it."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tools"))

import cpu_page  # after the path is set
from atled.generators.catalogue import catalogue
from atled_cpu_numba.computed_by import ADOPTED, COPIES, KERNELS, RULE
from nnabla_signatures import SIGNATURES


def test_every_function_of_nnablas_is_decided():
    assert not cpu_page.undecided(SIGNATURES), "give it a kernel, or an entry in atled_cpu_numba/computed_by.py"


def test_a_function_without_a_decision_is_told(monkeypatch):
    monkeypatch.delitem(ADOPTED, "Reshape")
    assert cpu_page.undecided(["reshape", "relu", "affine"]) == ["Reshape"]
    assert cpu_page.undecided(["relu"]) == []
    assert f"| Reshape | {RULE} |" in cpu_page.page()


def test_what_is_adopted_has_nothing_better():
    specs = {spec.name: spec for spec in catalogue()}
    own = {op for ops in KERNELS.values() for op in ops}.union(COPIES)
    for op in ADOPTED:
        assert op in specs, f"{op} is no op"
        assert op not in own and specs[op].program is None, f"{op} is not adopted"


def test_the_page_is_up_to_date():
    assert cpu_page.PAGE.read_text("utf-8") == cpu_page.page(), "run make generated"
