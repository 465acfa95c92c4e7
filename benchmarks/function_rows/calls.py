"""One call of every function of NNabla's, on inputs of two sizes."""

from __future__ import annotations

from dataclasses import dataclass

from function_rows.inputs import (
    FunctionCall,
    boxes,
    filled,
    normal,
    one,
    probabilities,
    random,
    truth,
    two,
    uniform,
    whole,
)

Calls = dict[str, FunctionCall]


@dataclass(frozen=True)
class Sizes:
    """Of what functions are called with."""

    rows: tuple[int, int]  # N x C features
    maps: tuple[int, int, int, int]  # (N, C, H, W) images
    product: tuple[int, int, int]  # N x I by I x O
    products: tuple[int, int, int]  # B of N x I by I x N
    steps: tuple[int, int, int, int]  # a sequence: steps, N, inputs, units
    words: int  # of an embedding, and how many
    square: int  # rows of square matrices, and how many
    boxes: tuple[int, int, int]  # N x boxes of classes


# What a layer of a small network has: about a million elements where it only moves or maps them.
LARGE = Sizes(
    (1024, 1024), (16, 64, 32, 32), (128, 784, 512), (16, 128, 64), (20, 16, 64, 128), 10_000, 64, (4, 200, 5)
)

# About a thousand elements: what counts is the call.
SMALL = Sizes((8, 128), (1, 16, 8, 8), (8, 16, 8), (4, 16, 16), (4, 2, 8, 16), 100, 8, (1, 20, 5))

_COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")


def _elementwise(sizes: Sizes) -> Calls:
    rows = sizes.rows
    x, positive, inside, truths = normal(*rows), uniform(0.5, 2, *rows), uniform(-0.9, 0.9, *rows), truth(*rows)
    bounds = (x, filled(-0.5, *rows), filled(0.5, *rows))
    names = "abs asinh atan ceil cos cosh exp floor identity round sign sin sinh binary_sigmoid binary_tanh elu"
    names += " leaky_relu logical_not relu selu sigmoid swish tanh unlink fixed_point_quantize pow2_quantize"
    pairs = "absolute_error add2 bc_add2 huber_loss maximum2 minimum2 mul2 squared_error sub2"
    scalars = "add_scalar maximum_scalar minimum_scalar mul_scalar r_sub_scalar"
    return {
        **one(*names.split(), x=x),
        **one("acos", "asin", "atanh", x=inside),
        **one("tan", x=uniform(-1.2, 1.2, *rows)),
        **one("acosh", x=uniform(1.1, 3, *rows)),
        **one("log", x=positive),
        **one(*scalars.split(), x=x, val=0.5),
        **one("pow_scalar", "r_div_scalar", "r_pow_scalar", x=positive, val=1.7),
        **one(*[f"{name}_scalar" for name in _COMPARISONS], x=x, val=0.5),
        **one(*[f"{name}_scalar" for name in _LOGICAL], x=truths, val=1),
        **two(*pairs.split(), x=x, y=x),
        **two("epsilon_insensitive_loss", x=x, y=x, epsilon=0.1),
        **two("div2", "pow2", x=positive, y=positive),
        **two(*_COMPARISONS, x=x, y=x),
        **two(*_LOGICAL, x=truths, y=truths),
        **two("binary_cross_entropy", x=uniform(0.05, 0.95, *rows), y=truths),
        **two("sigmoid_cross_entropy", x=x, y=truths),
        "clip_by_value": FunctionCall(bounds),
        "clip_grad_by_value": FunctionCall(bounds),
        "prelu": FunctionCall((normal(*sizes.maps), uniform(0, 0.5, sizes.maps[1]))),
    }


