"""Nodes where branches begin, and ways around layers."""

import numpy as np
import pytest
from tests.core.neon.layers.running import drawn, ready

from atled.neon.layers import Activation, BranchNode, DeltasTree, Linear, SkipNode
from atled.neon.transforms import Tanh


def test_one_name_is_one_object():
    node = BranchNode("b")
    assert BranchNode("b") is node
    assert BranchNode("c") is not node
    assert BranchNode() is not BranchNode()


def test_a_branch_goes_on_with_what_the_trunk_gave(be):
    node = BranchNode("b").configure(3)
    x = be.ones((3, 4))
    assert node.fprop(x) is x
    assert BranchNode("b").configure(None).fprop(None) is x
    assert node.out_shape == 3


def test_errors_of_branches_add_up_at_their_node(be):
    before, node = SkipNode().configure(3), BranchNode("b")
    before.allocate()
    node.configure(before)
    trunk = Linear(2, np.ones((2, 3))).configure(node)
    branch = Linear(2, 2 * np.ones((2, 3))).configure(node)
    pool = DeltasTree()
    for layer in (node, trunk, branch):
        layer.allocate()
        layer.allocate_deltas(pool)
    pool.allocate_buffers()
    for layer in (node, trunk, branch):
        layer.set_deltas(pool)
    x = node.fprop(be.ones((3, 4)))
    for layer in (trunk, branch):
        layer.fprop(x)
    branch.bprop(be.ones((2, 4)))
    deltas = trunk.bprop(be.ones((2, 4)), beta=1.0)
    assert deltas is node.deltas
    assert (node.bprop(deltas).get() == 6).all()


def test_the_error_of_a_layer_without_deltas_is_copied(be):
    node = ready(BranchNode("b"), 3)
    activation = Activation(Tanh()).configure(node)
    activation.fprop(node.fprop(be.zeros((3, 4))))
    error = activation.bprop(be.ones((3, 4)))
    assert (node.bprop(error).get() == 1).all()


def test_a_way_around_copies_and_adds(be):
    layer, x = ready(SkipNode(), 3), drawn(be, (3, 4))
    np.testing.assert_array_equal(layer.fprop(x).get(), x.get())
    np.testing.assert_array_equal(layer.fprop(x, beta=1.0).get(), 2 * x.get())
    np.testing.assert_array_equal(layer.bprop(x).get(), x.get())
    np.testing.assert_array_equal(layer.bprop(x, 2.0, 1.0).get(), 3 * x.get())


def test_what_does_not_fit_is_refused(cpu):
    node = BranchNode("new")
    with pytest.raises(RuntimeError, match=r"(?s)BranchNode 'new'\.configure.*not configured"):
        node.configure(None)
    node.configure(3)
    with pytest.raises(RuntimeError, match=r"(?s)BranchNode 'new'\.fprop"):
        node.fprop(None)
    with pytest.raises(ValueError, match=r"(?s)BranchNode 'new'\.fprop: inputs have shape \[2, 4\]"):
        node.fprop(cpu.ones((2, 4)))
    with pytest.raises(ValueError, match=r"(?s)SkipNode 's'\.fprop: inputs have shape \[2, 4\]"):
        ready(SkipNode("s"), 3).fprop(cpu.ones((2, 4)))
