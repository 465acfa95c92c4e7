"""Tensors: what they are, their views and their values."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

from atled.neon.backends.autodiff import Autodiff
from atled.neon.backends.backend import OpTreeNode


def test_a_tensor_says_what_it_is(cpu):
    x = cpu.array(np.ones((2, 3), np.float64), dtype=np.float16, name="x")
    assert (x.shape, x.size, x.dtype, x.name, x.base) == ((2, 3), 6, np.float16, "x", None)
    assert x.backend is cpu and x.is_contiguous and x.persist_values
    assert repr(x) == str(x) == "<Tensor x float16[2, 3]>"
    x.rounding = 4
    assert x.rounding == 4


def test_views_have_the_name_of_their_base_which_owns_the_memory(cpu):
    x = cpu.zeros((4, 6), name="x")
    for view in (x[1:], x.T, x.reshape(6, 4), x[1:].T[:, 1], x.share((2, 3))):
        assert (view.name, view.base) == ("x", x)


def test_truth_and_length_are_those_of_the_first_axis(cpu):
    assert len(cpu.zeros((3, 4))) == 3 and cpu.zeros((3, 4))
    assert not cpu.zeros((0, 4)) and cpu.zeros((4, 0))


def test_equality_is_an_op_tree_and_the_hash_is_of_the_object(cpu):
    x, y = cpu.zeros((2, 2)), cpu.zeros((2, 2))
    assert len({x, y, x}) == 2 and {x: 1, y: 2}[y] == 2


@pytest.mark.parametrize("number", [2.0, np.float32(2), np.float64(2), np.int32(2)], ids=repr)
def test_numbers_on_the_left_leave_their_operators_to_the_tensor(be, number):
    x = be.array([[1, 2], [4, 8]])
    for tree, expected in ((number * x, 2 * x.get()), (number - x, 2 - x.get()), (number / x, 2 / x.get())):
        assert isinstance(tree, OpTreeNode)
        np.testing.assert_array_equal(be.zeros((2, 2)).set(tree).get(), expected)


def test_values_are_copies(be):
    x = be.array([[1, 2], [3, 4]])
    values = x.get()
    values[:] = 0
    np.testing.assert_array_equal(x.get(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(np.asarray(x, np.int32), [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, copy=False)


def test_the_host_array_is_the_memory_itself(cpu):
    x = cpu.array(np.arange(6).reshape(2, 3))
    values = x.T.asnumpyarray()
    values[2] = 7
    assert x.get().tolist() == [[0, 1, 7], [3, 4, 7]]
    x[:] = x * 2
    assert values.tolist() == [[0, 6], [2, 8], [14, 14]]


def test_where_a_device_has_the_values_the_host_array_is_a_copy():
    from atled.neon.backends import cleanup_backend, gen_backend

    x = gen_backend("sim").ones((2, 2))
    x[:] = x + 1
    assert x.asnumpyarray().tolist() == [[2, 2], [2, 2]]
    x.asnumpyarray()[:] = 0
    assert x.get().tolist() == [[2, 2], [2, 2]]
    cleanup_backend()


def test_a_small_part_of_what_is_on_a_device_comes_alone(be):
    x = be.array(np.arange(40).reshape(5, 8))
    x[:] = x + 1
    assert x[1:3, ::4].get().tolist() == [[9, 13], [17, 21]]


def test_the_raw_address_is_that_of_the_first_element(cpu):
    x = cpu.array(np.arange(6), dtype=np.int16)
    assert x[2:].raw() - x.raw() == 4
    assert x.raw() == x.asnumpyarray().ctypes.data


def test_transposed_the_axes_are_in_the_other_order(be):
    x = be.array(np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(x.T.get(), x.get().T)
    assert not x.T.is_contiguous and x.T.T.is_contiguous
    assert x.transpose().shape == (3, 2)
    out = be.zeros((3, 2))
    assert x.transpose(out) is out
    np.testing.assert_array_equal(out.get(), x.get().T)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5)])
def test_of_three_axes_the_last_two_change_places_of_more_all(cpu, shape):
    values = np.arange(np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(cpu.array(values).T.get(), values.swapaxes(1, 2) if len(shape) == 3 else values.T)


@pytest.mark.parametrize(
    ("asked", "shape"),
    [
        ((4, 6), (4, 6)),
        (((4, 6),), (4, 6)),
        (([4, 6],), (4, 6)),
        ((-1, 2), (12, 2)),
        ((2, -1, 3), (2, 4, 3)),
        ((24,), (24, 1)),
        ((-1,), (24, 1)),
        ((np.int64(3), np.prod([2, 4])), (3, 8)),
    ],
    ids=str,
)
def test_reshaped_a_tensor_is_a_view(cpu, asked, shape):
    x = cpu.zeros((2, 12))
    view = x.reshape(*asked)
    assert (view.shape, view.base) == (shape, x)
    view[:] = np.arange(24)
    assert x.get().ravel().tolist() == list(range(24))


def test_of_its_own_shape_it_is_itself(cpu):
    x = cpu.zeros((2, 3))
    assert x.reshape(2, 3) is x and x.reshape((2, 3)) is x and x.reshape(-1, 3) is x
    assert cpu.zeros(()).reshape(()).shape == (1, 1)


def test_a_reshape_of_a_strided_view_is_a_view_where_numpys_is(cpu):
    x = cpu.zeros((4, 6))
    x[:, :4].reshape(4, 2, 2)[:, 1] = 1
    assert x.get()[0].tolist() == [0, 0, 1, 1, 0, 0]


def test_a_reshape_that_is_no_view_is_a_copy_that_says_so(be):
    x = be.array(np.arange(6).reshape(2, 3), name="x")
    with pytest.warns(UserWarning, match="reshape before slicing or transposing") as caught:
        copy = x.T.reshape(6)
    assert caught[0].filename == __file__
    assert copy.get().ravel().tolist() == [0, 3, 1, 4, 2, 5]
    assert repr(copy) == "<Tensor x float32[6, 1] (a copy)>"
    assert copy.base is None
    assert be.zeros((6, 1)).set(copy * 2).get().ravel().tolist() == [0, 6, 2, 8, 4, 10]


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ((5, 2), ValueError, "12 elements do not fill 10"),
        ((-1, 5), ValueError, "12 elements do not fill that"),
        ((-1, -1), ValueError, "one may be -1"),
        ((), ValueError, "12 elements do not fill 1"),
        ((2.0, 6), TypeError, "sizes are integers"),
        (("12",), TypeError, "sizes are integers"),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_are_refused(cpu, asked, error, message):
    with pytest.raises(error, match=message):
        cpu.zeros((3, 4)).reshape(*asked)


def test_shared_the_first_elements_have_a_shape_of_their_own(cpu):
    x = cpu.zeros((3, 4), name="x")
    part = x.share((2, 3), name="part")
    part[:] = 1
    assert x.get().ravel().tolist() == [1] * 6 + [0] * 6
    assert (part.base, part.name, x[1:].share(4).shape) == (x, "part", (4, 1))


@pytest.mark.parametrize(
    ("share", "message"),
    [
        (lambda x: x.share((4, 4)), "it has 12 elements, of 16"),
        (lambda x: x.share((-1, 4)), "it has 12 elements"),
        (lambda x: x.T.share((2, 2)), "do not lie one behind the other"),
        (lambda x: x.share((2, 2), dtype=np.float16), "its memory is float32, not float16"),
    ],
)
def test_what_there_is_no_memory_for_is_not_shared(cpu, share, message):
    with pytest.raises(ValueError, match=message):
        share(cpu.zeros((3, 4)))


def test_a_tensor_dies_with_its_last_reference(cpu):
    x = cpu.ones((3, 4))
    x[:, :2] = x.T[:2].T + 1
    x.get(), x.asnumpyarray(), x.hist("x"), repr(x)
    cpu.dump_hist_data()
    dead = weakref.ref(x.view.cell)
    gc.disable()
    try:
        del x
        assert dead() is None
    finally:
        gc.enable()


def test_the_trees_of_neons_guide_compute(be):
    """Its first steps: make tensors, write an expression, compute it when it is assigned."""
    x = be.array(np.arange(1, 7).reshape(2, 3), name="x")
    y = be.zeros((2, 3))
    y[:] = 2
    f = x * x + y
    out = be.empty((2, 3))
    out[:] = f
    np.testing.assert_array_equal(out.get(), x.get() ** 2 + 2)
    x[0] = 0
    x[:, 1] = be.array([[10], [20]])
    out[:] = f
    np.testing.assert_array_equal(out.get(), [[2, 102, 2], [18, 402, 38]])
    out[:] = out / out
    assert (out.get() == 1).all()


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pickles_and_copies_by_copy_are_refused_with_what_to_do(cpu, copied):
    x = cpu.zeros((2, 3))
    for each in (x, x[1:]):
        with pytest.raises(TypeError, match=r"(?s)memory of its backend.*x.get\(\)"):
            copied(each)
    for each, remedy in (
        (x + 1, "build it again; trees do not change"),
        (Autodiff(cpu.sum(x * x), cpu), "build the tree again, and give it to Autodiff"),
        (cpu, "make one by gen_backend where it is needed"),
    ):
        with pytest.raises(TypeError, match=f"(?s)a pickle or a copy by `copy` of .*What to do: {remedy}"):
            copied(each)
