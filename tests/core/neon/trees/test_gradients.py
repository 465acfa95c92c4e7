"""Gradients of op-trees: every op name against finite differences, views, and what the trees look like."""

import itertools

import numpy as np
import pytest

from atled.keyed import View
from atled.neon.backends import Autodiff, cleanup_backend, gen_backend
from atled.neon.backends.backend import OpTreeNode, Tensor
from atled.neon.trees import gradients
from atled_contexts import Context

CONTEXTS = {
    "cpu": Context(["cpu:float", "reference:float"]),
    "sim": Context(["sim:float"]),
    "reference": Context(["reference:float"]),
}
SMOOTH = ("neg", "abs", "sqrt", "sqr", "exp", "log", "exp2", "log2", "sig", "sig2", "tanh", "tanh2", "safelog")
STEPS = ("finite", "sgn", "rint", "binarize")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@pytest.fixture(params=CONTEXTS)
def be(request):
    """A backend of float64."""
    yield gen_backend(CONTEXTS[request.param], rng_seed=1, datatype=np.float64)
    cleanup_backend()


@pytest.fixture
def cpu():
    yield gen_backend(CONTEXTS["cpu"], rng_seed=1, datatype=np.float64)
    cleanup_backend()


def node(op, a, b=None, **about):
    return OpTreeNode.build(op, a, b, **about)


def tensor(be, shape, seed=0, name=None):
    """Numbers from 0.4 to 1.6, none near a kink."""
    return be.array(np.random.default_rng(seed).uniform(0.4, 1.6, shape), name=name)


def value(be, tree):
    out = be.empty(tree.shape)
    out[:] = tree
    return out.get()


def difference(be, tree, x, weights):
    """The gradient of `sum(weights * tree)` with respect to x, by differences."""
    before = x.get()
    found = np.zeros(before.shape)
    for index in np.ndindex(before.shape):
        sides = []
        for step in (1e-5, -1e-5):
            changed = before.copy()
            changed[index] += step
            x.view.write(changed)
            sides.append((value(be, tree) * weights).sum())
        found[index] = (sides[0] - sides[1]) / 2e-5
    x.view.write(before)
    return found


def check(be, tree, *tensors):
    """The gradients, for an error and for ones, against differences; the second gradients, too."""
    weights = np.random.default_rng(9).uniform(0.5, 1.5, tree.shape)
    error = be.array(weights)
    found = Autodiff(tree, be, error).get_grad_op_tree(list(tensors))
    for each, x in zip(found, tensors, strict=True):
        assert each.shape == x.shape
        np.testing.assert_allclose(value(be, each), difference(be, tree, x, weights), rtol=1e-5, atol=1e-7)
    for each, x in zip(Autodiff(tree, be).get_grad_op_tree(list(tensors)), tensors, strict=True):
        assert each.shape == x.shape
        np.testing.assert_allclose(value(be, each), difference(be, tree, x, 1.0), rtol=1e-5, atol=1e-7)
    return found


def check_twice(be, tree, *tensors):
    for each in check(be, tree, *tensors):
        check(be, each, *tensors)


# Each op name.


@pytest.mark.parametrize("op", SMOOTH)
def test_ops_of_one_operand(be, op):
    x = tensor(be, (2, 3))
    check_twice(be, node(op, x), x)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "pow", "maximum", "minimum"])
def test_ops_of_two_operands_that_broadcast(be, op):
    x, y = tensor(be, (2, 3)), tensor(be, (2, 1), seed=1)
    check_twice(be, node(op, x, y), x, y)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "pow", "maximum", "minimum"])
def test_ops_of_two_operands_one_of_which_is_a_number(cpu, op):
    x = tensor(cpu, (2, 3))
    for each in (1.25, 2, np.float32(0.75)):
        check(cpu, node(op, x, each), x)
        check(cpu, node(op, each, x), x)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_reductions_over_each_axis(be, op, axis):
    x = tensor(be, (2, 3))
    check(be, node(op, x, axis=axis) * node("sqr", x), x)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
