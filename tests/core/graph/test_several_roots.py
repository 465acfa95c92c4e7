"""Random programs with several roots: one plan gives what separate runs give, and computes common parts once."""

import gc
import random
import weakref

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.graph.recompute import choice
from atled.graph.record.roots import roots_of
from atled.graph.record.traversal import functions_before

# Numbers and functions whose results float32 holds exactly, so that sums have the same bits in any order.
UNARY = (
    F.relu,
    lambda x: x * 0.5,
    lambda x: F.transpose(x, (1, 0)),
    lambda x: F.reshape(x, x.shape[::-1]),
    lambda x: F.concatenate(x, x, axis=0)[:3, :4] if x.shape == (3, 4) else x + 1.0,
)
ROUNDED = (F.tanh, F.sigmoid, F.exp, lambda x: F.softmax(x, axis=1))
BINARY = (lambda a, b: a + b, lambda a, b: a - b, F.maximum2)


class Graph:
    """A random graph, the same for the same seed: leaves, results, and some of the results as roots."""

    def __init__(self, seed, is_exact, count=25):
        self.random = random.Random(seed)
        numbers = np.random.default_rng(seed)
        self.leaves = [
            nn.Variable.from_numpy_array((numbers.integers(-8, 9, shape) / 8).astype(np.float32), need_grad=need_grad)
            for shape, need_grad in (((3, 4), True), ((3, 4), None), ((4, 3), True))
        ]
        found = list(self.leaves)
        for _ in range(count):
            x = self.random.choice(found[-8:])
            if self.random.random() < 0.6:
                found.append(self.random.choice(UNARY if is_exact else UNARY + ROUNDED)(x))
            else:
                alike = [y for y in found if y.shape == x.shape]
                found.append(self.random.choice(BINARY)(x, self.random.choice(alike)))
        results = [y for y in found if y.parent is not None]
        self.roots = self.random.sample(results, self.random.randint(2, 5))

    def values(self):
        return [root.d.copy() for root in self.roots]

    def gradients(self):
        return [leaf.g.copy() for leaf in self.leaves if leaf.need_grad]


def assert_same_bits(got, expected):
    for one, other in zip(got, expected, strict=True):
        assert one.tobytes() == other.tobytes()


def seeds_for(graph):
    return [graph.random.choice([1, 0.5, -2, np.full(root.shape, 0.25, np.float32)]) for root in graph.roots]


@pytest.mark.parametrize("backend", ["fusing", "reference"])
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_forward_all_gives_the_bits_of_separate_forwards(backend, first):
    for seed in range(first, first + 10):
        with nn.context_scope(nn.Context([f"{backend}:float"])):
            together, apart = Graph(seed, is_exact=False), Graph(seed, is_exact=False)
        for _ in range(2):
            nn.forward_all(together.roots)
            for root in apart.roots:
                root.forward()
            assert_same_bits(together.values(), apart.values())
            for graph in (together, apart):
                graph.leaves[0].d = graph.leaves[0].d * 0.5


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("backend", ["fusing", "reference"])
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_backward_all_gives_the_bits_of_separate_backwards(backend, first):
    for seed in range(first, first + 10):
        with nn.context_scope(nn.Context([f"{backend}:float"])):
            together, apart = Graph(seed, is_exact=True), Graph(seed, is_exact=True)
        grads = seeds_for(together)
        for step in range(3):
            nn.forward_all(together.roots)
            nn.backward_all(together.roots, grads)
            for root, grad in zip(apart.roots, grads, strict=True):
                root.forward()
                root.backward(grad)
            assert_same_bits(together.gradients(), apart.gradients())
            if step == 1:
                for leaf in (*together.leaves, *apart.leaves):
                    leaf.grad.zero()


@pytest.mark.parametrize("seed", range(20))
def test_what_several_roots_need_is_computed_once(seed):
    with nn.context_scope(nn.Context(["reference:float"])):
        graph = Graph(seed, is_exact=False)
    calls = functions_before(*(root.value for root in graph.roots))
    with nn.trace() as trace:
        nn.forward_all(graph.roots)
    assert sum(row.calls for row in trace.rows()) == sum(not call.spec.views for call in calls)