def _image_layers(sizes: Sizes) -> Calls:
    n, c, h, w = sizes.maps
    images, halves, bias = normal(n, c, h, w), normal(n, c, h // 2, w // 2), normal(c)
    weight, zeros = normal(c, c, 3, 3), filled(0, c, c, 3, 3)
    halving, same = {"kernel": (2, 2)}, {"pad": (1, 1)}
    channels = (1, c, 1, 1)
    return {
        "average_pooling": FunctionCall((images,), halving),
        "max_pooling": FunctionCall((images,), halving),
        "sum_pooling": FunctionCall((images,), halving),
        "unpooling": FunctionCall((halves,), halving),
        "global_average_pooling": FunctionCall((images,)),
        "convolution": FunctionCall((images, weight, bias), same),
        "deconvolution": FunctionCall(
            (halves, normal(c, c // 2, 4, 4), normal(c // 2)), {"pad": (1, 1), "stride": (2, 2)}
        ),
        "depthwise_convolution": FunctionCall((images, normal(c, 3, 3), bias), same),
        "depthwise_deconvolution": FunctionCall((images, normal(c, 3, 3), bias), same),
        "binary_connect_convolution": FunctionCall((images, weight, zeros, bias), same),
        "binary_weight_convolution": FunctionCall((images, weight, zeros, filled(0, c), bias), same),
        "inq_convolution": FunctionCall(
            (images, weight, whole(2, c, c, 3, 3), bias), {**same, "inq_iterations": (100_000_000,)}
        ),
        "batch_normalization": FunctionCall(
            (images, normal(*channels), uniform(0.5, 1.5, *channels), filled(0, *channels), filled(1, *channels))
        ),
        "mean_subtraction": FunctionCall((images, filled(0, c, h, w), filled(0, 1))),
        **one("celu", "crelu", x=images),
        "nms_detection2d": FunctionCall((boxes(*sizes.boxes),)),
    }


def _matrix_layers(sizes: Sizes) -> Calls:
    (count, classes), (n, i, o), (b, m, k) = sizes.rows, sizes.product, sizes.products
    x, labels = normal(count, classes), whole(classes, count, 1)
    weight, zeros, bias = normal(i, o), filled(0, i, o), normal(o)
    steps, batch, inputs, units = sizes.steps
    sequence, state, width = normal(steps, batch, inputs), normal(1, 1, batch, units), units + inputs
    return {
        "affine": FunctionCall((normal(n, i), weight, bias)),
        "binary_connect_affine": FunctionCall((normal(n, i), weight, zeros, bias)),
        "binary_weight_affine": FunctionCall((normal(n, i), weight, zeros, filled(0, o), bias)),
        "inq_affine": FunctionCall((normal(n, i), weight, whole(2, i, o), bias), {"inq_iterations": (100_000_000,)}),
        "batch_matmul": FunctionCall((normal(b, m, k), normal(b, k, m))),
        "embed": FunctionCall((whole(sizes.words, 64, sizes.words // 100), normal(sizes.words, 128))),
        "gru": FunctionCall((sequence, state, normal(1, 3, units, width), None, normal(1, 1, 4, units))),
        "lstm": FunctionCall((sequence, state, state, normal(1, 4, units, width), None, normal(1, 1, 4, units))),
        "rnn": FunctionCall((sequence, state, normal(1, units, width), None, normal(1, 1, units))),
        "softmax": FunctionCall((x,)),
        "softmax_cross_entropy": FunctionCall((x, labels)),
        "categorical_cross_entropy": FunctionCall((probabilities(count, classes), labels)),
        "kl_multinomial": FunctionCall((probabilities(count, classes), probabilities(count, classes))),
        "top_n_error": FunctionCall((x, labels), {"n": 5}),
        "binary_error": FunctionCall((uniform(0, 1, count, classes), truth(count, classes))),
        "confusion_matrix": FunctionCall((normal(count, 10), whole(10, count, 1))),
        "vat_noise": FunctionCall((normal(n, i), filled(0, n, i))),
        "top_k_data": FunctionCall((x,), {"k": 16}),
        "top_k_grad": FunctionCall((x,), {"k": 16}),
    }


def _reductions(sizes: Sizes) -> Calls:
    x = normal(*sizes.rows)
    return {
        **one("sum", "mean", "max", "min", x=x, axis=1),
        **one("prod", x=uniform(0.9, 1.1, *sizes.rows), axis=1),
        **one("reduce_sum", "reduce_mean", "reduce", x=x),
        **one("clip_by_norm", "clip_grad_by_norm", x=x, clip_norm=2.0),
    }


def _arrangements(sizes: Sizes) -> Calls:
    (count, features), (n, c, h, w), square = sizes.rows, sizes.maps, sizes.square
    x, images, matrices = normal(count, features), normal(n, c, h, w), normal(square, square, square)
    return {
        "broadcast": FunctionCall((normal(count, 1),), {"shape": sizes.rows}),
        "broadcast_to": FunctionCall((x, normal(features)), {"axis": 1}),
        "concatenate": FunctionCall((images, images), {"axis": 1}),
        "constant": FunctionCall((), {"val": 2.5, "shape": sizes.rows}),
        "flip": FunctionCall((images,), {"axes": (3,)}),
        "matrix_diag": FunctionCall((normal(square, square),)),
        "matrix_diag_part": FunctionCall((matrices,)),
        "one_hot": FunctionCall((whole(features, count, 1),), {"shape": (features,)}),
        "pad": FunctionCall((images,), {"pad_width": (2, 2, 2, 2)}),
        "reshape": FunctionCall((x,), {"shape": (count * 2, features // 2), "inplace": False}),
        "shift": FunctionCall((images,), {"shifts": (0, 0, 2, -2)}),
        "slice": FunctionCall((images,), {"start": (0, 0, 2, 2), "stop": (n, c, h - 2, w - 2), "step": (1, 1, 1, 1)}),
        "sink": FunctionCall((normal(square, square), normal(square, square))),
        "split": FunctionCall((normal(count, 4, features // 4),), {"axis": 1}),
        "stack": FunctionCall((x, x), {"axis": 1}),
        "transpose": FunctionCall((images,), {"axes": (0, 2, 3, 1)}),
        # NNabla has no implementation of these two for the CPU.
        **one("fft", "ifft", x=normal(square // 4, square, square, 2), signal_ndim=2),
    }


def _stochastic(sizes: Sizes) -> Calls:
    rows, images, (n, _, h, w) = sizes.rows, normal(*sizes.maps), sizes.maps
    changes = {"min_scale": 0.9, "max_scale": 1.1, "angle": 0.2, "flip_lr": True, "brightness": 0.1}
    return {
        **random("dropout", normal(*rows), p=0.3),
        **random("rand", shape=rows),
        **random("randn", shape=rows),
        **random("randint", low=0, high=100, shape=rows),
        **random("random_crop", images, shape=(h * 3 // 4, w * 3 // 4)),
        **random("random_flip", images, axes=(3,)),
        **random("random_shift", images, shifts=(2, 2)),
        **random("image_augmentation", uniform(0, 1, n, 3, h, w, grad=False), shape=(3, h - 4, w - 4), **changes),
    }


def _calls(sizes: Sizes) -> Calls:
    return {
        **_elementwise(sizes),
        **_image_layers(sizes),
        **_matrix_layers(sizes),
        **_reductions(sizes),
        **_arrangements(sizes),
        **_stochastic(sizes),
    }


CALLS, SMALL_CALLS = _calls(LARGE), _calls(SMALL)