@pytest.mark.parametrize("axis", [0, 2, (0, 1), (1, 2), None])
def test_reductions_on_three_axes(cpu, op, axis):
    x = tensor(cpu, (2, 3, 2))
    check(cpu, node("sqr", node(op, x, axis=axis)), x)


def test_dot_and_transpose_anywhere_in_a_tree(be):
    x, w, b = tensor(be, (2, 3)), tensor(be, (3, 4), seed=1), tensor(be, (2, 1), seed=2)
    check_twice(be, be.tanh(be.dot(x, w) + b), x, w, b)
    check_twice(be, be.dot(node("transpose", w), node("transpose", be.sqrt(x))), x, w)
    check(be, be.dot(be.dot(x, w), node("transpose", be.dot(x, w))), x, w)


def test_products_of_more_than_two_axes(cpu):
    x, w = tensor(cpu, (2, 2, 3)), tensor(cpu, (3, 2), seed=1)
    check(cpu, be_dot(x, w), x, w)
    check(cpu, node("transpose", x) * node("transpose", x), x)


def be_dot(x, w):
    return node("dot", node("exp", x), w)


def test_mean_var_and_std(be):
    x = tensor(be, (2, 3))
    for axis in (0, 1):
        check(be, be.mean(x, axis=axis) * x, x)
        check(be, be.var(x, axis=axis) + be.std(x, axis=axis), x)


def test_batch_normalization(be):
    x, gamma, beta = tensor(be, (3, 4)), tensor(be, (3, 1), seed=1), tensor(be, (3, 1), seed=2)
    centered = (x - be.mean(x, axis=1)) / be.sqrt(be.var(x, axis=1) + 1e-3)
    check(be, gamma * centered + beta, x, gamma, beta)


def test_take_gives_what_arrives_back_to_its_places(be):
    x, rows = tensor(be, (3, 4)), be.array(np.array([[2], [0], [2]]), dtype=np.int32)
    check(be, node("sqr", node("take", x, rows, axis=0)), x)
    check(be, node("take", x, rows, axis=1) * 2, x)


def test_shift_passes_what_arrives_with_the_same_power(be):
    x, by = tensor(be, (2, 3)), be.array(np.array([[1.0, 2.0, -4.0]]))
    check(be, node("shift", x, by), x)
    (gradient,) = Autodiff(node("shift", x, by), be).get_grad_op_tree([by])
    assert not value(be, gradient).any()


# Where the gradient is zero.


@pytest.mark.parametrize("op", STEPS)
def test_steps_have_no_slope(be, op):
    x = tensor(be, (2, 3))
    (gradient,) = Autodiff(node(op, x) * x, be).get_grad_op_tree([x])
    np.testing.assert_allclose(value(be, gradient), value(be, node(op, x) * 1))


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_have_no_slope(be, op):
    x, y = tensor(be, (2, 3)), tensor(be, (2, 3), seed=1)
    for gradient in Autodiff(node(op, x, y), be).get_grad_op_tree([x, y]):
        assert not value(be, gradient).any() and gradient.shape == (2, 3)


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_places_have_no_slope(be, op):
    x = tensor(be, (2, 3))
    (gradient,) = Autodiff(node(op, x, axis=1) * x, be).get_grad_op_tree([x])
    np.testing.assert_allclose(value(be, gradient), np.broadcast_to(value(be, node(op, x, axis=1)), (2, 3)))


def test_one_hot_vectors_are_constants(be):
    x, rows = tensor(be, (4, 3)), be.array(np.array([[2], [0], [2]]), dtype=np.int32)
    gx, places = Autodiff(be.onehot(rows, axis=0) * x, be).get_grad_op_tree([x, rows])
    np.testing.assert_array_equal(value(be, gx), np.eye(4)[[2, 0, 2]].T)
    assert not value(be, places).any()


def test_random_numbers_are_constants_and_none_are_drawn_for_gradients(cpu):
    x = tensor(cpu, (2, 3))
    state = cpu.rng.get_state()[1].copy()
    (gradient,) = Autodiff(node("rand", None) * x + x, cpu).get_grad_op_tree([x])
    np.testing.assert_array_equal(cpu.rng.get_state()[1], state)
    drawn = value(cpu, gradient) - 1
    assert (drawn >= 0).all() and (drawn < 1).all()