def test_one_backward_goes_through_a_common_part_once():
    with nn.context_scope(nn.Context(["reference:float"])):
        x = nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True)
        h = F.sin(x)
        roots = [F.tanh(h), F.exp(h)]
    nn.forward_all(roots)
    with nn.trace() as trace:
        nn.backward_all(roots)
    assert [row.calls for row in trace.rows() if row.op.startswith("Sin")] == [1]


def test_a_root_within_the_graph_of_another_is_one_like_the_others():
    x = nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True)
    h = x * 2.0
    y = h * h
    nn.forward_all([h, y])
    nn.backward_all([h, y], [1, 1])
    np.testing.assert_array_equal(x.g, [10, 18])  # 2 + 8 x
    np.testing.assert_array_equal(h.g, [5, 9])  # what was lent and what arrived: 1 + 2 h


def test_the_present_gradients_of_roots_are_taken_where_none_is_given():
    x = nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True)
    y, z = x * 2.0, x * 4.0
    nn.forward_all([y, z])
    y.g, z.g = [1, 2], [3, 4]
    nn.backward_all([y, z], [None, None])
    np.testing.assert_array_equal(x.g, [14, 20])
    np.testing.assert_array_equal(y.g, [1, 2])


def test_the_present_gradient_of_a_root_within_the_graph_of_another_is_added_to():
    x = nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True)
    h = x * 2.0
    y = h * h
    nn.forward_all([y, h])
    h.g = [1, 1]
    nn.backward_all([y, h], [1, None])
    np.testing.assert_array_equal(h.g, [5, 9])
    np.testing.assert_array_equal(x.g, [10, 18])


def test_a_root_given_twice_counts_twice():
    x = nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True)
    y = x * 2.0
    nn.forward_all([y, y])
    nn.backward_all([y, y], [1, 3])
    np.testing.assert_array_equal(x.g, [8, 8])


def test_values_that_no_root_needs_stored_are_recovered():
    x = nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True)
    y, z = F.tanh(F.exp(x) * 2.0), F.sin(x)
    nn.forward_all([y, z])
    middle = y.parent.inputs[0]
    np.testing.assert_allclose(middle.d, 2 * np.exp([1, 2]), rtol=1e-6)
    nn.backward_all([y, z])
    assert middle.g.shape == (2,)


@pytest.mark.parametrize("gone", [0, 1])
def test_a_gradient_in_the_middle_that_went_with_a_root_says_so(gone):
    x = nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True)
    roots = [F.tanh(F.exp(x) * 2.0), F.sin(F.cos(x) * 2.0)]
    nn.forward_all(roots)
    nn.backward_all(roots)
    middle = roots[1 - gone].parent.inputs[0]
    del roots[gone]
    with pytest.raises(
        RuntimeError, match=r"a root is gone.*alone or with others\nWhat to do: keep the whole graph, each root"
    ):
        middle.g  # noqa: B018  # computes the gradient


@pytest.mark.parametrize("gone", [0, 1])
def test_a_backward_that_reads_what_went_with_a_root_says_so(gone, monkeypatch):
    monkeypatch.setattr(choice, "_STREAMED_BYTES", 0)
    monkeypatch.setattr(choice, "_LEAST_BYTES", 0)
    with nn.context_scope(nn.Context(["fusing:float"], fallback="raise")):
        a, b = (nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True) for _ in range(2))
        roots = [F.tanh(x) * F.sigmoid(b) for x in (a * b, a + b)]
        for _ in range(3):
            nn.forward_all(roots)
            nn.backward_all(roots)
        nn.forward_all(roots)
        del roots[gone]
        a.d = 3
        with pytest.raises(
            RuntimeError, match=r"was written since.*\n.*a root is gone.*\nWhat to do: compute the graph again"
        ):
            roots[0].backward()
        roots[0].forward()
        roots[0].backward()


