"""Containers: gradients against finite differences, pools of errors, branches that share inputs."""

import contextlib

import numpy as np
import pytest

from atled.neon.backends import cleanup_backend, gen_backend
from atled.neon.initializers import Gaussian
from atled.neon.layers import (
    Activation,
    Affine,
    BatchNorm,
    BranchNode,
    Dropout,
    GenerativeAdversarial,
    Linear,
    LookupTable,
    MergeBroadcast,
    MergeMultistream,
    MergeSum,
    Multicost,
    Sequential,
    SingleOutputTree,
    SkipNode,
    Tree,
)
from atled.neon.layers.layer_container import made
from atled.neon.transforms import Tanh
from atled_contexts import Context

INIT = Gaussian(scale=0.7)


CONTEXTS = {
    "cpu": Context(["cpu:double", "reference:double"]),
    "sim": Context(["sim:double"]),
    "reference": Context(["reference:double"]),
}


@contextlib.contextmanager
def backend_of_doubles(name):
    """A backend of float64, where finite differences are exact enough."""
    try:
        yield gen_backend(CONTEXTS[name], rng_seed=1, batch_size=4, datatype=np.float64)
    finally:
        cleanup_backend()


@pytest.fixture(params=CONTEXTS)
def double(request):
    with backend_of_doubles(request.param) as be:
        yield be


def affine(nout, **keywords):
    return Affine(nout, INIT, bias=INIT, activation=Tanh(), **keywords)


def linear(nout):
    return Linear(nout, INIT)


def allocated(container, before=3):
    container.configure(before)
    container.allocate()
    container.allocate_deltas()
    return container


def outputs_of(container, x):
    y = container.fprop(x() if callable(x) else x)
    return y if isinstance(y, list) else [y]


def check_gradients(be, container, make_inputs, weights=None):
    """The gradients of a sum of outputs, times random numbers and a weight for each, against differences."""
    container.fprop(make_inputs())
    shapes = [each.shape for each in outputs_of(container, make_inputs)]
    factors = [be.rng.normal(size=shape) for shape in shapes]
    weights = weights or [1.0] * len(shapes)

    def value():
        found = outputs_of(container, make_inputs)
        return sum(w * (y.get() * f).sum() for y, f, w in zip(found, factors, weights, strict=True))

    container.fprop(make_inputs())
    errors = [be.array(f) for f in factors]
    container.bprop(errors if len(errors) > 1 else errors[0])
    gradients = {}
    for layer in container.layers_to_optimize:
        if isinstance(layer, BatchNorm):
            continue  # it has pairs of parameters, which its own tests look at
        ((parameter, gradient), _) = layer.get_params()
        gradients[layer.name] = parameter, gradient.get()
    for name, (parameter, gradient) in gradients.items():
        at = tuple(be.rng.randint(size) for size in parameter.shape)
        first, step = parameter.get(), 1e-5
        found = []
        for sign in (1, -1):
            changed = first.copy()
            changed[at] += sign * step
            parameter[:] = changed
            found.append(value())
        parameter[:] = first
        np.testing.assert_allclose(gradient[at], (found[0] - found[1]) / (2 * step), rtol=1e-5, atol=1e-7, err_msg=name)


CONTAINERS = {
    "row": lambda: Sequential([affine(5), [affine(4), linear(2)]]),
    "nested": lambda: Sequential([affine(5), Sequential([affine(4), affine(6)]), linear(2)]),
    "sum": lambda: Sequential([affine(5), MergeSum([[affine(4), affine(5)], SkipNode(), linear(5)]), affine(3)]),
    "sum in a sum": lambda: Sequential(
        [affine(5), MergeSum([[affine(4), MergeSum([affine(4), SkipNode()]), linear(5)], affine(5)]), affine(3)]
    ),
    "sum of in place": lambda: Sequential([affine(5), MergeSum([Activation(Tanh()), Activation(Tanh())]), affine(3)]),
    "sum of norms": lambda: Sequential([affine(5), MergeSum([[BatchNorm(), linear(5)], SkipNode()]), affine(3)]),
    "stack": lambda: Sequential([affine(5), MergeBroadcast([affine(4), [affine(3), affine(2)]], "stack"), affine(3)]),
    "recurrent": lambda: Sequential([affine(5), MergeBroadcast([affine(4), linear(4)], "recurrent"), affine(3)]),
    "sum first": lambda: Sequential([MergeSum([affine(4), linear(4)]), affine(3)]),
    "sum last": lambda: Sequential([affine(4), MergeSum([linear(4), SkipNode()])]),
    "gan": lambda: GenerativeAdversarial([affine(5), affine(4)], [affine(3), linear(1)]),
}


