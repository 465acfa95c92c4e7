"""One call of every function of NNabla's, on inputs of the size that a small network has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Make = Callable[[np.random.Generator], np.ndarray]

# A batch of features, of images with maps, and the same maps after pooling 2x2.
ROWS = (256, 1024)
_MAPS = (16, 32, 28, 28)
_SMALL_MAPS = (16, 32, 14, 14)


@dataclass(frozen=True)
class Input:
    """One input: how its values are drawn, and whether its gradient is asked for."""

    make: Make
    grad: bool = True


@dataclass(frozen=True)
class FunctionCall:
    """A function's inputs and other arguments.

    inputs: None for an absent one.  arguments: by keyword.
    comparable: False where libraries may differ rightly: random numbers, places of equal values.
    """

    inputs: Sequence[Input | None] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    comparable: bool = True


def _normal(*shape: int, grad: bool = True) -> Input:
    return Input(lambda rng: rng.standard_normal(shape).astype(np.float32), grad)


def _uniform(low: float, high: float, *shape: int, grad: bool = True) -> Input:
    return Input(lambda rng: rng.uniform(low, high, shape).astype(np.float32), grad)


def _whole(high: int, *shape: int) -> Input:
    return Input(lambda rng: rng.integers(0, high, shape), grad=False)


def _probabilities(count: int, classes: int) -> Input:
    return Input(lambda rng: rng.dirichlet(np.full(classes, 10.0), count).astype(np.float32))


def _filled(value: float, *shape: int) -> Input:
    return Input(lambda rng: np.full(shape, value, np.float32), grad=False)


def _boxes(batch: int, count: int, classes: int) -> Input:
    """Boxes that overlap here and there: middle, size, a score, and one score for each class."""

    def make(rng: np.random.Generator) -> np.ndarray:
        places = rng.uniform(0, 1, (batch, count, 2))
        sizes = rng.uniform(0.05, 0.3, (batch, count, 2))
        scores = rng.uniform(0, 1, (batch, count, 1 + classes))
        return np.concatenate((places, sizes, scores), axis=2).astype(np.float32)

    return Input(make, grad=False)


_X = _normal(*ROWS)
_POSITIVE = _uniform(0.5, 2, *ROWS)
_INSIDE = _uniform(-0.9, 0.9, *ROWS)
_IMAGES = _normal(*_MAPS)
_TRUTH = _whole(2, *ROWS)


# A batch of sequences, and the states of a layer before their first step.
_STEPS, _STATE = _normal(20, 16, 64), _normal(1, 1, 16, 128)


def _one(*names: str, x: Input = _X, **arguments: Any) -> dict[str, FunctionCall]:
    return {name: FunctionCall((x,), arguments) for name in names}


def _two(*names: str, x: Input = _X, y: Input = _X, **arguments: Any) -> dict[str, FunctionCall]:
    return {name: FunctionCall((x, y), arguments) for name in names}


def _random(name: str, *inputs: Input, **arguments: Any) -> dict[str, FunctionCall]:
    return {name: FunctionCall(inputs, {"seed": 5, **arguments}, comparable=False)}


_COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
_LOGICAL = ("logical_and", "logical_or", "logical_xor")

_ELEMENTWISE = {
    **_one("abs", "asinh", "atan", "ceil", "cos", "cosh", "exp", "floor", "identity", "round", "sign", "sin", "sinh"),
    **_one("binary_sigmoid", "binary_tanh", "elu", "leaky_relu", "logical_not", "relu", "selu", "sigmoid", "swish"),
    **_one("tanh", "unlink", "fixed_point_quantize", "pow2_quantize"),
    **_one("acos", "asin", "atanh", x=_INSIDE),
    **_one("tan", x=_uniform(-1.2, 1.2, *ROWS)),
    **_one("acosh", x=_uniform(1.1, 3, *ROWS)),
    **_one("log", x=_POSITIVE),
    **_one("add_scalar", "maximum_scalar", "minimum_scalar", "mul_scalar", "r_sub_scalar", val=0.5),
    **_one("pow_scalar", x=_POSITIVE, val=1.7),
    **_one("r_div_scalar", "r_pow_scalar", x=_POSITIVE, val=1.7),
    **_one(*[f"{name}_scalar" for name in _COMPARISONS], val=0.5),
    **_one(*[f"{name}_scalar" for name in _LOGICAL], x=_TRUTH, val=1),
    **_two("absolute_error", "add2", "bc_add2", "huber_loss", "maximum2", "minimum2", "mul2", "squared_error", "sub2"),
    **_two("epsilon_insensitive_loss", epsilon=0.1),
    **_two("div2", "pow2", x=_POSITIVE, y=_POSITIVE),
    **_two(*_COMPARISONS),
    **_two(*_LOGICAL, x=_TRUTH, y=_TRUTH),
    **_two("binary_cross_entropy", x=_uniform(0.05, 0.95, *ROWS), y=_TRUTH),
    **_two("sigmoid_cross_entropy", y=_TRUTH),
    "clip_by_value": FunctionCall((_X, _filled(-0.5, *ROWS), _filled(0.5, *ROWS))),
    "clip_grad_by_value": FunctionCall((_X, _filled(-0.5, *ROWS), _filled(0.5, *ROWS))),
    "prelu": FunctionCall((_IMAGES, _uniform(0, 0.5, _MAPS[1]))),
}

_IMAGE_LAYERS = {
    "average_pooling": FunctionCall((_IMAGES,), {"kernel": (2, 2)}),
    "max_pooling": FunctionCall((_IMAGES,), {"kernel": (2, 2)}),
    "sum_pooling": FunctionCall((_IMAGES,), {"kernel": (2, 2)}),
    "unpooling": FunctionCall((_normal(*_SMALL_MAPS),), {"kernel": (2, 2)}),
    "global_average_pooling": FunctionCall((_IMAGES,)),
    "convolution": FunctionCall((_IMAGES, _normal(32, 32, 3, 3), _normal(32)), {"pad": (1, 1)}),
    "deconvolution": FunctionCall(
        (_normal(*_SMALL_MAPS), _normal(32, 16, 4, 4), _normal(16)), {"pad": (1, 1), "stride": (2, 2)}
    ),
    "depthwise_convolution": FunctionCall((_IMAGES, _normal(32, 3, 3), _normal(32)), {"pad": (1, 1)}),
    "depthwise_deconvolution": FunctionCall((_IMAGES, _normal(32, 3, 3), _normal(32)), {"pad": (1, 1)}),
    "binary_connect_convolution": FunctionCall(
        (_IMAGES, _normal(32, 32, 3, 3), _filled(0, 32, 32, 3, 3), _normal(32)), {"pad": (1, 1)}
    ),
    "binary_weight_convolution": FunctionCall(
        (_IMAGES, _normal(32, 32, 3, 3), _filled(0, 32, 32, 3, 3), _filled(0, 32), _normal(32)), {"pad": (1, 1)}
    ),
    "inq_convolution": FunctionCall(
        (_IMAGES, _normal(32, 32, 3, 3), _whole(2, 32, 32, 3, 3), _normal(32)),
        {"pad": (1, 1), "inq_iterations": (100_000_000,)},
    ),
    "batch_normalization": FunctionCall(
        (
            _IMAGES,
            _normal(1, 32, 1, 1),
            _uniform(0.5, 1.5, 1, 32, 1, 1),
            _filled(0, 1, 32, 1, 1),
            _filled(1, 1, 32, 1, 1),
        )
    ),
    "mean_subtraction": FunctionCall((_IMAGES, _filled(0, *_MAPS[1:]), _filled(0, 1))),
    **_one("celu", "crelu", x=_IMAGES),
    "nms_detection2d": FunctionCall((_boxes(4, 200, 5),)),
}

_MATRIX_LAYERS = {
    "affine": FunctionCall((_normal(128, 784), _normal(784, 512), _normal(512))),
    "binary_connect_affine": FunctionCall((_normal(128, 784), _normal(784, 512), _filled(0, 784, 512), _normal(512))),
    "binary_weight_affine": FunctionCall(
        (_normal(128, 784), _normal(784, 512), _filled(0, 784, 512), _filled(0, 512), _normal(512))
    ),
    "inq_affine": FunctionCall(
        (_normal(128, 784), _normal(784, 512), _whole(2, 784, 512), _normal(512)), {"inq_iterations": (100_000_000,)}
    ),
    "batch_matmul": FunctionCall((_normal(16, 128, 64), _normal(16, 64, 128))),
    "embed": FunctionCall((_whole(10_000, 64, 32), _normal(10_000, 128))),
    "gru": FunctionCall((_STEPS, _STATE, _normal(1, 3, 128, 192), None, _normal(1, 1, 4, 128))),
    "lstm": FunctionCall((_STEPS, _STATE, _STATE, _normal(1, 4, 128, 192), None, _normal(1, 1, 4, 128))),
    "rnn": FunctionCall((_STEPS, _STATE, _normal(1, 128, 192), None, _normal(1, 1, 128))),
    "softmax": FunctionCall((_X,)),
    "softmax_cross_entropy": FunctionCall((_X, _whole(ROWS[1], ROWS[0], 1))),
    "categorical_cross_entropy": FunctionCall((_probabilities(*ROWS), _whole(ROWS[1], ROWS[0], 1))),
    "kl_multinomial": FunctionCall((_probabilities(*ROWS), _probabilities(*ROWS))),
    "top_n_error": FunctionCall((_X, _whole(ROWS[1], ROWS[0], 1)), {"n": 5}),
    "binary_error": FunctionCall((_uniform(0, 1, *ROWS), _TRUTH)),
    "confusion_matrix": FunctionCall((_normal(1024, 10), _whole(10, 1024, 1))),
    "vat_noise": FunctionCall((_normal(64, 784), _filled(0, 64, 784))),
    "top_k_data": FunctionCall((_X,), {"k": 16}),
    "top_k_grad": FunctionCall((_X,), {"k": 16}),
}

_REDUCTIONS = {
    **_one("sum", "mean", "max", "min", axis=1),
    **_one("prod", x=_uniform(0.9, 1.1, *ROWS), axis=1),
    **_one("reduce_sum", "reduce_mean", "reduce"),
    **_one("clip_by_norm", "clip_grad_by_norm", clip_norm=2.0),
}

_ARRANGEMENTS = {
    "broadcast": FunctionCall((_normal(ROWS[0], 1),), {"shape": ROWS}),
    "broadcast_to": FunctionCall((_X, _normal(ROWS[1])), {"axis": 1}),
    "concatenate": FunctionCall((_IMAGES, _normal(*_MAPS)), {"axis": 1}),
    "constant": FunctionCall((), {"val": 2.5, "shape": ROWS}),
    "flip": FunctionCall((_IMAGES,), {"axes": (3,)}),
    "matrix_diag": FunctionCall((_normal(64, 64),)),
    "matrix_diag_part": FunctionCall((_normal(64, 64, 64),)),
    "one_hot": FunctionCall((_whole(1000, 256, 1),), {"shape": (1000,)}),
    "pad": FunctionCall((_IMAGES,), {"pad_width": (2, 2, 2, 2)}),
    "reshape": FunctionCall((_X,), {"shape": (512, 512), "inplace": False}),
    "shift": FunctionCall((_IMAGES,), {"shifts": (0, 0, 2, -2)}),
    "slice": FunctionCall((_IMAGES,), {"start": (0, 0, 2, 2), "stop": (16, 32, 26, 26), "step": (1, 1, 1, 1)}),
    "sink": FunctionCall((_normal(64, 64), _normal(64, 64))),
    "split": FunctionCall((_normal(256, 4, 256),), {"axis": 1}),
    "stack": FunctionCall((_X, _normal(*ROWS)), {"axis": 1}),
    "transpose": FunctionCall((_IMAGES,), {"axes": (0, 2, 3, 1)}),
    # NNabla has no implementation of these two for the CPU.
    **_one("fft", "ifft", x=_normal(16, 64, 64, 2), signal_ndim=2),
}

_STOCHASTIC = {
    **_random("dropout", _X, p=0.3),
    **_random("rand", shape=ROWS),
    **_random("randn", shape=ROWS),
    **_random("randint", low=0, high=100, shape=ROWS),
    **_random("random_crop", _IMAGES, shape=(24, 24)),
    **_random("random_flip", _IMAGES, axes=(3,)),
    **_random("random_shift", _IMAGES, shifts=(2, 2)),
    **_random(
        "image_augmentation",
        _uniform(0, 1, 16, 3, 32, 32, grad=False),
        shape=(3, 28, 28),
        min_scale=0.9,
        max_scale=1.1,
        angle=0.2,
        flip_lr=True,
        brightness=0.1,
    ),
}

CALLS: dict[str, FunctionCall] = {
    **_ELEMENTWISE,
    **_IMAGE_LAYERS,
    **_MATRIX_LAYERS,
    **_REDUCTIONS,
    **_ARRANGEMENTS,
    **_STOCHASTIC,
}
