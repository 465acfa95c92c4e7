"""GradNode and GradUtil: gradients at the nodes of a tree, and what each adds to those of its operands."""

import numpy as np

from atled.neon.backends import Autodiff
from atled.neon.backends.autodiff import GradNode, GradUtil


def values(be, tree):
    out = be.empty(tree.shape)
    out[:] = tree
    return out.get()


def tensors(be, count=2):
    rng = np.random.default_rng(0)
    return [be.array(rng.uniform(0.5, 1.5, (2, 3))) for _ in range(count)]


def test_nodes_have_the_gradients_that_arrive_there(cpu):
    x, y = tensors(cpu)
    inner = cpu.exp(x)
    tree = inner * y
    node = GradNode(tree, Autodiff(tree, cpu))
    np.testing.assert_array_equal(values(cpu, node.grad_op_tree), np.ones((2, 3)))
    assert node.left.op_tree is inner and node.left.grad_op_tree is y
    assert node.left.left.op_tree is x and node.left.right is None
    np.testing.assert_allclose(values(cpu, node.left.left.grad_op_tree), y.get() * np.exp(x.get()), rtol=1e-5)
    assert node.right.grad_op_tree is inner


def test_numbers_have_no_gradient(cpu):
    (x,) = tensors(cpu, 1)
    tree = x * 2
    node = GradNode(tree, Autodiff(tree, cpu))
    assert node.right.op_tree == 2 and node.right.grad_op_tree is None
    assert GradUtil.get_grad_back(node)[1] is None and GradUtil.get_grad_back(node.left) == (None, None)


def test_what_a_node_adds_to_each_operand_is_told_apart(cpu):
    x, y, error = tensors(cpu, 3)
    tree = x * y + x * x
    node = GradNode(tree, Autodiff(tree, cpu, error))
    left, right = GradUtil.get_grad_back(node.left)
    np.testing.assert_allclose(values(cpu, left), error.get() * y.get(), rtol=1e-6)
    np.testing.assert_allclose(values(cpu, right), error.get() * x.get(), rtol=1e-6)
    for each in GradUtil.get_grad_back(node.right):
        np.testing.assert_allclose(values(cpu, each), error.get() * x.get(), rtol=1e-6)


def test_invalid_gradients_are_recognized(cpu):
    x = cpu.array(np.array([[0.0, 1.0]]))
    assert GradUtil.is_invalid(cpu.log(x), cpu) and GradUtil.is_invalid(x * 1e12, cpu)
    assert not GradUtil.is_invalid(x * 2, cpu)
