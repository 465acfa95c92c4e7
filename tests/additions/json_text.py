"""Parameters as JSON: by name an object with shape, values and need_grad; see `test_touched_files.py`."""

from __future__ import annotations

import json
import math

import numpy as np

from atled.arrays.array import FLOAT32
from atled.files.entry import Entry, host_values, read_bytes, reading, refusal
from atled.variable import Variable


def json_image(asked: str, params: dict[str, Variable]) -> bytes:
    """The bytes of a file with these parameters."""
    found = {
        key: {
            "shape": param.shape,
            "values": host_values(param).ravel().tolist(),
            "need_grad": bool(param.need_grad),
        }
        for key, param in params.items()
    }
    return json.dumps(found).encode()


def read_json(asked: str, path: str) -> list[Entry]:
    """Everything in a file, in its order."""
    image = read_bytes(asked, path)
    with reading(asked):
        return [
            Entry(order, key, _values(f"{asked}, key {key!r}", held), bool(held["need_grad"]))
            for order, (key, held) in enumerate(json.loads(image).items())
        ]


def _values(asked: str, held: dict[str, list[float]]) -> np.ndarray:
    shape = tuple(map(int, held["shape"]))
    if min(shape, default=0) < 0 or math.prod(shape) != len(held["values"]):
        raise refusal(asked, f"its shape is {shape}, and it holds {len(held['values'])} values")
    return np.array(held["values"], FLOAT32).reshape(shape)
