"""The kernels: every op by the reference of its spec, on the device's own memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atled.plugin import Call, Implementation, Prepared, four_parts, reference_run
from atled_sim.compiling import attached_names, compiles_formulas, group_run
from atled_sim.deferral import WRONG, guarded, heeds_failure, may_fail
from atled_sim.device import SimDevice, device
from atled_sim.emptiness import is_empty
from atled_sim.image_order import preferred_layout
from atled_sim.memory import SimArray
from atled_sim.omission import omitted
from atled_sim.refusal import accepts
from atled_sim.tensor_cores import rounds, with_rounded_factors


def provide(op: str) -> Implementation:
    """The implementation of any op."""
    compiles = compiles_formulas()
    return Implementation(
        op,
        "sim",
        prepare,
        accepts=accepts,
        note="reference, simulated",
        op_version=None,
        fuses=compiles,
        prepare_group=prepare_group if compiles else None,
        omits=omitted(op),
        casts=compiles,
        attaches=attached_names(op) if compiles else (),
        layout=preferred_layout(),
        integers=True,
        strides=True,
    )


def prepare(call: Call) -> Prepared:
    """Everything that needs no data; what it returns only launches."""
    compute = reference_run(call)
    if rounds(call):
        return _kernel([call], with_rounded_factors(call, compute), "factors in tf32")
    return _kernel([call], compute)


def prepare_group(calls: Sequence[Call]) -> Prepared:
    """Calls of one formula as one kernel."""
    return _kernel(calls, group_run(calls))


def _kernel(calls: Sequence[Call], compute: Callable[..., None], note: str = "") -> Prepared:
    """One kernel; compute: what it does for one or more calls, on NumPy arrays, then floats."""
    where = device(calls[0].device_id)
    if is_empty():
        return Prepared(_counting(where), queued=True, bind=lambda arrays, table, first: _counting(where))
    words = " and ".join(map(repr, calls))
    input_count = sum(len(call.reads) for call in calls)
    array_count = input_count + sum(len(call.writes) for call in calls)
    float_count = sum(call.float_count for call in calls)
    random_state = input_count - 1 if calls[0].spec.random else -1
    written = {*calls[0].mutated, *range(input_count, array_count)}  # nothing mutated is in a group
    fails, heeds = any(map(may_fail, calls)), any(map(heeds_failure, calls))
    extra = fails + (fails or heeds)

    def work(arrays: Sequence[Any], flag_and_number: Sequence[Any], floats: Sequence[float]) -> None:
        if flag_and_number:
            flag = _reach(where, flag_and_number[0], True, words)
            guarded(lambda: compute(*arrays, *floats), flag, flag_and_number[1] if fails else 0, heeds)
        else:
            compute(*arrays, *floats)

    def run(*arguments: Any) -> None:
        where.start_launch(words)
        arrays = [
            # The random state is the one array that always comes in host memory.
            array if array is None or position == random_state else _reach(where, array, position in written, words)
            for position, array in enumerate(arguments[:array_count])
        ]
        work(arrays, arguments[array_count : array_count + extra], arguments[array_count + extra :])

    def bind(arrays: Sequence[Any], table: Any, first: int) -> Callable[[], None]:
        given, flag_and_number = arrays[:array_count], arrays[array_count:]

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
            work(reached, flag_and_number, floats)

        return launch

    return Prepared(run, queued=True, bind=bind, note=note, may_fail=WRONG if fails else "", heeds_failure=heeds)


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
