"""Autodiff: in which forms gradients come, which objects are the same, what lives how long, and what is refused."""

import contextlib
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import atled as nn
from atled.neon.backends import Autodiff, gen_backend
from atled.neon.backends.backend import OpTreeNode, Tensor


def tensors(be, count=2, shape=(2, 3)):
    rng = np.random.default_rng(0)
    return [be.array(rng.uniform(0.4, 1.6, shape)) for _ in range(count)]


def test_gradients_come_as_trees_tensors_and_arrays(be):
    x, y = tensors(be)
    ad = Autodiff(be.exp(x * y), be)
    wanted = y.get() * np.exp(x.get() * y.get())
    (tree,), (made,), (values,) = (
        method([x]) for method in (ad.get_grad_op_tree, ad.get_grad_tensor, ad.get_grad_asnumpyarray)
    )
    assert isinstance(tree, OpTreeNode) and isinstance(made, Tensor)
    assert type(values) is np.ndarray and values.dtype == be.default_dtype
    np.testing.assert_allclose(made.get(), wanted, rtol=1e-5)
    np.testing.assert_array_equal(values, made.get())
    out = be.empty((2, 3))
    out[:] = tree
    np.testing.assert_allclose(out.get(), wanted, rtol=1e-5)


def test_back_prop_grad_writes_into_buffers_each_time(be):
    x, y, gx, gy = tensors(be, 4)
    ad = Autodiff(x * be.tanh(y), be)
    for _ in range(3):
        ad.back_prop_grad([x, y], [gx, gy])
        np.testing.assert_allclose(gx.get(), np.tanh(y.get()), rtol=1e-5)
        np.testing.assert_allclose(gy.get(), x.get() * (1 - np.tanh(y.get()) ** 2), rtol=1e-5)
        x[:] = x * 2


@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_an_extremum_that_is_repeated_sums_the_gradients_of_its_copies(be, reduction, axis):
    x, y = tensors(be)
    extremum = getattr(be, reduction)(x, axis=axis)
    (found,) = Autodiff(y + extremum, be).get_grad_asnumpyarray([x])
    values = x.get()
    is_extreme = values == getattr(values, reduction)(axis=axis, keepdims=True)
    np.testing.assert_array_equal(found, y.shape[axis] * is_extreme)


def test_buffers_may_be_views(be):
    x, y = tensors(be)
    all_of_them = be.zeros((4, 3))
    Autodiff(x * y, be).back_prop_grad([x, y], [all_of_them[:2], all_of_them[2:]])
    np.testing.assert_array_equal(all_of_them.get(), np.concatenate([y.get(), x.get()]))


def test_the_error_may_be_a_target_and_is_read_before_it_is_written(be):
    x, y, error, other = tensors(be, 4)
    before = error.get()
    Autodiff(x * y, be, next_error=error).back_prop_grad([x, y], [error, other])
    np.testing.assert_allclose(error.get(), before * y.get(), rtol=1e-6)
    np.testing.assert_allclose(other.get(), before * x.get(), rtol=1e-6)


def test_the_error_may_be_an_op_tree(be):
    x, y, error = tensors(be, 3)
    (values,) = Autodiff(x * y, be, error * 2).get_grad_asnumpyarray([x])
    np.testing.assert_allclose(values, 2 * error.get() * y.get(), rtol=1e-6)


def test_an_unused_tensor_gets_zeros(be):
    x, y = tensors(be)
    (tree,) = Autodiff(x * x, be).get_grad_op_tree([y])
    assert tree[0]["op"] == "mul" and tree[1] is y
    np.testing.assert_array_equal(Autodiff(x * x, be).get_grad_asnumpyarray([y])[0], np.zeros((2, 3)))


def test_no_tensors_have_no_gradients(cpu):
    (x,) = tensors(cpu, 1)
    ad = Autodiff(x * x, cpu)
    assert ad.get_grad_op_tree([]) == ad.get_grad_tensor([]) == ad.get_grad_asnumpyarray([]) == []
    ad.back_prop_grad([], [])


def test_random_numbers_are_drawn_anew_for_each_back_prop_grad(cpu):
    x, gx, again = tensors(cpu, 3)
    ad = Autodiff(OpTreeNode.build("rand", None, None) * x, cpu)
    ad.back_prop_grad([x], [gx])
    first = gx.get()
    ad.back_prop_grad([x], [gx])
    assert not np.array_equal(first, gx.get())
    ad.back_prop_grad([x, x], [gx, again])
    np.testing.assert_array_equal(gx.get(), again.get())


# Which are the same.


def test_the_same_tree_backend_and_error_give_the_same_object(cpu):
    x, y, error = tensors(cpu, 3)
    first = Autodiff(cpu.exp(x * y), cpu, error)
    assert Autodiff(cpu.exp(x * y), cpu, error) is first
    for other in (
        Autodiff(cpu.exp(x * y), cpu),
        Autodiff(cpu.exp(y * x), cpu, error),
        Autodiff(cpu.exp(x * y), cpu, y),
        Autodiff(cpu.exp2(x * y), cpu, error),
    ):
        assert other is not first


