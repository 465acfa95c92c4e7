"""The kernels: every op by the reference of its spec, on the device's own memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.plugin import Call, Implementation, Prepared, four_parts, reference_run
from atled_sim.device import SimDevice, device
from atled_sim.emptiness import is_empty
from atled_sim.memory import SimArray
from atled_sim.refusal import accepts


def provide(op: str) -> Implementation:
    """The implementation of any op."""
    return Implementation(op, "sim", prepare, accepts=accepts, note="reference, simulated", op_version=None)


def prepare(call: Call) -> Prepared:
    """Everything that needs no data; what it returns only launches."""
    where = device(call.device_id)
    if is_empty():
        return Prepared(_counting(where), queued=True, bind=lambda arrays, table, first: _counting(where))
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

    def bind(arrays: Sequence[Any], table: Any, first: int) -> Callable[[], None]:
        given, float_count = list(arrays), len(call.spec.float_names)

        def launch() -> None:
            where.start_launch(words)
            reached = [
                None if array is None else _reach(where, array, position in written, words)
                for position, array in enumerate(given)
            ]
            floats = []
            if float_count or random_state >= 0:  # as a kernel does it: when its turn comes
                numbers = _reach(where, table, False, words)[first:]
                floats = numbers[:float_count].view(np.float64).tolist()
                if random_state >= 0:
                    reached[random_state] = numbers[float_count : float_count + 2]
            compute(*reached, *floats)

        return launch

    return Prepared(run, queued=True, bind=bind)


def _counting(where: SimDevice) -> Callable[..., None]:
    """What stands for a kernel that computes nothing."""

    def launch(*arguments: object) -> None:
        where.counts.launches += 1

    return launch


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
