"""The rows of `bench.py`, each with its libraries and its goal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bench_rows import work
from bench_rows.chain import ELEMENTWISE_OPS, PRODUCT_OPS
from bench_rows.device import ADDITIONS as DEVICE_ADDITIONS
from bench_rows.dtypes import LAYERS
from bench_rows.imperative import ADDITIONS
from bench_rows.keras_function import COUNTS
from bench_rows.keras_scan import GIBBS_STEPS, SHORT_STEPS
from bench_rows.keyed import PROGRAMS
from bench_rows.neon_autodiff import STEPS
from bench_rows.neon_products import PRODUCTS
from bench_rows.neon_training import STEPS as TRAINING_STEPS
from bench_rows.neon_trees import TREES
from bench_rows.networks import NETWORKS
from bench_rows.planning import CALLS
from harness.case import Goal, Row, Work

_EAGER = ("torch", "torch-nhwc")
_IMAGE_LIBRARIES = ("atled", "nnabla", *_EAGER, "torch-compile", "jax")
_LIBRARIES = ("atled", "nnabla", "torch", "torch-compile", "jax")

# The least count of arrays that go through the memory: four and the result; four and their gradients; forwards two,
# backwards three, if the statistics of a batch need no pass of their own.
_FORWARD_ARRAYS, _BACKWARD_ARRAYS, _NORMALIZED_ARRAYS = 5, 8, 5

# Rounding grows along a chain, and Adam enlarges it where gradients are near 0.
_LOOSE = 1e-3


def _with_backward(
    name: str,
    case: str,
    libraries: Sequence[str],
    arguments: Mapping[str, Any],
    goals: Sequence[Goal],
    works: Sequence[Work | None] = (None, None),
    **row: Any,
) -> list[Row]:
    """The row forward and the row with backward, with their goals."""
    forms = ((name, False), (f"{name}, with backward", True))
    return [
        Row(text, case, libraries, {**arguments, "backward": backward}, goal=goal, work=needed, **row)
        for (text, backward), goal, needed in zip(forms, goals, works, strict=True)
    ]


def _keyed() -> list[Row]:
    per_program = {"per": PROGRAMS, "unit": "us", "of": "program"}
    three = "bench_rows.keyed:three_ops"
    return [
        Row(
            "program of three ops, 8x8, described anew",
            three,
            ("atled", "torch"),
            {"is_kept": False},
            goal=Goal(1.5, ["torch"]),
            **per_program,
        ),
        Row(
            "program of three ops, 8x8, description kept",
            three,
            ("atled", "torch"),
            {"is_kept": True},
            goal=Goal(0.6, ["torch"]),
            **per_program,
        ),
        Row(
            "update of one variable, 8x8",
            "bench_rows.keyed:update",
            ("atled", "jax"),
            goal=Goal(0.7, ["jax"]),
            **per_program,
        ),
    ]


def _dtypes() -> list[Row]:
    """Beside float32's time, twice which is what the vectors of double allow, and beside torch in the same dtype."""
    goals = {"double": 2.2, "half": 1.1, "bf16": 1.1}
    tolerances = {"double": 1e-5, "half": 1e-2, "bf16": 1e-1}
    return [
        Row(
            f"{name}, {config}",
            "bench_rows.dtypes:layer",
            ("atled", "atled-float", "torch"),
            {"name": name, "config": config},
            unit="us",
            tolerance=tolerances[config],
            goal=Goal(ratio, ["atled-float"]),
        )
        for config, ratio in goals.items()
        for name in LAYERS
    ]


def _integers() -> list[Row]:
    return [
        Row(
            f"{dtype} chain 1e6",
            "bench_rows.integers:chain",
            ("atled", "numpy"),
            {"dtype": dtype},
            unit="us",
            goal=Goal(0.5, ["numpy"]),
            work=Work(bytes=3e6 * itemsize),
        )
        for dtype, itemsize in (("int32", 4), ("uint8", 1))
    ]