def test_trees_and_tensors_die_with_whoever_has_them(cpu):
    gc.disable()
    try:
        x, y, gx = tensors(cpu, 3)
        ad = Autodiff(cpu.exp(x * y), cpu)
        ad.back_prop_grad([x], [gx])
        ad.get_grad_tensor([x, y])
        watched = [weakref.ref(each) for each in (x, y, gx, ad)]
        gx_memory = weakref.ref(gx.view.cell)
        del gx
        assert watched[2]() is None and gx_memory() is None, "a buffer is the caller's"
        del ad, x, y
        assert [each() for each in watched] == [None] * 4
    finally:
        gc.enable()


def test_an_object_dies_before_its_buffers(cpu):
    gc.disable()
    try:
        x, gx = tensors(cpu)
        ad = Autodiff(cpu.exp(x), cpu)
        ad.back_prop_grad([x], [gx])
        watched = weakref.ref(ad)
        del ad
        assert watched() is None
    finally:
        gc.enable()


def test_unused_tensors_die_too(cpu):
    gc.disable()
    try:
        x, y = tensors(cpu)
        ad = Autodiff(cpu.exp(x), cpu)
        ad.get_grad_op_tree([y])
        watched = weakref.ref(y)
        del y
        assert watched() is None
        assert ad.op_tree is not None
    finally:
        gc.enable()


def test_cleanup_lets_go_of_the_tensors(cpu):
    gc.disable()
    try:
        x, gx = tensors(cpu)
        ad = Autodiff(cpu.exp(x), cpu)
        ad.back_prop_grad([x], [gx])
        ad.cleanup()
        watched = weakref.ref(x)
        del x
        assert watched() is None
    finally:
        gc.enable()
    (y,) = tensors(cpu, 1)
    with pytest.raises(ValueError, match="cleanup"):
        ad.get_grad_op_tree([y])


def test_a_cleaned_up_object_is_not_found_again(cpu):
    x, _ = tensors(cpu)
    ad = Autodiff(cpu.exp(x), cpu)
    ad.cleanup()
    np.testing.assert_allclose(Autodiff(cpu.exp(x), cpu).get_grad_asnumpyarray([x])[0], np.exp(x.get()), rtol=1e-5)


def test_forms_are_remembered_up_to_a_bound(cpu):
    (x,) = tensors(cpu, 1)
    name = "gradients of op-trees"
    nn.clear_memory_cache()
    for number in range(600):
        Autodiff(x * (number + 0.5), cpu).get_grad_op_tree([x])
    assert 0 < nn.memory_statistics()["caches"][name] <= 512


def test_another_buffer_at_the_place_of_a_dead_one_is_another(cpu):
    x, y = tensors(cpu)
    ad = Autodiff(x * y, cpu)
    for _ in range(5):
        buffer = cpu.zeros((2, 3))
        ad.back_prop_grad([x], [buffer])
        np.testing.assert_array_equal(buffer.get(), y.get())
        del buffer


# What is refused.


def refused(be, error, match, make):
    """Nothing is written where it is."""
    with pytest.raises(error, match=match):
        make()


def test_what_is_no_tree_backend_or_error_is_refused(cpu):
    x, y = tensors(cpu)
    for bad in (3.0, None, np.ones((2, 3)), [x]):
        refused(cpu, TypeError, "op-tree", lambda bad=bad: Autodiff(bad, cpu))
    refused(cpu, TypeError, "backend", lambda: Autodiff(x * y, None))
    refused(cpu, TypeError, "error", lambda: Autodiff(x * y, cpu, np.ones((2, 3))))


def test_errors_of_another_shape_are_refused(cpu):
    x, y = tensors(cpu)
    refused(cpu, ValueError, r"shape \(2, 3\), the error \(2, 1\)", lambda: Autodiff(x * y, cpu, cpu.ones((2, 1))))


def test_assignments_are_refused(cpu):
    x, y = tensors(cpu)
    tree = OpTreeNode({"op": "assign", "shape": (2, 3)}, x, y * y)
    refused(cpu, ValueError, "assignment", lambda: Autodiff(tree, cpu))


def test_trees_without_a_shape_are_refused(cpu):
    refused(cpu, ValueError, "target", lambda: Autodiff(OpTreeNode.build("rand", None, None), cpu))


def test_tensors_of_another_backend_are_refused(cpu):
    x, y = tensors(cpu)
    other = gen_backend("reference")
    (z,) = tensors(other, 1)
    refused(cpu, ValueError, "another backend", lambda: Autodiff(x * z, cpu))
    refused(cpu, ValueError, "another backend", lambda: Autodiff(x * y, cpu).get_grad_op_tree([z]))
    refused(other, ValueError, "another backend", lambda: Autodiff(z * z, other).back_prop_grad([z], [x]))


