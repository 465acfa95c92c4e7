"""The calls in torch: what a user of it would write for the same result, as an array that is nobody's view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

TorchCall = Callable[..., Any]
"""(torch, *tensors, **arguments as of our function) -> tensor, or several."""


def _same(name: str, function: str | None = None) -> dict[str, TorchCall]:
    return {name: lambda torch, *tensors: getattr(torch, function or name)(*tensors)}


def _scalar(name: str, function: str) -> dict[str, TorchCall]:
    return {name: lambda torch, x, val: getattr(torch, function)(x, val)}


def _loss(name: str, function: str) -> dict[str, TorchCall]:
    return {name: lambda torch, x, y: getattr(torch.nn.functional, function)(x, y, reduction="none")}


def _activation(name: str, function: str) -> dict[str, TorchCall]:
    return {name: lambda torch, x: getattr(torch.nn.functional, function)(x)}


_COMPARISONS = {"equal": "eq", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le"}
_COMPARISONS["not_equal"] = "ne"


_SAME_NAMES = "abs acos acosh asin asinh atan atanh ceil cos cosh exp floor log round sign sin sinh tan tanh"
_SAME_NAMES += " relu sigmoid selu logical_and logical_not logical_or logical_xor"


def _by_name() -> dict[str, TorchCall]:
    made: dict[str, TorchCall] = {}
    for name in _SAME_NAMES.split():
        made |= _same(name)
    for name, function in {"add2": "add", "bc_add2": "add", "sub2": "sub", "mul2": "mul", "div2": "div"}.items():
        made |= _same(name, function)
    for name, function in {"pow2": "pow", "maximum2": "maximum", "minimum2": "minimum", "identity": "clone"}.items():
        made |= _same(name, function)
    for name, function in _COMPARISONS.items():
        made |= _same(name, function) | _scalar(f"{name}_scalar", function)
    for name, function in {"add_scalar": "add", "mul_scalar": "mul", "pow_scalar": "pow"}.items():
        made |= _scalar(name, function)
    for name in ("logical_and", "logical_or", "logical_xor"):
        made[f"{name}_scalar"] = lambda torch, x, val, name=name: getattr(torch, name)(x, torch.tensor(bool(val)))
    for name, function in {"elu": "elu", "swish": "silu"}.items():
        made |= _activation(name, function)
    for name, function in {
        "absolute_error": "l1_loss",
        "squared_error": "mse_loss",
        "binary_cross_entropy": "binary_cross_entropy",
        "sigmoid_cross_entropy": "binary_cross_entropy_with_logits",
    }.items():
        made |= _loss(name, function)
    return made


def _extremum(name: str) -> TorchCall:
    def call(torch: Any, x: Any, axis: Any = None) -> Any:
        if axis is None:
            return getattr(torch, name)(x)
        return getattr(torch, name)(x, axis)[0] if isinstance(axis, int) else getattr(torch, f"a{name}")(x, axis)

    return call


def _prod(torch: Any, x: Any, axis: Any = None) -> Any:
    if axis is None:
        return torch.prod(x)
    for one in sorted((axis,) if isinstance(axis, int) else axis, reverse=True):
        x = torch.prod(x, one)
    return x


def _clip_by_norm(torch: Any, x: Any, clip_norm: float, axis: Any = None) -> Any:
    return x * (clip_norm / torch.linalg.vector_norm(x, dim=axis, keepdim=True))


def _softmax_cross_entropy(torch: Any, x: Any, target: Any, axis: int = 1) -> Any:
    return torch.nn.functional.cross_entropy(x.movedim(axis, 1), target.select(axis, 0), reduction="none").unsqueeze(
        axis
    )


def _pooling(of: str) -> TorchCall:
    def call(torch: Any, x: Any, kernel: Any, channel_last: bool = False, **given: Any) -> Any:
        arguments = {"stride": given.get("stride"), "padding": given.get("pad", 0)}
        if of == "sum":
            arguments["divisor_override"] = 1
        function = torch.nn.functional.max_pool2d if of == "max" else torch.nn.functional.avg_pool2d
        if not channel_last:
            return function(x, kernel, **arguments)
        return function(x.permute(0, 3, 1, 2), kernel, **arguments).permute(0, 2, 3, 1).contiguous()

    return call


def _batch_normalization(torch: Any, x: Any, beta: Any, gamma: Any, mean: Any, variance: Any, batch_stat=True) -> Any:
    vectors = [vector.flatten() for vector in (mean, variance, gamma, beta)]
    return torch.nn.functional.batch_norm(x, *vectors, training=batch_stat, momentum=0.1, eps=1e-5)


def _kl_multinomial(torch: Any, p: Any, q: Any) -> Any:
    return (p * (p.log() - q.log())).sum(1, keepdim=True)


def _pad(torch: Any, x: Any, pad_width: Sequence[int], mode: str = "constant") -> Any:
    pairs = list(zip(pad_width[::2], pad_width[1::2]))  # noqa: B905  of the last axis first, as torch has them
    return torch.nn.functional.pad(x, [width for pair in pairs[::-1] for width in pair], mode)


def _transformed(name: str) -> TorchCall:
    def call(torch: Any, x: Any, signal_ndim: int) -> Any:
        found = getattr(torch.fft, name)(torch.view_as_complex(x), dim=tuple(range(-signal_ndim, 0)))
        return torch.view_as_real(found)

    return call


def _random(name: str) -> TorchCall:
    return lambda torch, shape, seed: getattr(torch, name)(shape)


def _batch_matmul(torch: Any, a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    return torch.bmm(a.transpose(1, 2) if transpose_a else a, b.transpose(1, 2) if transpose_b else b)


def _depthwise(name: str) -> TorchCall:
    def call(torch: Any, x: Any, weight: Any, bias: Any, pad: Any) -> Any:
        function = getattr(torch.nn.functional, name)
        return function(x, weight.unsqueeze(1), bias, padding=pad, groups=weight.shape[0])

    return call


def _copied(torch: Any, x: Any) -> Any:
    """A tensor of its own, also where a view lies as one would."""
    return x.clone(memory_format=torch.contiguous_format)


def _broadcast_to(torch: Any, x: Any, y: Any, axis: int) -> Any:
    return y.reshape(y.shape + (1,) * (x.ndim - axis - y.ndim)).expand(x.shape).contiguous()


TORCH_CALLS: dict[str, TorchCall] = {
    **_by_name(),
    "affine": lambda torch, x, weight, bias: torch.addmm(bias, x, weight),
    "average_pooling": _pooling("average"),
    "batch_matmul": _batch_matmul,
    "batch_normalization": _batch_normalization,
    "binary_sigmoid": lambda torch, x: (x > 0).float(),
    "binary_tanh": lambda torch, x: torch.where(x > 0, 1.0, -1.0),
    "broadcast": lambda torch, x, shape: x.expand(shape).contiguous(),
    "broadcast_to": _broadcast_to,
    "categorical_cross_entropy": lambda torch, x, target: -torch.log(x.gather(1, target)),
    "celu": lambda torch, x: torch.cat((torch.nn.functional.elu(x), torch.nn.functional.elu(-x)), 1),
    "clip_by_norm": _clip_by_norm,
    "clip_by_value": lambda torch, x, min, max: torch.clamp(x, min, max),
    "concatenate": lambda torch, *x, axis: torch.cat(x, axis),
    "confusion_matrix": lambda torch, x, target: torch.bincount(
        target[:, 0] * x.shape[1] + x.argmax(1), minlength=x.shape[1] ** 2
    ).view(x.shape[1], x.shape[1]),
    "constant": lambda torch, val, shape: torch.full(shape, val),
    "convolution": lambda torch, x, weight, bias, pad=0, stride=1: torch.conv2d(x, weight, bias, stride, pad),
    "crelu": lambda torch, x, axis=1: torch.cat((torch.relu(x), torch.relu(-x)), axis),
    "deconvolution": lambda torch, x, weight, bias, pad, stride: torch.conv_transpose2d(x, weight, bias, stride, pad),
    "depthwise_convolution": _depthwise("conv2d"),
    "depthwise_deconvolution": _depthwise("conv_transpose2d"),
    "dropout": lambda torch, x, p, seed: torch.nn.functional.dropout(x, p),
    "embed": lambda torch, x, weight: torch.nn.functional.embedding(x, weight),
    "epsilon_insensitive_loss": lambda torch, x, y, epsilon: torch.relu((x - y).abs() - epsilon),
    "fft": _transformed("fftn"),
    "fixed_point_quantize": lambda torch, x: torch.fake_quantize_per_tensor_affine(x, 0.0625, 0, -127, 127),
    "flip": lambda torch, x, axes: torch.flip(x, axes),
    "global_average_pooling": lambda torch, x: torch.nn.functional.adaptive_avg_pool2d(x, 1),
    "huber_loss": lambda torch, x, y: 2 * torch.nn.functional.huber_loss(x, y, reduction="none"),
    "ifft": _transformed("ifftn"),
    "kl_multinomial": _kl_multinomial,
    "leaky_relu": lambda torch, x: torch.nn.functional.leaky_relu(x, 0.1),
    "matrix_diag": lambda torch, x: torch.diag_embed(x),
    "matrix_diag_part": lambda torch, x: torch.diagonal(x, dim1=-2, dim2=-1).contiguous(),
    "max": _extremum("max"),
    "max_pooling": _pooling("max"),
    "maximum_scalar": lambda torch, x, val: torch.clamp(x, min=val),
    "mean": lambda torch, x, axis: torch.mean(x, axis),
    "min": _extremum("min"),
    "minimum_scalar": lambda torch, x, val: torch.clamp(x, max=val),
    "one_hot": lambda torch, x, shape: torch.nn.functional.one_hot(x[:, 0], shape[0]).float(),
    "pad": _pad,
    "prelu": lambda torch, x, slope: torch.nn.functional.prelu(x, slope),
    "prod": _prod,
    "r_div_scalar": lambda torch, x, val: val / x,
    "r_pow_scalar": lambda torch, x, val: torch.pow(val, x),
    "r_sub_scalar": lambda torch, x, val: val - x,
    "rand": _random("rand"),
    "randint": lambda torch, low, high, shape, seed: torch.randint(low, high, shape, dtype=torch.int32),
    "randn": _random("randn"),
    "reduce": lambda torch, x: torch.sum(x),
    "reduce_mean": lambda torch, x: torch.mean(x),
    "reduce_sum": lambda torch, x: torch.sum(x),
    "reshape": lambda torch, x, shape, inplace: x.reshape(shape).clone(),
    "slice": lambda torch, x, start, stop, step: _copied(torch, x[tuple(map(slice, start, stop, step))]),
    "softmax": lambda torch, x, axis=-1: torch.softmax(x, axis),
    "softmax_cross_entropy": _softmax_cross_entropy,
    "split": lambda torch, x, axis: [_copied(torch, part) for part in x.unbind(axis)],
    "stack": lambda torch, *x, axis: torch.stack(x, axis),
    "sum": lambda torch, x, axis: torch.sum(x, axis),
    "sum_pooling": _pooling("sum"),
    "top_k_data": lambda torch, x, k: torch.topk(x, k)[0],
    "top_n_error": lambda torch, x, target, n: (x.topk(n, 1)[1] != target).all(1, keepdim=True).float(),
    "transpose": lambda torch, x, axes: x.permute(axes).contiguous(),
    "unpooling": lambda torch, x, kernel: torch.nn.functional.interpolate(x, scale_factor=kernel),
}

FORWARD_ONLY = frozenset(
    ("binary_sigmoid", "binary_tanh", "broadcast_to", "ceil", "fixed_point_quantize", "floor", "round", "sign")
)
"""Functions whose gradient torch does not have: it has none of steps, and ours estimate one."""

_COMPOSED = "torch has no such function: it would be written of many"

WITHOUT_TORCH: dict[str, str] = {
    **dict.fromkeys(("binary_connect_affine", "binary_connect_convolution", "binary_error"), _COMPOSED),
    **dict.fromkeys(("binary_weight_affine", "binary_weight_convolution", "mean_subtraction"), _COMPOSED),
    **dict.fromkeys(("inq_affine", "inq_convolution", "pow2_quantize", "vat_noise"), _COMPOSED),
    **dict.fromkeys(("clip_grad_by_norm", "clip_grad_by_value", "top_k_grad"), _COMPOSED),
    **dict.fromkeys(("image_augmentation", "nms_detection2d"), "torchvision has it, which is not installed"),
    **dict.fromkeys(
        ("random_crop", "random_flip", "random_shift", "shift"), "torch draws and moves whole batches alike"
    ),
    **dict.fromkeys(("gru", "lstm", "rnn"), "torch's parameters have another form; bench.py compares layers"),
    **dict.fromkeys(("sink", "unlink"), "it computes nothing"),
}
"""Functions without an equivalent, and why."""