def _views() -> list[Row]:
    libraries = ("atled", "numpy")
    goals = {"contiguous": None, "strided": Goal(0.5, ["numpy"]), "transposed": Goal(0.5, ["numpy"])}
    places = {"contiguous": "contiguous", "strided": "into out[:, ::2]", "transposed": "from a.T"}
    rows = [
        Row(f"chain of 1000x1000, {places[kind]}", "bench_rows.views:chain", libraries, {"kind": kind}, goal=goal)
        for kind, goal in goals.items()
    ]
    product = Row(
        "product 512x512 into a view",
        "bench_rows.views:product",
        libraries,
        goal=Goal(1.05, ["numpy"]),
        work=work.product(512, 512, 512),
    )
    return [*rows, product]


def _neon_trees() -> list[Row]:
    """What neon's op-trees compute."""
    trees = "bench_rows.neon_trees:"
    small = [
        Row(
            f"tree x*y + tanh(x)*z - 0.5*y, 8x8, {'kept' if is_kept else 'made anew'}",
            f"{trees}small",
            ("atled", "torch"),
            {"is_kept": is_kept},
            goal=Goal(0.6 if is_kept else 0.95, ["torch"]),
            per=TREES,
            unit="us",
            of="assignment",
        )
        for is_kept in (False, True)
    ]
    chains = [
        Row(
            f"tree x*y + tanh(x)*z - 0.5*y, {side}x{side}",
            f"{trees}chain",
            ("atled", "torch", "jax", "numpy"),
            {"side": side},
            unit="us",
            goal=Goal(0.6, ["jax"]),
            work=work.arrays(4, side, side),
        )
        for side in (256, 1024)
    ]
    normalized = [
        Row(
            f"batch-norm tree and gradients, {side}x{side}",
            f"{trees}batch_norm",
            ("atled", "torch", "numpy"),
            {"side": side},
            unit="us",
            tolerance=_LOOSE,
            goal=Goal(0.35, ["numpy"]),
        )
        for side in (256, 1024)
    ]
    return [*small, *chains, *normalized]


def _neon_products() -> list[Row]:
    """What neon's products compute."""
    numpy, products = ("atled", "numpy"), "bench_rows.neon_products:"
    kinds = {"plain": "", "transposed": " of A.T", "scaled": " with alpha and beta", "view": " into a view"}
    dots = [
        Row(
            f"compound_dot 1024^3{text}",
            f"{products}compound_dot",
            numpy,
            {"kind": kind},
            goal=Goal(1.05 if kind == "view" else 1.15, ["numpy"]),
            work=work.product(1024, 1024, 1024),
        )
        for kind, text in kinds.items()
    ]
    dots.append(
        Row(
            "compound_dot 128x64 by 64x32",
            f"{products}small_dot",
            numpy,
            goal=Goal(1.5, ["numpy"]),
            per=PRODUCTS,
            unit="us",
            of="product",
        )
    )
    uses = {1: "A.B", 2: "A.T.B", 3: "sum of A.B.T"}
    batches = [
        Row(
            f"batched_dot {text}, 32 of 128^3",
            f"{products}batched_dot",
            numpy,
            {"use": use},
            unit="us",
            goal=Goal(1.05, ["numpy"]),
            work=work.product(128, 128, 128, 32),
        )
        for use, text in uses.items()
    ]
    return [*dots, *batches]


def _neon_layers() -> list[Row]:
    """What neon's recurrent layers and poolings compute."""
    pools = [
        Row(
            f"{op} pool {size}x{size} stride 2, both ways",
            "bench_rows.neon_pooling:pooling",
            ("atled", *_EAGER),
            {"op": op, "size": size, "stride": 2},
            unit="us",
            goal=Goal(0.6, ["torch", "torch-nhwc"]) if (op, size) == ("max", 2) else None,
        )
        for op, size in (("max", 2), ("max", 3), ("average", 2))
    ]
    steps = [
        Row(
            f"recurrent steps of neon 20x128x32, {kind}",
            "bench_rows.neon_recurrent:unroll",
            ("atled", "numpy"),
            {"kind": kind},
            unit="us",
            tolerance=_LOOSE,
        )
        for kind in ("fprop", "bprop")
    ]
    two_ways = _with_backward(
        "BiRNN of neon 64 to 128, 20x32",
        "bench_rows.neon_birnn:birnn",
        ("atled", "torch"),
        {},
        (Goal(0.5, ["torch"]), Goal(0.5, ["torch"])),
        unit="us",
        tolerance=_LOOSE,
    )
    return [*steps, *two_ways, *pools]