@pytest.mark.parametrize("bad", [3, None, [1.0], [np.ones((2, 3))], "x"])
def test_what_are_no_tensors_is_refused(cpu, bad):
    x, y = tensors(cpu)
    ad = Autodiff(x * y, cpu)
    for method in (ad.get_grad_op_tree, ad.get_grad_tensor, ad.get_grad_asnumpyarray):
        refused(cpu, TypeError, "list of tensors", lambda method=method: method(bad))
    refused(cpu, TypeError, "list of tensors", lambda: ad.back_prop_grad([x], bad))


def test_buffers_that_do_not_fit_are_refused_with_nothing_written(cpu):
    x, y, gx = tensors(cpu, 3)
    ad, before = Autodiff(x * y, cpu), [each.get() for each in (x, y, gx)]
    refused(cpu, ValueError, "1 buffers", lambda: ad.back_prop_grad([x, y], [gx]))
    refused(cpu, ValueError, "shapes differ", lambda: ad.back_prop_grad([x, y], [gx, cpu.zeros((3, 2))]))
    refused(cpu, ValueError, "of the op-tree", lambda: ad.back_prop_grad([x], [y]))
    refused(cpu, ValueError, "of the op-tree", lambda: ad.back_prop_grad([x], [x]))
    refused(cpu, ValueError, "of the op-tree", lambda: ad.back_prop_grad([x], [x[::-1]]))
    with contextlib.suppress(ValueError):
        ad.back_prop_grad([x, y], [gx, gx])
    for each, values in zip((x, y, gx), before, strict=True):
        np.testing.assert_array_equal(each.get(), values)


# Programs of known forms.


def test_back_prop_grad_of_a_known_form_is_of_its_own_tensors(be):
    for _ in range(3):
        x, y, error = (be.array(be.rng.uniform(0.5, 1.5, (2, 3))) for _ in range(3))
        memory = be.zeros((4, 3))
        gradients = memory[:2], memory[2:]
        Autodiff(be.exp(x) * y, be, error).back_prop_grad([x, y], gradients)
        np.testing.assert_allclose(gradients[0].get(), error.get() * y.get() * np.exp(x.get()), rtol=1e-5)
        np.testing.assert_allclose(gradients[1].get(), error.get() * np.exp(x.get()), rtol=1e-5)


def test_a_known_form_with_the_error_as_target_is_another_program(cpu):
    for is_target in (False, True, False, True):
        x, y, error, other = tensors(cpu, 4)
        before = error.get()
        target = error if is_target else other
        Autodiff(cpu.exp(x) * y, cpu, error).back_prop_grad([x], [target])
        np.testing.assert_allclose(target.get(), before * y.get() * np.exp(x.get()), rtol=1e-5)


def test_known_forms_keep_no_memory_alive(cpu):
    gc.disable()
    try:
        x, gx = tensors(cpu)
        Autodiff(cpu.exp(x), cpu).back_prop_grad([x], [gx])
        gx[:] = Autodiff(cpu.exp(x), cpu).get_grad_op_tree([x])[0]
        watched = [weakref.ref(each) for each in (x, gx, x.view.cell, gx.view.cell)]
        del x, gx
        assert [each() for each in watched] == [None] * 4
    finally:
        gc.enable()


def test_copies_that_stand_for_views_are_refused_as_buffers(cpu):
    x, y = tensors(cpu)
    with pytest.warns(UserWarning, match="copy"):
        copy = cpu.zeros((3, 4))[:, :2].reshape(2, 3)
    assert copy.view.read_only
    refused(cpu, ValueError, "would not reach", lambda: Autodiff(x * y, cpu).back_prop_grad([x], [copy]))


def test_a_backend_that_was_cleaned_up_computes_no_gradients(cpu):
    x, y, gx = tensors(cpu, 3)
    ad = Autodiff(x * y, cpu)
    ad.back_prop_grad([x], [gx])
    before = gx.get()
    cpu.cleanup_backend()
    refused(cpu, ValueError, "cleaned up", lambda: ad.back_prop_grad([x], [gx]))
    refused(cpu, ValueError, "cleaned up", lambda: ad.get_grad_tensor([x]))
    np.testing.assert_array_equal(gx.get(), before)


def test_threads_differentiate_trees_of_one_form_at_the_same_time(cpu):
    def steps(seed):
        x, y, gx = (cpu.array(np.full((2, 3), seed + n + 1.0)) for n in range(3))
        for _ in range(100):
            Autodiff(x * y * y, cpu).back_prop_grad([x], [gx])
            gx[:] = gx + Autodiff(x * y, cpu).get_grad_op_tree([x])[0]
            assert (gx.get() == (seed + 2.0) ** 2 + seed + 2.0).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(steps, range(4)))
