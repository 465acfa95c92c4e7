"""Dot on views of matrices: read and written where they are."""

import numpy as np
import pytest

import atled as nn
from atled.arrays.views import View
from atled.keyed import Description

CPU = nn.Context(["cpu:float"])
SIZES = [(3, 5, 7), (40, 33, 50), (1, 20, 30), (30, 20, 1), (70, 300, 20)]


def view(*shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return View(nn.NdArray.from_numpy_array(values)), values


@pytest.mark.parametrize("rows, depth, columns", SIZES)
@pytest.mark.parametrize("turned", [(True, False), (False, True), (True, True)], ids=["A.T", "B.T", "both"])
def test_transposed_matrices_are_multiplied_in_place(rows, depth, columns, turned):
    (a, x), (b, y), (out, _) = view(rows, depth), view(depth, columns, seed=1), view(rows, columns, seed=2)
    if turned[0]:
        (a, x) = view(depth, rows)
        a, x = a.T, x.T
    if turned[1]:
        (b, y) = view(columns, depth, seed=1)
        b, y = b.T, y.T
    d = Description(CPU)
    d.assign(d.leaf(out), d.call("Dot", d.leaf(a), d.leaf(b)))
    d.run()
    np.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-4, atol=1e-4)
    assert [step.name for step in d.plan.steps] == ["Dot"]


def test_a_product_is_written_into_columns_and_nothing_beside_them():
    (a, x), (b, y), (out, was) = view(20, 30), view(30, 18, seed=1), view(20, 40, seed=2)
    d = Description(CPU)
    d.assign(d.leaf(out[:, 5:23]), d.call("Dot", d.leaf(a), d.leaf(b)))
    d.run()
    was[:, 5:23] = x @ y
    np.testing.assert_allclose(out.numpy(), was, rtol=1e-4, atol=1e-5)
    assert [step.name for step in d.plan.steps] == ["Dot"]


def test_other_products_of_views_are_those_of_copies():
    (a, x), (b, y) = view(4, 6, 5), view(5, 3, seed=1)
    d = Description(CPU)
    d.result(d.call("Dot", d.leaf(a[:, ::2]), d.leaf(b)))
    d.result(d.call("Dot", d.leaf(a.transpose((1, 0, 2))), d.leaf(b[:, 1])))
    matrices, vectors = (each.data for each in d.run())
    np.testing.assert_allclose(matrices, x[:, ::2] @ y, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(vectors, x.transpose(1, 0, 2) @ y[:, 1], rtol=1e-4, atol=1e-5)
