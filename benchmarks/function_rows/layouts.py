"""Further calls of functions that work along axes: which axis it is, what is broadcast, how long the rows are."""

from __future__ import annotations

from typing import Any

from function_rows.inputs import FunctionCall, Input, filled, normal, uniform, whole

_MATRIX, _VOLUME, _IMAGES = (1024, 1024), (64, 128, 128), (16, 64, 32, 32)
_NARROW = (100_000, 10)  # many short rows, such as scores of few classes
_MAPS = normal(*_IMAGES)

_AXES: dict[str, tuple[tuple[int, ...], Any]] = {
    "all": (_MATRIX, None),
    "axis 0": (_MATRIX, 0),
    "axis 0 of 3": (_VOLUME, 0),
    "axis 1 of 3": (_VOLUME, 1),
    "axis 2 of 3": (_VOLUME, 2),
    "axes 0, 2, 3": (_IMAGES, (0, 2, 3)),
    "axes 2, 3": (_IMAGES, (2, 3)),
    "axes 0, 2": (_IMAGES, (0, 2)),
    "axis 1 of 4": (_IMAGES, 1),
    "short rows": (_NARROW, 1),
    "short columns": (_NARROW, 0),
}

_ROW, _COLUMN, _CHANNELS = normal(1, 1024), normal(1024, 1), normal(1, 64, 1, 1)
_POSITIVE = {
    "row": uniform(0.5, 2, 1, 1024),
    "column": uniform(0.5, 2, 1024, 1),
    "channels": uniform(0.5, 2, 1, 64, 1, 1),
}


def _reductions() -> dict[str, dict[str, FunctionCall]]:
    made: dict[str, dict[str, FunctionCall]] = {}
    for name in ("sum", "mean", "max", "min", "prod"):
        draw = (lambda *shape: uniform(0.99, 1.01, *shape)) if name == "prod" else normal
        made[name] = {label: FunctionCall((draw(*shape),), {"axis": axis}) for label, (shape, axis) in _AXES.items()}
    return made


def _of_axis(shapes: dict[str, tuple[tuple[int, ...], int]], labels: bool) -> dict[str, FunctionCall]:
    """Calls along one axis, with labels in its place where that is asked for."""
    made = {}
    for label, (shape, axis) in shapes.items():
        target = whole(shape[axis], *shape[:axis], 1, *shape[axis + 1 :])
        made[label] = FunctionCall((normal(*shape), *([target] if labels else [])), {"axis": axis})
    return made


def _broadcast(x: Input, others: dict[str, Input], images: Input) -> dict[str, FunctionCall]:
    return {
        "row": FunctionCall((x, others["row"])),
        "column": FunctionCall((x, others["column"])),
        "channels": FunctionCall((images, others["channels"])),
    }


_ONE_AXIS = {
    "axis 0": (_MATRIX, 0),
    "axis 1 of 4": (_IMAGES, 1),
    "short rows": (_NARROW, 1),
    "long rows": ((16, 65_536), 1),
}
_SQUARES = normal(*_MATRIX)
_PLAIN = {"row": _ROW, "column": _COLUMN, "channels": _CHANNELS}
_IN_POSITIVE = (uniform(0.5, 2, *_MATRIX), _POSITIVE, uniform(0.5, 2, *_IMAGES))


def _pooling(**more: Any) -> dict[str, FunctionCall]:
    return {
        "3x3": FunctionCall((_MAPS,), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
        "3x3, stride 1": FunctionCall((_MAPS,), {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1)}),
        "7x7": FunctionCall((normal(16, 256, 14, 14),), {"kernel": (7, 7)}),
        "channel last": FunctionCall((normal(16, 32, 32, 64),), {"kernel": (2, 2), "channel_last": True}),
        **{label: FunctionCall((_MAPS,), arguments) for label, arguments in more.items()},
    }