def _ops() -> list[Row]:
    chain = "bench_rows.chain:chain"
    per_op = {"unit": "us", "of": "op", "tolerance": _LOOSE}
    static, static_backward = _with_backward(
        f"static chain of {ELEMENTWISE_OPS} ops",
        chain,
        _LIBRARIES,
        {"name": "elementwise"},
        (Goal(0.6, ["jax"]), Goal(0.35, ["jax"])),
        per=ELEMENTWISE_OPS,
        **per_op,
    )
    return [
        Row(
            "imperative add, 4 elements",
            "bench_rows.imperative:addition",
            ("atled", "nnabla", "torch", "jax", "numpy"),
            per=ADDITIONS,
            unit="us",
            of="op",
            goal=Goal(0.5, ["torch"]),
        ),
        dataclasses.replace(static, libraries=(*_LIBRARIES, "numpy")),
        static_backward,
        *_keyed(),
        *_integers(),
        *_views(),
        Row(
            "static chain of small products, with backward",
            chain,
            _LIBRARIES,
            {"name": "products", "backward": True},
            per=PRODUCT_OPS,
            goal=Goal(0.1, ["jax"]),
            **per_op,
        ),
        Row(
            f"recording and planning {CALLS} ops",
            "bench_rows.planning:planning",
            ("atled", "nnabla"),
            per=CALLS,
            unit="us",
            of="op",
        ),
        *_with_backward(
            f"dynamic graph of {ELEMENTWISE_OPS} ops",
            chain,
            ("atled", "nnabla", "torch"),
            {"name": "elementwise", "dynamic": True},
            (Goal(0.75, ["torch"]), Goal(0.5, ["torch"])),
            per=ELEMENTWISE_OPS,
            **per_op,
        ),
        *_with_backward(
            f"static graph of {ELEMENTWISE_OPS} ops, recorded anew",
            chain,
            ("atled", "nnabla", "torch"),
            {"name": "elementwise", "is_anew": True},
            (Goal(1, ["torch"]), Goal(0.5, ["torch"])),
            per=ELEMENTWISE_OPS,
            **per_op,
        ),
    ]


def _elementwise() -> list[Row]:
    rows = []
    goals = {
        "1e4": (Goal(0.4, ["numpy"]), Goal(0.3, ["jax"])),
        "1e6": (Goal(0.45, ["jax"]), Goal(0.5, ["jax"])),
        "1e7": (Goal(0.8, ["jax"]), Goal(0.5, ["jax"])),
    }
    for text, (forward, backward) in goals.items():
        name, case = f"tanh(a*b+c)*sigmoid(d) {text}", "bench_rows.elementwise:fused"
        size = int(float(text))
        rows += [
            Row(
                name,
                case,
                (*_LIBRARIES, "numpy"),
                {"size": size, "backward": False},
                goal=forward,
                work=work.arrays(_FORWARD_ARRAYS, size),
            ),
            Row(
                f"{name}, with backward",
                case,
                _LIBRARIES,
                {"size": size, "backward": True},
                goal=backward,
                work=work.arrays(_FORWARD_ARRAYS + _BACKWARD_ARRAYS, size),
            ),
        ]
    rows += _with_backward(
        "x0 ** x1 1e6",
        "bench_rows.elementwise:power",
        ("atled", "torch", "jax", "numpy"),
        {"size": 1_000_000},
        [Goal(0.95, ["numpy", "torch", "jax"])] * 2,
        # Two and the result; these, the cotangent and two gradients.
        [work.arrays(3, 1_000_000), work.arrays(6, 1_000_000)],
    )
    for which, axis, ratio in (("axis 0", 0, 0.9), ("axis 1", 1, 0.95), ("all", None, 0.9)):
        rows.append(
            Row(
                f"sum 1000x1000, {which}",
                "bench_rows.elementwise:total",
                (*_LIBRARIES, "numpy"),
                {"axis": axis},
                unit="us",
                # A sum of 1e6 values around 0, relative to itself.
                tolerance=_LOOSE,
                goal=Goal(ratio, ["torch"]),
                work=work.arrays(1, 1000, 1000),
            )
        )
    return [*rows, *_reductions()]


