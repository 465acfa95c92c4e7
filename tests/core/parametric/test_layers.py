"""Layers with parameters: signatures, names, shapes, first values, and what they compute."""

import inspect

import numpy as np
import pytest

from atled import NdArray, Variable
from atled import functions as F
from atled import parametric_functions as PF
from atled.initializer import ConstantInitializer, NormalInitializer
from atled.parameter import get_parameter, get_parameters

# As NNabla 1.0 has them; channel_last is of later versions.
SIGNATURES = {
    "affine": (
        "(inp, n_outmaps, base_axis=1, w_init=None, b_init=None, fix_parameters=False, rng=None, "
        "with_bias=True, name=None)"
    ),
    "convolution": (
        "(inp, outmaps, kernel, pad=None, stride=None, dilation=None, group=1, w_init=None, b_init=None, "
        "base_axis=1, fix_parameters=False, rng=None, with_bias=True, name=None, *, channel_last=False)"
    ),
    "depthwise_convolution": (
        "(inp, kernel, pad=None, stride=None, dilation=None, multiplier=1, w_init=None, b_init=None, "
        "base_axis=1, fix_parameters=False, rng=None, with_bias=True, name=None, *, channel_last=False)"
    ),
    "deconvolution": (
        "(inp, outmaps, kernel, pad=None, stride=None, dilation=None, group=1, w_init=None, b_init=None, "
        "base_axis=1, fix_parameters=False, rng=None, with_bias=True, name=None, *, channel_last=False)"
    ),
    "depthwise_deconvolution": (
        "(inp, kernel, pad=None, stride=None, dilation=None, divisor=1, w_init=None, b_init=None, "
        "base_axis=1, fix_parameters=False, rng=None, with_bias=True, name=None, *, channel_last=False)"
    ),
    "batch_normalization": (
        "(inp, axes=[1], decay_rate=0.9, eps=1e-05, batch_stat=True, output_stat=False, fix_parameters=False, "
        "name=None)"
    ),
    "mean_subtraction": "(inp, base_axis=1, update_running_mean=True, fix_parameters=False, name=None)",
    "embed": "(inp, n_inputs, n_features, fix_parameters=False, name=None)",
    "prelu": "(inp, base_axis=1, shared=True, fix_parameters=False, name=None)",
    "svd_affine": (
        "(inp, n_outmaps, r, base_axis=1, uv_init=None, b_init=None, fix_parameters=False, rng=None, "
        "with_bias=True, name=None)"
    ),
    "svd_convolution": (
        "(inp, outmaps, kernel, r, pad=None, stride=None, dilation=None, uv_init=None, b_init=None, "
        "base_axis=1, fix_parameters=False, rng=None, with_bias=True, name=None)"
    ),
    "cpd3_convolution": (
        "(inp, outmaps, kernel, r, pad=None, stride=None, dilation=None, oik_init=None, b_init=None, "
        "base_axis=1, fix_parameters=False, rng=None, with_bias=True, max_iter=500, stopping_criterion=1e-05, "
        "name=None)"
    ),
    "binary_connect_affine": (
        "(inp, n_outmaps, base_axis=1, w_init=None, wb_init=None, b_init=None, fix_parameters=False, "
        "rng=None, with_bias=True, name=None)"
    ),
    "binary_connect_convolution": (
        "(inp, outmaps, kernel, pad=None, stride=None, dilation=None, group=1, w_init=None, wb_init=None, "
        "b_init=None, base_axis=1, fix_parameters=False, rng=None, with_bias=True, name=None)"
    ),
    "binary_weight_affine": (
        "(inp, n_outmaps, base_axis=1, w_init=None, wb_init=None, b_init=None, fix_parameters=False, "
        "rng=None, with_bias=True, name=None)"
    ),
    "binary_weight_convolution": (
        "(inp, outmaps, kernel, pad=None, stride=None, dilation=None, group=1, w_init=None, wb_init=None, "
        "b_init=None, base_axis=1, fix_parameters=False, rng=None, with_bias=True, name=None)"
    ),
    "inq_affine": (
        "(inp, n_outmaps, base_axis=1, num_bits=4, inq_iterations=(), selection_algorithm='random', seed=-1, "
        "w_init=None, i_init=None, b_init=None, fix_parameters=False, rng=None, with_bias=True, name=None)"
    ),
    "inq_convolution": (
        "(inp, outmaps, kernel, pad=None, stride=None, dilation=None, group=1, num_bits=4, inq_iterations=(), "
        "selection_algorithm='random', seed=-1, w_init=None, i_init=None, b_init=None, base_axis=1, "
        "fix_parameters=False, rng=None, with_bias=True, name=None)"
    ),
    "fixed_point_quantized_affine": (
        "(inp, n_outmaps, base_axis=1, w_init=None, b_init=None, fix_parameters=False, rng=None, "
        "with_bias=True, quantize_w=True, sign_w=True, n_w=8, delta_w=0.0625, ste_fine_grained_w=True, "
        "quantize_b=True, sign_b=True, n_b=8, delta_b=0.0625, ste_fine_grained_b=True, name=None)"
    ),
    "fixed_point_quantized_convolution": (
        "(inp, outmaps, kernel, pad=None, stride=None, dilation=None, group=1, w_init=None, b_init=None, "
        "base_axis=1, fix_parameters=False, rng=None, with_bias=True, quantize_w=True, sign_w=True, n_w=8, "
        "delta_w=0.0625, ste_fine_grained_w=True, quantize_b=True, sign_b=True, n_b=8, delta_b=0.0625, "
        "ste_fine_grained_b=True, name=None, *, channel_last=False)"
    ),
    "pow2_quantized_affine": (
        "(inp, n_outmaps, base_axis=1, w_init=None, b_init=None, fix_parameters=False, rng=None, "
        "with_bias=True, quantize_w=True, sign_w=True, with_zero_w=False, n_w=8, m_w=2, "
        "ste_fine_grained_w=True, quantize_b=True, sign_b=True, with_zero_b=False, n_b=8, m_b=2, "
        "ste_fine_grained_b=True, name=None)"
    ),
    "pow2_quantized_convolution": (
        "(inp, outmaps, kernel, pad=None, stride=None, dilation=None, group=1, w_init=None, b_init=None, "
        "base_axis=1, fix_parameters=False, rng=None, with_bias=True, quantize_w=True, with_zero_w=False, "
        "sign_w=True, n_w=8, m_w=2, ste_fine_grained_w=True, quantize_b=True, with_zero_b=False, sign_b=True, "
        "n_b=8, m_b=2, ste_fine_grained_b=True, name=None)"
    ),
    # With what later versions take; the first eight are release 1.0's, which needs state_size.
    "lstm": (
        "(x, h, c, state_size=None, w_init=None, b_init=None, fix_parameters=False, name=None, *, w0_init=None, "
        "num_layers=1, dropout=0.0, bidirectional=False, training=True, rng=None, with_bias=True)"
    ),
    "lstm_cell": "(x, h, c, state_size, w_init=None, b_init=None, fix_parameters=False, name=None)",
    "rnn": (
        "(x, h, w0_init=None, w_init=None, b_init=None, num_layers=1, nonlinearity='tanh', dropout=0.0, "
        "bidirectional=False, training=True, rng=None, with_bias=True, fix_parameters=False, name=None)"
    ),
    "gru": (
        "(x, h, w0_init=None, w_init=None, b_init=None, num_layers=1, dropout=0.0, bidirectional=False, "
        "training=True, rng=None, with_bias=True, fix_parameters=False, name=None)"
    ),
}


