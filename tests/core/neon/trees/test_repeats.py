"""Assignments by trees that are made anew: what is described once, and when it is not."""

import gc
import weakref

import numpy as np
import pytest

import atled as nn
from atled.neon.backends import gen_backend
from atled.neon.backends.backend import OpTreeNode
from atled.neon.trees import assignment, repeats


def values(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture(autouse=True)
def _none_is_known():
    repeats._REPEATS.clear()


@pytest.fixture
def described(monkeypatch):
    """The targets of the assignments that were described."""
    found = []
    of = assignment._described
    monkeypatch.setattr(assignment, "_described", lambda target, tree: found.append(target) or of(target, tree))
    return found


MADE = {
    "elementwise": (lambda be, x, y: x * y + be.tanh(x) * 2 - 0.5 * y, lambda x, y: x * y + np.tanh(x) * 2 - 0.5 * y),
    "of one tensor": (lambda be, x, y: x * x - x, lambda x, y: x * x - x),
    "powers": (lambda be, x, y: x**2 + y**2.0 + be.sqrt(x * x) ** 0.5, lambda x, y: x**2 + y**2 + np.abs(x) ** 0.5),
    "reductions": (
        lambda be, x, y: be.sum(x, axis=0) + be.max(y, axis=1) - be.min(x),
        lambda x, y: x.sum(0, keepdims=True) + y.max(1, keepdims=True) - x.min(),
    ),
    "products": (lambda be, x, y: be.dot(x, (y + 1).T) * x, lambda x, y: x @ (y + 1).T * x),
    "views": (lambda be, x, y: x.T[::-1] * y[1:2] + x[:, 2:3], lambda x, y: x.T[::-1] * y[1:2] + x[:, 2:3]),
    "comparisons": (lambda be, x, y: (x > y) + be.equal(x, x), lambda x, y: (x > y) + 1.0),
    "row": (lambda be, x, y: x[:1] - 3, lambda x, y: np.broadcast_to(x[:1] - 3, x.shape)),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("window", [np.s_[:, :4], np.s_[:, 3:7], np.s_[::-1, ::2]], ids=["left", "middle", "backwards"])
def test_trees_that_are_made_anew_read_their_tensors_as_they_are(be, made, window):
    tree_of, array_of = made
    x, y, out = be.zeros((4, 4)), be.zeros((4, 4)), be.zeros((4, 8))
    for seed in range(5):
        a, b = values((4, 4), seed), values((4, 4), seed + 10)
        x[:], y[:] = a, b
        out[window] = tree_of(be, x, y)
        np.testing.assert_allclose(out.get()[window], array_of(a, b), rtol=1e-4, atol=1e-5)


def test_what_repeats_is_described_three_times(cpu, described):
    x, out = cpu.array(values((4, 4))), cpu.zeros((4, 4))
    for _ in range(8):
        out[:] = x * 2 + cpu.sum(x, axis=0)
        out[1:2, :3] = x[:1, 1:] - out[2:3, :3]
    # The first is not looked for.
    assert len(described) == 5


def test_a_tree_that_is_kept_and_those_that_are_equal_are_described_together(cpu, described):
    x, out = cpu.array(values((4, 4))), cpu.zeros((4, 4))
    tree = x * 2
    for _ in range(4):
        out[:] = tree
        out[:] = x * 2
    np.testing.assert_array_equal(out.get(), x.get() * 2)
    assert len(described) <= 4


ALIKE = {
    "int and float": lambda be, x: (x + 1, x + 1.0),
    "bool and int": lambda be, x: (x + True, x + 1),
    "signs of zero": lambda be, x: (x * 0.0, x * -0.0),
    "NumPy's numbers": lambda be, x: (x * np.int8(3), x * np.float32(3)),
    "not a number": lambda be, x: (x * float("nan"), x * float("inf")),
    "sides": lambda be, x: (x - 2, 2 - x),
    "depth": lambda be, x: (x - (x * 3 - 1), (x - x * 3) - 1),
    "axes": lambda be, x: (be.sum(x, axis=0), be.sum(x, axis=1)),
    "both axes": lambda be, x: (be.max(x, axis=0), be.max(x)),
    "ops": lambda be, x: (be.minimum(x, 3), be.maximum(x, 3)),
    "views": lambda be, x: (x[:2], x[1:]),
    "strides": lambda be, x: (x.T[:, :1], x[:, 1:]),
    "left and right": lambda be, x: (x[:2] * 2 - x[1:], x[1:] * 2 - x[:2]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("alike", ALIKE.values(), ids=ALIKE)
def test_trees_that_differ_are_told_apart(cpu, dtype, alike):
    x = cpu.array(np.array([[-1, 4], [7, 5], [2, 9]]), dtype=dtype)
    first, second = (each.shape for each in alike(cpu, x))
    one, other = cpu.zeros(first), cpu.zeros(second)
    both = one if first == second else None
    expected = []
    for n in range(2):
        target = cpu.zeros((first, second)[n])
        target[:] = alike(cpu, x)[n]
        expected.append(target.get())
    for _ in range(5):
        for n, target in enumerate((both or one, both or other)):
            target[:] = alike(cpu, x)[n]
            found = target.get()
            np.testing.assert_array_equal(found, expected[n])
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected[n]))


def test_a_target_may_be_an_operand(be):
    a = values((4, 4))
    x = be.array(a)
    for _ in range(5):
        x[:] = x * 0.5 + x.T
        x[1:] = x[:-1] + 1
        a = a * np.float32(0.5) + a.T
        a[1:] = a[:-1] + 1
        np.testing.assert_allclose(x.get(), a, rtol=1e-5)


def test_tensors_with_the_identity_of_those_that_are_gone_are_others(cpu):
    out = cpu.zeros((2, 3))
    identities = set()
    for seed in range(40):
        x = cpu.array(values((2, 3), seed))
        identities.add(id(x))
        for _ in range(1 + seed % 4):
            out[:] = x * 3 + 1
            np.testing.assert_allclose(out.get(), values((2, 3), seed) * 3 + 1, rtol=1e-5, atol=1e-6)
        del x
    assert len(identities) < 40


@pytest.mark.parametrize("is_target", [False, True])
@pytest.mark.parametrize("is_view", [False, True])
def test_a_repeat_keeps_no_tensor_alive(cpu, is_target, is_view):
    x, out = cpu.array(values((4, 4))), cpu.zeros((4, 4))
    for _ in range(5):
        if is_view:
            out[1:, :2] = x[1:, :2] * 2
        else:
            out[:] = x * 2
    memory = weakref.ref((out if is_target else x).view.cell)
    gc.disable()
    try:
        if is_target:
            del out
        else:
            del x
        assert memory() is None
    finally:
        gc.enable()


def test_random_numbers_are_drawn_each_time(cpu):
    x, out = cpu.zeros((4, 4)), cpu.zeros((4, 4))
    found = set()
    for _ in range(5):
        out[:] = x + cpu.rand()
        found.add(out.get().tobytes())
    assert len(found) == 5


def test_a_trace_sees_what_repeats(cpu):
    x, out = cpu.array(values((4, 4))), cpu.zeros((4, 4))
    for _ in range(4):
        out[:] = x * 2 + 1
    with nn.trace() as trace:
        out[:] = x * 2 + 1
    assert len(trace.rows()) == 1


def test_a_backend_that_was_cleaned_up_is_refused_also_where_it_repeats(cpu):
    x, out = cpu.array(values((4, 4))), cpu.zeros((4, 4))
    for _ in range(4):
        out[:] = x * 2
    gen_backend("cpu", batch_size=4)  # ends the one before
    with pytest.raises(ValueError, match="cleaned up"):
        out[:] = x * 2


def test_a_shape_that_does_not_fit_is_refused_also_where_it_repeats(cpu):
    x, out = cpu.array(values((4, 4))), cpu.zeros((4, 4))
    for _ in range(4):
        out[:] = x * 2
    with pytest.raises(ValueError, match="does not broadcast"):
        out[:] = OpTreeNode({"op": "mul", "shape": (3, 3)}, x, 2)


def test_what_never_repeats_is_not_looked_for_all_the_time(cpu, monkeypatch):
    monkeypatch.setattr(repeats, "_LOOKS", 4)
    monkeypatch.setattr(repeats, "_REST", 16)
    looks = []
    key_of = repeats._key_of
    monkeypatch.setattr(repeats, "_key_of", lambda target, tree: looks.append(tree) or key_of(target, tree))
    x, out = cpu.array(values((4, 4))), cpu.zeros((4, 4))
    for n in range(41):
        out[:] = x * (n + 0.5)
        np.testing.assert_array_equal(out.get(), x.get() * np.float32(n + 0.5))
    assert len(looks) == 8
    looks.clear()
    for _ in range(60):
        out[:] = x * 2
    assert len(looks) > 30  # found again, it is looked for


def test_large_trees_and_shared_nodes_are_computed(cpu):
    x, out = cpu.array(np.full((2, 2), 1.5, np.float32)), cpu.zeros((2, 2))
    for _ in range(4):
        tree = x
        for _ in range(60):  # as a tree without sharing it has 2**60 nodes
            tree = (tree + tree) * 0.5
        out[:] = tree
        np.testing.assert_array_equal(out.get(), np.full((2, 2), 1.5, np.float32))


def test_clearing_caches_forgets_repeats(cpu):
    x, out = cpu.array(values((4, 4))), cpu.zeros((4, 4))
    for _ in range(4):
        out[:] = x * 2
    name = "repeated assignments of op-trees"
    assert nn.memory_statistics()["caches"][name] == 1
    nn.clear_memory_cache()
    assert nn.memory_statistics()["caches"][name] == 0
    out[:] = x * 2
    np.testing.assert_array_equal(out.get(), x.get() * 2)