@pytest.mark.parametrize("gone", [0, 1])
def test_the_plan_of_several_roots_is_kept_while_all_exist_and_no_longer(gone):
    x = nn.Variable.from_numpy_array(np.float32([1, 2]))
    roots = [F.tanh(x), F.sin(x)]
    nn.forward_all(roots)
    record = weakref.ref(roots_of([root.value for root in roots]))
    planned = record().forward
    nn.forward_all(roots)
    assert record().forward is planned
    del planned, roots[gone]
    assert record() is None


def test_a_root_within_another_one_does_not_keep_their_plan():
    x = nn.Variable.from_numpy_array(np.float32([1, 2]))
    y = F.tanh(x)
    z = F.sin(y)
    nn.forward_all([y, z])
    record = weakref.ref(roots_of([y.value, z.value]))
    del y, z
    assert record() is None


def test_a_graph_of_several_roots_of_which_an_array_was_held_is_collected():
    x = nn.Variable.from_numpy_array(np.float32([1, 2]), need_grad=True)
    y, z = F.tanh(F.exp(x) * 2.0), F.sin(x)
    nn.forward_all([y, z])
    nn.backward_all([y, z])
    middle = y.parent.inputs[0]
    held = [middle.data, middle.grad]  # not stored: what may compute them holds the graph
    roots = [weakref.ref(y.value), weakref.ref(z.value)]
    del y, z, middle
    np.testing.assert_allclose(held[0].data, 2 * np.exp([1, 2]), rtol=1e-6)
    del held
    gc.collect()
    assert [root() for root in roots] == [None, None]


def test_the_order_of_roots_is_that_of_calls_that_change_an_array():
    mean, variance = (nn.Variable.from_numpy_array(np.full((1, 2), k, np.float32)) for k in (0, 1))
    x = nn.Variable.from_numpy_array(np.float32([[1, 2], [3, 4]]))
    y = F.batch_normalization(x, mean, variance, mean, variance, decay_rate=0.5)
    read = mean * 1.0
    nn.forward_all([read, y])
    np.testing.assert_array_equal(read.d, [[0, 0]])
    mean.d = 0
    nn.forward_all([y, read])
    np.testing.assert_array_equal(read.d, [[1, 1.5]])


@pytest.mark.parametrize("contexts", [("sim:float", "reference:float"), ("reference:float", "reference:double")])
def test_roots_that_change_one_array_in_two_places_or_dtypes_are_refused_together_and_run_one_by_one(contexts):
    pytest.importorskip("atled_sim")
    mean, variance = (nn.Variable.from_numpy_array(np.full((1, 2), k, np.float32)) for k in (0, 1))
    x = nn.Variable.from_numpy_array(np.float32([[1, 2], [3, 4]]))
    roots = []
    for context in contexts:
        with nn.context_scope(nn.Context([context])):
            roots.append(F.batch_normalization(x, mean, variance, mean, variance, decay_rate=0.5))
    with pytest.raises(RuntimeError) as error:
        nn.forward_all(roots)
    asked, wrong, considered, remedy = str(error.value).replace(": another", "\nanother").splitlines()
    assert asked.startswith("BatchNormalization, which changes an array of shape (1, 2) as ")
    assert wrong.startswith("another op of the same run makes or changes that array as float32 on ")
    assert considered.startswith("Considered: ")
    assert "run them one by one, each root by a forward of its own; or give each an array of its own" in remedy
    np.testing.assert_array_equal(mean.d, [[0, 0]])
    for root in roots:
        root.forward()
    np.testing.assert_array_equal(mean.d, [[1.5, 2.25]])


def test_a_plan_says_behind_which_segment_a_gradient_is_complete():
    with nn.context_scope(nn.Context(["reference:float"])):
        x, w = (nn.Variable.from_numpy_array(np.ones((2, 2), np.float32), need_grad=True) for _ in range(2))
        y = F.sum(F.affine(F.tanh(x), w))
    y.forward()
    y.backward()
    (binding,) = y.value.roots.backward.bindings.values()
    assert binding.plan.completed == [0] * len(binding.plan.targets)  # all steps run in Python: one segment
    ends = [segment.first + len(segment.steps) for segment in binding.plan.segments]
    assert ends == [len(binding.plan.steps)]
