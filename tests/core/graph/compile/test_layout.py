"""Chains compute on images in the order that implementations want; results and gradients are what they were."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
import atled_sim

SIM = nn.Context(["sim:float", "reference:float"], "SimArray", fallback="raise")
CPU = nn.Context(["cpu:float"], fallback="raise")
RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
LABELS = RNG.integers(0, 5, (2, 1))


def statistics(h, last, name):
    """Batch normalization that moves its running statistics."""
    return PF.batch_normalization(h, axes=[3 if last else 1], name=name)


def residual(x, last):
    """Two convolutions with normalization, a residual, concatenation, PReLU, pooling, and a sum over the images."""
    axis = 3 if last else 1
    h = F.relu(statistics(PF.convolution(x, 4, (3, 3), pad=(1, 1), channel_last=last, name="a"), last, "a"))
    g = statistics(PF.convolution(h, 4, (3, 3), pad=(1, 1), channel_last=last, name="b"), last, "b")
    h = PF.prelu(F.concatenate(h + g * 0.5, h, axis=axis), base_axis=axis, shared=False)
    h = F.max_pooling(h, (2, 2), channel_last=last)
    h = PF.deconvolution(h, 4, (2, 2), stride=(2, 2), channel_last=last, name="c")
    h = F.average_pooling(PF.depthwise_convolution(h, (3, 3), channel_last=last), (2, 2), channel_last=last)
    return F.mean(h, axis=(1, 2) if last else (2, 3))


def parameters_in_order(last):
    """All parameters but those whose axes differ between the orders, then those with their channels in front."""
    found = {}
    for name, value in nn.get_parameters(grad_only=False).items():
        array = np.array(value.d)
        moved = array.ndim == 4 and ("bn" in name or name.endswith("conv/W")) and "depthwise" not in name
        found[name] = np.moveaxis(array, -1, 1) if last and moved else array
    return found


def trained(context, last=False, compiled=False, network=residual):
    """Loss and parameters after two steps of training, and how often each op ran in the second one."""
    nn.clear_parameters()
    np.random.seed(1)
    with nn.context_scope(context):
        x = nn.Variable.from_numpy_array(np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1)) if last else IMAGES)
        t = nn.Variable.from_numpy_array(LABELS)
        loss = F.mean(F.softmax_cross_entropy(PF.affine(network(x, last), 5), t))
        start(last)
        solver = S.Momentum(0.1)
        solver.set_parameters(nn.get_parameters())
        step = nn.compile_step(loss, solver) if compiled else None
        for _ in range(2):
            with nn.trace() as trace:
                if step is not None:
                    step()
                else:
                    loss.forward()
                    solver.zero_grad()
                    loss.backward()
                    solver.update()
        counts = {}
        for row in trace.rows():
            counts[row.op] = counts.get(row.op, 0) + row.calls
        return {"loss": np.array(loss.d), **parameters_in_order(last)}, counts


def start(last):
    """The same first values in both orders."""
    rng = np.random.default_rng(5)
    for name, value in sorted(nn.get_parameters().items()):
        array = np.array(value.d)
        if last and array.ndim == 4 and "depthwise" not in name:
            front = rng.standard_normal(np.moveaxis(array, -1, 1).shape)
            value.d = np.moveaxis(front, 1, -1) * 0.3
        else:
            value.d = rng.standard_normal(array.shape) * 0.3


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.fixture(scope="module")
def expected():
    return trained(nn.Context(["reference:float"]))[0]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("layout", ["channel_last", "channel_first", ""])
def test_a_device_that_prefers_an_order_trains_alike(layout, last, compiled, expected):
    with atled_sim.prefer_layout(layout):
        assert_equal(trained(SIM, last, compiled)[0], expected)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("context", [SIM, CPU])
def test_a_backend_that_knows_no_channel_last_trains_alike(context, compiled, expected):
    assert_equal(trained(context, True, compiled)[0], expected)


def test_a_chain_is_transposed_at_its_ends():
    with atled_sim.prefer_layout("channel_last"):
        counts = trained(SIM, compiled=True)[1]
        there = trained(SIM, last=True, compiled=True)[1]
    # x, three weights that have channels, and their gradients; what batch normalization reads is stored, in the order
    # of the call.
    assert counts["Transpose"] == 1 + 3 + 3 + 2
    assert "Transpose" not in there


def planned(build, *arrays, layout="channel_last"):
    """What a graph computes on a device that prefers a layout, and the names of the steps of its plan."""
    with nn.context_scope(SIM), atled_sim.prefer_layout(layout):
        y = build(*map(nn.Variable.from_numpy_array, arrays))
        y.forward()
        return y.d.copy(), [step.name for step in y.plan.steps]


def constant(*shape):
    return nn.Variable.from_numpy_array(np.random.default_rng(9).standard_normal(shape).astype(np.float32))


WEIGHT = RNG.standard_normal((3, 3, 3, 3)).astype(np.float32)
CHAINS = {
    "elementwise": (lambda y: F.tanh(y) * F.constant(2.0, (1, 1, 1, 1)), 3),
    "by_channel": (lambda y: y * nn.Variable.from_numpy_array(np.float32([1, 2, 3]).reshape(1, 3, 1, 1)), 3),
    "of_all_but_channels": (lambda y: F.sum(y, axis=(0, 2, 3)), 2),
    "kept_axes": (lambda y: F.sum(y, axis=(2, 3), keepdims=True), 2),
    "parts": (lambda y: F.concatenate(y[:, 1:], y[:, :2], axis=1), 3),
    "global_average": (lambda y: F.affine(F.global_average_pooling(y), constant(3, 4), base_axis=1), 2),
    "an_order_of_its_own": (lambda y: F.reshape(y, (2, -1)), 3),
    "kept_axes_in_another_order": (lambda y: F.sum(y, axis=(3,)), 3),
    "images_of_one_element": (lambda y: F.tanh(F.average_pooling(y, y.shape[2:])), 2),
}


@pytest.mark.parametrize("name", CHAINS)
def test_what_follows_a_convolution_is_computed_in_its_order_where_it_has_none(name):
    behind, transposes = CHAINS[name]

    def build(x, w):
        return behind(F.convolution(x, w))

    found, steps = planned(build, IMAGES, WEIGHT)
    expected, _ = planned(build, IMAGES, WEIGHT, layout="")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert steps.count("Transpose") == transposes


def test_a_transpose_of_the_user_is_left_out_where_its_order_is_not_wanted():
    def build(x, w):
        return F.transpose(F.convolution(F.transpose(x, (0, 3, 1, 2)), w), (0, 2, 3, 1))

    there = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))
    found, steps = planned(build, there, WEIGHT)
    expected, _ = planned(build, there, WEIGHT, layout="")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert steps == ["Transpose", "Convolution"]  # the weight's


def test_results_that_are_one_array_in_the_order_of_a_device_have_memory_of_their_own():
    with nn.context_scope(SIM), atled_sim.prefer_layout("channel_last"):
        x, w = map(nn.Variable.from_numpy_array, (IMAGES, WEIGHT))
        y = F.convolution(x, w)
        results = [F.transpose(y, (0, 2, 3, 1)) for _ in range(2)] + [F.transpose(x, (0, 1, 2, 3))]
        nn.forward_all([*results, y])
        results[0].d = 0
        results[2].d = 1
        np.testing.assert_array_equal(results[1].d, y.d.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(x.d, IMAGES)


def test_a_transpose_is_not_put_off_behind_a_change_of_what_it_reads():
    def build(x, w):
        ones = [constant(1, 8, 1, 1) for _ in range(3)]
        y = F.convolution(F.transpose(x, (0, 3, 1, 2)), w)
        t = F.transpose(ones[0], (0, 2, 3, 1))
        z = F.batch_normalization(F.concatenate(y, y, y[:, :2], axis=1), *ones[1:], ones[0], constant(1, 8, 1, 1) ** 2)
        return F.sum(z, axis=(2, 3)) + F.reshape(t * np.float32(100), (1, 8))

    there = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))
    found, _ = planned(build, there, WEIGHT)
    expected, _ = planned(build, there, WEIGHT, layout="")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_a_value_that_is_held_has_the_order_of_its_call():
    held = []

    def build(x, w):
        held.append(F.convolution(x, w))
        return F.convolution(F.relu(held[-1]), w)

    with nn.context_scope(SIM), atled_sim.prefer_layout("channel_last"):
        build(*map(nn.Variable.from_numpy_array, (IMAGES, WEIGHT))).forward()
    expected = F.convolution(*map(nn.NdArray.from_numpy_array, (IMAGES, WEIGHT))).data
    np.testing.assert_allclose(held[0].d, expected, rtol=1e-5, atol=1e-5)


def test_running_statistics_that_are_read_again_have_their_shape():
    def build(x, w):
        shape = (1, 3, 1, 1)
        beta, gamma, mean, variance = (nn.Variable.from_numpy_array(np.ones(shape, np.float32)) for _ in range(4))
        y = F.batch_normalization(F.convolution(x, w), beta, gamma, mean, variance, decay_rate=0.5)
        return y + mean * np.float32(2) + F.sum(variance, axis=1, keepdims=True)

    found, steps = planned(build, IMAGES, WEIGHT)
    expected, _ = planned(build, IMAGES, WEIGHT, layout="")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert steps.count("Transpose") == 4  # x, w, what batch normalization read, and the result


def test_the_order_of_a_user_on_a_backend_without_it_is_left_and_taken_once():
    def build(x, w):
        h = F.relu(F.convolution(x, w, channel_last=True, pad=(1, 1)))
        return F.max_pooling(F.convolution(h, w, channel_last=True, pad=(1, 1)), (2, 2), channel_last=True)

    with nn.context_scope(CPU):
        x, w = (nn.Variable.from_numpy_array(np.ascontiguousarray(np.moveaxis(a, 1, -1))) for a in (IMAGES, WEIGHT))
        y = build(x, w)
        y.forward()
        steps = [step.name for step in y.plan.steps]
    assert steps.count("Transpose") == 3  # x, w, and the result
