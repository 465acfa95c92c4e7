"""Op-trees: what they are made of, how they are shown, and what they are turned into."""

import operator as op

import numpy as np
import pytest

from atled.neon.backends.backend import OpCollection, OpTreeNode
from atled.neon.trees import walks
from atled.neon.trees.building import BUILDERS, operand_count


@pytest.fixture
def xy(cpu):
    return [cpu.array(np.arange(4.0).reshape(2, 2) + n, name=f"x{n}") for n in range(2)]


def test_a_node_is_a_tuple_of_dictionary_and_operands_that_does_not_change(xy):
    x, y = xy
    tree = x + y
    assert isinstance(tree, tuple)
    assert len(tree) == 3
    about, a, b = tree
    assert (about, a is x, b is y) == ({"op": "add", "shape": (2, 2)}, True, True)
    with pytest.raises(TypeError):
        tree[0] = about
    with pytest.raises(AttributeError, match="op-trees do not change"):
        tree.shape = (1, 1)


def test_the_shape_is_asked_of_a_tree_or_of_the_class(xy):
    tree = xy[0][:, :1] * 2
    assert tree.shape == (2, 1)
    assert OpTreeNode.shape(tree) == (2, 1)
    assert OpTreeNode.shape(xy[0]) == (2, 2)
    assert OpTreeNode.shape(3.0) == (1, 1)


def test_build_makes_and_computes(cpu, xy):
    tree = OpTreeNode.build("add", *xy)
    out = cpu.zeros((2, 2))
    assert OpTreeNode.build("sqrt", tree, None, out=out) is out
    np.testing.assert_allclose(out.get(), np.sqrt(xy[0].get() + xy[1].get()), rtol=1e-6)
    assert OpTreeNode.build("sum", xy[0], None, axis=1)[0] == {"op": "sum", "axis": 1, "shape": (2, 1)}


def test_all_names_of_ops_are_known(cpu):
    names = OpCollection.zero_operand_ops | OpCollection.unary_ops | OpCollection.binary_ops
    assert names | OpCollection.reduction_ops == set(BUILDERS)
    assert {"sum", "max", "min", "argmax", "argmin"} == set(OpCollection.reduction_ops)


def test_an_unknown_name_is_told_with_the_nearest(xy):
    with pytest.raises(ValueError, match="did you mean 'tanh'"):
        OpTreeNode.build("tahn", xy[0], None)


def test_the_constructor_checks_nothing():
    assert OpTreeNode({"op": "none"}, 1, "2")[2] == "2"


def test_a_tree_is_shown_with_the_names_of_tensors(cpu, xy):
    x, y = xy
    assert str(x + y) == "({'op': 'add', 'shape': (2, 2)}, x0, x1)"
    unnamed = cpu.zeros((2, 2))
    assert repr(-unnamed) == f"({{'op': 'neg', 'shape': (2, 2)}}, tensor-{hex(id(unnamed))}, None)"


def test_a_tree_is_written_as_a_formula(cpu, xy):
    x, y = xy
    assert (-x + 2 * cpu.exp(y) / cpu.sum(x, axis=0)).pp() == "(-x0 + ((2 * exp(x1)) / sum(x0, axis=0)))"


def test_a_walk_has_operands_in_front_of_their_op(cpu, xy):
    x, y = xy
    found = cpu.exp(x * 2 - y).traverse([])
    assert [each["op"] if isinstance(each, dict) else each for each in found[1:]] == [2, "mul", y, "sub", "exp"]
    assert found[0] is x


def test_a_tree_goes_into_lists_and_back(cpu, xy):
    x, y = xy
    tree = cpu.maximum(x, 0) * (y - 1)
    as_list = tree.optree_to_list()
    assert as_list[1][:1] == [{"op": "maximum", "shape": (2, 2)}]
    back = OpTreeNode.list_to_optree(as_list)
    assert str(back) == str(tree)
    np.testing.assert_array_equal(back.asnumpyarray(), tree.asnumpyarray())


def test_keys_tell_trees_apart_by_ops_and_tensors(cpu, xy):
    x, y = xy
    assert (x + y).key() == (x + y).key()
    assert hash((x + y).key()) == hash((x + y).key())
    others = [y + x, x - y, x + 1, x + 1.0, cpu.sum(x + y, 0), cpu.sum(x + y, 1)]
    assert len({each.key() for each in [x + y, *others]}) == 1 + len(others)


