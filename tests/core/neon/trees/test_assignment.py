"""Assignment of op-trees: what is computed, kept and refused."""

import gc
import weakref

import numpy as np
import pytest

import atled as nn
from atled.neon.backends import gen_backend
from atled.neon.backends.backend import OpTreeNode
from atled.neon.trees.assignment import assign_all
from atled_contexts import Context


def values(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def programs():
    return nn.memory_statistics()["caches"]["programs by key"]


WINDOWS = {
    "columns": np.s_[:, 1:5:2],
    "backwards": np.s_[::-1, 4:2:-1],
    "row": np.s_[1:2, 0:2],
    "corner": np.s_[2:, 4:],
}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_views_are_operands_and_targets(be, window):
    a, b = values((4, 6)), values((4, 6), 1)
    x, y = be.array(a), be.array(b)
    y[window] = be.exp(x[window]) + y[window] * x.T.T[window] - be.sum(x[:, :1], axis=0)
    b[window] = np.exp(a[window]) + b[window] * a[window] - a.sum(0)[0]
    np.testing.assert_allclose(y.get(), b, rtol=1e-5, atol=1e-6)


def test_a_target_may_be_an_operand_in_another_order(be):
    a = values((4, 4))
    x = be.array(a)
    x[:] = x.T + x[::-1] * 2
    np.testing.assert_allclose(x.get(), a.T + a[::-1] * 2, rtol=1e-6)


def test_a_tree_that_is_kept_reads_its_tensors_as_they_are(be):
    x, out = be.array(values((3, 4))), be.zeros((3, 4))
    tree = be.tanh(x) * 2
    for seed in range(5):
        x[:] = values((3, 4), seed)
        out[:] = tree
        np.testing.assert_allclose(out.get(), 2 * np.tanh(values((3, 4), seed)), rtol=1e-5)


def test_a_tree_that_is_kept_is_assigned_to_any_target(be):
    x = be.array(values((3, 4)))
    tree = x * 2 + 1
    outs = [be.zeros((3, 4)) for _ in range(7)]
    wide = be.zeros((3, 12))
    for _ in range(3):
        for out in outs:
            out.fill(0)
            out[:] = tree
            np.testing.assert_array_equal(out.get(), x.get() * 2 + 1)
        for n in range(3):
            wide[:, 4 * n : 4 * n + 4] = tree
    np.testing.assert_array_equal(wide.get(), np.tile(x.get() * 2 + 1, 3))


def test_a_tree_that_is_kept_keeps_no_target_alive(cpu):
    x, out = cpu.array(values((3, 4))), cpu.zeros((3, 4))
    tree = x * 2
    for _ in range(3):
        out[:] = tree
    memory = weakref.ref(out.view.cell)
    gc.disable()
    try:
        del out
        assert memory() is None
    finally:
        gc.enable()


def test_a_target_keeps_no_tree_alive(cpu):
    x, out = cpu.array(values((3, 4))), cpu.zeros((3, 4))
    tree = x * 2
    for _ in range(3):
        out[:] = tree
    memory = weakref.ref(x.view.cell)
    gc.disable()
    try:
        del tree, x
        assert memory() is None
    finally:
        gc.enable()


def test_windows_that_move_are_one_program(cpu):
    x, out = cpu.array(values((3, 40))), cpu.zeros((3, 40))
    out[:, :4] = cpu.tanh(x[:, :4]) * 3 - x[:, :1]
    before = programs()
    for n in range(1, 10):
        now = slice(4 * n, 4 * n + 4)
        out[:, now] = cpu.tanh(x[:, now]) * 3 - x[:, 4 * n : 4 * n + 1]
    assert programs() == before
    a = x.get().reshape(3, 10, 4)
    np.testing.assert_allclose(out.get(), (np.tanh(a) * 3 - a[:, :, :1]).reshape(3, 40), rtol=1e-5, atol=1e-6)


def test_a_tree_made_anew_is_one_program_with_any_numbers(cpu):
    x, out = cpu.array(values((3, 4))), cpu.zeros((3, 4))
    before = None
    for number in (0.5, 0.25, -3.0, 1e-3):
        out[:] = cpu.tanh(x) * number + number
        before = programs() if before is None else before
        np.testing.assert_allclose(out.get(), np.tanh(x.get()) * number + number, rtol=1e-5)
    assert programs() == before


def test_zeros_of_either_sign_are_not_taken_for_one_another(be):
    x = be.array(np.zeros((1, 2)))
    tree = 1 / (x * -0.0 + (x + -0.0) * 0.0)
    out = be.zeros((1, 2))
    with np.errstate(all="ignore"):
        out[:] = tree
        a = np.zeros((1, 2), np.float32)
        np.testing.assert_array_equal(out.get(), 1 / (a * -0.0 + (a + -0.0) * 0.0))


def test_equal_sub_trees_are_computed_once(cpu):
    x = cpu.array(values((3, 4)))
    twice = cpu.exp(cpu.tanh(x)) / cpu.sum(cpu.exp(cpu.tanh(x)), axis=0) + cpu.exp(cpu.tanh(x) * 1)
    text = str(twice.plan)
    assert (text.count("Tanh"), text.count("Sum  ")) == (1, 1), text


def test_trees_may_be_deep(cpu):
    x = cpu.array(values((2, 2)))
    left = right = both = x * 0.5
    for _ in range(1200):
        left, right = left + x, x + right
    for _ in range(40):
        both = both * both - both
    assert len(left.traverse([])) == len(right.traverse([]))
    assert both.shape == (2, 2)
    assert left.key() != right.key()


def test_a_plan_shows_the_steps_and_computes_nothing(cpu):
    x, out = cpu.array(values((64, 64))), cpu.zeros((64, 1))
    assigned = OpTreeNode({"op": "assign", "shape": (64, 1)}, out, cpu.sum(cpu.exp(x) * 2, axis=1))
    state = cpu.rng.get_state()[2]
    text = str(assigned.plan)
    assert "Exp+Mul2" in text
    assert "computed within" in text, "the sum carries what it sums"
    assert "native program" in str((cpu.exp(x) * cpu.binarize(x)).plan)
    np.testing.assert_array_equal(out.get(), 0)
    assert cpu.rng.get_state()[2] == state


def test_a_chain_is_one_step(cpu):
    x, y = cpu.array(values((8, 8))), cpu.array(values((8, 8), 1))
    assert len((x * y + cpu.tanh(x) * y - 0.5 * y).plan.segments[0].steps) == 1


def test_values_are_cast_to_the_target(be):
    a = values((3, 4)) * 10
    for dtype in (np.float64, np.float16, np.int32, np.int8):
        out = be.zeros((3, 4), dtype=dtype)
        out[:] = be.array(a) * 2
        np.testing.assert_array_equal(out.get(), (a * np.float32(2)).astype(dtype))


def test_a_tree_is_repeated_along_axes_of_the_target(be):
    a = values((3, 1))
    out = be.zeros((2, 3, 4))
    out[:] = be.array(a) * 2
    np.testing.assert_array_equal(out.get(), np.broadcast_to(a * 2, (2, 3, 4)))


def test_what_does_not_fit_the_target_leaves_it(cpu):
    x, out = cpu.array(values((3, 4))), cpu.ones((3, 4))
    for tree in (cpu.sum(x, axis=0).T, cpu.dot(x, x.T), x.reshape(2, 6) * 1):
        with pytest.raises(ValueError, match=r"an op-tree of shape .* to a tensor of shape \(3, 4\)"):
            out[:] = tree
    np.testing.assert_array_equal(out.get(), 1)


def test_tensors_of_another_backend_leave_the_target(cpu):
    out, x = cpu.ones((3, 4)), cpu.array(values((3, 4)))
    other = gen_backend(Context(["cpu:float"]), rng_seed=1, batch_size=4)
    y = other.array(values((3, 4)))
    for target, tree in ((y, y + x), (y, other.exp(x * 2))):
        with pytest.raises(ValueError, match="another backend"):
            target[:] = tree
    np.testing.assert_array_equal(y.get(), values((3, 4)))
    np.testing.assert_array_equal(out.get(), 1)


def test_a_tree_without_tensors_has_the_shape_of_its_target(be):
    out = be.zeros((2, 3))
    out[:] = be.rand() * 0 + 2
    np.testing.assert_array_equal(out.get(), 2)
    with pytest.raises(ValueError, match="only a target gives its shape"):
        be.rand().astensor()


def test_several_are_assigned_at_once(be):
    a, b = values((3, 4)), values((3, 4), 1)
    x, y, total = be.array(a), be.array(b), be.zeros((1, 4))
    assign_all([(x, y * 2), (y, x + y), (total, be.sum(x, axis=0))])
    np.testing.assert_allclose(x.get(), b * 2, rtol=1e-6)
    np.testing.assert_allclose(y.get(), a + b, rtol=1e-5)
    np.testing.assert_allclose(total.get(), a.sum(0, keepdims=True), rtol=1e-5)


def test_numbers_of_several_change_between_runs(be):
    x, y = be.ones((2, 3)), be.zeros((3, 1))
    first, second = (OpTreeNode({"op": "number", "shape": (1, 1)}, None, None) for _ in range(2))
    d = assign_all([(x, first * x), (y, y + second)], [(first, 2.0), (second, 3.0)])
    d.set_number(1, 0.5)
    d.run()
    assert (x.get() == 4).all()
    assert (y.get() == 3.5).all()


def test_random_numbers_of_several_have_the_shapes_of_their_targets(be):
    x, y = be.zeros((2, 3)), be.zeros((3, 1))
    be.rng_reset()
    assign_all([(x, be.rand() * 1.0), (y, be.rand() * 1.0)])
    rng = np.random.RandomState(1)
    np.testing.assert_array_equal(x.get(), rng.uniform(size=(2, 3)).astype(np.float32))
    np.testing.assert_array_equal(y.get(), rng.uniform(size=(3, 1)).astype(np.float32))


def test_one_of_several_that_does_not_fit_leaves_all(cpu):
    x, y = cpu.ones((3, 4)), cpu.ones((3, 1))
    with pytest.raises(ValueError, match=r"shape \(3, 4\) to a tensor of shape \(3, 1\)"):
        assign_all([(x, x * 2), (y, x * 2)])
    assert (x.get() == 1).all()
