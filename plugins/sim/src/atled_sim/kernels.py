"""The kernels: every op by the reference of its spec, on the device's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.plugin import Call, Implementation, Prepared, four_parts, reference_run
from atled_sim.device import SimDevice, device
from atled_sim.memory import SimArray
from atled_sim.refusal import accepts


def provide(op: str) -> Implementation:
    """The implementation of any op."""
    return Implementation(op, "sim", prepare, accepts=accepts, note="reference, simulated", op_version=None)


def prepare(call: Call) -> Prepared:
    """Everything that needs no data; what it returns only launches."""
    where = device(call.device_id)
    compute = reference_run(call)
    words = repr(call)
    input_count = len(call.inputs)
    array_count = input_count + len(call.outputs)
    random_state = input_count - 1 if call.spec.random else -1
    written = {*call.spec.mutated, *range(input_count, array_count)}

    def run(*arguments: Any) -> None:
        where.start_launch(words)
        arrays = [
            # The random state is the one array that always comes in host memory.
            array if array is None or position == random_state else _reach(where, array, position in written, words)
            for position, array in enumerate(arguments[:array_count])
        ]
        compute(*arrays, *arguments[array_count:])

    return Prepared(run)


def _reach(where: SimDevice, array: object, writable: bool, words: str) -> np.ndarray:
    """The values of an argument on the device; read-only ones make a reference fail that writes what it must not."""
    if not isinstance(array, SimArray):
        raise TypeError(
            four_parts(
                f"{words} on {where}",
                f"an argument is a {type(array).__name__}, which a device cannot reach",
                "",
                "upload it to a SimArray first",
            )
        )
    values = where.reach(array)
    values.flags.writeable = writable
    return values
