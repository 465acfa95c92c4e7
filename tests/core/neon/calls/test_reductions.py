"""Calls that make op-trees of another shape, against NumPy."""

import itertools

import numpy as np
import pytest

from atled.neon.backends.backend import OpTreeNode

SHAPES = [(3, 4), (2, 3, 4), (2, 3, 1, 4), (2, 1, 3, 2, 2)]


def values(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def expected(reduce, a, axis):
    """A reduction as op-trees have it: of more than two axes the reduced ones go, the first ones first."""
    axes = range(a.ndim) if axis is None else [each % a.ndim for each in np.atleast_1d(axis)]
    kept = reduce(a, axis=tuple(axes), keepdims=True)
    gone = sorted(axes)[: a.ndim - 2]
    return kept.reshape([size for n, size in enumerate(kept.shape) if n not in gone])


def axes_of(shape):
    count = len(shape)
    return [None, -1, *range(count), *itertools.combinations(range(count), 2)]


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var", "std"])
def test_reductions_over_any_axes_are_numpys(be, name):
    for shape in SHAPES:
        a = values(shape)
        x = be.array(a)
        for axis in axes_of(shape):
            tree = getattr(be, name)(x, axis=axis)
            wanted = expected(getattr(np, name), a.astype(np.float64), axis)
            assert tree.shape == wanted.shape
            np.testing.assert_allclose(tree.asnumpyarray(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extrema_are_numpys(be, name):
    for shape in SHAPES:
        a = np.rint(values(shape) * 2)
        x = be.array(a)
        for axis in range(len(shape)):
            tree = getattr(be, name)(x, axis=axis)
            wanted = expected(lambda a, axis, keepdims: getattr(np, name)(a, axis[0], keepdims=keepdims), a, axis)
            np.testing.assert_array_equal(tree.asnumpyarray(), wanted)


def test_places_are_looked_for_along_axis_1_unless_told(be):
    a = values((3, 4))
    np.testing.assert_array_equal(be.argmax(be.array(a)).asnumpyarray(), a.argmax(1)[:, None])
    np.testing.assert_array_equal(be.argmin(be.array(a), axis=None).asnumpyarray(), [[a.argmin()]])


def test_keepdims_is_accepted(be):
    x = be.array(values((3, 4)))
    for keepdims in (True, False):
        for name in ("sum", "max", "min", "argmax", "argmin", "mean", "var", "std"):
            assert getattr(be, name)(x, axis=1, keepdims=keepdims).shape == (3, 1)


@pytest.mark.parametrize("name", ["sum", "max", "mean", "var", "std"])
def test_out_is_assigned_the_reduction(be, name):
    a = values((3, 4))
    out = be.zeros((3, 1))
    assert getattr(be, name)(be.array(a), axis=1, out=out) is out
    np.testing.assert_allclose(out.get(), getattr(np, name)(a, axis=1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_var_by_shifts_where_it_is_binary(be):
    a = values((3, 4))
    deviation = a - a.mean(1, keepdims=True)
    shifted = deviation * np.sign(deviation) * 2 ** np.rint(np.log2(np.abs(deviation)))
    tree = be.var(be.array(a), axis=1, binary=True)
    np.testing.assert_allclose(tree.asnumpyarray(), shifted.mean(1, keepdims=True), rtol=1e-5)


def test_reductions_of_integers_do_not_overflow(be):
    x = be.array(np.full((2, 200), 100), dtype=np.uint8)
    np.testing.assert_array_equal(be.sum(x, axis=1).asnumpyarray(), [[20000], [20000]])


def test_products_anywhere_in_a_tree(be):
    a, b, c = values((3, 4)), values((4, 2), 1), values((3, 2), 2)
    tree = be.tanh(be.dot(be.array(a), be.array(b) * 2)) + be.dot(be.array(a) + 1, be.array(b)) * be.array(c)
    np.testing.assert_allclose(tree.asnumpyarray(), np.tanh(a @ (b * 2)) + (a + 1) @ b * c, rtol=1e-5, atol=1e-5)


def test_products_of_transposed_operands_and_of_transposed_products(be):
    a, b = values((3, 4)), values((3, 2), 1)
    x, y = be.array(a), be.array(b)
    np.testing.assert_allclose(be.dot(x.T, y).asnumpyarray(), a.T @ b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(be.dot((x + 1).T, y).T.asnumpyarray(), ((a + 1).T @ b).T, rtol=1e-5, atol=1e-6)
    out = be.zeros((2, 4))
    assert be.dot(x.T, y).transpose(out) is out
    np.testing.assert_allclose(out.get(), (a.T @ b).T, rtol=1e-5, atol=1e-6)


def test_of_three_axes_the_last_two_are_transposed(be):
    a = values((2, 3, 4))
    np.testing.assert_array_equal((be.array(a) + 0).T.asnumpyarray(), a.transpose(0, 2, 1))
    np.testing.assert_array_equal((be.array(a[None]) + 0).T.asnumpyarray(), a[None].T)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("kind", ["list", "array", "tensor"])
def test_elements_are_taken_by_index(be, axis, kind):
    a = values((3, 4))
    indices = [2, 0, -1, 1, 2]
    given = {"list": indices, "array": np.array(indices)}.get(kind)
    given = be.array(np.array(indices), dtype=np.int32) if given is None else given
    wanted = np.take(a, indices, axis)
    np.testing.assert_array_equal(be.take(be.array(a), given, axis).asnumpyarray(), wanted)
    out = be.zeros(wanted.shape)
    assert be.take(be.array(a) * 2, given, axis, out=out) is out
    np.testing.assert_array_equal(out.get(), 2 * wanted)


def test_elements_of_the_flattened_are_taken_without_an_axis(be):
    a = values((3, 4))
    np.testing.assert_array_equal(be.take(be.array(a), [11, 0]).asnumpyarray(), a.ravel()[[11, 0]][:, None])
    index = be.array(np.array([[1, 2, 3]]), dtype=np.int32)
    np.testing.assert_array_equal(be.take(be.array(a), index, None).asnumpyarray(), a.ravel()[[[1, 2, 3]]])


def test_elements_are_taken_along_any_of_more_axes(be):
    a = values((2, 3, 4))
    for axis in range(3):
        np.testing.assert_array_equal(be.take(be.array(a), [1, 0], axis).asnumpyarray(), np.take(a, [1, 0], axis))


@pytest.mark.parametrize("shape", [(5,), (5, 1), (1, 5)])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_onehot_has_columns_or_rows_of_the_identity(be, shape, dtype):
    indices = np.array([2, 0, 3, 3, 1])
    x = be.array(indices.reshape(shape), dtype=dtype)
    columns, rows = be.zeros((4, 5)), be.zeros((5, 4))
    assert be.onehot(x, axis=0, out=columns) is columns
    rows[:] = be.onehot(x, axis=1)
    np.testing.assert_array_equal(columns.get(), np.eye(4)[indices].T)
    np.testing.assert_array_equal(rows.get(), np.eye(4)[indices])


def test_onehot_is_built_by_keyword_as_in_neon(cpu):
    out = cpu.zeros((3, 2))
    OpTreeNode.build("onehot", None, None, idx=cpu.array(np.array([2, 0]), dtype=np.int32), axis=0, out=out)
    np.testing.assert_array_equal(out.get(), np.eye(3)[:, [2, 0]])


def test_onehot_takes_its_count_from_an_operand(be):
    indices = np.array([2, 0, 3, 3, 1])
    x, a, w = be.array(indices, dtype=np.int32), values((4, 5)), values((2, 4), 1)
    eye = np.eye(4, dtype=np.float32)[indices]
    np.testing.assert_array_equal((be.onehot(x, 0) * be.array(a)).asnumpyarray(), eye.T * a)
    np.testing.assert_array_equal(be.sum(be.array(a) - be.onehot(x, 0), 0).asnumpyarray(), (a - eye.T).sum(0)[None])
    np.testing.assert_allclose(be.dot(be.array(w), be.onehot(x, 0)).asnumpyarray(), w @ eye.T)
    np.testing.assert_allclose(be.dot(be.onehot(x, 1), be.array(w.T)).asnumpyarray(), eye @ w.T)


def test_onehot_without_a_count_cannot_be_built(be):
    x = be.array(np.array([2, 0]), dtype=np.int32)
    for make in (
        lambda: be.sum(be.onehot(x, 0), 0),
        lambda: be.dot(be.onehot(x, 1), be.onehot(x, 0)),
        lambda: (be.onehot(x, 0) * 2).asnumpyarray(),
    ):
        with pytest.raises(ValueError, match=r"onehot|target gives its shape"):
            make()


def test_random_numbers_have_the_shape_of_the_target(be):
    out, part = be.zeros((3, 4)), be.zeros((3, 5))
    a = values((3, 1))
    be.rng.seed(7)
    out[:] = be.rand()
    part[:, 1:3] = be.rand() + be.array(a)
    state = np.random.RandomState(7)
    np.testing.assert_array_equal(out.get(), state.uniform(size=(3, 4)).astype(np.float32))
    np.testing.assert_allclose(part.get()[:, 1:3], state.uniform(size=(3, 2)) + a, rtol=1e-6)


def test_random_numbers_are_drawn_at_each_assignment_and_once_in_it(be):
    out = be.zeros((3, 4))
    drawn = be.rand()
    tree = drawn + 2 * (drawn - 0)
    be.rng.seed(7)
    for _ in range(3):
        out[:] = tree
    state = np.random.RandomState(7)
    _, _, third = (state.uniform(size=(3, 4)) for _ in range(3))
    np.testing.assert_allclose(out.get(), 3 * third, rtol=1e-6)


def test_two_random_nodes_are_drawn_from_left_to_right(be):
    out = be.zeros((3, 4))
    be.rng.seed(7)
    out[:] = be.exp(be.rand()) - be.rand()
    state = np.random.RandomState(7)
    first, second = (state.uniform(size=(3, 4)) for _ in range(2))
    np.testing.assert_allclose(out.get(), np.exp(first) - second, rtol=1e-5, atol=1e-6)


def test_execute_runs_an_assignment_and_nothing_else(be):
    x, out = be.array(values((3, 4))), be.zeros((3, 4))
    tree = OpTreeNode({"op": "assign", "shape": (3, 4)}, out, x + 1)
    assert be.execute(tree) is out
    np.testing.assert_array_equal(out.get(), x.get() + 1)
    assert OpTreeNode.build("assign", out, x * 2) is out
    np.testing.assert_array_equal(out.get(), x.get() * 2)
    for wrong in (x + 1, OpTreeNode({"op": "assign", "shape": (3, 4)}, out, tree)):
        with pytest.raises(ValueError, match="of its root, and of no other node"):
            be.execute(wrong)
    with pytest.raises(TypeError, match="it is no op-tree"):
        be.execute(x)


BAD = {
    "axis=2 is out of range": lambda be, x: be.sum(x, axis=2),
    "axis=-3 is out of range": lambda be, x: be.max(x, axis=-3),
    "names an axis twice": lambda be, x: be.sum(x, axis=(0, -2)),
    "axis=5 is out of range": lambda be, x: be.take(x, [0], 5),
    "the last axis of the first has 4 elements, the last but one of the second 3": lambda be, x: be.dot(x, x),
    "use 0, for one-hot columns": lambda be, x: be.onehot(be.array(np.array([1]), dtype=np.int32), 2),
    "the result has shape": lambda be, x: be.argmax(x, axis=0, out=be.zeros((3, 1))),
    "int8 does not hold the index 199": lambda be, x: be.argmax(
        be.zeros((1, 200)), axis=1, out=be.zeros((1, 1), dtype=np.int8)
    ),
    "there is no element to choose": lambda be, x: be.max(be.zeros((0, 3)), axis=0),
}


@pytest.mark.parametrize("wrong", BAD)
def test_what_cannot_be_is_told_at_build(cpu, wrong):
    with pytest.raises(ValueError, match=wrong):
        BAD[wrong](cpu, cpu.zeros((3, 4)))


def test_operands_of_wrong_types_are_told_at_build(cpu):
    x = cpu.zeros((3, 4))
    for wrong, make in (
        ("no whole number", lambda: cpu.sum(x, axis=1.5)),
        ("no whole numbers", lambda: cpu.onehot(x[:, :1], 0)),
        ("indices are whole numbers", lambda: cpu.take(x, [0.5], 0)),
        ("it is no tensor", lambda: cpu.dot(x, 2.0)),
        ("no tensor of indices", lambda: OpTreeNode.build("onehot", None, None, axis=0)),
        ("no tensor of indices", lambda: OpTreeNode.build("onehot", x * 1, None, axis=0)),
    ):
        with pytest.raises(TypeError, match=wrong):
            make()


@pytest.mark.parametrize(("dtype", "most"), [("bool", 2), ("bfloat16", 257)])
def test_targets_of_dtypes_that_numpy_has_no_integers_or_floats_of_hold_places(cpu, dtype, most):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    target = cpu.zeros((1, 1), dtype=dtype)
    with pytest.raises(ValueError, match=f"{dtype} does not hold the index {most}"):
        target[:] = cpu.argmax(cpu.zeros((1, most + 1)), axis=1)
    target[:] = cpu.argmax(cpu.array([[0] * (most - 1) + [1]]), axis=1)
    assert target.get()[0, 0] == most - 1


def test_a_target_holds_all_places(cpu):
    small = cpu.zeros((1, 1), dtype=np.int8)
    with pytest.raises(ValueError, match="int8 does not hold the index 199"):
        small[:] = cpu.argmin(cpu.zeros((1, 200)), axis=1)
    small[:] = cpu.argmin(cpu.zeros((1, 128)), axis=1)
    half = cpu.zeros((1, 1), dtype=np.float16)
    with pytest.raises(ValueError, match="float16 does not hold the index 2999"):
        half[:] = cpu.argmax(cpu.zeros((1, 3000)), axis=1)


def test_out_is_a_tensor(cpu):
    x = cpu.zeros((3, 4))
    for out in (np.zeros((3, 4)), x * 1, 2.0):
        with pytest.raises(TypeError, match="is no tensor"):
            cpu.exp(x, out=out)


def test_indices_out_of_range_leave_the_target(be):
    x = be.array(values((3, 4)))
    far = be.array(np.array([0, 3]), dtype=np.int32)
    for shape, tree in (((2, 4), be.take(x, [0, 3], 0)), ((2, 3), be.onehot(far, 1))):
        out = be.ones(shape)
        with pytest.raises(IndexError, match="out of range"):
            out[:] = tree * 2
        np.testing.assert_array_equal(out.get(), 1)