LAYOUTS: dict[str, dict[str, FunctionCall]] = {
    **_reductions(),
    **{
        name: _broadcast(_SQUARES, _PLAIN, _MAPS)
        for name in ("add2", "sub2", "mul2", "maximum2", "minimum2", "greater")
    },
    **{name: _broadcast(*_IN_POSITIVE) for name in ("div2", "pow2")},
    "softmax": _of_axis(_ONE_AXIS, labels=False),
    "softmax_cross_entropy": _of_axis(_ONE_AXIS, labels=True),
    "average_pooling": _pooling(),
    "max_pooling": _pooling(),
    "sum_pooling": _pooling(),
    "pow_scalar": {
        "2": FunctionCall((_SQUARES,), {"val": 2.0}),
        ".5": FunctionCall((_IN_POSITIVE[0],), {"val": 0.5}),
        "-1": FunctionCall((_IN_POSITIVE[0],), {"val": -1.0}),
    },
    "clip_by_value": {"numbers": FunctionCall((_SQUARES,), {"min": -0.5, "max": 0.5})},
    "clip_by_norm": {"axis 0": FunctionCall((_SQUARES,), {"clip_norm": 2.0, "axis": 0})}
    | {"axis 1": FunctionCall((_SQUARES,), {"clip_norm": 2.0, "axis": 1})},
    "broadcast": {
        "rows": FunctionCall((_ROW,), {"shape": _MATRIX}),
        "channels": FunctionCall((_CHANNELS,), {"shape": _IMAGES}),
    },
    "concatenate": {
        f"axis {axis}": FunctionCall((normal(512, 1024), normal(512, 1024)), {"axis": axis}) for axis in (0, 1)
    }
    | {"narrow": FunctionCall((normal(*_NARROW), normal(*_NARROW)), {"axis": 1})},
    "stack": {f"axis {axis}": FunctionCall((normal(512, 1024), normal(512, 1024)), {"axis": axis}) for axis in (0, 2)},
    "split": {
        "axis 0": FunctionCall((normal(4, 256, 1024),), {"axis": 0}),
        "axis 2": FunctionCall((normal(256, 1024, 4),), {"axis": 2}),
    },
    "flip": {
        "axis 0": FunctionCall((_SQUARES,), {"axes": (0,)}),
        "axis 1": FunctionCall((_SQUARES,), {"axes": (1,)}),
        "axes 2, 3": FunctionCall((_MAPS,), {"axes": (2, 3)}),
    },
    "pad": {
        "1": FunctionCall((_MAPS,), {"pad_width": (1, 1, 1, 1)}),
        "rows": FunctionCall((_SQUARES,), {"pad_width": (8, 8, 0, 0)}),
        "reflect": FunctionCall((_MAPS,), {"pad_width": (1, 1, 1, 1), "mode": "reflect"}),
    },
    "shift": {"matrix": FunctionCall((_SQUARES,), {"shifts": (3, -3)})},
    "slice": {
        "rows": FunctionCall((_SQUARES,), {"start": (128, 0), "stop": (896, 1024), "step": (1, 1)}),
        "columns": FunctionCall((_SQUARES,), {"start": (0, 128), "stop": (1024, 896), "step": (1, 1)}),
        "every other": FunctionCall((_SQUARES,), {"start": (0, 0), "stop": (1024, 1024), "step": (1, 2)}),
        "every other row": FunctionCall((_SQUARES,), {"start": (0, 0), "stop": (1024, 1024), "step": (2, 1)}),
    },
    "transpose": {
        "matrix": FunctionCall((_SQUARES,), {"axes": (1, 0)}),
        "channels first": FunctionCall((normal(16, 32, 32, 64),), {"axes": (0, 3, 1, 2)}),
        "heads": FunctionCall((normal(16, 64, 8, 128),), {"axes": (0, 2, 1, 3)}),
        "last in front": FunctionCall((normal(*_VOLUME),), {"axes": (2, 0, 1)}),
    },
    "batch_matmul": {
        "transposed a": FunctionCall((normal(16, 64, 128), normal(16, 64, 128)), {"transpose_a": True}),
        "transposed b": FunctionCall((normal(16, 128, 64), normal(16, 128, 64)), {"transpose_b": True}),
    },
    "affine": {
        "one row": FunctionCall((normal(1, 784), normal(784, 512), normal(512))),
        "few classes": FunctionCall((normal(4096, 256), normal(256, 10), normal(10))),
    },
    "convolution": {
        "1x1": FunctionCall((_MAPS, normal(64, 64, 1, 1), normal(64))),
        "stride 2": FunctionCall((_MAPS, normal(64, 64, 3, 3), normal(64)), {"pad": (1, 1), "stride": (2, 2)}),
    },
    "batch_normalization": {
        "rows": FunctionCall((_SQUARES, _ROW, uniform(0.5, 1.5, 1, 1024), filled(0, 1, 1024), filled(1, 1, 1024))),
        "fixed": FunctionCall(
            (_MAPS, _CHANNELS, uniform(0.5, 1.5, 1, 64, 1, 1), filled(0, 1, 64, 1, 1), filled(1, 1, 64, 1, 1)),
            {"batch_stat": False},
        ),
    },
    "embed": {"narrow": FunctionCall((whole(1000, 100_000), normal(1000, 10)))},
    "one_hot": {"few classes": FunctionCall((whole(10, 100_000, 1),), {"shape": (10,)})},
    "top_k_data": {"1": FunctionCall((_SQUARES,), {"k": 1}), "128": FunctionCall((_SQUARES,), {"k": 128})},
    "prelu": {"one slope": FunctionCall((_MAPS, uniform(0, 0.5)))},
    "global_average_pooling": {"7x7": FunctionCall((normal(64, 512, 7, 7),))},
    "crelu": {"axis 3": FunctionCall((_MAPS,), {"axis": 3})},
}
"""Per function and layout a call with about a million elements."""
