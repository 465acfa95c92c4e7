"""Arrays and leaves are pickled and copied by their values; what is computed says what to do instead."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.errors import DeviceLostError

WAYS = [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))]
each_way = pytest.mark.parametrize("copied", WAYS, ids=["copy", "deepcopy", "pickle"])
Way = Callable[[Any], Any]


@each_way
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_, np.float16])
def test_an_array_is_copied_with_its_dtype(copied: Way, dtype: Any) -> None:
    array = nn.NdArray.from_numpy_array(np.array([[0, 1, 2]], dtype))
    other = copied(array)
    assert type(other) is nn.NdArray and other.dtype == array.dtype and other.shape == (1, 3)
    other.data[...] = 1
    np.testing.assert_array_equal(array.data, np.array([[0, 1, 2]], dtype))


@each_way
@pytest.mark.parametrize("need_grad", [None, False, True])
def test_a_leaf_is_copied_with_its_values_and_need_grad(copied: Way, need_grad: bool | None) -> None:
    variable = nn.Variable((2, 2), need_grad)
    variable.d = np.arange(4).reshape(2, 2)
    other = copied(variable)
    assert other is not variable and other.need_grad is variable.need_grad
    np.testing.assert_array_equal(other.d, variable.d)
    other.d = 7
    assert variable.d.tolist() == [[0, 1], [2, 3]]


@each_way
def test_what_nobody_wrote_is_as_unwritten(copied: Way) -> None:
    other = copied(nn.Variable((2,), need_grad=True))
    assert other.value.data.cell.dtype is None and other.need_grad
    assert copied(nn.NdArray((2, 0))).cell.dtype is None
    filled = nn.NdArray((2,))
    filled.fill(3)
    assert copied(filled).data.tolist() == [3, 3]


@each_way
def test_parameters_are_copied(copied: Way) -> None:
    nn.clear_parameters()
    PF.affine(nn.Variable((1, 2)), 3, name="a")
    for variable in nn.get_parameters().values():
        other = copied(variable)
        np.testing.assert_array_equal(other.d, variable.d)
        assert other is not variable and other.need_grad
    nn.clear_parameters()


@each_way
def test_a_result_is_refused_in_words(copied: Way) -> None:
    with pytest.raises(TypeError, match=r"`copy` of <Variable(?s:.*)it is computed(?s:.*)`\.d`(?s:.*)save_parameters"):
        copied(F.tanh(nn.Variable((2,))))


@each_way
def test_a_call_of_a_graph_is_refused_in_words(copied: Way) -> None:
    with pytest.raises(TypeError, match=r"(?s)a call of a recorded graph.*What to do: take its name, `\.name`"):
        copied(F.relu(nn.Variable((2,))).parent)


@each_way
def test_an_inference_is_refused_in_words(copied: Way) -> None:
    x = nn.Variable((2,))
    with pytest.raises(TypeError, match=r"`copy` of <inference(?s:.*)in each process(?s:.*)save_parameters"):
        copied(nn.inference(F.tanh(x), x))


@each_way
@pytest.mark.parametrize("solver", [S.Sgd(0.25), S.Adam(0.25)], ids=["Sgd", "Adam"])
def test_a_solver_without_parameters_is_copied_with_hyper_parameters_of_its_own(copied: Way, solver: S.Solver) -> None:
    other = copied(solver)
    assert type(other) is type(solver) and other.info == solver.info
    other.set_learning_rate(0.5)
    assert solver.learning_rate() == 0.25
    variable = nn.Variable.from_numpy_array(np.ones(2), need_grad=True)
    other.set_parameters({"w": variable})
    variable.g = 1
    other.update()
    np.testing.assert_allclose(variable.d, 0.5, rtol=1e-6)
    assert not solver.get_parameters()


@each_way
def test_a_solver_with_parameters_is_refused_in_words(copied: Way) -> None:
    solver = S.Adam()
    solver.set_parameters({"w": nn.Variable((2,), need_grad=True)})
    with pytest.raises(TypeError, match=r"`copy` of <Adam(?s:.*)a copy would have others(?s:.*)load_states"):
        copied(solver)


@each_way
def test_a_compiled_step_is_refused_in_words(copied: Way) -> None:
    solver, w = S.Sgd(), nn.Variable((2,), need_grad=True)
    solver.set_parameters({"w": w})
    with pytest.raises(TypeError, match=r"`copy` of <step of <Sgd(?s:.*)in each process(?s:.*)save_parameters"):
        copied(nn.compile_step(F.sum(w), solver))


@each_way
def test_the_loss_of_a_device_is_told_by_another_process(copied: Way) -> None:
    error = DeviceLostError("SimArray:0", "it fell off the bus")
    error.add_note("in the third epoch")
    other = copied(error)
    assert type(other) is DeviceLostError and str(other) == str(error) and other.__notes__ == error.__notes__


def doubled(variable: nn.Variable) -> nn.Variable:
    return nn.Variable.from_numpy_array(2 * variable.d, need_grad=variable.need_grad)


def test_leaves_go_to_another_process_and_back() -> None:
    variable = nn.Variable.from_numpy_array(np.arange(3.0), need_grad=True)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        other = pool.submit(doubled, variable).result()
    assert other.d.tolist() == [0, 2, 4] and other.need_grad
