"""Variables and other leaves as Python objects."""

import copy
import pickle

import numpy as np
import pytest

import atled.keras_backend as B


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_of_a_variable_is_another_one_with_its_values(backend, copied):
    w = B.variable([[1, 2]], dtype="int32", name="w")
    other = copied(w)
    B.set_value(w, [[5, 5]])
    assert other != w and (other.name, other.dtype, B.get_value(other).tolist()) == ("w", "int32", [[1, 2]])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_other_expressions_are_not_copied(copied):
    x = B.placeholder(ndim=1, name="x")
    for each in (x, x + 1, x.shape):
        with pytest.raises(TypeError, match=r"(?s)only variables can be copied.*write the expression anew"):
            copied(each)


def test_a_constant_keeps_no_memory_of_the_program(cpu):
    values = np.ones(3, np.float32)
    x = B.placeholder(ndim=1)
    y = x + values
    values[:] = 7
    assert B.function([x], y)([0, 0, 0]).tolist() == [1, 1, 1]
