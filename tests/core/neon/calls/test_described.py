"""Layer calls are kept while their tensors live, and show their plans."""

import gc
import inspect

import numpy as np
import pytest

import atled as nn


def tensors(be):
    return [be.array(np.full((2, 2), value, np.float32)) for value in (1.0, 2.0, 0.0)]


def test_a_call_that_comes_again_computes_with_what_its_tensors_hold_then(cpu):
    a, b, c = tensors(cpu)
    cpu.compound_dot(a, b, c)
    a[:] = 3
    for factors in ({}, {"alpha": 2.0}, {}):
        cpu.compound_dot(a, b, c, **factors)
        np.testing.assert_array_equal(c.get(), 12 * factors.get("alpha", 1))


def test_no_tensor_is_kept_alive_by_a_call(cpu):
    a, b, c = tensors(cpu)
    cpu.compound_dot(a, b, c)
    cpu.compound_dot(a, b, c, alpha=2.0)
    assert cpu._kept_calls
    del c
    gc.collect()
    assert not cpu._kept_calls


def test_numbers_that_are_equal_are_the_same(cpu):
    a, b, c = tensors(cpu)
    for alpha in (2.0, np.float32(2), 2, float("2")):
        cpu.compound_dot(a, b, c, alpha)
        np.testing.assert_array_equal(c.get(), 8)


def test_attributes_that_are_set_on_a_parameter_object_count_from_then_on(cpu):
    layer = cpu.conv_layer(np.float32, 4, 1, 1)
    images, filters, outputs = (cpu.array(np.full(dims, -1)) for dims in (layer.dimI2, layer.dimF2, layer.dimO2))
    filters[:] = 1
    for relu in (False, True, False):
        layer.relu = relu
        for _ in range(2):
            cpu.fprop_conv(layer, images, filters, outputs)
            np.testing.assert_array_equal(outputs.get(), 0 if relu else -1)


def test_parameter_objects_keep_no_call(cpu):
    layer = cpu.conv_layer(np.float32, 4, 1, 1)
    images, filters = cpu.ones(layer.dimI2), cpu.ones(layer.dimF2)
    for _ in range(3):
        cpu.fprop_conv(layer, images, filters, cpu.empty(layer.dimO2))
    gc.collect()
    assert not cpu._kept_calls
    assert not layer._forget


def test_kept_calls_are_counted_and_forgotten_with_all_caches(cpu):
    a, b, c = tensors(cpu)
    cpu.compound_dot(a, b, c)
    assert nn.memory_statistics()["caches"]["layer calls"] == len(cpu._kept_calls) > 0
    nn.clear_memory_cache()
    assert not cpu._kept_calls
    cpu.compound_dot(a, b, c)
    np.testing.assert_array_equal(c.get(), 4)


def test_so_many_calls_are_kept(cpu, monkeypatch):
    monkeypatch.setattr("atled.neon.calls.described._LIMIT", 8)
    a, b, c = tensors(cpu)
    for factor in range(20):
        cpu.compound_dot(a, b, c, alpha=float(factor))
        assert len(cpu._kept_calls) <= 9
    np.testing.assert_array_equal(c.get(), 19 * 4)


def test_a_plan_is_shown_and_nothing_computed(cpu):
    a, b, c = tensors(cpu)
    assert "BatchMatmul" in str(cpu.plan(cpu.compound_dot, a, b, c, beta=1.0))
    assert "BatchMatmul" in str(cpu.plan("compound_dot", a, b, c))
    np.testing.assert_array_equal(c.get(), 0)


def test_what_is_no_layer_call_has_no_plan(cpu):
    for call in (cpu.tanh, "tanh", "no_such_call"):
        with pytest.raises(ValueError, match="no call with one"):
            cpu.plan(call)


def test_help_shows_the_arguments(cpu):
    assert [*inspect.signature(cpu.compound_dot).parameters][:5] == ["A", "B", "C", "alpha", "beta"]
    assert "C = alpha * A B" in cpu.compound_dot.__doc__