def test_random_numbers_are_those_of_the_tree_that_a_gradient_has_in_it(cpu):
    x = cpu.array(np.zeros((2, 3)))
    (gradient,) = Autodiff(cpu.exp(node("rand", None) + x), cpu).get_grad_op_tree([x])
    (second,) = Autodiff(cpu.log(node("rand", None) * cpu.exp(x)) * node("rand", None), cpu).get_grad_op_tree([x])
    for each, most in ((gradient, np.e), (second, 1)):
        assert (value(cpu, each) <= most).all() and (value(cpu, each) >= 0).all()


# Rules at ties and kinks.


def test_ties_of_two_get_the_whole_gradient_each(be):
    x, y = be.array(np.array([[1.0, 2.0]])), be.array(np.array([[1.0, 1.0]]))
    error = be.array(np.array([[3.0, 5.0]]))
    gx, gy = Autodiff(be.maximum(x, y), be, error).get_grad_op_tree([x, y])
    np.testing.assert_array_equal(value(be, gx), [[3, 5]])
    np.testing.assert_array_equal(value(be, gy), [[3, 0]])


def test_ties_of_a_reduction_get_the_whole_gradient_each(be):
    x = be.array(np.array([[1.0, 3.0, 3.0], [2.0, 1.0, 2.0]]))
    (gradient,) = Autodiff(be.max(x, axis=1), be, be.array(np.array([[2.0], [5.0]]))).get_grad_op_tree([x])
    np.testing.assert_array_equal(value(be, gradient), [[0, 2, 2], [5, 0, 5]])


def test_what_is_not_chosen_gets_zeros_whatever_arrives(be):
    x = be.array(np.array([[-1.0, 2.0]]))
    (gradient,) = Autodiff(be.maximum(x, 0), be, be.array(np.array([[np.inf, 1.0]]))).get_grad_op_tree([x])
    np.testing.assert_array_equal(value(be, gradient), [[0, 1]])


def test_powers_with_a_whole_exponent_have_gradients_at_negative_bases(be):
    x = be.array(np.array([[-2.0, 0.0, 3.0]]))
    (gradient,) = Autodiff(x**3, be).get_grad_op_tree([x])
    np.testing.assert_allclose(value(be, gradient), [[12, 0, 27]])


# Views.


def windows(x):
    return {
        "transposed": x.T,
        "rows": x[1:3],
        "columns": x[:, 1:4],
        "steps": x[::2, ::3],
        "backwards": x[::-1, 3:0:-1],
        "reshaped": x.reshape(6, 4),
        "part of reshaped": x.reshape(3, 8)[1:, ::3],
        "part of transposed": x.T[1:5:2],
        "one element": x[1, 2],
        "beginning": Tensor(x.backend, View(x.view.cell, x.view.desc.contiguous)[:3, :5], None, x),
    }


@pytest.mark.parametrize("first", range(10))
@pytest.mark.parametrize("second", [None, 0, 3, 4, 6])
def test_each_view_of_a_memory_gives_its_part_to_each_other(cpu, first, second):
    x = tensor(cpu, (4, 6))
    views = list(windows(x).values())
    one = views[first]
    tree = be_sum(one)
    other = x
    if second is not None:
        other = views[second]
        tree = tree + be_sum(other * x[:1, :1])
    for wanted in {id(each): each for each in (x, one, other)}.values():
        (gradient,) = Autodiff(tree, cpu).get_grad_op_tree([wanted])
        assert gradient.shape == wanted.shape
        np.testing.assert_allclose(value(cpu, gradient), difference(cpu, tree, wanted, 1.0), rtol=1e-6, atol=1e-8)


def be_sum(x):
    return node("sum", node("exp", x) * 0.5, axis=None)


def test_views_that_do_not_overlap_are_told_apart(be):
    x = tensor(be, (4, 3))
    upper, lower = x[:2], x[2:]
    gradient, other = Autodiff(upper * lower, be).get_grad_op_tree([upper, lower])
    assert gradient is lower and other is upper