def test_intrinsic_keys_are_equal_for_other_tensors(cpu, xy):
    x, y = xy
    key, numbers, tensors = (x * y + x).intrinsic_key_maps()
    other, _, _ = (y * x + y).intrinsic_key_maps()
    assert key == other
    assert (numbers[x], numbers[y]) == (0, 1)
    assert tensors[0] is x
    assert (x * y + y).intrinsic_key_maps()[0] != key


def test_values_come_in_a_new_tensor_or_array_of_the_default_dtype(cpu):
    x = cpu.array(np.arange(4).reshape(2, 2), dtype=np.int32)
    made = (x / 2).astensor()
    assert made.dtype == np.float32
    assert made.backend is cpu
    np.testing.assert_array_equal(made.get(), x.get() / 2)
    np.testing.assert_array_equal((x / 2).asnumpyarray(), x.get() / 2)


def test_hashing_is_by_identity(xy):
    tree = xy[0] + 1
    assert {tree: 1}[tree] == 1
    assert isinstance(tree == tree, OpTreeNode)


def test_a_node_may_name_an_op_spec_of_the_core(be):
    a, b = np.arange(6.0).reshape(2, 3) - 2, np.ones((2, 3))
    x, y = be.array(a), be.array(b)
    total = OpTreeNode({"op": "Sum", "shape": (2, 1), "attributes": (("axes", (1,)), ("keep_dims", True))}, x * 2, None)
    chosen = OpTreeNode({"op": "Where", "shape": (2, 3)}, x > 0, (y - 3, x * x))
    np.testing.assert_allclose(
        (total + chosen).asnumpyarray(), 2 * a.sum(1, keepdims=True) + np.where(a > 0, b - 3, a * a)
    )
    assert "Where" in chosen.pp()


def test_another_output_of_an_op_spec_is_named_by_its_position(cpu):
    x = cpu.array(np.array([[1.0, 3, 2]]))
    about = {"op": "Max", "shape": (1, 1), "attributes": (("axes", (1,)), ("keep_dims", True)), "output": 1}
    assert OpTreeNode(about, x, None).asnumpyarray() == [[1]]


def test_a_node_that_is_an_operand_often_is_walked_once(cpu, xy):
    tree = xy[0] * 1
    for _ in range(60):
        tree = tree * tree - tree
    assert len(walks.different(tree)) == 2 * 60 + 3
    assert walks.tensors_of(tree) == [xy[0]]
    assert "native" in str(tree.plan)


@pytest.mark.parametrize("size", [(2, 2), (1,), ()])
def test_operators_refuse_arrays_instead_of_being_false(xy, size):
    array = np.ones(size)
    for operand in (xy[0], xy[0] * 2):
        for compute in (op.eq, op.ne, op.mul, op.lt):
            for pair in ((operand, array), (array, operand)):
                with pytest.raises(TypeError, match=r"(?s)array of shape .* is no operand.*by be.array"):
                    compute(*pair)


def test_what_is_no_number_or_array_is_unequal(xy):
    assert (xy[0] == None) is False  # noqa: E711  # programs write it so
    assert (xy[0] * 2 != "x") is True


@pytest.mark.parametrize("name", sorted(name for name in BUILDERS if operand_count(name)))
def test_a_missing_operand_is_told(xy, name):
    given = [xy[0], None] if operand_count(name) == 2 else [None, None]
    with pytest.raises(TypeError, match=r"(?s)None\nWhat to do"):
        OpTreeNode.build(name, *given)


@pytest.mark.parametrize("wrong", [[], [{"op": "exp"}], ["exp", 1, None], [{"op": "exp"}, 1, 2, 3]])
def test_lists_of_no_tree_are_refused(wrong):
    with pytest.raises(ValueError, match="optree_to_list"):
        OpTreeNode.list_to_optree(wrong)


def test_a_tree_that_a_long_loop_built_is_printed(xy):
    tree = xy[0]
    for _ in range(3000):
        tree = tree + 1
    assert tree.pp() == "(" * 3000 + "x0" + " + 1)" * 3000
    assert str(tree).endswith("x0, 1)" + ", 1)" * 2999)
