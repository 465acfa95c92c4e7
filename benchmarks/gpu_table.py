"""The rows of `gpu.py`, each with its libraries and its goal. Arrays are several times as large as a GPU's L2 cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench_rows.gpu import PRODUCTS
from bench_rows.imperative import ADDITIONS
from harness.case import Goal, Row

_EAGER, _COMPILED, _NHWC = "torch-gpu", "torch-gpu-compile", "torch-gpu-nhwc"
_BANDWIDTH = {"elementwise": 0.9, "layers": 0.85}  # share of the bandwidth of a copy that is to be reached

_LOOSE, _COARSE = 1e-3, 3e-2  # rounding along a chain, and of factors in tf32, float16 or bfloat16
_MB = 1 << 20


def _row(name: str, case: str, peers: Sequence[str], goal: Goal | None, *, bound: str = "", **more: Any) -> list[Row]:
    """A row of a case on a GPU; bound: beside a row of the same against a copy of as many bytes (`moved`)."""
    settings = {key: more.pop(key) for key in ("per", "unit", "of", "tolerance") if key in more}
    arguments = {"case": f"bench_rows.{case}", **more}
    moved = arguments.get("moved", 0)
    copied = ["copy"] if moved else []
    rows = [Row(name, "bench_rows.gpu:on_gpu", ("atled-gpu", *peers), arguments, goal=goal, **settings)]
    if copied:
        share = _BANDWIDTH[bound]
        limit = Goal(1 / share, ["copy"])
        beside = {**settings, "tolerance": None}
        rows.append(
            Row(
                f"{name}: {share:.0%} of a copy",
                "bench_rows.gpu:on_gpu",
                ("atled-gpu", "copy"),
                arguments,
                goal=limit,
                **beside,
            )
        )
    return rows


def _bandwidth() -> list[Row]:
    rows: list[Row] = []
    for megabytes in (64, 256):
        size = megabytes * _MB // 4
        name, case = f"tanh(a*b+c)*sigmoid(d), {megabytes} MB each", "elementwise:fused"
        for text, backward, arrays in ((name, False, 5), (f"{name}, with backward", True, 15)):
            rows += _row(
                text,
                case,
                (_EAGER, _COMPILED),
                Goal(1.0, [_COMPILED]),
                bound="elementwise",
                moved=arrays * megabytes * _MB,
                size=size,
                backward=backward,
            )
    for axis, text in ((0, "axis 0"), (1, "axis 1"), (None, "all")):
        given = {"axis": axis, "rows": 16384, "columns": 8192}
        goal = Goal(0.9, [_EAGER])
        rows += _row(
            f"sum 16384x8192, {text}",
            "elementwise:total",
            (_EAGER,),
            goal,
            bound="layers",
            moved=512 * _MB,
            tolerance=_LOOSE,
            **given,
        )
    scores = {"count": 65536, "classes": 1000}
    images = {"images": 128}
    element = 128 * 64 * 56 * 56 * 4
    for backward, factor in ((False, 1), (True, 3)):
        text = ", with backward" if backward else ""
        # Forward reads the scores; backward reads them again and writes their gradient.
        rows += _row(
            f"softmax cross-entropy 65536x1000{text}",
            "layers:softmax_cross_entropy",
            (_EAGER, _COMPILED),
            Goal(0.9, [_EAGER]),
            bound="layers",
            moved=factor * 65536 * 1000 * 4,
            backward=backward,
            **scores,
        )
        # Statistics and values read x, and y is written; backward reads x and gy twice and writes gx.
        for relu in (False, True):
            rows += _row(
                f"batch norm{' + ReLU' if relu else ''} 128x64x56x56{text}",
                "layers:batch_normalization",
                (_EAGER, _COMPILED),
                Goal(0.9, [_EAGER]),
                bound="layers",
                moved=(8 if backward else 3) * element,
                backward=backward,
                relu=relu,
                tolerance=_LOOSE,
                **images,
            )
        for pooled in ("max", "average"):
            # A quarter of the elements come out; backward of the maximum reads x or where each maximum was.
            quarters = 5 + (5 if pooled == "average" else 6) * backward
            rows += _row(
                f"{pooled} pooling 2x2 128x64x56x56{text}",
                "layers:pooling",
                (_EAGER, _NHWC),
                Goal(0.9, [_EAGER]),
                bound="layers",
                moved=quarters * element // 4,
                kind=pooled,
                backward=backward,
                **images,
            )
    return rows


def _products() -> list[Row]:
    rows: list[Row] = []
    for precision, tolerance in (("float", 1e-4), ("tf32", _COARSE), ("half", _COARSE), ("bf16", _COARSE)):
        given: dict[str, Any] = {"precision_name": precision, "tolerance": tolerance}
        rows += _row(
            f"product 4096x4096, {precision}", "gpu:product", (_EAGER,), Goal(1.02, [_EAGER]), size=4096, **given
        )
        shapes = {
            "conv 64x64x56x56, 64 3x3": ((64, 64, 56, 56), 64, 3, 1, 1),
            "conv 64x256x14x14, 256 1x1": ((64, 256, 14, 14), 256, 1, 0, 1),
            "conv 64x3x224x224, 64 7x7": ((64, 3, 224, 224), 64, 7, 3, 1),
            "conv depthwise 64x64x56x56, 3x3": ((64, 64, 56, 56), 64, 3, 1, 64),
        }
        for name, (shape, maps, kernel, pad, groups) in shapes.items():
            for backward in (False, True):
                rows += _row(
                    f"{name}, {precision}{', with backward' if backward else ''}",
                    "layers:convolution",
                    (_EAGER, _NHWC),
                    Goal(1.02, [_EAGER, _NHWC]),
                    shape=shape,
                    maps=maps,
                    kernel=kernel,
                    pad=pad,
                    groups=groups,
                    backward=backward,
                    **given,
                )
    return rows


def _host() -> list[Row]:
    gpu = "bench_rows.gpu"
    host, device = {"seconds": 10e-6}, {"seconds": PRODUCTS * 2e-6}
    return [
        *_row("Adam, 10M parameters in 60 arrays", "solvers:adam_update", (_EAGER,), Goal(1.0, [_EAGER]), of="update"),
        Row(
            f"program of {PRODUCTS} tiny products, host",
            f"{gpu}:host_time",
            ("atled-gpu", "limit", _EAGER),
            host,
            unit="us",
            of="program",
            tolerance=None,
            goal=Goal(1.0, ["limit"]),
        ),
        *_row(
            f"program of {PRODUCTS} tiny products, device",
            "gpu:tiny_products",
            ("limit", _EAGER, _COMPILED),
            Goal(1.0, ["limit"]),
            per=PRODUCTS,
            unit="us",
            of="op",
            tolerance=None,
            **device,
        ),
        Row(
            "imperative add, 4 elements",
            f"{gpu}:launches",
            ("atled-gpu", _EAGER, "cupy + 3 us"),
            per=ADDITIONS,
            unit="us",
            of="op",
            tolerance=None,
            goal=Goal(1.5, [_EAGER]),
        ),
    ]


def _steps() -> list[Row]:
    rows: list[Row] = []
    for precision in ("float", "tf32", "half", "bf16"):
        tolerance = _LOOSE if precision == "float" else 0.1
        for name, case, arguments in _NETWORKS:
            given = {"precision_name": precision, "tolerance": tolerance, "of": "step", **arguments}
            rows += _row(
                f"training step, {name}, {precision}",
                case,
                (_EAGER, _COMPILED),
                Goal(1.0, [_EAGER, _COMPILED]),
                **given,
            )
    return rows


_NETWORKS = (
    ("MLP", "training:training_step", {"network": "mlp"}),
    ("LeNet", "training:training_step", {"network": "lenet"}),
    ("ResNet-20-like", "training:training_step", {"network": "resnet"}),
    ("LSTM", "lstm:lstm_step", {"is_sequence": True}),
)


def _memory() -> list[Row]:
    return [
        Row(
            f"peak memory, {name}",
            "bench_rows.gpu:peak_memory",
            ("atled-gpu", _EAGER),
            {"case": f"bench_rows.{case}", "precision_name": "float", **arguments},
            unit="MB",
            of="process",
            tolerance=None,
            goal=Goal(1.0, [_EAGER]),
        )
        for name, case, arguments in _NETWORKS
    ]


def _starting() -> list[Row]:
    gpu, rows = "bench_rows.gpu", []
    for text, is_warm, seconds in (("empty", False, 10.0), ("warm", True, 1.5)):
        given = {"is_warm": is_warm, "seconds": seconds}
        libraries = ("atled-gpu", "limit", _EAGER)
        settings: dict[str, Any] = {"unit": "s", "of": "process", "tolerance": None, "goal": Goal(1.0, ["limit"])}
        rows.append(Row(f"first LeNet step, {text} cache", f"{gpu}:first_step", libraries, given, **settings))
    settings["goal"] = Goal(1.0, [_EAGER])
    rows.append(Row("process and first LeNet step", f"{gpu}:first_step_of_process", ("atled-gpu", _EAGER), **settings))
    return rows


PARTS = {
    "bandwidth": _bandwidth(),
    "products": _products(),
    "host": [*_host(), *_memory(), *_starting()],
    "steps": _steps(),
}
"""The rows in parts, each of which is measured within some minutes."""