# Containers hold no arithmetic of their own: on other backends two of them are enough.
@pytest.mark.parametrize(
    ("name", "on"), [*((name, "cpu") for name in CONTAINERS), ("sum in a sum", "sim"), ("stack", "reference")]
)
def test_gradients_are_those_of_differences(name, on):
    with backend_of_doubles(on) as be:
        container = allocated(CONTAINERS[name]())
        x = be.rng.normal(size=(3, 4))
        check_gradients(be, container, lambda: be.array(x))


def test_inputs_of_a_stream_each_go_to_their_branch(double):
    container = allocated(
        Sequential([MergeMultistream([affine(4), [affine(3), affine(2)]], "stack"), linear(2)]), [3, 2]
    )
    x, z = double.rng.normal(size=(3, 4)), double.rng.normal(size=(2, 4))
    check_gradients(double, container, lambda: [double.array(x), double.array(z)])


def tree(alphas=None, kind=Tree):
    first, second = BranchNode(), BranchNode()
    rows = [
        [affine(5), first, affine(4), second, affine(3)],
        [first, affine(2)],
        [first, Activation(Tanh()), affine(3), linear(2)],
        [second, linear(1)],
    ]
    return kind(rows, alphas=alphas)


def test_errors_of_branches_add_up_at_their_nodes(double):
    x = double.rng.normal(size=(3, 4))
    check_gradients(double, allocated(tree()), lambda: double.array(x))


def test_a_tree_within_layers_gives_errors_back(double):
    x = double.rng.normal(size=(3, 4))
    check_gradients(double, allocated(Sequential([affine(4), tree()])), lambda: double.array(x))


def test_alphas_are_factors_of_errors_at_nodes(double):
    alphas = [0.5, 2.0, 3.0, 0.25]
    container = allocated(tree(alphas))
    container.fprop(double.array(double.rng.normal(size=(3, 4))))
    errors = [double.rng.normal(size=y.shape) for y in container.outputs]
    gradient = container.layers_to_optimize[0].dW
    alone = []
    for position in range(len(alphas)):
        container.bprop([double.array(e * (number == position)) for number, e in enumerate(errors)])
        alone.append(gradient.get())
    container.bprop([double.array(e) for e in errors])
    np.testing.assert_allclose(gradient.get(), sum(alone), rtol=1e-10)
    plain = allocated(tree())
    for one, other in zip(container.layers_to_optimize, plain.layers_to_optimize, strict=True):
        other.W[:] = one.W
    plain.fprop(container.inputs)
    for position, alpha in enumerate(alphas):
        plain.bprop([double.array(e * (number == position)) for number, e in enumerate(errors)])
        np.testing.assert_allclose(alone[position], alpha * plain.layers_to_optimize[0].dW.get(), rtol=1e-9)


def test_inference_of_a_tree_of_single_output_gives_the_trunk(be):
    container = allocated(tree(kind=SingleOutputTree))
    x = be.array(be.rng.normal(size=(3, 4)))
    several = [y.get() for y in container.fprop(x)]
    assert [y.shape for y in several] == [(3, 4), (2, 4), (2, 4), (1, 4)]
    np.testing.assert_allclose(container.fprop(x, inference=True).get(), several[0], rtol=1e-6)


@pytest.mark.parametrize("name", ["sum", "stack", "row"])
def test_alpha_and_beta_are_for_the_errors_of_inputs(double, name):
    container = CONTAINERS[name]()
    before = SkipNode().configure(3)
    allocated(container, before)
    # Layers take turns in the buffers of a pool; what is to stay has memory of its own, as nodes have.
    container.take_deltas(double.iobuf(3))
    container.fprop(double.array(double.rng.normal(size=(3, 4))))
    error = double.rng.normal(size=container.outputs.shape)
    plain = container.bprop(double.array(error)).get()
    container.deltas[:] = 2
    found = container.bprop(double.array(error), alpha=3.0, beta=0.5).get()
    np.testing.assert_allclose(found, 3 * plain + 1, rtol=1e-10)