def _reductions() -> list[Row]:
    """Extrema and products, and rows that are moved."""
    module, libraries, goal = "bench_rows.reductions:", (*_LIBRARIES, "numpy"), Goal(0.95, ["torch"])
    rows = [
        Row(
            f"{name} 1000x1000, {which}",
            f"{module}{case}",
            libraries,
            {"axis": axis},
            unit="us",
            # A product of 1e6 numbers near 1.
            tolerance=_LOOSE,
            goal=goal,
            work=work.arrays(1, 1000, 1000),
        )
        for name, case in (("max", "maximum"), ("prod", "product"))
        for which, axis in (("axis 0", 0), ("axis 1", 1), ("all", None))
    ]
    rows += [
        Row(
            f"flip 1000x1000, axis {axis}",
            f"{module}flip",
            libraries,
            {"axis": axis},
            unit="us",
            goal=goal,
            work=work.arrays(2, 1000, 1000),
        )
        for axis in (0, 1)
    ]
    padded = "pad 16x64x32x32 by 1"
    return [*rows, Row(padded, f"{module}pad", libraries, unit="us", goal=goal, work=work.arrays(2, 16, 64, 32, 32))]


def _layers() -> list[Row]:
    convolution, pooling = "bench_rows.layers:convolution", "bench_rows.layers:pooling"
    geometries = {
        "conv 16x64x56x56, 64 3x3": ((16, 64, 56, 56), 64, 3, 1, 1, (0.45, 0.5), _EAGER),
        "conv 32x3x32x32, 64 3x3": ((32, 3, 32, 32), 64, 3, 1, 1, (0.9, 0.5), _EAGER),
        "conv 32x1x28x28, 16 5x5": ((32, 1, 28, 28), 16, 5, 0, 1, (0.8, 0.35), _EAGER),
        "conv depthwise 16x64x56x56, 3x3": ((16, 64, 56, 56), 64, 3, 1, 64, (0.9, 0.4), _EAGER),
        "conv 1x1 16x256x14x14, 256": ((16, 256, 14, 14), 256, 1, 0, 1, (1.0, 0.95), _EAGER),
    }
    rows = [
        Row(
            "softmax cross-entropy 256x1000, with backward",
            "bench_rows.layers:softmax_cross_entropy",
            (*_LIBRARIES, "numpy"),
            goal=Goal(0.7, ["torch"]),
        ),
        Row(
            "batch norm 32x64x56x56, with backward",
            "bench_rows.layers:batch_normalization",
            _IMAGE_LIBRARIES,
            goal=Goal(0.8, _EAGER),
            work=work.arrays(_NORMALIZED_ARRAYS, 32, 64, 56, 56),
        ),
    ]
    for name, (shape, maps, kernel, pad, groups, ratios, peers) in geometries.items():
        arguments = {"shape": shape, "maps": maps, "kernel": kernel, "pad": pad, "groups": groups}
        goals = [Goal(ratio, peers) for ratio in ratios]
        needed = [
            work.convolution(shape, maps, kernel, pad, groups=groups, backward=backward) for backward in (False, True)
        ]
        rows += _with_backward(name, convolution, _IMAGE_LIBRARIES, arguments, goals, needed)
    for kind, ratios in {"max": (0.4, 0.5), "average": (0.75, 0.5)}.items():
        goals = [Goal(ratio, _EAGER) for ratio in ratios]
        # The images and a quarter of them; backwards as much again.
        needed = [work.arrays(times * 1.25, 16, 64, 56, 56) for times in (1, 2)]
        rows += _with_backward(f"{kind} pooling 2x2", pooling, _IMAGE_LIBRARIES, {"kind": kind}, goals, needed)
    return rows


