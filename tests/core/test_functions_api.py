"""The functions of the NNabla API: names, argument order, defaults, and how wrong calls are refused."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import atled as nn
import atled.functions as F
from atled.errors import RefusedError, four_parts

pytestmark = pytest.mark.usefixtures("backend")

# Function: name of the op ("" where it is made of others), and the arguments of release 1.0 in their order.
# None stands for what follows from the inputs.
SIGNATURES = {
    "affine": ("Affine", "x, weight, bias=None, base_axis=1"),
    "convolution": ("Convolution", "x, weight, bias=None, base_axis=1, pad=None, stride=None, dilation=None, group=1"),
    "depthwise_convolution": (
        "DepthwiseConvolution",
        "x, weight, bias=None, base_axis=1, pad=None, stride=None, dilation=None, multiplier=1",
    ),
    "deconvolution": (
        "Deconvolution",
        "x, weight, bias=None, base_axis=1, pad=None, stride=None, dilation=None, group=1",
    ),
    "depthwise_deconvolution": (
        "DepthwiseDeconvolution",
        "x, weight, bias=None, base_axis=1, pad=None, stride=None, dilation=None, divisor=1",
    ),
    "max_pooling": ("MaxPooling", "x, kernel, stride=None, ignore_border=True, pad=None"),
    "average_pooling": ("AveragePooling", "x, kernel, stride=None, ignore_border=True, pad=None, including_pad=True"),
    "global_average_pooling": ("GlobalAveragePooling", "x"),
    "sum_pooling": ("SumPooling", "x, kernel, stride=None, ignore_border=True, pad=None"),
    "unpooling": ("Unpooling", "x, kernel"),
    "embed": ("Embed", "x0, w"),
    "sigmoid": ("Sigmoid", "x"),
    "swish": ("Swish", "x"),
    "tanh": ("Tanh", "x"),
    "relu": ("ReLU", "x, inplace=False"),
    "leaky_relu": ("LeakyReLU", "x, alpha=0.1"),
    "softmax": ("Softmax", "x, axis=None"),
    "elu": ("ELU", "x, alpha=1.0"),
    "selu": ("SELU", "x, scale=1.05070098735548, alpha=1.673263242354377"),
    "crelu": ("CReLU", "x, axis=1"),
    "celu": ("CELU", "x, alpha=1.0, axis=1"),
    "prelu": ("PReLU", "x0, x1, base_axis=1"),
    "batch_normalization": (
        "BatchNormalization",
        ("x, beta, gamma, mean, variance, axes=(1,), decay_rate=0.9, eps=1e-05, batch_stat=True, "
        "output_stat=False"),
    ),
    "mean_subtraction": ("MeanSubtraction", "x, mean, t, base_axis=1, update_running_mean=True"),
    "clip_grad_by_value": ("ClipGradByValue", "x, min, max"),
    "clip_grad_by_norm": ("ClipGradByNorm", "x, clip_norm=1.0, axes=None"),
    "sum": ("Sum", "x, axis=None, keepdims=False"),
    "mean": ("Mean", "x, axis=None, keepdims=False"),
    "max": ("Max", "x, axis=None, keepdims=False"),
    "min": ("Min", "x, axis=None, keepdims=False"),
    "prod": ("Prod", "x, axis=None, keepdims=False"),
    "reduce_sum": ("ReduceSum", "x"),
    "reduce_mean": ("ReduceMean", "x"),
    "add2": ("Add2", "x0, x1, inplace=False"),
    "bc_add2": ("BcAdd2", "x0, x1"),
    "sub2": ("Sub2", "x0, x1"),
    "mul2": ("Mul2", "x0, x1"),
    "div2": ("Div2", "x0, x1"),
    "pow2": ("Pow2", "x0, x1"),
    "add_scalar": ("AddScalar", "x, val=1"),
    "mul_scalar": ("MulScalar", "x, val=1"),
    "pow_scalar": ("PowScalar", "x, val=1"),
    "r_sub_scalar": ("RSubScalar", "x, val=1"),
    "r_div_scalar": ("RDivScalar", "x, val=1"),
    "r_pow_scalar": ("RPowScalar", "x, val=1"),
    "sign": ("Sign", "x, alpha=0.0"),
    "minimum2": ("Minimum2", "x0, x1"),
    "maximum2": ("Maximum2", "x0, x1"),
    "minimum_scalar": ("MinimumScalar", "x, val=1.0"),
    "maximum_scalar": ("MaximumScalar", "x, val=1.0"),
    "logical_and": ("LogicalAnd", "x0, x1"),
    "logical_or": ("LogicalOr", "x0, x1"),
    "logical_xor": ("LogicalXor", "x0, x1"),
    "equal": ("Equal", "x0, x1"),
    "not_equal": ("NotEqual", "x0, x1"),
    "greater_equal": ("GreaterEqual", "x0, x1"),
    "greater": ("Greater", "x0, x1"),
    "less_equal": ("LessEqual", "x0, x1"),
    "less": ("Less", "x0, x1"),
    "logical_and_scalar": ("LogicalAndScalar", "x0, val"),
    "logical_or_scalar": ("LogicalOrScalar", "x0, val"),
    "logical_xor_scalar": ("LogicalXorScalar", "x0, val"),
    "equal_scalar": ("EqualScalar", "x0, val=1"),
    "not_equal_scalar": ("NotEqualScalar", "x0, val=1"),
    "greater_equal_scalar": ("GreaterEqualScalar", "x0, val=1"),
    "greater_scalar": ("GreaterScalar", "x0, val=1"),
    "less_equal_scalar": ("LessEqualScalar", "x0, val=1"),
    "less_scalar": ("LessScalar", "x0, val=1"),
    "logical_not": ("LogicalNot", "x0"),
    "constant": ("Constant", "val=0, shape=()"),
    "abs": ("Abs", "x"),
    "exp": ("Exp", "x"),
    "log": ("Log", "x"),
    "identity": ("Identity", "x"),
    "batch_matmul": ("BatchMatmul", "a, b, transpose_a=False, transpose_b=False"),
    "round": ("Round", "x"),
    "ceil": ("Ceil", "x"),
    "floor": ("Floor", "x"),
    "sin": ("Sin", "x"),
    "cos": ("Cos", "x"),
    "tan": ("Tan", "x"),
    "sinh": ("Sinh", "x"),
    "cosh": ("Cosh", "x"),
    "asin": ("ASin", "x"),
    "acos": ("ACos", "x"),
    "atan": ("ATan", "x"),
    "asinh": ("ASinh", "x"),
    "acosh": ("ACosh", "x"),
    "atanh": ("ATanh", "x"),
    "concatenate": ("Concatenate", "*x, axis=None"),
    "split": ("Split", "x, axis=0"),
    "stack": ("Stack", "*x, axis=0"),
    "slice": ("Slice", "x, start=None, stop=None, step=None"),
    "pad": ("Pad", "x, pad_width=None, mode='constant', constant_value=0"),
    "transpose": ("Transpose", "x, axes"),
    "broadcast": ("Broadcast", "x, shape"),
    "broadcast_to": ("BroadcastTo", "x, y, axis=-1"),
    "one_hot": ("OneHot", "x, shape"),
    "flip": ("Flip", "x, axes=None"),
    "shift": ("Shift", "x, shifts=None, border_mode='nearest'"),
    "reshape": ("Reshape", "x, shape, inplace=True"),
    "matrix_diag": ("MatrixDiag", "x"),
    "matrix_diag_part": ("MatrixDiagPart", "x"),
    "dropout": ("Dropout", "x, p=0.5, seed=-1"),
    "top_k_data": ("TopKData", "x, k, abs=False, reduce=True, base_axis=1"),
    "top_k_grad": ("TopKGrad", "x, k, abs=False, base_axis=1"),
    "rand": ("Rand", "low=0, high=1, shape=(), seed=-1"),
    "randint": ("Randint", "low=0, high=1, shape=(), seed=-1"),
    "randn": ("Randn", "mu=0, sigma=1, shape=(), seed=-1"),
    "random_crop": ("RandomCrop", "x, shape=None, base_axis=1, seed=-1"),
    "random_flip": ("RandomFlip", "x, axes=None, base_axis=1, seed=-1"),
    "random_shift": ("RandomShift", "x, shifts=None, border_mode='nearest', base_axis=1, seed=-1"),
    "image_augmentation": (
        "ImageAugmentation",
        ("x, shape=None, pad=(0, 0), min_scale=1.0, max_scale=1.0, angle=0.0, aspect_ratio=1.0, "
        "distortion=0.0, flip_lr=False, flip_ud=False, brightness=0.0, brightness_each=False, "
        "contrast=1.0, contrast_center=0.0, contrast_each=False, noise=0.0, seed=-1"),
    ),
    "sigmoid_cross_entropy": ("SigmoidCrossEntropy", "x, target"),
    "binary_cross_entropy": ("BinaryCrossEntropy", "x, target"),
    "softmax_cross_entropy": ("SoftmaxCrossEntropy", "x, target, axis=None"),
    "categorical_cross_entropy": ("CategoricalCrossEntropy", "x, target, axis=None"),
    "squared_error": ("SquaredError", "x0, x1"),
    "absolute_error": ("AbsoluteError", "x0, x1"),
    "huber_loss": ("HuberLoss", "x0, x1, delta=1.0"),
    "epsilon_insensitive_loss": ("EpsilonInsensitiveLoss", "x0, x1, epsilon"),
    "kl_multinomial": ("KLMultinomial", "p, q, base_axis=1"),
    "binary_sigmoid": ("BinarySigmoid", "x"),
    "binary_tanh": ("BinaryTanh", "x"),
    "binary_connect_affine": ("BinaryConnectAffine", "x, weight, binary_weight, bias=None, base_axis=1"),
    "binary_connect_convolution": (
        "BinaryConnectConvolution",
        ("x, weight, binary_weight, bias=None, base_axis=1, pad=None, stride=None, "
        "dilation=None, group=1"),
    ),
    "binary_weight_affine": ("BinaryWeightAffine", "x, weight, binary_weight, alpha, bias=None, base_axis=1"),
    "binary_weight_convolution": (
        "BinaryWeightConvolution",
        ("x, weight, binary_weight, alpha, bias=None, base_axis=1, pad=None, stride=None, "
        "dilation=None, group=1"),
    ),
    "inq_affine": (
        "INQAffine",
        ("x, weight, indicator_fixedweights, bias=None, base_axis=1, num_bits=4, "
        "inq_iterations=(), selection_algorithm='largest_abs', seed=-1"),
    ),
    "inq_convolution": (
        "INQConvolution",
        ("x, weight, indicator_fixedweights, bias=None, base_axis=1, pad=None, stride=None, "
        "dilation=None, group=1, num_bits=4, inq_iterations=(), "
        "selection_algorithm='largest_abs', seed=-1"),
    ),
    "fixed_point_quantize": (
        "FixedPointQuantize",
        "x, sign=True, n=8, delta=0.0625, quantize=True, ste_fine_grained=True",
    ),
    "pow2_quantize": ("Pow2Quantize", "x, sign=True, with_zero=True, n=8, m=1, quantize=True, ste_fine_grained=True"),
    "fft": ("FFT", "x, signal_ndim, normalized=False"),
    "ifft": ("IFFT", "x, signal_ndim, normalized=False"),
    "top_n_error": ("TopNError", "x, target, axis=None, n=1"),
    "binary_error": ("BinaryError", "x, target"),
    "confusion_matrix": ("ConfusionMatrix", "x, target, axis=None"),
    "vat_noise": ("VATNoise", "x, w, base_axis=1, eps=1.0"),
    "unlink": ("Unlink", "x"),
    "sink": ("Sink", "*x, one_input_grad=True"),
    "nms_detection2d": ("NmsDetection2d", "x, thresh=0.5, nms=0.45, nms_per_class=True"),
    "clip_by_value": ("", "x, min, max"),
    "clip_by_norm": ("", "x, clip_norm, axis=None"),
    "reduce": ("", "x, op='sum'"),
    # Of later versions.
    "rnn": (
        "",
        "x, h, weight_l0, weight=None, bias=None, num_layers=1, nonlinearity='tanh', dropout=0., bidirectional=False, training=True",  # noqa: E501  # a table
    ),
    "lstm": (
        "",
        "x, h, c, weight_l0, weight=None, bias=None, num_layers=1, dropout=0.0, bidirectional=False, training=True",
    ),
    "gru": (
        "",
        "x, h, weight_l0, weight=None, bias=None, num_layers=1, dropout=0.0, bidirectional=False, training=True",
    ),
}  # fmt: skip  # a table, one function a line

PRESENT = [name for name in SIGNATURES if name in dir(F)]


def leaf(values: Any, need_grad: bool | None = None) -> nn.Variable:
    return nn.Variable.from_numpy_array(np.asarray(values, np.float32), need_grad=need_grad)


def _described(parameters: Any) -> list[tuple[Any, ...]]:
    return [(p.name, p.kind, p.default) for p in parameters]


# Names and signatures.


@pytest.mark.parametrize("name", PRESENT)
def test_arguments_are_in_nnablas_order(name):
    expected = eval(f"lambda {SIGNATURES[name][1]}: None")  # text of the table above
    parameters = list(inspect.signature(getattr(F, name)).parameters.values())
    count = len(inspect.signature(expected).parameters)
    assert _described(parameters[:count]) == _described(inspect.signature(expected).parameters.values())
    if "n_outputs" in inspect.signature(getattr(F, name)).parameters:
        assert [(p.name, p.default) for p in parameters[count : count + 2]] == [("n_outputs", -1), ("outputs", None)]


@pytest.mark.parametrize("name", PRESENT)
def test_a_function_has_a_name_a_docstring_and_an_op(name):
    function = getattr(F, name)
    assert function.__name__ == name
    assert function.__module__ == "atled.functions"
    assert function.__doc__
    if SIGNATURES[name][0]:
        assert function.spec.name == SIGNATURES[name][0]


def test_every_function_is_one_of_nnablas():
    assert set(dir(F)) <= set(SIGNATURES)


# Arguments.


@pytest.mark.parametrize("axis", [1, -1, [1], (1,), np.int64(1), np.array([1]), range(1, 2)])
def test_axes_come_as_a_number_or_any_sequence(axis):
    y = F.sum(leaf([[1, 2], [3, 4]]), axis)
    y.forward()
    assert_array_equal(y.d, [3, 7])


@pytest.mark.parametrize("axes", [(1, 0), [1, 0], np.array([1, 0]), range(1, -1, -1)])
def test_sequences_of_any_kind_do(axes):
    assert F.transpose(nn.Variable((2, 3)), axes).shape == (3, 2)


def test_arguments_may_come_by_position_or_name():
    x, w = nn.Variable((2, 3, 8, 8)), nn.Variable((4, 3, 3, 3))
    by_position = F.convolution(x, w, None, 1, (1, 1), (2, 2), (1, 1), 1)
    by_name = F.convolution(x=x, weight=w, stride=[2, 2], pad=[1, 1])
    assert by_position.shape == by_name.shape == (2, 4, 4, 4)
    assert by_position.parent.info.args == by_name.parent.info.args


def test_n_outputs_is_taken_and_does_nothing():
    assert F.exp(leaf([1]), n_outputs=1).shape == (1,)
    assert len(F.split(leaf([[1], [2]]), 0, 2)) == 2


def test_several_results_come_as_a_tuple_and_one_as_itself():
    assert isinstance(F.split(leaf([[1], [2]]), axis=0), tuple)
    assert isinstance(F.exp(leaf([1])), nn.Variable)


@pytest.mark.parametrize(
    ("x", "w", "base_axis", "shape"),
    [((2, 3, 4), (12, 5, 6), 1, (2, 5, 6)), ((2, 3, 4), (4, 5, 6), 2, (2, 3, 5, 6)), ((2, 3), (6, 5), 0, (5,))],
)
def test_affine_keeps_leading_axes_and_those_of_the_weight(x, w, base_axis, shape):
    assert F.affine(nn.Variable(x), nn.Variable(w), base_axis=base_axis).shape == shape


# outputs=.


def test_outputs_are_where_a_recorded_result_lives():
    x, array = leaf([1, 2], True), nn.NdArray((2,))
    y = F.mul_scalar(x, 3, outputs=[array])
    assert isinstance(y, nn.Variable)
    assert not array.data.any()
    y.forward()
    assert_array_equal(array.data, [3, 6])
    x.d = 5
    y.forward()
    assert_array_equal(array.data, [15, 15])
    y.backward()
    assert_array_equal(x.g, [3, 3])


def test_outputs_may_be_variables_whose_arrays_are_used():
    x, out = leaf([1, 2]), nn.Variable((2,))
    F.exp(x, outputs=[out]).forward()
    assert_allclose(out.d, np.exp([1, 2]), rtol=1e-6)


def test_outputs_of_a_recorded_view_receive_the_values():
    x, array = leaf([1, 2]), nn.NdArray((2, 1))
    F.reshape(x, (2, 1), outputs=[array]).forward()
    assert_array_equal(array.data, [[1], [2]])


def test_a_recorded_elementwise_result_may_live_in_its_input():
    x = leaf([1, 2])
    y = F.mul_scalar(x, 3, outputs=[x.data])
    y.forward()
    assert_array_equal(x.d, [3, 6])


def test_a_recorded_result_in_memory_still_to_be_read_is_refused():
    x = leaf([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="array of its own"):
        F.transpose(x, (1, 0), outputs=[x.data])


def test_every_statistic_may_have_an_output():
    x, parameters = leaf(np.arange(6).reshape(2, 3)), [leaf(np.full((1, 3), v)) for v in (0, 1, 0, 1)]
    arrays = [nn.NdArray((2, 3)), nn.NdArray((1, 3)), nn.NdArray((1, 3))]
    y, _, _ = F.batch_normalization(x, *parameters, output_stat=True, outputs=arrays)
    y.forward()
    assert_array_equal(arrays[1].data, [[1.5, 2.5, 3.5]])


# auto_forward.


def test_auto_forward_computes_at_the_call_and_records():
    x = leaf([2], True)
    with nn.auto_forward():
        y = x * x
        assert_array_equal(y.d, [4])
    assert y.parent.name == "Mul2"
    y.backward()
    assert_array_equal(x.g, [4])
    x.d = 3
    y.forward()
    assert_array_equal(y.d, [9])


def test_auto_forward_ends_with_its_block():
    with nn.auto_forward():
        assert nn.get_auto_forward()
        with nn.auto_forward(False):
            assert not nn.get_auto_forward()
            assert not (leaf([2]) * 2).d.any()
        assert nn.get_auto_forward()
    assert not nn.get_auto_forward()


def test_set_auto_forward_is_for_the_program_or_for_the_block_around():
    nn.set_auto_forward(True)
    try:
        assert nn.get_auto_forward()
        with nn.auto_forward(False):
            assert not nn.get_auto_forward()
        with nn.auto_forward():
            nn.set_auto_forward(False)
            assert not nn.get_auto_forward()
        assert nn.get_auto_forward()
    finally:
        nn.set_auto_forward(False)
    assert not nn.get_auto_forward()


def test_auto_forward_draws_one_mask_for_value_and_gradient():
    x = leaf(np.ones(50), True)
    with nn.auto_forward():
        y = F.dropout(x)
    y.backward()
    assert_array_equal(x.g, y.d)


# Wrong calls.


ELEMENTWISE_PAIRS = [
    "add2", "sub2", "mul2", "div2", "pow2", "maximum2", "minimum2", "equal", "not_equal", "greater", "greater_equal",
    "less", "less_equal", "logical_and", "logical_or", "logical_xor", "squared_error", "absolute_error", "huber_loss",
]  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE_PAIRS)
@pytest.mark.parametrize("shape", [(3,), (), (1, 2, 3)])
def test_elementwise_functions_ask_for_equal_ndim(name, shape):
    a, b = nn.Variable((2, 3)), nn.Variable(shape)
    for inputs in ((a, b), (b, a), (a.data, b.data)):
        with pytest.raises(ValueError, match="axes each"):
            getattr(F, name)(*inputs)


@pytest.mark.parametrize("name", ELEMENTWISE_PAIRS)
def test_elementwise_functions_spread_axes_of_size_one(name):
    assert getattr(F, name)(nn.Variable((2, 1)), nn.Variable((1, 3))).shape == (2, 3)


@pytest.mark.parametrize("value", [1, 1.5, "a", None, np.ones(2), [1, 2], object()])
@pytest.mark.parametrize("call", [F.exp, lambda x: F.add2(leaf([1, 2]), x), lambda x: F.affine(x, leaf([[1]]))])
def test_an_input_that_is_no_array_of_ours_is_refused(call, value):
    with pytest.raises(TypeError, match="What to do: pass"):
        call(value)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: F.sum(x, axis=2), ValueError, "axis"),
        (lambda x: F.sum(x, axis="rows"), TypeError, "axis='rows'"),
        (lambda x: F.sum(x, keepdims="yes"), TypeError, "keepdims='yes'"),
        (lambda x: F.sum(x, axis=1.5), TypeError, "axis=1.5"),
        (lambda x: F.sum(x, axis=True), TypeError, "axis=True"),
        (lambda x: F.relu(x, inplace=2), TypeError, "inplace=2"),
        (lambda x: F.mul_scalar(x, "2"), TypeError, "val='2'"),
        (lambda x: F.mul_scalar(x, None), TypeError, "val=None"),
        (lambda x: F.reshape(x, (4, 4)), ValueError, "has 16 elements"),
        (lambda x: F.reshape(x, "ab"), TypeError, "shape='ab'"),
        (lambda x: F.transpose(x, (0, 0)), ValueError, "axes"),
        (lambda x: F.affine(x, nn.Variable((5, 5))), ValueError, "weight"),
        (lambda x: F.softmax(x, axis=7), ValueError, "axis"),
        (lambda x: F.pad(x, (1, 1), "wrap"), ValueError, "mode='wrap'"),
        (lambda x: F.softmax_cross_entropy(x, nn.Variable((2,))), ValueError, "target"),
        (lambda x: F.batch_matmul(x, nn.Variable((5, 5))), ValueError, "BatchMatmul"),
        (lambda x: F.concatenate(x, nn.Variable((5, 5))), ValueError, "Concatenate"),
        (lambda x: F.stack(x, nn.Variable((5, 5))), ValueError, "Stack"),
        (lambda x: F.max_pooling(x, (3, 3, 3)), ValueError, "MaxPooling"),
        (lambda x: F.convolution(x, nn.Variable((2, 2))), ValueError, "Convolution"),
        (lambda x: F.broadcast(x, (3, 3)), ValueError, "Broadcast"),
        (lambda x: F.one_hot(x, (3,)), ValueError, "OneHot"),
        (lambda x: F.randint(3, 3), ValueError, "high > low"),
    ],
)
def test_a_call_that_does_not_fit_says_what_is_wrong_and_what_to_do(call, error, match):
    with pytest.raises(error, match=match) as caught:
        call(nn.Variable((2, 3)))
    assert "What to do: " in str(caught.value)
    assert caught.value.__class__ in (error, RefusedError)


@pytest.mark.parametrize("function", [F.concatenate, F.stack])
def test_a_function_of_any_number_of_arrays_needs_one(function):
    with pytest.raises((TypeError, ValueError), match="What to do: "):
        function()


def test_an_unknown_function_is_refused_with_the_nearest_name():
    with pytest.raises(AttributeError, match="did you mean 'convolution'"):
        F.convolutoin  # noqa: B018 - the look is what is tested


def test_an_unknown_argument_is_refused_by_name():
    with pytest.raises(TypeError, match="axsi"):
        F.sum(nn.Variable((2,)), axsi=0)


def test_a_refused_call_changes_nothing():
    x, out = leaf([1, 2]), nn.NdArray.from_numpy_array(np.array([7, 7], np.float32))
    for outputs in ([nn.NdArray((3,))], [out, out]):
        with pytest.raises(ValueError, match="What to do"):
            F.exp(x.data, outputs=outputs)
    with pytest.raises(ValueError, match="axes each"):
        F.add2(x.data, nn.NdArray((1, 2)), outputs=[out])
    assert_array_equal(out.data, [7, 7])
    assert_array_equal(x.d, [1, 2])


def test_outputs_that_are_no_list_are_refused():
    with pytest.raises(TypeError, match="pass a list"):
        F.exp(leaf([1]).data, outputs=nn.NdArray((1,)))


def test_parts_of_a_message_that_are_empty_are_left_out():
    assert four_parts("asked", "wrong", "", "do") == "asked: wrong\nWhat to do: do"
