"""Fusions that are found again: plans are those of fusions that were looked for, whatever sizes were planned before."""

import pytest
from tests.sized_graphs import GRAPHS, described, forget_plans

from atled.graph.compile import fusion
from atled.graph.compile.known_fusions import FUSIONS, is_count
from atled.graph.record.roots import roots_of

SIZES = (1, 2, 4, 5, 7, 9, 300)
"""Sizes that some other axis has, too, among them."""


def planned(root):
    """Forward and backward plan, made now."""
    forget_plans()
    root.forward()
    root.backward()
    roots = roots_of((root.value,))
    (binding,) = roots.backward.bindings.values()
    return roots.forward.binding.plan, binding.plan


@pytest.fixture
def searches(monkeypatch):
    """The count of nodes of each search."""
    found = []

    class Groups(fusion._Groups):
        def __init__(self, nodes, *others):
            found.append(len(nodes))
            super().__init__(nodes, *others)

    monkeypatch.setattr(fusion, "_Groups", Groups)
    FUSIONS.clear()
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_plans_are_those_of_fusions_that_were_looked_for(name):
    FUSIONS.clear()
    known = [list(map(described, planned(GRAPHS[name](n)))) for n in (*SIZES, *reversed(SIZES))]
    for n, found in zip((*SIZES, *reversed(SIZES)), known, strict=True):
        FUSIONS.clear()
        assert list(map(described, planned(GRAPHS[name](n)))) == found


def test_plans_of_no_elements_are_those_of_fusions_that_were_looked_for():
    found = []
    for clears in (False, True):
        FUSIONS.clear()
        planned(GRAPHS["broadcast"](3))
        if clears:
            FUSIONS.clear()
        found.append(list(map(described, planned(GRAPHS["broadcast"](0)))))
    assert found[0] == found[1]


def test_fusions_of_other_sizes_are_not_looked_for(searches):
    for n in (10, 11, 12):
        planned(GRAPHS["perceptron"](n))
    assert len(searches) == 2, "of the first forward and backward"


@pytest.mark.parametrize(("value", "found"), [(0.5, False), (8, False), (9, True), (1 / 9, True), (9.5, False)])
def test_large_whole_numbers_and_what_they_divide_are_counts(value, found):
    assert is_count(value) is found
