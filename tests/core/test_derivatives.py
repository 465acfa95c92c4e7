"""nn.grad: gradients as a graph that can be computed, trained and differentiated again."""

import gc
import weakref

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
import atled.solvers as S
from atled.calling.apply import apply
from atled.parameter import clear_parameters
from atled_contexts import Context
from spec_cases import all_specs, has_gradient


def leaf(values, need_grad=True):
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def value(variable):
    variable.forward()
    return variable.d.copy()


def double():
    return nn.context_scope(Context(["reference:double"], fallback="raise"))


# Values.


def test_first_to_third_derivatives_of_a_polynomial(backend):
    x = leaf([2.0, -3.0])
    (first,) = nn.grad(x**3, x)
    (second,) = nn.grad(first, x)
    (third,) = nn.grad(second, x)
    np.testing.assert_allclose(value(first), 3 * x.d**2)
    np.testing.assert_allclose(value(second), 6 * x.d)
    np.testing.assert_allclose(value(third), [6, 6])


def test_derivatives_of_elementary_functions(backend):
    x = leaf(np.linspace(-1, 1, 7))
    y = F.tanh(x) * F.exp(x)
    for order in range(1, 4):
        (y,) = nn.grad(y, x)
        with double():
            exact = nn.Variable.from_numpy_array(x.d.astype(np.float64))
            step = 1e-3
            points = [value(F.tanh(exact + by * step) * F.exp(exact + by * step)) for by in range(-order, order + 1)]
        np.testing.assert_allclose(value(y), central_difference(points, order, step), rtol=2e-3, atol=2e-3)


def central_difference(points, order, step):
    """The derivative of that order from values at 2 order + 1 points."""
    values = np.array(points)
    for _ in range(order):
        values = (values[2:] - values[:-2]) / (2 * step)
    return values[0]


def test_the_gradient_follows_new_values_of_the_leaves(backend):
    x = leaf([1.0, 2.0])
    (dy,) = nn.grad(F.sum(x**2), x)
    value(dy)
    x.d = [5, 6]
    np.testing.assert_array_equal(value(dy), [10, 12])


def test_several_outputs_add_up_and_several_inputs_get_one_each(backend):
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    da, db = nn.grad([a * b, a**2], [a, b])
    np.testing.assert_allclose(value(da), b.d + 2 * a.d)
    np.testing.assert_allclose(value(db), a.d)


def test_an_output_that_another_one_depends_on(backend):
    x = leaf([3.0])
    h = x**2
    (dx,) = nn.grad([h, h**2], x)
    np.testing.assert_allclose(value(dx), 2 * 3 + 4 * 27)


def test_one_output_given_twice_counts_twice(backend):
    x = leaf([3.0])
    y = x**2
    np.testing.assert_allclose(value(nn.grad([y, y], x)[0]), 12)


def test_gradients_of_values_in_the_middle(backend):
    x = leaf([3.0])
    h = x**2
    dh, dx = nn.grad(F.exp(h * 0.1), [h, x])
    np.testing.assert_allclose(value(dh), 0.1 * np.exp(0.9), rtol=1e-6)
    np.testing.assert_allclose(value(dx), 0.6 * np.exp(0.9), rtol=1e-6)


def test_an_output_by_itself_has_gradient_one(backend):
    x = leaf([3.0, 4.0])
    y = x**2
    np.testing.assert_array_equal(value(nn.grad(y, y)[0]), [1, 1])


def test_an_input_that_is_not_reached_gets_zeros_of_its_shape():
    x, z = leaf([1.0, 2.0]), leaf(np.ones((3, 2)))
    _, dz = nn.grad(x**2, [x, z])
    np.testing.assert_array_equal(value(F.identity(dz)), np.zeros((3, 2)))


def test_inputs_need_no_need_grad(backend):
    x = leaf([2.0], need_grad=None)
    np.testing.assert_array_equal(value(nn.grad(x**3, x)[0]), [12])
    assert x.need_grad is False


def test_a_cut_in_the_middle_stops_gradients_unless_it_is_asked_for():
    x = leaf([2.0])
    h = x**2
    h.need_grad = False
    y = h * x
    np.testing.assert_array_equal(value(nn.grad(y, x)[0]), [4])
    h.need_grad = True
    np.testing.assert_array_equal(value(nn.grad(y, x)[0]), [12])
    h.need_grad = False
    np.testing.assert_array_equal(value(nn.grad(y, h)[0]), [2])


def test_a_variable_that_shares_the_arrays_of_an_input_counts_as_the_input():
    x = leaf([2.0])
    np.testing.assert_array_equal(value(nn.grad(x.unlinked() * x, x)[0]), [4])
    np.testing.assert_array_equal(value(nn.grad(x.unlinked(need_grad=False) * x, x)[0]), [2])


# grad_outputs.


