"""Assignments to views where a device computes some ops only: what the others make comes to it, or goes from it."""

import itertools

import numpy as np
import pytest

import atled as nn
from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.conformance.broken.shelf import ShelfPlugin, prepare
from atled.keyed import Description
from atled.plugin import op_spec
from atled_contexts import Implementation, register_plugin, unregister_plugin


class FormulasOnly(ShelfPlugin):
    """A device that computes formulas and nothing else."""

    def __init__(self, strides):
        super().__init__()
        self._strides = strides

    def usual(self, op):
        if op_spec(op).program is None:
            return None
        return Implementation(op, "shelf", prepare, op_version=None, strides=self._strides)


@pytest.fixture(params=[True, ()], ids=["strides", "no strides"])
def context(request):
    register_plugin("shelf", FormulasOnly(request.param))
    yield nn.Context(["shelf:float", "reference:float"], fallback="quiet")
    unregister_plugin("shelf")


PARTS = {"row": np.s_[0], "column": np.s_[1:, 0], "backwards": np.s_[1:, :0:-2]}


@pytest.mark.parametrize("names", list(itertools.permutations(PARTS, 2)), ids=" and ".join)
@pytest.mark.parametrize("is_copied", [False, True], ids=["computed", "copied"])
def test_parts_of_one_array_and_another_array_are_assigned(context, names, is_copied):
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.full((3, 4), 5, np.float32)
    target, source = NdArray.from_numpy_array(x), NdArray.from_numpy_array(y)
    d = Description(context)
    whole = d.leaf(source)
    d.assign(whole, d.call("Add2", whole, whole))
    for number, name in enumerate(names):
        part = d.leaf(View(source)[PARTS[name]])
        d.assign(View(target)[PARTS[name]], part if is_copied and number else d.call("Mul2", part, d.number(3)))
    for _ in range(2):
        d.run()
        for number, name in enumerate(names):
            x[PARTS[name]] = y[PARTS[name]] * (1 if is_copied and number else 3)
        y = y + y
        np.testing.assert_array_equal(target.data, x)
        np.testing.assert_array_equal(source.data, y)