def test_inputs_that_branches_share_stay(be):
    container = allocated(Sequential([MergeSum([Activation(Tanh()), linear(3)])]))
    values = be.rng.normal(size=(3, 4)).astype(np.float32)
    x = be.array(values)
    container.fprop(x)
    container.bprop(be.ones((3, 4)))
    np.testing.assert_array_equal(x.get(), values)


def test_broadcast_puts_steps_behind_steps(be):
    container = allocated(MergeBroadcast([linear(2), linear(2)], "recurrent"), (3, 5))
    assert container.out_shape == (2, 10)
    y = container.fprop(be.array(be.rng.normal(size=(3, 20)))).get()
    np.testing.assert_allclose(y[:, :20], container.layers[0].outputs.get())
    np.testing.assert_allclose(y[:, 20:], container.layers[1].outputs.get())


def test_maps_of_images_stand_behind_each_other(be):
    container = allocated(MergeBroadcast([SkipNode(), Dropout()], "depth"), (2, 3, 5))
    assert container.out_shape == (4, 3, 5)
    x = be.array(be.rng.normal(size=(30, 4)))
    np.testing.assert_allclose(container.fprop(x).get()[:30], x.get())


def test_alphas_of_a_broadcast_are_factors_of_errors(double):
    container = MergeBroadcast([SkipNode(), SkipNode()], "stack", alphas=[2, 3])
    allocated(container, SkipNode().configure(3))
    container.fprop(double.ones((3, 4)))
    assert (container.bprop(double.ones((6, 4))).get() == 5).all()


def test_a_cost_for_each_row_is_weighted(be):
    class Cost:
        def __init__(self, value):
            self.value = value

        def initialize(self, row):
            self.row = row

        def get_cost(self, y, t):
            return np.full((1, 1), self.value)

        def get_errors(self, y, t):
            return be.ones(y.shape)

    container = allocated(tree())
    cost = Multicost([Cost(1), Cost(2), Cost(3), Cost(4)], weights=[1, 1, 1, 0.5])
    cost.initialize(container)
    y = container.fprop(be.ones((3, 4)))
    assert cost.get_cost(y, None) == [[8]]
    assert [each.get()[0, 0] for each in cost.get_errors(y, None)] == [1, 1, 1, 0.5]
    assert cost.get_cost(y[0], None) == [[1]]
    with pytest.raises(ValueError, match="one, for 4 costs"):
        cost.get_errors(y[0], None)


def test_a_description_makes_the_container_again(be):
    for make in (tree, *CONTAINERS.values()):
        first = make()
        again = made(first.get_description())
        assert again.nested_str().count("\n") == first.nested_str().count("\n")