def test_a_prefix_of_a_memory_is_a_part_of_what_overlaps_it(cpu):
    flat = tensor(cpu, (24, 1))
    share = Tensor(cpu, flat.view[:10].reshape((2, 5)), None, flat)
    part = share[:, 1:3]
    tree = be_sum(share) + be_sum(part * flat[3:4])
    for wanted in (flat, share, part):
        (gradient,) = Autodiff(tree, cpu).get_grad_op_tree([wanted])
        np.testing.assert_allclose(value(cpu, gradient), difference(cpu, tree, wanted, 1.0), rtol=1e-6, atol=1e-8)


# What trees look like.


def printed(be, tree, *tensors):
    return [getattr(each, "pp", lambda each=each: each.name)() for each in Autodiff(tree, be).get_grad_op_tree(tensors)]


def test_ones_and_what_is_repeated_are_folded(cpu):
    x, y, b = tensor(cpu, (2, 3), name="x"), tensor(cpu, (2, 3), name="y"), tensor(cpu, (2, 1), name="b")
    w = tensor(cpu, (3, 4), name="w")
    assert printed(cpu, x * y, x, y, b) == ["y", "x", "(b * 0)"]
    assert printed(cpu, x**2, x) == ["(2 * x)"]
    assert printed(cpu, cpu.tanh(x) * y, x) == ["(y * (1 - (tanh(x) * tanh(x))))"]
    assert printed(cpu, cpu.maximum(x, y), x) == ["(x >= y)"]
    assert printed(cpu, x * b, b) == ["sum(x, axis=1)"]
    assert printed(cpu, cpu.sum(x * y, axis=1), x) == ["y"]
    assert printed(cpu, cpu.dot(x, w) * cpu.dot(x, w), w) == [
        "dot(transpose(x), (dot(x, w) + dot(x, w)))",
    ]


def test_gradients_share_the_nodes_of_the_tree(cpu):
    x = tensor(cpu, (2, 3))
    tree = cpu.exp(x)
    assert Autodiff(tree, cpu).get_grad_op_tree([x])[0] is tree


def test_trees_of_one_form_are_derived_once(cpu, monkeypatch):
    x, y, z = (tensor(cpu, (2, 3), seed=seed) for seed in range(3))
    first = Autodiff(cpu.exp(x * y), cpu).get_grad_op_tree([x])
    monkeypatch.setattr(gradients, "_derived", None)
    (second,) = Autodiff(cpu.exp(z * x), cpu).get_grad_op_tree([z])
    np.testing.assert_allclose(value(cpu, second), x.get() * np.exp(z.get() * x.get()))
    assert first[0] is not second


@pytest.mark.parametrize("number", [0.5, 2, True])
def test_trees_with_other_numbers_are_of_another_form(cpu, number):
    x = tensor(cpu, (2, 3))
    for each in (1.0, number):
        (gradient,) = Autodiff(x * x * each, cpu).get_grad_op_tree([x])
        np.testing.assert_allclose(value(cpu, gradient), 2 * x.get() * each)


def test_which_operands_are_the_same_is_of_the_form(cpu):
    x, y = tensor(cpu, (2, 3)), tensor(cpu, (2, 3), seed=1)
    for a, b in itertools.product((x, y), repeat=2):
        (gradient,) = Autodiff(a * b, cpu).get_grad_op_tree([x])
        wanted = (a is x) * b.get() + (b is x) * a.get()
        np.testing.assert_allclose(value(cpu, gradient), wanted)


def test_deep_trees_are_differentiated_without_recursion(cpu):
    x = tensor(cpu, (1, 1))
    tree = x
    for _ in range(1500):
        tree = tree + x
    (gradient,) = Autodiff(tree, cpu).get_grad_op_tree([x])
    np.testing.assert_allclose(value(cpu, gradient), [[1501.0]])


def test_an_error_that_depends_on_a_tensor_is_a_constant(be):
    x = tensor(be, (2, 3))
    (gradient,) = Autodiff(x * x, be, be.exp(x)).get_grad_op_tree([x])
    np.testing.assert_allclose(value(be, gradient), 2 * x.get() * np.exp(x.get()))