def _spatial() -> list[Row]:
    """Convolutions over one and three axes, with strides, dilation and a filter for each channel."""
    peers = ("torch", "jax")
    volume, signal = (2, 64, 8, 28, 28), (16, 64, 4096)
    geometries: dict[str, dict[str, Any]] = {
        "conv 2x64x8x28x28, 64 3x3x3, stride 2": {"shape": volume, "stride": 2, "pad": 1},
        "conv 2x64x8x28x28, 64 3x3x3, dilation 2": {"shape": volume, "dilation": 2, "pad": 2},
        "conv depthwise 2x64x8x28x28, 3x3x3": {"shape": volume, "groups": 64, "pad": 1},
        "conv 16x64x4096, 64 3, stride 2": {"shape": signal, "stride": 2, "pad": 1},
    }
    goals = [Goal(0.95, peers)] * 2
    return [
        row
        for name, geometry in geometries.items()
        for row in _with_backward(
            name,
            "bench_rows.layers:spatial_convolution",
            ("atled", *peers),
            {"maps": 64, "kernel": 3, **geometry},
            goals,
        )
    ]


def _neon_autodiff() -> list[Row]:
    """Gradients of neon's op-trees, with all of their Python."""
    case = "bench_rows.neon_autodiff:"
    known = [
        Row(
            f"Autodiff on a known tree, gradients as trees, {side}x{side}",
            f"{case}known_tree",
            ("atled", "torch"),
            {"side": side},
            per=STEPS,
            unit="us",
            of="tree",
            tolerance=_LOOSE,
            goal=Goal(0.5, ["torch"]),
        )
        for side in (8, 64)
    ]
    normalized = Row(
        "batch-norm tree and gradients by Autodiff, 1024x1024",
        f"{case}batch_norm",
        ("atled", "torch", "numpy"),
        {"side": 1024},
        unit="us",
        tolerance=_LOOSE,
        goal=Goal(0.35, ["numpy"]),
    )
    return [*known, normalized]


def _keras_functions() -> list[Row]:
    """Functions of the Keras-style backend with updates, and what the first calls of one take."""
    case = "bench_rows.keras_function:"
    pair = ("atled", "jax")
    rows = [
        Row("counter, a function", f"{case}counter", pair, per=COUNTS, unit="us", goal=Goal(0.7, ["jax"])),
        Row("logistic step by a function, 512x784x10", f"{case}logistic", pair, unit="us", goal=Goal(0.9, ["jax"])),
        Row(
            "RBM step by a function, CD-1, 100x784x500",
            f"{case}contrastive_divergence",
            (*pair, "torch"),
            of="step",
            tolerance=None,
            goal=Goal(0.85, ["jax", "torch"]),
        ),
    ]
    for network in ("logistic", "rbm"):
        name, arguments = f"{network} step by a function", {"network": network}
        rows += [
            Row(
                f"{name}, another batch size",
                f"{case}batch_size",
                pair,
                arguments,
                tolerance=None,
                goal=Goal(0.1, ["jax"]),
            ),
            *(
                Row(
                    f"first {name}, {'warm' if is_warm else 'empty'} cache",
                    f"{case}first_step",
                    pair,
                    {**arguments, "is_warm": is_warm},
                    unit="s",
                    of="process",
                    tolerance=None,
                    goal=Goal(0.3 if is_warm else 0.5, ["jax"]),
                )
                for is_warm in (False, True)
            ),
        ]
    return rows


def _keras_random() -> list[Row]:
    """Random numbers of the Keras-style backend."""
    return [
        Row(
            f"1e6 {kind} numbers by MRG31k3p",
            "bench_rows.keras_random:numbers",
            ("atled", "numpy"),
            {"kind": kind},
            tolerance=None,
            goal=Goal(ratio, ["numpy"]),
        )
        for kind, ratio in (("uniform", 0.6), ("normal", 0.4), ("binomial", 0.6))
    ]


def _keras_scan() -> list[Row]:
    """Loops of the Keras-style backend."""
    return [
        Row(
            "Gibbs chain of 5 steps 100x784x500, by scan",
            "bench_rows.keras_scan:gibbs",
            ("atled", "jax"),
            per=GIBBS_STEPS,
            of="step",
            tolerance=None,
            goal=Goal(0.8, ["jax"]),
        ),
        *(
            Row(
                f"scan of 50 steps 32x64, with gradients{', beside a loop' if peer == 'torch' else ''}",
                "bench_rows.keras_scan:recurrent",
                ("atled", peer),
                unit="us",
                tolerance=_LOOSE,
                goal=Goal(ratio, [peer]),
            )
            for peer, ratio in (("jax", 0.6), ("torch", 0.4))
        ),
        Row(
            "scan of 1000 steps on 4 numbers",
            "bench_rows.keras_scan:average",
            ("atled", "jax"),
            per=SHORT_STEPS,
            unit="ns",
            of="step",
            goal=Goal(0.5, ["jax"]),
        ),
    ]


