"""States of solvers, such as means of gradients, as Variables and in NNabla's files, `.h5` and `.protobuf`."""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from atled.errors import RefusedError, four_parts, listing
from atled.files.entry import as_float32, host_values, read_bytes, refusal
from atled.files.hdf5 import check_h5_name, dataset_values, h5_datasets, h5_unpacked, h5py_library, written_h5
from atled.files.messages import library, new_message
from atled.files.parameters import write_beside
from atled.files.protobuf import floats, serialized, set_floats
from atled.variable import Variable
from atled_contexts.signals import handlers_wait

_SAVE_AGAIN = "save the states again with Solver.save_states, or load another file"
_STEPS = "t"


class SolverState:
    """The state of one parameter.

    pstate: moving averages and the like by name, Variables of the parameter's shape.  t: how often it was updated.
    """

    def __init__(self, pstate: Mapping[str, Variable] | None = None, t: int = 0) -> None:
        self.pstate: dict[str, Variable] = dict(pstate or {})
        self.t = t

    def __repr__(self) -> str:
        return f"<SolverState t={self.t} pstate={listing(self.pstate)}>"


States = Mapping[str, SolverState]


def check(asked: str, states: States, shapes: Mapping[str, tuple[int, ...]], names: Sequence[str]) -> None:
    """Refuse what are no states, and states of unknown parameters, of another solver, or of other shapes.

    shapes: of the solver's parameters by name.  names: of what the solver keeps for each.
    """
    if not isinstance(states, Mapping) or not all(hasattr(state, "pstate") for state in states.values()):
        raise TypeError(
            four_parts(
                f"{asked}({type(states).__name__})",
                "not a mapping from names of parameters to states",
                "",
                "pass what get_states() gave",
            )
        )
    for key, state in states.items():
        if key not in shapes:
            raise RefusedError(
                four_parts(
                    f"{asked}, {key!r}",
                    "the solver has no such parameter",
                    f"it has {listing(shapes)}",
                    "call set_parameters before",
                )
            )
        if set(state.pstate) != set(names):
            raise RefusedError(
                four_parts(
                    f"{asked}, {key!r}",
                    f"the states are {listing(state.pstate)}, the solver keeps {listing(names)}",
                    "",
                    "use states of a solver of this class",
                )
            )
        for name, variable in state.pstate.items():
            if variable.shape != shapes[key]:
                raise RefusedError(
                    four_parts(
                        f"{asked}, {key!r}",
                        f"{name} has shape {variable.shape}, the parameter has shape {shapes[key]}",
                        "",
                        "use states of a solver of these parameters",
                    )
                )


def save(asked: str, path: str | os.PathLike[str], states: States) -> None:
    """Write states to a file; its suffix says the format."""
    image, _ = _format(asked, path)
    write_beside(asked, os.fspath(path), image(asked, states))


def load(asked: str, path: str | os.PathLike[str]) -> dict[str, SolverState]:
    """The states in a file that `save` or NNabla wrote. Nothing in it is run or leads to another file."""
    _, read = _format(asked, path)
    return read(asked, os.fspath(path))


def _format(asked: str, path: str | os.PathLike[str]) -> tuple[_Image, _Read]:
    suffix = os.path.splitext(os.fspath(path))[1]
    found = _FORMATS.get(suffix.lower())
    if found is None:
        raise ValueError(
            four_parts(
                asked,
                f"unknown suffix {suffix!r}",
                f"known: {listing(_FORMATS)}",
                "use a name that ends in .h5 or .protobuf",
            )
        )
    return found


def _h5_image(asked: str, states: States) -> bytes:
    """A group per parameter with a dataset per state, and the count of updates as `t`."""
    h5py = h5py_library(asked)
    buffer = io.BytesIO()
    with written_h5(h5py, buffer) as file:
        for index, (key, state) in enumerate(states.items()):
            check_h5_name(asked, key)
            with handlers_wait():
                group = file.create_group(key)
                group.attrs["index"] = index
                for number, (name, variable) in enumerate(state.pstate.items()):
                    dataset = group.create_dataset(name, data=host_values(variable))
                    dataset.attrs["index"] = number
                group.create_dataset(_STEPS, data=np.int64(state.t))
    return buffer.getvalue()


def _read_h5(asked: str, path: str) -> dict[str, SolverState]:
    h5py = h5py_library(asked)
    unpacked = h5_unpacked(asked, path)
    values: dict[str, dict[str, np.ndarray]] = {}
    with contextlib.closing(h5_datasets(asked, path)) as datasets:
        for group, name, dataset in datasets:
            with handlers_wait():
                found = dataset_values(h5py, f"{asked}, group {group!r}, {name!r}", dataset, unpacked)
            values.setdefault(group, {})[name] = found
    # Taken out one by one: a state holds copies.
    return {group: _state(f"{asked}, group {group!r}", values.pop(group)) for group in list(values)}


def _state(where: str, values: dict[str, np.ndarray]) -> SolverState:
    steps = values.pop(_STEPS, None)
    if steps is None or steps.shape or steps.dtype.kind not in "iu" or not 0 <= steps < 2**31:
        raise refusal(where, "the count of updates is missing or is none", _SAVE_AGAIN)
    return SolverState({name: _variable(where, array) for name, array in values.items()}, int(steps))


def _variable(where: str, values: np.ndarray) -> Variable:
    return Variable.from_numpy_array(as_float32(where, values))


def _protobuf_image(asked: str, states: States) -> bytes:
    """NNabla's message Optimizer, of which the states of its solver are the only part."""
    root = new_message(asked, "Optimizer")
    for key, state in states.items():
        entry = root.solver.states.add(key=key)
        entry.value.t = state.t
        for name, variable in state.pstate.items():
            held = entry.value.state_parameter.add(key=name)
            held.value.shape.dim.extend(variable.shape)
            set_floats(asked, held.value, host_values(variable))
    return serialized(asked, root)


def _read_protobuf(asked: str, path: str) -> dict[str, SolverState]:
    root = new_message(asked, "Optimizer")
    try:
        root.ParseFromString(read_bytes(asked, path))
    except library(asked).message.DecodeError as error:
        raise refusal(asked, f"the file is damaged or not one of states ({error})", _SAVE_AGAIN) from error
    states = {}
    for entry in root.solver.states:
        values = {}
        for held in entry.value.state_parameter:
            where = f"{asked}, {entry.key!r}, {held.key!r}"
            shape = tuple(held.value.shape.dim)
            if min(shape, default=0) < 0 or math.prod(shape) != len(held.value.data):
                raise refusal(where, f"its shape is {shape}, and it holds {len(held.value.data)} values", _SAVE_AGAIN)
            values[held.key] = _variable(where, floats(held.value).reshape(shape))
        states[entry.key] = SolverState(values, entry.value.t)
    if not states:
        raise refusal(asked, "the file holds no states", _SAVE_AGAIN)
    return states


_Image = Callable[[str, States], bytes]
_Read = Callable[[str, str], dict[str, SolverState]]
_FORMATS: dict[str, tuple[_Image, _Read]] = {
    ".h5": (_h5_image, _read_h5),
    ".protobuf": (_protobuf_image, _read_protobuf),
}