def test_half_floats_are_differentiated_in_their_dtype(be):
    x = be.array(np.array([[0.5, 2.0]]), dtype=np.float16)
    y = be.array(np.array([[3.0, 4.0]]), dtype=np.float32)
    (gradient,) = Autodiff(x * y, be).get_grad_op_tree([x])
    np.testing.assert_allclose(value(be, gradient), [[3, 4]])


# Trees of one form are assigned by one program.


def test_trees_of_one_form_are_assigned_on_their_own_tensors(be):
    for seed in range(3):
        x, y, z = (tensor(be, (2, 3), seed=3 * seed + n) for n in range(3))
        out = be.empty((2, 3))
        (gradient,) = Autodiff(be.exp(x * y) + z, be).get_grad_op_tree([x])
        out[:] = gradient
        np.testing.assert_allclose(out.get(), y.get() * np.exp(x.get() * y.get()))


def test_trees_of_one_form_are_assigned_to_targets_of_other_kinds(cpu):
    x, y = tensor(cpu, (2, 3)), tensor(cpu, (2, 3), seed=1)
    whole = cpu.zeros((4, 6))
    targets = [
        cpu.zeros((2, 3)),
        whole[:2, :3],
        whole[2:, 3:],
        cpu.zeros((2, 3), dtype=np.float32),
        cpu.zeros((3, 2)).T,
        y,
    ]
    for target in targets * 2:
        wanted = y.get() * np.exp(x.get() * y.get())
        (gradient,) = Autodiff(cpu.exp(x * y), cpu).get_grad_op_tree([x])
        target[:] = gradient
        np.testing.assert_allclose(target.get(), wanted, rtol=1e-6)
    assert not whole.get()[:2, 3:].any()


def test_trees_of_one_form_on_views_keep_their_places(cpu):
    for begin in range(3):
        memory = tensor(cpu, (6, 4), seed=begin)
        upper, lower = memory[begin : begin + 2], memory[begin + 1 : begin + 3]
        out = cpu.empty((2, 4))
        gradients_of = Autodiff(upper * cpu.exp(lower), cpu).get_grad_op_tree([upper])
        out[:] = gradients_of[0]
        a, b = upper.get(), lower.get()
        wanted = np.exp(b)
        wanted[1] += a[0] * np.exp(b[0])
        np.testing.assert_allclose(out.get(), wanted)


def test_an_assignment_to_a_tensor_of_another_backend_is_refused_after_others(cpu):
    x, y = tensor(cpu, (2, 3)), tensor(cpu, (2, 3), seed=1)
    for _ in range(2):
        cpu.empty((2, 3))[:] = Autodiff(cpu.exp(x * y), cpu).get_grad_op_tree([x])[0]
    other = gen_backend("reference", datatype=np.float64).zeros((2, 3))
    with pytest.raises(ValueError, match="another backend"):
        other[:] = Autodiff(cpu.exp(x * y), cpu).get_grad_op_tree([x])[0]


def test_whole_numbers_that_no_float_holds_are_constants(cpu):
    x = cpu.array(np.array([[1.0, 2.0]]))
    for number in (2**60 + 1, 2**61 + 1):
        for _ in range(2):
            (gradient,) = Autodiff(x * x * number, cpu).get_grad_op_tree([x])
            np.testing.assert_allclose(value(cpu, gradient), 2 * x.get() * number)


def test_what_nodes_share_is_differentiated_and_walked_once(cpu):
    x = cpu.array(np.full((1, 1), 0.5))
    tree = x
    for _ in range(200):  # as a tree without sharing, 2**200 nodes
        tree = tree * 0.5 + tree * 0.5
    (gradient,) = Autodiff(tree, cpu).get_grad_op_tree([x])
    np.testing.assert_allclose(value(cpu, gradient), [[1.0]])
    np.testing.assert_allclose(Autodiff(tree, cpu).get_grad_asnumpyarray([x])[0], [[1.0]])
