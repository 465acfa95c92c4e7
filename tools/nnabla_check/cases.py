"""The cases: from the samples of the op specs, and for what these do not cover."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import atled.functions  # noqa: F401  # fills the table of op specs
from atled.ops.elementwise import ProgramOp
from atled.ops.samples import Sample
from atled.ops.spec import FUNCTIONS, OpSpec

Case = dict[str, Any]
Arrays = dict[str, np.ndarray]

SOLVERS = ("Sgd", "Momentum", "Nesterov", "Adadelta", "Adagrad", "RMSprop", "Adam", "Adamax", "AMSGRAD")
_STEPS = 20

_RECURRENT = ("rnn", "lstm", "gru")
_TWO_BY_TWO = {"num_layers": 2, "bidirectional": True}
_NAN_FIRST, _NAN_LAST = np.array([np.nan, 1.0, 2.0]), np.array([3.0, 0.5, np.nan])
# Beyond the samples: (function, input shapes or arrays, arguments, forwards).
_MORE_CALLS: list[tuple[str, list[Any], dict[str, Any], int]] = [
    ("batch_normalization", [(4, 3, 5), *[(1, 3, 1)] * 4], {}, 2),
    ("batch_normalization", [(4, 3, 2, 2), *[(1, 3, 1, 1)] * 4], {"batch_stat": False}, 1),
    ("mean_subtraction", [(4, 3), (3,), (1,)], {}, 2),
    ("sum", [(2, 3, 4)], {}, 1),
    ("prod", [(2, 3)], {"axis": 1, "keepdims": True}, 1),
    ("prod", [np.array([[2.0, 0.0, 3.0], [1.0, 2.0, 3.0]])], {"axis": 1}, 1),
    ("clip_by_value", [(2, 3), (2, 3), (2, 3)], {}, 1),
    ("clip_by_norm", [(2, 3)], {"clip_norm": 1.5, "axis": 1}, 1),
    ("clip_by_norm", [(2, 3)], {"clip_norm": 0.5}, 1),
    ("clip_by_norm", [(2, 3)], {"clip_norm": 20.0}, 1),  # of less than that norm
    *[(name, [_NAN_FIRST, _NAN_LAST], {}, 1) for name in ("maximum2", "minimum2")],
    ("sign", [_NAN_FIRST], {"alpha": 1.0}, 1),
    ("relu", [_NAN_FIRST], {}, 1),
    ("reduce", [(2, 3)], {}, 1),
    ("reduce", [(2, 3)], {"op": "mean"}, 1),
    ("clip_grad_by_value", [(4, 5), (4, 5), (4, 5)], {}, 1),
    ("image_augmentation", [(2, 3, 6, 5)], {}, 1),
    ("nms_detection2d", [(2, 9, 7)], {}, 1),
    ("top_k_grad", [(3, 5)], {"k": 2}, 1),
    ("rnn", [(3, 2, 4), (1, 1, 2, 5), (1, 5, 9)], {}, 1),
    ("rnn", [(3, 2, 4), (1, 1, 2, 5), (1, 5, 9), None, (1, 1, 5)], {"nonlinearity": "relu"}, 1),
    ("lstm", [(3, 2, 4), *[(1, 1, 2, 5)] * 2, (1, 4, 5, 9), None, (1, 1, 4, 5)], {}, 1),
    ("gru", [(3, 2, 4), (1, 1, 2, 5), (1, 3, 5, 9), None, (1, 1, 4, 5)], {}, 1),
    *[
        (name, [(3, 2, 4), *[(2, 2, 2, 5)] * states, (2, *gates, 5, 9), (1, 2, *gates, 5, 15), bias], _TWO_BY_TWO, 1)
        for name, states, gates, bias in (
            ("rnn", 1, (), (2, 2, 5)),
            ("lstm", 2, (4,), (2, 2, 4, 5)),
            ("gru", 1, (3,), (2, 2, 4, 5)),
        )
    ],
]
# Compared by their distribution: (function, input shapes, arguments).
_RANDOM_CALLS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("rand", [], {"low": -1.0, "high": 3.0, "shape": (200, 200), "seed": 5}),
    ("randint", [], {"low": -3, "high": 7, "shape": (200, 200), "seed": 5}),
    ("randn", [], {"mu": 1.0, "sigma": 2.0, "shape": (200, 200), "seed": 5}),
    ("dropout", [(200, 200)], {"p": 0.3, "seed": 5}),
    ("random_crop", [(400, 6, 6)], {"shape": (3, 3), "seed": 5}),
    ("random_flip", [(400, 2, 5)], {"axes": (2,), "seed": 5}),
    ("random_shift", [(400, 6, 6)], {"shifts": (2, 2), "seed": 5}),
    (
        "image_augmentation",
        [(400, 1, 8, 8)],
        {"flip_lr": True, "brightness": 0.5, "contrast": 1.5, "noise": 0.1, "seed": 5},
    ),
    ("image_augmentation", [(400, 1, 8, 8)], {"min_scale": 0.8, "max_scale": 1.2, "angle": 0.3, "seed": 5}),
]
_QUANTIZED = ("fixed_point_quantized", "pow2_quantized")
# (function, shape of x, positional arguments, others)
_PARAMETRIC_CALLS: list[tuple[str, tuple[int, ...], list[Any], dict[str, Any]]] = [
    ("affine", (2, 3, 4), [[5, 2]], {}),
    ("affine", (2, 6), [5], {"rng": 313}),
    ("convolution", (2, 4, 7, 6), [6, (1, 1)], {"rng": 313}),
    ("convolution", (2, 4, 7, 6), [6, (3, 2)], {"pad": (1, 0), "group": 2}),
    ("depthwise_convolution", (2, 4, 7, 6), [(3, 3)], {"multiplier": 2}),
    ("deconvolution", (2, 4, 5, 6), [6, (3, 2)], {"stride": (2, 1)}),
    ("depthwise_deconvolution", (2, 4, 5, 6), [(3, 3)], {"divisor": 2}),
    ("batch_normalization", (3, 4, 2, 2), [], {}),
    ("mean_subtraction", (3, 4), [], {}),
    ("embed", (3, 2), [7, 4], {}),
    ("prelu", (2, 3, 4), [], {"shared": False}),
    ("svd_affine", (2, 6), [5, 3], {}),
    ("svd_convolution", (2, 4, 7, 6), [5, (3, 3), 2], {}),
    ("cpd3_convolution", (2, 4, 7, 6), [5, (3, 3), 2], {}),
    ("binary_connect_affine", (2, 6), [5], {}),
    ("binary_connect_convolution", (2, 4, 7, 6), [5, (3, 3)], {}),
    ("binary_weight_affine", (2, 6), [5], {}),
    ("binary_weight_convolution", (2, 4, 7, 6), [5, (3, 3)], {}),
    ("lstm_cell", (2, 6), [5], {}),
    *[(name, (3, 2, 6), [], {"bidirectional": True, "rng": 313}) for name in _RECURRENT],
    ("inq_affine", (2, 6), [5], {}),
    ("inq_convolution", (2, 4, 7, 6), [5, (3, 3)], {}),
    *[(f"{kind}_affine", (2, 6), [5], {}) for kind in _QUANTIZED],
    *[(f"{kind}_convolution", (2, 4, 7, 6), [5, (3, 3)], {}) for kind in _QUANTIZED],
]
# Those that take an rng, which is the same for both libraries.
_DRAWN = ("NormalInitializer", "UniformInitializer", "UniformIntInitializer")
_INITIALIZER_CALLS: list[tuple[str, list[Any], tuple[int, ...] | None]] = [
    ("ConstantInitializer", [2.5], (2, 3)),
    ("NormalInitializer", [0.5], (2, 3)),
    ("UniformInitializer", [[-2, 3]], (2, 3)),
    ("UniformIntInitializer", [[-2, 30]], (2, 3)),
    *[
        (f"calc_{name}", [3, 5, (3, 2)], None)
        for name in ("normal_std_he_forward", "normal_std_he_backward", "normal_std_glorot", "uniform_lim_glorot")
    ],
]


def all_cases() -> Iterator[tuple[Case, Arrays]]:
    """Every case with its input arrays."""
    functions = list(_function_cases())
    yield from functions
    yield from _solver_cases()
    yield from _parametric_cases()
    yield from _initializer_cases()
    yield from _file_cases()
    for case, arrays in functions:
        if case["saved"]:
            yield _network_case(case), arrays


def _function_cases() -> Iterator[tuple[Case, Arrays]]:
    for name in sorted(FUNCTIONS):
        for number, sample in enumerate(FUNCTIONS[name].samples()):
            yield _from_sample(FUNCTIONS[name], number, sample)
    rng = np.random.default_rng(0)
    for number, (name, shapes, arguments, forwards) in enumerate(_MORE_CALLS):
        names = [None if shape is None else f"in{i}" for i, shape in enumerate(shapes)]
        arrays = {
            at: shape if isinstance(shape, np.ndarray) else rng.uniform(0.5, 2, shape)
            for at, shape in zip(names, shapes, strict=True)
            if at is not None
        }
        if name in _RECURRENT:  # positive numbers alone would saturate the gates
            arrays = {at: array - 1.25 for at, array in arrays.items()}
        case = _call(f"{name}-more-{number}", name, names, arguments, _flowing(name, arrays), forwards)
        yield {**case, "call": f"{name}({shapes}, {arguments})"}, arrays
    for number, (name, shapes, arguments) in enumerate(_RANDOM_CALLS):
        arrays = {f"in{i}": rng.standard_normal(shape) for i, shape in enumerate(shapes)}
        case = _call(f"{name}-random-{number}", name, list(arrays), arguments, [])
        yield {**case, "compare": "distribution", "saved": False}, arrays


def _network_case(case: Case) -> Case:
    """The call as a network with no other function, which each library runs as the other one saved it."""
    return {
        "id": f"network-{case['id']}",
        "kind": "load function",
        "function": case["function"],
        "call": case.get("call", ""),
        "compare": case["compare"],
        "of": case["id"],
        "phase": 2,
    }


def _initializer_cases() -> Iterator[tuple[Case, Arrays]]:
    for number, (name, positional, shape) in enumerate(_INITIALIZER_CALLS):
        yield (
            {
                "id": f"initializer-{number}-{name}",
                "kind": "initializer",
                "function": name,
                "positional": positional,
                "shape": shape,
                "drawn": name in _DRAWN,
            },
            {},
        )


def _from_sample(spec: OpSpec, number: int, sample: Sample) -> tuple[Case, Arrays]:
    drawn = sample.draw(100 + number)
    drawn = drawn[: len(drawn) - len(spec.states)]  # which the function makes
    arrays = {f"in{i}": array for i, array in enumerate(drawn) if array is not None}
    names = [None if array is None else f"in{i}" for i, array in enumerate(drawn)]
    while names and names[-1] is None:
        names.pop()
    known = {attribute.name: attribute for attribute in spec.attributes}
    arguments = {known[k].argument: _plain(v) for k, v in sample.attributes.items() if not known[k].hidden}
    case = _call(f"{spec.function}-{number}", spec.function, names, arguments, _flowing(spec.function, arrays))
    case["call"] = repr(sample)
    # Op specs broadcast as NumPy does; the functions of both libraries want equal counts of axes.
    case["refused"] = isinstance(spec, ProgramOp) and len({array.ndim for array in arrays.values()}) > 1
    if spec.random:
        case["compare"] = "shape"
    is_empty = any(0 in array.shape for array in arrays.values())  # NNabla takes a size of 0 for the batch's
    # With such axes NNabla reads beside the shape: whether it computes is chance.
    is_chance = spec.name == "Transpose" and min(sample.attributes["axes"], default=0) < 0
    case["saved"] = case["saved"] and not is_empty and not is_chance
    return case, arrays


def _call(
    identity: str, function: str, inputs: list[Any], arguments: dict[str, Any], grad: list[str], forwards: int = 1
) -> Case:
    spec = FUNCTIONS.get(function)
    return {
        "id": identity,
        "kind": "function",
        "function": function,
        "inputs": inputs,
        "arguments": arguments,
        "grad": grad,
        "forwards": forwards,
        "changes": list(spec.mutated) if spec else [],
        "differentiable": spec is None or spec.no_gradient != "raises",
        "compare": "values",
        "saved": function != "sink",  # which gives no values to save
    }


def _flowing(function: str, arrays: Arrays) -> list[str]:
    """The inputs whose gradients are asked for: those of the spec that have one."""
    spec = FUNCTIONS.get(function)
    return [
        name
        for name, array in arrays.items()
        if array.dtype.kind == "f" and (spec is None or spec.input_at(int(name[2:])).gradient == "flows")
    ]


def _plain(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, (tuple, list, range, np.ndarray)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _solver_cases() -> Iterator[tuple[Case, Arrays]]:
    rng = np.random.default_rng(1)
    for name in SOLVERS:
        variants = [({}, 0.0, -1), ({}, 0.01, 5), (_OTHER_ARGUMENTS[name], 0.0, -1)]
        for number, (arguments, decay, skipped) in enumerate(variants):
            yield (
                {
                    "id": f"solver-{name}-{number}",
                    "kind": "solver",
                    "function": name,
                    "arguments": arguments,
                    "weight_decay": decay,
                    "skipped": skipped,
                },
                {"w": rng.standard_normal((4, 5)), "g": rng.standard_normal((_STEPS, 4, 5))},
            )


# Far from the defaults, so that a hyper-parameter in a wrong place shows.
_OTHER_ARGUMENTS: dict[str, dict[str, Any]] = {
    "Sgd": {"lr": 0.3},
    "Momentum": {"lr": 0.1, "momentum": 0.5},
    "Nesterov": {"lr": 0.1, "momentum": 0.5},
    "Adadelta": {"lr": 0.5, "decay": 0.7, "eps": 0.01},
    "Adagrad": {"lr": 0.1, "eps": 0.1},
    "RMSprop": {"lr": 0.1, "decay": 0.6, "eps": 0.1},
    "Adam": {"alpha": 0.1, "beta1": 0.7, "beta2": 0.8, "eps": 0.1},
    "Adamax": {"alpha": 0.1, "beta1": 0.7, "beta2": 0.8, "eps": 0.1},
    "AMSGRAD": {"alpha": 0.1, "beta1": 0.7, "beta2": 0.8, "eps": 0.1, "bias_correction": True},
}


def _parametric_cases() -> Iterator[tuple[Case, Arrays]]:
    rng = np.random.default_rng(2)
    for number, (name, shape, positional, arguments) in enumerate(_PARAMETRIC_CALLS):
        arrays = {"x": rng.integers(0, 7, shape) if name == "embed" else rng.standard_normal(shape)}
        if name in (*_RECURRENT, "lstm_cell"):
            state = (shape[0], 5) if name == "lstm_cell" else (2, 2, shape[1], 5)
            states = ("h", "c") if name.startswith("lstm") else ("h",)
            arrays |= {at: rng.standard_normal(state) for at in states}
        yield (
            {
                "id": f"PF-{number}-{name}",
                "kind": "parametric",
                "function": name,
                "positional": positional,
                "arguments": arguments,
            },
            arrays,
        )


def _file_cases() -> Iterator[tuple[Case, Arrays]]:
    """Files are written first, by both libraries; then, in a second phase, each reads what the other wrote."""
    rng = np.random.default_rng(3)
    need_grad = {"z/conv/W": True, "z/conv/b": True, "z/bn/mean": False, "z/scalar": True}
    shapes = [(3, 2, 2, 2), (3,), (1, 3, 1, 1), ()]
    arrays = {key: np.asarray(rng.standard_normal(s)) for key, s in zip(need_grad, shapes, strict=True)}
    for suffix in (".h5", ".protobuf"):
        yield (
            {
                "id": f"save-{suffix[1:]}",
                "kind": "save",
                "function": f"save_parameters {suffix}",
                "suffix": suffix,
                "need_grad": need_grad,
                "scope": "z",
            },
            arrays,
        )
    x = {"x": rng.standard_normal((4, 2, 9, 8))}
    yield {"id": "save-nnp", "kind": "save network", "function": "save .nnp"}, x
    for suffix in (".h5", ".protobuf", ".nnp"):
        yield (
            {
                "id": f"load-{suffix[1:]}-parameters",
                "kind": "load",
                "function": f"load_parameters {suffix}",
                "suffix": suffix,
                "phase": 2,
            },
            {},
        )
    yield (
        {
            "id": "load-nnp-network",
            "kind": "load network",
            "function": "NnpLoader .nnp",
            "phase": 2,
            "batch_sizes": [4, 2],
        },
        x,
    )