def _neon_convolutions() -> list[Row]:
    case, rows = "bench_rows.neon_convolution:convolution", []
    for kind in ("fprop", "bprop", "update"):
        name = f"conv of neon 64x32x16x16, 32 3x3, {kind}"
        needed = work.convolution((64, 32, 16, 16), 32, 3, 1)
        rows.append(Row(name, case, ("atled", *_EAGER), {"kind": kind}, goal=Goal(0.8, _EAGER), work=needed))
        planes = {"kind": kind, "order": "planes"}
        rows.append(Row(f"{name}, as (N, C, H, W)", case, ("atled",), planes, work=needed))
    return rows


def _neon_training() -> list[Row]:
    """Training steps of networks of neon's layers; the goal of the small one is 0.85 where torch's products are at the
    processor's peak, which they are not everywhere."""
    case, rows = "bench_rows.neon_training:training", []
    for name, network, goal in (
        ("training step of neon, MLP 784-100-10", "mlp", 0.85),
        ("training step of neon, conv net 3x32x32", "conv", 0.6),
    ):
        libraries, arguments = ("atled", *_EAGER), {"network": network}
        rows.append(
            Row(
                name,
                case,
                libraries,
                arguments,
                of="step",
                per=TRAINING_STEPS[network],
                tolerance=_LOOSE,
                goal=Goal(goal, _EAGER),
            )
        )
    return rows


def _training() -> list[Row]:
    def step(name: str, network: str, libraries: Sequence[str], goal: Goal | None, dynamic: bool = False) -> Row:
        arguments = {"network": network, **({"dynamic": True} if dynamic else {})}
        case = "bench_rows.training:training_step"
        needed = work.training(NETWORKS[network])
        return Row(name, case, libraries, arguments, of="step", tolerance=_LOOSE, goal=goal, work=needed)

    def lstm(name: str, is_sequence: bool, goal: Goal) -> Row:
        arguments = {"is_sequence": is_sequence}
        return Row(
            name,
            "bench_rows.lstm:lstm_step",
            _LIBRARIES,
            arguments,
            of="step",
            tolerance=_LOOSE,
            goal=goal,
            work=work.recurrent(50, 32, 128, 256, backward=True),
        )

    return [
        step("training step, demo (digits)", "digits", _IMAGE_LIBRARIES, None),
        step("training step, MLP", "mlp", _LIBRARIES, Goal(0.9, ["jax"])),
        step("training step, LeNet", "lenet", _IMAGE_LIBRARIES, Goal(0.5, ["torch-compile"])),
        step("training step, ResNet-20-like", "resnet", _IMAGE_LIBRARIES, Goal(0.7, ["torch-compile"])),
        step("training step, deep CNN", "deep cnn", _IMAGE_LIBRARIES, Goal(0.6, ["torch-compile"])),
        step(
            "training step, deep CNN, dynamic",
            "deep cnn",
            ("atled", "nnabla", *_EAGER),
            Goal(0.6, _EAGER),
            dynamic=True,
        ),
        lstm("training step, LSTM, one sequence", True, Goal(0.8, ["torch"])),
        lstm("training step, LSTM, cells", False, Goal(0.45, ["torch-compile"])),
        Row(
            "Adam, 10M parameters in 60 arrays",
            "bench_rows.solvers:adam_update",
            (*_LIBRARIES, "numpy"),
            of="update",
            goal=Goal(0.9, ["torch"]),
            work=work.arrays(7, 10_000_000),  # four read, three of them written
        ),
    ]