def test_weights_of_a_description_are_loaded(be):
    one, other = allocated(tree()), allocated(tree())
    other.load_weights(one.get_description(get_weights=True))
    x = be.array(be.rng.normal(size=(3, 4)))
    for y, z in zip(one.fprop(x), other.fprop(x), strict=True):
        np.testing.assert_array_equal(y.get(), z.get())
    with pytest.raises(ValueError, match=r"(?s)has 4 layers.*of 2 layers"):
        Sequential([linear(3), linear(4)]).load_weights(one.get_description(get_weights=True))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Sequential([]), ValueError, "no layers"),
        (lambda: Sequential([3]), TypeError, "3 is no layer"),
        (lambda: MergeSum([]), ValueError, "no branches"),
        (lambda: MergeSum(linear(3)), TypeError, "type Linear"),
        (lambda: MergeSum([linear(3), linear(2)]).configure(4), ValueError, "of one shape"),
        (lambda: MergeBroadcast([linear(3)], "dept"), ValueError, "depth"),
        (lambda: MergeBroadcast([linear(3)], "depth").configure(4), ValueError, "images"),
        (lambda: MergeMultistream([linear(3)], "stack").configure([3, 4]), ValueError, "for 1 branches"),
        (lambda: Tree([[linear(3)], [BranchNode(), linear(3)]]), ValueError, "in no row before"),
        (lambda: Tree([[linear(3)]], alphas=[1, 2]), ValueError, "2 alphas for 1"),
        (lambda: Multicost([]), ValueError, "0 costs"),
    ],
)
def test_what_makes_no_network_is_refused(cpu, make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_names_that_are_left_out_say_what_to_do(cpu):
    with pytest.raises(ImportError, match="init_state"):
        from atled.neon.layers import Seq2Seq  # noqa: F401  # what is asked for is the error
    with pytest.raises(ImportError, match="Sequential"):
        from atled.neon.layers.container import Encoder  # noqa: F401  # likewise


def test_gradients_add_up_in_all_layers(be):
    container = Sequential([linear(4), MergeSum([linear(2), linear(2)])]).configure(3)
    container.allocate(accumulate_updates=True)
    container.allocate_deltas()
    x, e = be.ones((3, 4)), be.ones((2, 4))
    container.fprop(x)
    container.bprop(e)
    once = [each.dW.get() for each in container.layers_to_optimize]
    container.set_acc_on(True)
    container.bprop(e)
    for each, first in zip(container.layers_to_optimize, once, strict=True):
        np.testing.assert_allclose(each.dW.get(), 2 * first)


def test_a_container_without_memory_for_sums_refuses_them(cpu):
    with pytest.raises(BufferError, match="accumulate_updates"):
        allocated(Sequential([linear(4)])).set_acc_on(True)


def test_a_node_of_two_networks_is_refused(be):
    node = BranchNode("a node of two networks")
    rows = [[linear(4), node, linear(2)], [node, linear(1)]]
    first = allocated(Tree(rows))
    allocated(Tree([[linear(4), node, linear(2)], [node, linear(1)]]))
    first.fprop(be.ones((3, 4)))
    with pytest.raises(RuntimeError, match=r"(?s)'a node of two networks' is in another network.*names"):
        first.bprop([be.ones((2, 4)), be.ones((1, 4))])


def test_networks_of_one_description_have_nodes_of_their_own(be):
    described = tree().get_description()
    first, second = allocated(made(described)), allocated(made(described))
    assert first.layers[0].layers[3] is first.layers[1].layers[0]
    assert first.layers[1].layers[0] is not second.layers[1].layers[0]
    for each in (first, second):
        y = each.fprop(be.ones((3, 4)))
        each.bprop([be.ones(part.shape) for part in y])


def test_errors_of_inputs_may_be_asked_for(be):
    container = Sequential([linear(4), linear(2)]).configure(3)
    container.prev_layer = True
    container.allocate()
    container.allocate_deltas()
    container.fprop(be.ones((3, 4)))
    weights = [each.W.get() for each in container.layers]
    found = container.bprop(be.ones((2, 4))).get()
    np.testing.assert_allclose(found, weights[0].T @ weights[1].T @ np.ones((2, 4)), rtol=1e-5, atol=1e-6)


def test_streams_may_begin_with_lookups(be):
    branches = [[LookupTable(10, 6, INIT), linear(2)], [LookupTable(10, 6, INIT), linear(2)]]
    container = allocated(Sequential([MergeMultistream(branches, "recurrent"), linear(3)]), [(1, 5), (1, 2)])
    ids = [be.array(be.rng.randint(10, size=(1, steps * 4)), dtype=np.int32) for steps in (5, 2)]
    y = container.fprop(ids)
    assert y.shape == (3, 28)
    assert container.bprop(be.ones(y.shape)) is None
    assert all(np.abs(each.dW.get()).sum() > 0 for each in container.layers_to_optimize)


def test_layers_before_one_without_errors_are_refused(be):
    with pytest.raises(ValueError, match=r"(?s)begins with LookupTable, which gives no errors"):
        MergeSum([LookupTable(10, 3, INIT), linear(3)]).configure(linear(4).configure(2))

    class Silent(SkipNode):
        def bprop(self, error, alpha=1.0, beta=0.0):
            super().bprop(error, alpha, beta)

    container = allocated(Sequential([linear(4), Silent("silent"), linear(2)]))
    container.fprop(be.ones((3, 4)))
    with pytest.raises(RuntimeError, match=r"(?s)Silent 'silent' gives no errors back, which Linear.*return"):
        container.bprop(be.ones((2, 4)))
