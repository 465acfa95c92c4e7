"""Layouts of formulas: of arrays that are walked through as one axis they are those that merging axes gives."""

import itertools

import pytest

from atled.ops import formula_layout
from atled.ops.formula import Program
from atled.ops.formula_layout import plan_layout

SUM = Program(("a", "b"), ("alpha",), (("y", "a + b * alpha"),))
FULL = [(), (1,), (5,), (0,), (1, 1), (3, 4), (3, 0), (0, 1), (1, 4), (2, 1, 3), (1, 1, 1), (70, 150)]


def described(plan):
    return plan.layout, plan.words.tolist(), plan.address_words, plan.attribute_words


def inputs_of(full):
    """The shapes that broadcast to one."""
    found = {full}
    for count in range(len(full) + 1):
        for ones in itertools.product((False, True), repeat=count):
            tail = full[len(full) - count :]
            found.add(tuple(1 if one else size for one, size in zip(ones, tail, strict=True)))
    return sorted(found)


@pytest.mark.parametrize("full", FULL, ids=str)
def test_one_axis_for_all_is_what_merging_gives(full, monkeypatch):
    shapes = [(a, b, full) for a, b in itertools.product(inputs_of(full), repeat=2)]
    found = [described(plan_layout(SUM, each, ["float32"] * 3)) for each in shapes]
    monkeypatch.setattr(formula_layout, "_flat", lambda *_: None)
    assert [described(plan_layout(SUM, each, ["float32"] * 3)) for each in shapes] == found


@pytest.mark.parametrize("shapes", [((3,), (1,), (1,)), ((1, 1), (3,), (3,)), ((2,), (3,), (3,)), ((0,), (1,), (1,))])
def test_shapes_that_do_not_broadcast_to_the_output_are_refused(shapes):
    with pytest.raises(ValueError, match="does not fit"):
        plan_layout(SUM, shapes, ["float32"] * 3)


def test_layouts_of_arrays_of_other_sizes_are_one():
    one, two = (plan_layout(SUM, [(n, 4)] * 3, ["float32"] * 3).layout for n in (3, 5))
    assert one is two
