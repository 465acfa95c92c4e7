"""The protocol that all layers follow."""

import numpy as np
import pytest

from atled.neon.layers import DeltasTree, Layer, ParameterLayer
from atled.neon.layers.shapes import interpret_in_shape


class Doubled(Layer):
    owns_delta = True

    def configure(self, in_obj):
        super().configure(in_obj)
        self.out_shape = self.in_shape
        return self

    def fprop(self, inputs, inference=False):
        self._check_allocated("fprop")
        self._check_size("fprop", "inputs", inputs, self.outputs.shape)
        self.outputs[:] = inputs * 2
        return self.outputs


def test_sizes_come_from_a_layer_sizes_a_tensor_or_data(be):
    first = Doubled().configure(3)
    assert first.out_shape == 3
    assert Doubled().configure(first).prev_layer is first
    assert Doubled().configure((3, 5)).in_shape == (3, 5)
    assert Doubled().configure([2, 3, 5]).in_shape == (2, 3, 5)
    assert Doubled().configure(be.zeros((3, 8))).in_shape == (3, 2)


def test_what_has_no_sizes_is_refused(cpu):
    with pytest.raises(TypeError, match=r"(?s)Doubled 'one'\.configure.*no sizes"):
        Doubled("one").configure(object())
    with pytest.raises(ValueError, match=r"(?s)Layer 'before' before it has no out_shape.*Layer\.configure"):
        Doubled("one").configure(Layer("before").configure(3))


def test_deltas_take_turns_in_two_buffers(be):
    first, second, third = layers = [Doubled() for _ in range(3)]
    before, pool = 3, DeltasTree()
    for layer in layers:
        before = layer.configure(before)
        layer.allocate()
        layer.allocate_deltas(pool)
    pool.allocate_buffers()
    for layer in layers:
        layer.set_deltas(pool)
    assert first.deltas is None
    assert second.deltas.shape == third.deltas.shape == (3, 4)
    second.deltas[:] = 1
    third.deltas[:] = 2
    assert (second.deltas.get() == 1).all()


def test_a_child_of_a_pool_is_made_once_and_has_its_own_buffers(be):
    pool = DeltasTree()
    assert pool.decend() is pool.decend()
    assert pool.decend().ascend() is pool
    pool.decend().proc_layer(Doubled().configure((2, 3, 5)))
    pool.allocate_buffers()
    assert pool.buffers == [None, None]
    assert [each.shape for each in pool.decend().buffers] == [(30, 4)] * 2


def test_outputs_may_be_those_of_another_layer(be):
    shared = be.zeros((5, 4))
    layer = Doubled().configure(3)
    layer.allocate(shared)
    layer.fprop(be.ones((3, 4)))
    np.testing.assert_array_equal(shared.get(), np.repeat([2, 0], [3, 2])[:, None].repeat(4, 1))


def test_calls_before_their_time_are_refused(cpu):
    with pytest.raises(RuntimeError, match=r"(?s)Doubled 'one'\.allocate.*not configured.*configure with"):
        Doubled("one").allocate()
    with pytest.raises(RuntimeError, match=r"(?s)Doubled 'one'\.fprop.*no memory.*allocate first"):
        Doubled("one").configure(3).fprop(cpu.ones((3, 4)))


def test_a_tensor_of_another_size_is_refused(cpu):
    layer = Doubled("one").configure(3)
    layer.allocate()
    with pytest.raises(ValueError, match=r"(?s)Doubled 'one'\.fprop.*shape \[2, 4\].*give \[3, 4\]"):
        layer.fprop(cpu.ones((2, 4)))
    with pytest.raises(TypeError, match="of type int"):
        layer.fprop(3)


def test_sizes_are_features_and_steps():
    assert [interpret_in_shape(each) for each in (3, (3, 5), (2, 3, 5))] == [(3, 1), (3, 5), (30, 1)]


def test_lines_of_a_network_are_indented_by_level(cpu):
    assert Doubled("one").configure(3).nested_str(2) == "    Doubled Layer 'one': inputs 3, outputs 3"


def test_layers_that_fail_in_calls_have_deltas_apart(be):
    layer, pool = Doubled().configure(3), DeltasTree()
    layer.has_own_deltas = layer.prev_layer = True
    layer.allocate()
    layer.allocate_deltas(pool)
    layer.set_deltas(pool)
    assert pool.max_shape == 0
    assert layer.deltas.shape == (3, 4)


def test_either_class_has_the_decorator():
    assert Layer.accumulates is ParameterLayer.accumulates


@pytest.mark.parametrize("call", ["set_batch_size", "set_seq_len"])
@pytest.mark.parametrize("count", [0, -1, 1.5, "2"])
def test_a_count_of_columns_that_is_none_is_refused(call, count):
    layer = Doubled("s")
    with pytest.raises(ValueError, match=rf"(?s)Doubled 's'\.{call}.*from 1 on"):
        getattr(layer, call)(count)
    assert (layer.actual_bsz, layer.actual_seq_len) == (None, None)
