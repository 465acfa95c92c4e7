"""All ways in which the values of a parameter become others: `way(w, values)`, of the shape that w has."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.keyed import Description


def by_view(w, values):
    w.d[...] = values


def by_data(w, values):
    w.data.data = values


def by_d(w, values):
    w.d = values


def by_copy_from(w, values):
    w.data.copy_from(nn.NdArray.from_numpy_array(values))


def by_another_array(w, values):
    w.data = nn.NdArray.from_numpy_array(values)


def by_foreign_export(w, values):
    foreign = np.from_dlpack(w.data)
    # By its address: to NumPy 2.0 the arrays of others are read-only.
    ctypes.memmove(foreign.ctypes.data, values.ctypes.data, foreign.nbytes)


def by_assignment(w, values):
    d = Description()
    d.assign(d.leaf(w.data), d.leaf(nn.NdArray.from_numpy_array(values)))
    d.run()


def by_formula_in_place(w, values):
    by_copy_from(w, values / 2)
    d = Description()
    target = d.leaf(w.data)
    d.assign(target, d.call("Mul2", target, d.number(2.0)))
    d.run()


def by_output_of_an_op(w, values):
    F.identity(nn.NdArray.from_numpy_array(values), outputs=[w.data])


def by_result_of_another_plan(w, values):
    y = F.identity(nn.Variable.from_numpy_array(values))
    y.data = w.data
    y.forward()


def by_fill(w, values):
    w.data.fill(3)
    by_d(w, values)


def by_cast(w, values):
    w.data.cast(np.float64)
    by_d(w, values)


def by_reshaped_view(w, values):
    w.data.data.reshape(-1)[:] = values.ravel()


def by_solver(w, values):
    needed = w.need_grad
    w.need_grad = True
    w.grad.data = w.data.data - values
    solver = S.Sgd(1.0)
    solver.set_parameters({"w": w})
    solver.update()
    w.need_grad = needed
    np.testing.assert_allclose(w.data.data, values, atol=1e-5)
    by_d(w, values)


_WAYS = (
    by_view,
    by_data,
    by_d,
    by_copy_from,
    by_another_array,
    by_foreign_export,
    by_assignment,
    by_formula_in_place,
    by_output_of_an_op,
    by_result_of_another_plan,
    by_fill,
    by_cast,
    by_reshaped_view,
    by_solver,
)

all_ways = pytest.mark.parametrize("write", _WAYS, ids=lambda way: way.__name__)
"""Runs a test with each of them as `write`."""