def leaf(*shape, seed=0):
    return Variable.from_numpy_array(np.random.RandomState(seed).randn(*shape).astype(np.float32))


def parameters():
    return {key: (param.shape, param.need_grad) for key, param in get_parameters(grad_only=False).items()}


def values(name):
    return get_parameter(name).d.copy()


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_signature_is_nnablas(name):
    function = getattr(PF, name)
    signature = inspect.signature(function)
    using = signature.parameters["using"]
    assert using.kind is inspect.Parameter.KEYWORD_ONLY and using.default is None  # atled's own
    given = [p for p in signature.parameters.values() if p is not using]
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in given]
    assert str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)) == SIGNATURES[name]
    assert function.__name__ == name and function.__module__ == PF.__name__
    for argument in [p.name for p in bare]:
        assert (
            f"{argument}:" in function.__doc__
            or f"{argument}," in function.__doc__
            or f", {argument}" in function.__doc__
        )


X = (2, 4, 6, 6)
LAYERS = {
    "depthwise_conv": (
        lambda x: PF.depthwise_convolution(x, (3, 3), multiplier=2),
        (2, 8, 4, 4),
        {"W": ((8, 3, 3), True), "b": ((8,), True)},
    ),
    "deconv": (
        lambda x: PF.deconvolution(x, 6, (3, 3), group=2),
        (2, 6, 8, 8),
        {"W": ((4, 3, 3, 3), True), "b": ((6,), True)},
    ),
    "depthwise_deconv": (
        lambda x: PF.depthwise_deconvolution(x, (3, 3), divisor=2),
        (2, 2, 8, 8),
        {"W": ((4, 3, 3), True), "b": ((2,), True)},
    ),
    "mean_subtraction": (PF.mean_subtraction, X, {"mean": ((4, 6, 6), False), "t": ((1,), False)}),
    "prelu": (PF.prelu, X, {"slope": ((), True)}),
    "svd_affine": (
        lambda x: PF.svd_affine(x, (5, 2), 3),
        (2, 5, 2),
        {"U": ((144, 3), True), "V": ((3, 5, 2), True), "b": ((5, 2), True)},
    ),
    "svd_conv": (
        lambda x: PF.svd_convolution(x, 5, (3, 3), 3),
        (2, 5, 4, 4),
        {"U": ((12, 3, 3), True), "V": ((5, 12, 1, 1), True), "b": ((5,), True)},
    ),
    "cpd3_conv": (
        lambda x: PF.cpd3_convolution(x, 5, (3, 3), 3),
        (2, 5, 4, 4),
        {"I": ((3, 4, 1, 1), True), "O": ((5, 3, 1, 1), True), "K": ((3, 3, 3), True), "b": ((5,), True)},
    ),
    "bicon_affine": (
        lambda x: PF.binary_connect_affine(x, 5),
        (2, 5),
        {"W": ((144, 5), True), "Wb": ((144, 5), False), "b": ((5,), True)},
    ),
    "bicon_conv": (
        lambda x: PF.binary_connect_convolution(x, 6, (3, 3), group=2),
        (2, 6, 4, 4),
        {"W": ((6, 2, 3, 3), True), "Wb": ((6, 2, 3, 3), False), "b": ((6,), True)},
    ),
    "bwn_affine": (
        lambda x: PF.binary_weight_affine(x, (5, 2)),
        (2, 5, 2),
        {"W": ((144, 5, 2), True), "Wb": ((144, 5, 2), False), "alpha": ((5, 2), False), "b": ((5, 2), True)},
    ),
    "bwn_conv": (
        lambda x: PF.binary_weight_convolution(x, 6, (3, 3)),
        (2, 6, 4, 4),
        {"W": ((6, 4, 3, 3), True), "Wb": ((6, 4, 3, 3), False), "alpha": ((6,), False), "b": ((6,), True)},
    ),
    "inq_affine": (
        lambda x: PF.inq_affine(x, 5),
        (2, 5),
        {"W": ((144, 5), True), "I": ((144, 5), False), "b": ((5,), True)},
    ),
    "inq_conv": (
        lambda x: PF.inq_convolution(x, 6, (3, 3)),
        (2, 6, 4, 4),
        {"W": ((6, 4, 3, 3), True), "I": ((6, 4, 3, 3), False), "b": ((6,), True)},
    ),
    "fp_quantized_affine": (
        lambda x: PF.fixed_point_quantized_affine(x, 5),
        (2, 5),
        {"W": ((144, 5), True), "W_q": ((144, 5), False), "b": ((5,), True), "b_q": ((5,), False)},
    ),
    "fp_quantized_conv": (
        lambda x: PF.fixed_point_quantized_convolution(x, 6, (3, 3), group=2),
        (2, 6, 4, 4),
        {"W": ((6, 2, 3, 3), True), "W_q": ((6, 2, 3, 3), False), "b": ((6,), True), "b_q": ((6,), False)},
    ),
    "pow2_quantized_affine": (
        lambda x: PF.pow2_quantized_affine(x, 5),
        (2, 5),
        {"W": ((144, 5), True), "W_q": ((144, 5), False), "b": ((5,), True), "b_q": ((5,), False)},
    ),
    "pow2_quantized_conv": (
        lambda x: PF.pow2_quantized_convolution(x, 6, (3, 3)),
        (2, 6, 4, 4),
        {"W": ((6, 4, 3, 3), True), "W_q": ((6, 4, 3, 3), False), "b": ((6,), True), "b_q": ((6,), False)},
    ),
}