def _loops() -> list[Row]:
    return [
        Row(
            "loop of 50 steps, 32x64, with gradients",
            "bench_rows.loops:recurrent",
            ("atled", "jax"),
            unit="us",
            tolerance=_LOOSE,
            goal=Goal(0.6, ["jax"]),
        ),
        Row(
            "loop of 1000 steps on 4 numbers",
            "bench_rows.loops:average",
            ("atled", "jax"),
            unit="us",
            goal=Goal(0.5, ["jax"]),
        ),
    ]


def _processes() -> list[Row]:
    imported = ("atled", "nnabla", "torch", "jax", "numpy")

    def reading(name: str, case: str, libraries: Sequence[str], goal: Goal | None, unit: str, **arguments: Any) -> Row:
        full = f"bench_rows.starting:{case}"
        return Row(name, full, libraries, arguments, unit=unit, of="process", tolerance=None, goal=goal)

    return [
        reading("import", "import_time", imported, Goal(1.5, ["numpy"]), "s"),
        reading("memory after import", "import_memory", imported, None, "MB"),
        reading("first MLP step, empty cache", "first_step", _LIBRARIES, Goal(7, ["nnabla"]), "s", is_warm=False),
        reading(
            "first LeNet step, empty cache",
            "first_step",
            _LIBRARIES,
            Goal(7, ["nnabla"]),
            "s",
            is_warm=False,
            network="lenet",
        ),
        reading("first MLP step, warm cache", "first_step", _LIBRARIES, Goal(1.5, ["nnabla"]), "s", is_warm=True),
        reading("peak memory, MLP", "peak_memory", _LIBRARIES, Goal(1.3, ["nnabla"]), "MB", network="mlp"),
        reading("peak memory, deep CNN", "peak_memory", _LIBRARIES, Goal(1.0, ["nnabla"]), "MB", network="deep cnn"),
    ]


def _devices() -> list[Row]:
    """What the engine costs on a device without kernels; peers: the cpu, which computes, and a time to keep below."""

    def row(name: str, case: str, goal: Goal, **more: Any) -> Row:
        return one("empty device", "atled", name, case, goal, **more)

    def one(kind: str, ours: str, name: str, case: str, goal: Goal, **more: Any) -> Row:
        libraries = (ours, "cpu", *(peer for peer in goal.peers if peer != "cpu"))
        given = {"unit": "us", "tolerance": None, "goal": goal, **more}
        return Row(f"{kind}: {name}", f"bench_rows.device:{case}", libraries, **given)

    def cuda(found: Row) -> Row:
        """The same on an empty driver of CUDA."""
        assert found.goal is not None
        name, case = found.name.removeprefix("empty device: "), found.case.removeprefix("bench_rows.device:")
        given = {"arguments": found.arguments, "per": found.per, "of": found.of}
        return one("empty CUDA driver", "cuda", name, case, found.goal, **given)

    plans = [
        row(f"bound plan, {count} arrays", "bound_plan", Goal(3, ["cpu"]), arguments={"arrays": count})
        for count in (2, 200)
    ]
    lenet, addition = {"network": "lenet", "limit_us": 20}, {"limit_us": 5 * DEVICE_ADDITIONS}
    rows = [
        row("imperative add", "addition", Goal(1, ["limit"]), arguments=addition, per=DEVICE_ADDITIONS, of="op"),
        *plans,
        row("compiled step, LeNet", "compiled_step", Goal(1, ["limit"]), arguments=lenet, of="step"),
        row("dynamic step, MLP", "dynamic_step", Goal(1.5, ["cpu"]), arguments={"layers": 8}, of="step"),
        row("Adam, 40 parameters", "adam_update", Goal(1, ["cpu"]), arguments={"arrays": 40}, of="update"),
    ]
    return [*rows, *map(cuda, rows)]


DEVICE_ROWS = _devices()
ROWS = [
    *_ops(),
    *_elementwise(),
    *_layers(),
    *_spatial(),
    *_dtypes(),
    *_neon_trees(),
    *_neon_products(),
    *_neon_layers(),
    *_neon_autodiff(),
    *_neon_convolutions(),
    *_neon_training(),
    *_keras_functions(),
    *_keras_random(),
    *_keras_scan(),
    *_training(),
    *_loops(),
    *_processes(),
    *DEVICE_ROWS,
]