@pytest.mark.parametrize(
    "given",
    [
        2.0,
        np.float64(2),
        np.array([2.0, 2.0]),
        [2.0],
        [np.array([2.0])],
        [nn.NdArray.from_numpy_array(np.array([2.0, 2.0]))],
    ],
    ids=lambda given: type(given).__name__,
)
def test_arriving_gradients_may_be_given(given):
    x = leaf([1.0, 3.0])
    np.testing.assert_array_equal(value(nn.grad(x**2, x, given)[0]), 4 * x.d)


def test_an_arriving_ndarray_counts_at_forward():
    x, seed = leaf([1.0, 3.0]), nn.NdArray((2,))
    (dx,) = nn.grad(x**2, x, seed)
    seed.data = [1, 10]
    np.testing.assert_array_equal(value(dx), [2, 60])


def test_a_hessian_vector_product_two_ways(backend):
    rng = np.random.RandomState(0)
    a = rng.randn(4, 4).astype(np.float32)
    x, v = leaf(rng.randn(1, 4)), leaf(rng.randn(1, 4))
    y = F.sum(F.sin(F.affine(x, leaf(a)) ** 2))
    (gx,) = nn.grad(y, x)
    (forward_over,) = nn.grad(F.sum(gx * v), x)
    (by_seed,) = nn.grad(gx, x, [v])
    u = x.d @ a
    hessian = a @ np.diag((2 * np.cos(u**2) - 4 * u**2 * np.sin(u**2))[0]) @ a.T
    np.testing.assert_allclose(value(forward_over), v.d @ hessian, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(value(by_seed), value(forward_over), rtol=1e-5, atol=1e-5)


def test_gradients_flow_through_an_arriving_variable():
    x, v = leaf([2.0]), leaf([5.0])
    (gx,) = nn.grad(x**2, x, [v])
    (gv,) = nn.grad(gx, v)
    np.testing.assert_array_equal(value(gv), [4])


# What the flags do.


def test_outputs_become_persistent_as_told():
    x = leaf([1.0])
    a, b = x**2, x**3
    nn.grad([a, b], x, persistent_outputs=[True, False])
    assert a.persistent and not b.persistent
    c = x**2
    nn.grad(c, x)
    assert c.persistent


def test_bound_gradients_are_those_a_solver_sees(backend):
    clear_parameters()
    x = leaf(np.random.RandomState(0).randn(4, 3), need_grad=None)
    loss = F.mean(PF.affine(x, 2, w_init=np.ones((3, 2))) ** 2)
    params = nn.get_parameters()
    gradients = nn.grad(loss, list(params.values()), bind_grad_output=True)
    solver = S.Sgd(0.1)
    solver.set_parameters(params)
    F.concatenate(*(F.reshape(g, (g.size,)) for g in gradients), axis=0).forward()
    before = {key: p.d.copy() for key, p in params.items()}
    expected = {key: g.d.copy() for key, g in zip(params, gradients, strict=True)}
    solver.update()
    for key, p in params.items():
        np.testing.assert_array_equal(p.g, expected[key])
        np.testing.assert_allclose(p.d, before[key] - 0.1 * expected[key], rtol=1e-6)
    clear_parameters()


def test_under_auto_forward_gradients_are_there_at_once(backend):
    with nn.auto_forward():
        x = leaf([2.0])
        (dy,) = nn.grad(x**3, x)
        (ddy,) = nn.grad(dy, x)
    np.testing.assert_array_equal(dy.d, [12])
    np.testing.assert_array_equal(ddy.d, [12])


# Random and mutating functions.


def test_the_mask_of_a_dropout_is_that_of_the_same_forward(backend):
    x = leaf(np.ones((40, 5)))
    y = F.dropout(x, 0.5, seed=3)
    (dx,) = nn.grad(y, x)
    masks = []
    for _ in range(2):
        both = F.sum(dx * y)
        both.forward()
        np.testing.assert_array_equal(dx.d, y.d)
        masks.append(dx.d.copy())
    assert (masks[0] != masks[1]).any()


def test_batch_statistics_are_differentiated(backend):
    clear_parameters()
    x = leaf(np.random.RandomState(0).randn(6, 2, 3))
    y = F.sum(PF.batch_normalization(x) ** 3)
    (dx,) = nn.grad(y, x)
    expected = value(dx)
    y.forward()
    x.grad.zero()
    y.backward()
    np.testing.assert_allclose(x.g, expected, rtol=1e-4, atol=1e-5)
    clear_parameters()


# Every op.


@pytest.mark.parametrize("spec", [spec for spec in all_specs() if spec.function], ids=lambda spec: spec.function)
def test_recorded_gradients_are_those_of_backward(spec):
    samples = [sample for sample in spec.samples() if has_gradient(spec, sample)]
    if not samples:
        pytest.skip("the op has no gradient")
    with double():
        for sample in samples[:4]:
            compare_with_backward(spec, sample)


def compare_with_backward(spec, sample):
    arrays = sample.draw()
    inputs = [
        None
        if a is None
        else nn.Variable.from_numpy_array(a, need_grad=a.dtype.kind == "f" and spec.input_at(i).gradient == "flows")
        for i, a in enumerate(arrays)
    ]
    made = apply(spec, inputs, sample.attributes)
    outputs = [y for y in (made if isinstance(made, tuple) else (made,)) if y.size]
    wanted = [x for x in inputs if x is not None and x.need_grad]
    if not wanted or not outputs:
        return
    rng = np.random.default_rng(0)
    weights = [nn.Variable.from_numpy_array(rng.standard_normal(y.shape)) for y in outputs]
    total = sum((F.sum(y * w) for y, w in zip(outputs, weights, strict=True)), F.constant(0.0))
    recorded = nn.grad(total, wanted)
    # One forward for both: a second one would draw other random numbers and move running statistics.
    everything = F.concatenate(*(F.reshape(v, (v.size,)) for v in [*recorded, total]), axis=0)
    everything.forward()
    total.backward()
    expected = np.concatenate([x.g.ravel() for x in wanted])
    np.testing.assert_allclose(everything.d[:-1], expected, rtol=1e-9, atol=1e-9)


# Training.


def test_a_gradient_penalty_is_trained(backend):
    """A network whose slope is to be 1 everywhere: |dy/dx|^2 = 1 on random points, as in Wasserstein GANs."""
    clear_parameters()
    rng = np.random.RandomState(0)
    x = nn.Variable((32, 2), need_grad=True)
    h = F.tanh(PF.affine(x, 16, name="hidden", rng=rng))
    y = PF.affine(h, 1, name="out", rng=rng)
    (dx,) = nn.grad(F.sum(y), x)
    slope = F.sum(dx**2, axis=1) ** 0.5
    loss = F.mean((slope - 1.0) ** 2)
    solver = S.Adam(0.02)
    solver.set_parameters(nn.get_parameters())
    losses = []
    for _ in range(150):
        x.d = rng.uniform(-1, 1, x.shape)
        loss.forward()
        solver.zero_grad()
        loss.backward()
        solver.update()
        losses.append(float(loss.d))
    assert losses[0] > 0.05
    assert np.mean(losses[-10:]) < 0.02 * losses[0]
    clear_parameters()


def test_the_gradient_of_a_penalty_agrees_with_finite_differences():
    clear_parameters()
    rng = np.random.RandomState(0)
    with double():
        x = nn.Variable.from_numpy_array(rng.randn(2, 2, 5, 5), need_grad=True)
        w = nn.Variable.from_numpy_array(rng.randn(3, 2, 3, 3), need_grad=True)
        y = F.average_pooling(F.softmax(F.convolution(F.tanh(x), w, pad=(1, 1)), axis=1), (2, 2))
        (dx,) = nn.grad(F.sum(y**2), x)
        penalty = F.sum(dx**2)
        penalty.forward()
        penalty.backward()
        analytic = w.g.copy()
        for place in [(0, 0, 0, 0), (2, 1, 1, 2), (1, 0, 2, 1)]:
            before, step = w.d[place], 1e-6
            ends = []
            for offset in (step, -step):
                w.d[place] = before + offset
                ends.append(float(value(penalty)))
            w.d[place] = before
            assert analytic[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


# Refusals.


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x, y: nn.grad(x, x), ValueError, "an output is a leaf"),
        (lambda x, y: nn.grad([], x), ValueError, "outputs is empty"),
        (lambda x, y: nn.grad(y, [3]), TypeError, "inputs holds int"),
        (lambda x, y: nn.grad(y, x.data), TypeError, "inputs holds NdArray"),
        (lambda x, y: nn.grad(y, x, [1.0, 2.0]), ValueError, "2 entries for 1 outputs"),
        (lambda x, y: nn.grad(y, x, np.ones((3,))), ValueError, "broadcast"),
        (lambda x, y: nn.grad(y, x, nn.NdArray((1, 2))), ValueError, r"shape \(1, 2\)"),
        (lambda x, y: nn.grad(y, x, "one"), ValueError, "one"),
        (lambda x, y: nn.grad(y, x, persistent_outputs=[True, False]), ValueError, "2 flags for 1 outputs"),
        (lambda x, y: nn.grad(F.greater_scalar(y, 1), x), RuntimeError, "has no gradient"),
    ],
)
def test_wrong_calls_are_refused(call, kind, message):
    x = leaf([1.0, 2.0])
    y = x**2
    with pytest.raises(kind, match=message):
        call(x, y)
    assert not y.persistent


def test_a_gradient_keeps_its_graph_alive_and_nothing_else_does():
    x = leaf([1.0])
    y = F.tanh(x)  # its gradient is made of its value
    function = weakref.ref(y.value.parent)
    (dx,) = nn.grad(y, x)
    del y
    gc.collect()
    assert function() is not None
    np.testing.assert_allclose(value(dx), 1 - np.tanh(1) ** 2, rtol=1e-6)
    del dx
    gc.collect()
    assert function() is None