@pytest.mark.parametrize("scope", LAYERS)
def test_parameters_and_output_of(scope):
    layer, shape, expected = LAYERS[scope]
    y = layer(leaf(*X))
    assert y.shape == shape
    found = parameters()
    assert found == {f"{scope}/{name}": fact for name, fact in expected.items()}
    assert list(found) == [f"{scope}/{name}" for name in expected]
    y.forward()
    assert np.isfinite(y.d).all()


@pytest.mark.parametrize("scope", LAYERS)
def test_arrays_are_computed_at_once_with_the_same_result(scope):
    if scope == "mean_subtraction":
        pytest.skip("each computation moves its mean")
    layer, _, _ = LAYERS[scope]
    x = leaf(*X)
    y = layer(x)
    y.forward()
    at_once = layer(x.data)
    assert isinstance(at_once, NdArray)
    np.testing.assert_allclose(at_once.data, y.d, rtol=1e-6)


@pytest.mark.parametrize("scope", sorted(set(LAYERS) - {"mean_subtraction"}))
def test_every_trained_parameter_gets_a_gradient(scope):
    layer, _, expected = LAYERS[scope]
    x = leaf(*X)
    x.need_grad = True
    loss = F.sum(layer(x) ** 2)
    loss.forward()
    loss.backward()
    assert np.abs(x.g).max() > 0
    for name, (_, trained) in expected.items():
        assert (np.abs(get_parameter(f"{scope}/{name}").g).max() > 0) == trained


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: PF.depthwise_convolution(x, (3, 3), multiplier=0), "multiplier is 0"),
        (lambda x: PF.depthwise_deconvolution(x, (3, 3), divisor=3), "divisor=3 does not divide 4 channels"),
        (lambda x: PF.deconvolution(x, 5, (3, 3), group=2), "group=2 does not divide 5 output maps"),
        (lambda x: PF.deconvolution(x, 5, (3,)), "kernel has 1 sizes for 2 spatial axes"),
        (lambda x: PF.deconvolution(x, 5, (3, 3), stride=(0, 1)), "stride"),
        (lambda x: PF.prelu(x, base_axis=4), "base_axis is 4"),
        (lambda x: PF.mean_subtraction(x, base_axis=-5), "base_axis is -5"),
        (lambda x: PF.svd_affine(x, 5, 6), "at most rank 5"),
        (lambda x: PF.svd_affine(x, 5, 2, uv_init=np.zeros((5, 144))), r"has shape \(5, 144\)"),
        (lambda x: PF.svd_convolution(x, 5, (3, 3), 6), "at most rank 5"),
        (lambda x: PF.cpd3_convolution(x, 5, (3, 3), 0), "r is 0"),
        (lambda x: PF.binary_connect_convolution(x, 6, (3, 3), group=4), "group=4 does not divide 6 output maps"),
        (lambda x: PF.inq_affine(x, 5, selection_algorithm="smallest"), "selection_algorithm"),
        (lambda x: PF.fixed_point_quantized_affine(x, 5, n_w=-1), "n="),
        (lambda x: PF.pow2_quantized_affine(x, 0), "n_outmaps"),
    ],
)
def test_wrong_arguments_are_refused_and_leave_no_parameter(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(leaf(*X))
    assert parameters() == {}


# First values.


def test_default_weights_are_uniform_within_glorots_limits():
    rng = np.random.RandomState
    x = leaf(*X)
    PF.depthwise_convolution(x, (3, 3), multiplier=2, rng=rng(3))
    PF.deconvolution(x, 6, (3, 3), rng=rng(3))
    PF.depthwise_deconvolution(x, (3, 3), divisor=2, rng=rng(3))
    limits = {"depthwise_conv": (4, 8), "deconv": (6, 4), "depthwise_deconv": (4, 4)}
    for scope, (inmaps, outmaps) in limits.items():
        w = values(f"{scope}/W")
        limit = np.sqrt(6 / (9 * inmaps + outmaps))
        np.testing.assert_allclose(w, rng(3).uniform(-limit, limit, w.shape), rtol=1e-6)
        assert not values(f"{scope}/b").any()


def test_prelu_starts_at_slope_minus_one_and_may_have_one_per_channel():
    x = leaf(*X)
    y = PF.prelu(x)
    y.forward()
    np.testing.assert_array_equal(y.d, np.abs(x.d))
    PF.prelu(x, shared=False, fix_parameters=True, name="own")
    assert parameters()["own/prelu/slope"] == ((4,), False)
    np.testing.assert_array_equal(values("own/prelu/slope"), [-1, -1, -1, -1])


def test_mean_subtraction_subtracts_the_mean_of_all_batches_so_far():
    x = leaf(3, 2)
    y = PF.mean_subtraction(x)
    seen = []
    for seed in range(3):
        x.d = np.random.RandomState(seed).randn(3, 2)
        seen.append(x.d.mean(axis=0))
        y.forward()
        np.testing.assert_allclose(y.d, x.d - np.mean(seen, axis=0), atol=1e-6)
    assert values("mean_subtraction/t") == 3
    fixed = PF.mean_subtraction(x, update_running_mean=False)
    fixed.forward()
    np.testing.assert_allclose(fixed.d, x.d - values("mean_subtraction/mean"), atol=1e-6)
    assert values("mean_subtraction/t") == 3


# Factorized weights.


def test_svd_affine_of_full_rank_is_the_affine_map():
    x, w = leaf(3, 4), np.random.RandomState(1).randn(4, 3, 2)
    y = PF.svd_affine(x, (3, 2), 4, uv_init=w, b_init=ConstantInitializer(2))
    y.forward()
    np.testing.assert_allclose(y.d, np.tensordot(x.d, w, 1) + 2, rtol=1e-4)


def test_svd_affine_starts_at_the_best_approximation():
    w = np.random.RandomState(1).randn(6, 5)
    PF.svd_affine(leaf(2, 6), 5, 2, uv_init=w)
    u, s, v = np.linalg.svd(w, full_matrices=False)
    np.testing.assert_allclose(values("svd_affine/U"), u[:, :2] * s[:2], rtol=1e-5)
    np.testing.assert_allclose(values("svd_affine/V"), v[:2], rtol=1e-5)


def test_existing_factors_win():
    x = leaf(2, 6)
    PF.svd_affine(x, 5, 2)
    before = values("svd_affine/U"), values("svd_affine/V")
    PF.svd_affine(x, 5, 2, uv_init=np.zeros((6, 5)))
    np.testing.assert_array_equal(values("svd_affine/U"), before[0])
    np.testing.assert_array_equal(values("svd_affine/V"), before[1])
    with pytest.raises(ValueError, match="shape"):
        PF.svd_affine(x, 5, 3)


@pytest.mark.parametrize(
    "spatial", [{"pad": (1, 1)}, {"stride": (2, 1)}, {"dilation": (1, 2)}], ids=lambda spatial: next(iter(spatial))
)
@pytest.mark.parametrize("layer", ["svd", "cpd3"])
def test_a_factorized_convolution_of_full_rank_is_the_convolution(layer, spatial):
    x, w = leaf(2, 3, 7, 6), np.random.RandomState(1).randn(4, 3, 2, 2)
    bias = np.arange(4.0)
    if layer == "svd":
        y = PF.svd_convolution(x, 4, (2, 2), 4, uv_init=w, b_init=bias, **spatial)
    else:
        y = PF.cpd3_convolution(x, 4, (2, 2), 12, oik_init=w, b_init=bias, **spatial)
    expected = F.convolution(x.data, NdArray.from_numpy_array(w), NdArray.from_numpy_array(bias), **spatial)
    y.forward()
    np.testing.assert_allclose(y.d, expected.data, atol=1e-3)


def test_svd_convolution_approximates_channel_by_channel():
    w = np.random.RandomState(1).randn(5, 4, 3, 3)
    PF.svd_convolution(leaf(*X), 5, (3, 3), 2, uv_init=w)
    u, v = values("svd_conv/U").reshape(4, 2, 9), values("svd_conv/V").reshape(5, 4, 2)
    for channel in range(4):
        left, s, right = np.linalg.svd(w[:, channel].reshape(5, 9), full_matrices=False)
        np.testing.assert_allclose(v[:, channel] @ u[channel], (left[:, :2] * s[:2]) @ right[:2], atol=1e-5)


def test_factorized_layers_take_initializers_and_one_spatial_axis():
    x = leaf(2, 3, 8)
    for layer, scope in ((PF.svd_convolution, "svd_conv"), (PF.cpd3_convolution, "cpd3_conv")):
        y = layer(x, 4, (3,), 2, None, None, None, NormalInitializer(rng=np.random.RandomState(0)), with_bias=False)
        assert y.shape == (2, 4, 6)
        assert f"{scope}/b" not in parameters()


# Quantized weights.


def test_binary_connect_affine_computes_with_signs_and_keeps_them():
    x, w = leaf(2, 3), np.array([[0.3, -2], [0, 1], [-0.1, 5]])
    y = PF.binary_connect_affine(x, 2, w_init=w)
    y.forward()
    signs = np.where(w > 0, 1, -1)
    np.testing.assert_allclose(y.d, x.d @ signs, rtol=1e-5)
    np.testing.assert_array_equal(values("bicon_affine/Wb"), signs)


def test_binary_weight_affine_scales_signs_by_the_mean_size():
    x, w = leaf(2, 3), np.array([[0.3, -2], [0.2, 1], [-0.1, 5]])
    y = PF.binary_weight_affine(x, 2, w_init=w)
    y.forward()
    alpha = np.abs(w).mean(axis=0)
    np.testing.assert_allclose(y.d, x.d @ (np.where(w > 0, 1, -1) * alpha), rtol=1e-5)
    np.testing.assert_allclose(values("bwn_affine/alpha"), alpha, rtol=1e-6)


def test_inq_affine_fixes_weights_to_powers_of_two_step_by_step():
    x, w = leaf(2, 4), np.random.RandomState(1).randn(4, 4)
    y = PF.inq_affine(x, 4, inq_iterations=(2, 4), selection_algorithm="largest_abs", w_init=w)
    fixed = []
    for _ in range(6):
        y.forward()
        fixed.append(int(values("inq_affine/I").sum()))
    assert fixed[0] == 0 and 8 in fixed and fixed[-1] == 16
    powers = np.log2(np.abs(values("inq_affine/W")[values("inq_affine/W") != 0]))
    np.testing.assert_array_equal(powers, np.round(powers))


def test_fixed_point_quantized_affine_rounds_weight_and_bias():
    x, w, b = leaf(2, 3), np.random.RandomState(1).randn(3, 2), np.array([0.33, -0.07])
    y = PF.fixed_point_quantized_affine(x, 2, w_init=w, b_init=b, delta_w=0.25, delta_b=0.5)
    y.forward()
    rounded = np.sign(w) * np.floor(np.abs(w) / 0.25 + 0.5) * 0.25
    np.testing.assert_allclose(y.d, x.d @ rounded + [0.5, 0], rtol=1e-5)
    np.testing.assert_allclose(values("fp_quantized_affine/W_q"), rounded)
    np.testing.assert_allclose(values("fp_quantized_affine/b_q"), [0.5, 0])
    assert y.parent.inputs[1].persistent


def test_pow2_quantized_convolution_rounds_to_powers_of_two():
    y = PF.pow2_quantized_convolution(leaf(*X), 5, (3, 3), m_w=0)
    y.forward()
    powers = np.log2(np.abs(values("pow2_quantized_conv/W_q")))
    np.testing.assert_array_equal(powers, np.round(powers))
    assert powers.max() <= 0


@pytest.mark.parametrize("name", ["fixed_point_quantized_affine", "pow2_quantized_affine"])
def test_without_rounding_a_quantized_layer_is_the_plain_one(name):
    x, w = leaf(2, 3), np.random.RandomState(1).randn(3, 2)
    y = getattr(PF, name)(x, 2, w_init=w, quantize_w=False, quantize_b=False)
    y.forward()
    np.testing.assert_allclose(y.d, x.d @ w, rtol=1e-5)
    assert [key.split("/")[1] for key in parameters()] == ["W", "b"]


@pytest.mark.parametrize(
    ("layer", "shape", "weight"),
    [
        (lambda x: PF.convolution(x, 6, (3, 2), group=2, channel_last=True), (2, 3, 5, 6), (6, 3, 2, 2)),
        (lambda x: PF.deconvolution(x, 6, (3, 2), group=2, channel_last=True), (2, 7, 7, 6), (4, 3, 2, 3)),
        (lambda x: PF.depthwise_convolution(x, (3, 2), multiplier=2, channel_last=True), (2, 3, 5, 8), (8, 3, 2)),
        (lambda x: PF.depthwise_deconvolution(x, (3, 2), divisor=2, channel_last=True), (2, 7, 7, 2), (4, 3, 2)),
        (lambda x: PF.fixed_point_quantized_convolution(x, 6, (3, 2), channel_last=True), (2, 3, 5, 6), (6, 3, 2, 4)),
    ],
)
def test_with_channel_last_the_weight_has_its_channels_behind_the_kernel(layer, shape, weight):
    y = layer(leaf(2, 5, 6, 4))
    y.forward()
    assert y.shape == shape
    assert {param.shape for key, param in get_parameters().items() if key.endswith("/W")} == {weight}
