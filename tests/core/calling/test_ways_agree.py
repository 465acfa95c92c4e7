"""The ways of a call leave the same state: `apply` the first time, then `CachedCall`, and the text of functions."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import atled as nn
import atled.random
from atled.arrays.array import NdArray
from atled.arrays.cell import UNWRITTEN, ArrayCell, Use
from atled.arrays.epoch import EPOCH
from atled.arrays.spares import all_spares, clear_spares
from atled.arrays.storage import HostStorage
from atled.calling.apply import apply
from atled.calling.cached_calls import CachedCall
from atled.calling.call_tables import forget_calls, has_fixed_floats, in_force, is_memorable
from atled.calling.function_text import FUNCTIONS
from atled.conformance.cases import samples_of
from atled.conformance.running import typed
from atled.generators.catalogue import catalogue
from atled.graph.nodes.dispatch import home_of
from atled.graph.record.value import PLAIN, Details, RecordedCall, Value
from atled.ops.samples import Sample
from atled.ops.spec import SPECS, OpSpec
from atled.variable import Variable
from atled_contexts import fallback_counts, reset_fallback_counts

# Calls of an op with state of its own are never cached, as the last test says.
CACHED = [spec for spec in catalogue() if spec.function and is_memorable(spec) and not spec.states]
CASES = [
    pytest.param(spec, kind, id=f"{spec.name}-{kind.__name__}")
    for spec in CACHED
    for kind in (NdArray, Variable)
    if spec.user_inputs or kind is Variable  # without inputs a call is recorded
]
SAMPLES = 3  # of each op: more of them check kernels, not ways

MADE_LATER = ("data", "parent")
"""The details of a value that a recorded call makes when they are asked for."""

Snapshot = dict[str, Any]


@pytest.fixture(autouse=True)
def nothing_left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is seeded here is so in this test only, and calls are cached anew."""
    monkeypatch.setattr(atled.random, "_SEEDS", atled.random._Seeds())
    forget_calls()
    yield
    forget_calls()
    reset_fallback_counts()


class Sampled:
    """The call of a sample: makes its inputs anew for each way, and calls in each way."""

    def __init__(self, spec: OpSpec, sample: Sample, kind: type[NdArray] | type[Variable]) -> None:
        self.spec = spec
        self.attributes = sample.attributes
        self.kind = kind
        self._arrays = typed(sample.draw(), "float")
        names = {item.name: item.argument for item in spec.attributes}
        self._named = {names[name]: value for name, value in sample.attributes.items()}

    def inputs(self) -> list[Any]:
        """New arrays or Variables with the values of the sample."""
        return [None if array is None else self.kind.from_numpy_array(array) for array in self._arrays]

    def by_apply(self, inputs: Sequence[Any]) -> Any:
        return apply(self.spec, inputs, self.attributes)

    def by_cached_call(self, inputs: Sequence[Any]) -> Any:
        """As the text does with what is not plain."""
        floats: Mapping[str, float] = {
            item.name: float(self.attributes.get(item.name, item.default))
            for item in self.spec.attributes
            if item.kind == "float"
        }
        if has_fixed_floats(self.spec):
            floats = self.cached().floats
        if self.kind is NdArray:
            return self.cached().on_arrays([None if x is None else x.cell for x in inputs], floats)
        return self.cached().on_values(tuple(None if x is None else x.value for x in inputs), floats)

    def by_text(self, inputs: Sequence[Any]) -> Any:
        """By the function, the first time: it calls `apply`, and the call is cached."""
        return FUNCTIONS[self.spec.name](*inputs, **self._named)

    def by_text_again(self, inputs: Sequence[Any]) -> Any:
        """By the function, which finds the call."""
        with mock.patch.dict(FUNCTIONS[self.spec.name].__globals__, _apply=_general_way):
            return self.by_text(inputs)

    def cached(self) -> CachedCall:
        """What was cached, the only one."""
        calls = in_force().arrays
        assert calls is not None
        (call,) = calls.values()
        return call


def _general_way(*arguments: Any) -> None:
    raise AssertionError("the text does not find the cached call")


@contextlib.contextmanager
def recording(kind: type[NdArray] | type[Variable]) -> Iterator[None]:
    with nn.auto_forward(kind is Variable):
        yield


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def cell_of(array: NdArray | Variable) -> ArrayCell:
    return array.cell if isinstance(array, NdArray) else array.value.cell


def of_cell(cell: ArrayCell | None) -> Snapshot | None:
    """The state of a cell but for its version, which counts the writes of the whole process."""
    if cell is None:
        return None
    state = {name: getattr(cell, name) for name in ("size", "dtype", "place", "code", "zeroed", "use", "is_data")}
    state["pending"] = cell.pending
    state["is alone"] = cell.is_alone
    if cell.storage is not None:
        state["exported"] = cell.storage.exported
        state["bytes"] = bytes_of(cell)
    return state


def bytes_of(cell: ArrayCell) -> bytes:
    """The values of the head, which stays where it is."""
    assert cell.storage is not None and cell.dtype is not None
    if isinstance(cell.storage, HostStorage):
        return cell.storage.array((cell.size,), cell.dtype).tobytes()
    values = np.empty(cell.size, cell.dtype)
    assert cell.place.array_class is not None
    cell.place.array_class.download(cell.storage.buffer, values)
    return values.tobytes()


def of_result(result: NdArray | Variable, inputs: Sequence[Any]) -> Snapshot:
    """What holds of a result in each way, with the function that is made of what was recorded."""
    state = {"type": type(result), "shape": result.shape, "cell": of_cell(cell_of(result))}
    cells = [None if x is None else cell_of(x) for x in inputs]
    state["is input"] = [number for number, cell in enumerate(cells) if cell is cell_of(result)]
    if isinstance(result, Variable):
        value = result.value
        assert value.handle is not None and value.handle() is result
        state["parent"] = of_function(value.parent, value, inputs)
        state |= {name: getattr(value.details, name) for name in Details.__slots__ if name not in MADE_LATER}
    return state


def of_function(function: RecordedCall | None, value: Value, inputs: Sequence[Any]) -> Snapshot:
    assert function is not None
    outputs = function.live_outputs()
    assert outputs[value.position] is value
    numbers = {id(x.value): number for number, x in enumerate(inputs) if x is not None}
    return {
        "spec": function.spec,
        "attributes": [(name, type(item), item) for name, item in function.attributes.items()],
        "context": function.context,
        "kind": function.kind,
        "descs": function.output_descs,
        "visible": function.visible,
        "outputs": len(outputs),
        "inputs": [None if x is None else numbers[id(x)] for x in function.inputs],
        "auxiliary": [of_cell(cell) for cell in function.auxiliary],
        "random state": of_cell(function.random_state),
    }


def of_record(result: Variable, inputs: Sequence[Any]) -> Snapshot:
    """The fields of a value that was recorded from a pattern, before anybody asks for the function."""
    value = result.value
    floats, saved, random_state = value.extra or (None, None, None)
    numbers = {id(x.value): number for number, x in enumerate(inputs) if x is not None}
    given = value.inputs
    return {
        "type": type(value),
        "pattern": value.pattern,
        "inputs": None if given is None else [None if x is None else numbers[id(x)] for x in given],
        "has extra": value.extra is not None,
        "floats": floats and [(name, type(item), item) for name, item in floats.items()],
        "saved": saved and [of_cell(cell) for cell in saved],
        "random state": of_cell(random_state),
        "is plain": value.details is PLAIN,
    }


def traced(way: Callable[[Sequence[Any]], Any], inputs: Sequence[Any]) -> tuple[tuple[Any, ...], Snapshot]:
    """The results of a call, and what it did to everything else."""
    atled.random.seed(5, set_parameter_seed=False)  # random ops without a seed of their own draw the same then
    reset_fallback_counts()
    cells = [None if x is None else cell_of(x) for x in inputs]
    versions = [cell and cell.last_write for cell in cells]
    epoch = EPOCH.value
    results = as_tuple(way(inputs))
    return results, {
        "epoch": EPOCH.value - epoch,
        "written": [cell and cell.last_write != version for cell, version in zip(cells, versions, strict=True)],
        "inputs": [of_cell(cell) for cell in cells],
        "fallbacks": {key: (count.calls, count.bytes_moved) for key, count in fallback_counts().items()},
        "next key": atled.random.random_key(-1),
    }


def of_spares() -> dict[Any, tuple[int, int]]:
    """Of the queues of a size and dtype, how many arrays or bare cells they have, and how many of them nobody else has.

    Ways may have different queues, and one may have two: which of these is listed first depends on the process.
    """
    found: dict[Any, tuple[int, int]] = {}
    for spares in all_spares():
        if spares.count:
            count, free = found.get((spares.size, spares.dtype), (0, 0))
            found[spares.size, spares.dtype] = count + spares.count, free + spares.free_count()
    return found


def spares_along(way: Callable[[Sequence[Any]], Any], inputs: Sequence[Any]) -> list[Any]:
    """The queues of spares along calls whose results are held, changed and dropped, or shown to the user."""
    clear_spares()
    found: list[Any] = []
    atled.random.seed(5, set_parameter_seed=False)
    held = way(inputs)
    found.append(of_spares())
    other = way(inputs)
    found.append(of_spares())
    given = [cell_of(x) for x in inputs if x is not None]
    for result in as_tuple(held):
        if not any(cell_of(result) is cell for cell in given):
            soil(cell_of(result))
    del other, held, result
    found.append(of_spares())
    again = way(inputs)  # in memory of the first one, where that is kept
    found.append([of_spares(), *(of_cell(cell_of(result)) for result in as_tuple(again))])
    shown = [np.asarray(result.data if isinstance(result, NdArray) else result.d) for result in as_tuple(again)]
    del again
    way(inputs), way(inputs)  # not in memory that is shown
    found.append([of_spares(), [array.tobytes() for array in shown]])
    return found


def soil(cell: ArrayCell) -> None:
    """Leave in a cell what another use of it must not find."""
    cell.use = Use.READ
    cell.zeroed = cell.is_data = True
    cell.pending = UNWRITTEN


@pytest.mark.parametrize(("spec", "kind"), CASES)
def test_all_ways_of_a_call_leave_the_same_state(backend: str, spec: OpSpec, kind: type[NdArray] | type[Variable]):
    for sample in itertools.islice(samples_of(spec), SAMPLES):
        call = Sampled(spec, sample, kind)
        with recording(kind):
            forget_calls()
            states, records = {}, {}
            # The last time from an inline cache, which has the call then if it can be there.
            for way in (call.by_apply, call.by_text, call.by_cached_call, call.by_text_again, call.by_text_again):
                inputs = call.inputs()
                results, effects = traced(way, inputs)
                name = f"{way.__name__} {len(states)}"
                if kind is Variable:
                    records[name] = [of_record(result, inputs) for result in results]
                states[name] = [effects, *(of_result(result, inputs) for result in results)]
            first, *others = states.values()
            assert others == [first] * 4, sample
            # New calls record a function; the others record from a pattern, of which it is made when asked for.
            if kind is Variable:
                new, new_too, known, *known_too = records.values()
                assert new == new_too and known_too == [known] * 2, sample
            along = [spares_along(way, call.inputs()) for way in (call.by_cached_call, call.by_text_again)]
            assert along[0] == along[1], sample


class OnDevice(Sampled):
    """The same with inputs that have a copy nowhere but on the device of the Context."""

    def inputs(self) -> list[Any]:
        given = super().inputs()
        for cell in (cell_of(x) for x in given if x is not None):
            assert cell.dtype is not None
            cell.move(home_of(nn.get_current_context()), cell.dtype)
            cell._copies = None
        return given


@pytest.mark.parametrize("made", [Sampled, OnDevice], ids=["host", "device"])
@pytest.mark.parametrize(("spec", "kind"), CASES)
def test_all_ways_of_a_call_on_a_device_do_what_a_plan_does(
    spec: OpSpec, kind: type[NdArray] | type[Variable], made: type[Sampled]
):
    pytest.importorskip("atled_sim")
    for sample in itertools.islice(samples_of(spec), SAMPLES):
        call = made(spec, sample, kind)
        with nn.context_scope(nn.get_extension_context("sim")), recording(kind):
            forget_calls()
            states = []
            for way in (by_plan(call), call.by_apply, call.by_text, call.by_cached_call, call.by_text_again):
                inputs = call.inputs()
                results, effects = traced(way, inputs)
                states.append([effects, *(of_result(result, inputs) for result in results)])
            planned, first, *others = states
            assert others == [first] * 3, sample
            assert of_values(planned) == of_values(first), sample


def of_values(state: Any) -> Any:
    """The same without what says that plans are to look at arrays."""
    if isinstance(state, dict):
        return {name: of_values(item) for name, item in state.items() if name not in ("use", "epoch")}
    return [of_values(item) for item in state] if isinstance(state, list) else state


def by_plan(call: Sampled) -> Callable[[Sequence[Any]], Any]:
    """The call as a binding of a plan runs it, which is what a trace sees."""

    def way(inputs: Sequence[Any]) -> Any:
        with nn.trace():
            return call.by_apply(inputs)

    return way


class Mixed(Sampled):
    """The same with every other input a Variable, such as the parameters that a layer gives to its function."""

    def inputs(self) -> list[Any]:
        kinds = itertools.cycle((NdArray, Variable))
        return [
            None if array is None else kind.from_numpy_array(array)
            for array, kind in zip(self._arrays, kinds, strict=False)
        ]


MIXED = [spec for spec in CACHED if len(spec.user_inputs) > 1 and not spec.variadic]


@pytest.mark.parametrize("spec", MIXED, ids=repr)
def test_calls_on_arrays_and_variables_are_those_on_arrays(backend: str, spec: OpSpec):
    for sample in itertools.islice(samples_of(spec), SAMPLES):
        arrays, call = Sampled(spec, sample, NdArray), Mixed(spec, sample, NdArray)
        forget_calls()
        arrays.by_text(arrays.inputs())
        states = []
        for way in (call.by_apply, call.by_text_again):
            inputs = call.inputs()
            results, effects = traced(way, inputs)
            exposed = [x.value.exposed for x in inputs if isinstance(x, Variable)]
            states.append([effects, exposed, *(of_result(result, inputs) for result in results)])
        assert states[0] == states[1], sample


@pytest.mark.parametrize("kind", [NdArray, Variable], ids=["arrays", "values"])
@pytest.mark.parametrize("name", ["Tanh", "Affine", "BatchNormalization", "Dropout", "MaxPooling"])
def test_all_ways_of_a_fallback_count_it(name: str, kind: type[NdArray] | type[Variable]):
    sim = pytest.importorskip("atled_sim")
    context = nn.get_extension_context("sim", fallback="quiet")
    spec = SPECS[name]
    with sim.refuse({name}), nn.context_scope(context), recording(kind):
        call = Sampled(spec, samples_of(spec)[0], kind)
        effects = [traced(way, call.inputs())[1] for way in (call.by_text, call.by_cached_call, call.by_text_again)]
    assert effects == [effects[0]] * 3
    assert [calls for calls, _ in effects[0]["fallbacks"].values()] == [1]


@pytest.mark.parametrize("spec", [spec for spec in catalogue() if spec.function and spec not in CACHED], ids=repr)
def test_what_is_left_out_here_is_never_cached(backend: str, spec: OpSpec):
    forget_calls()
    for sample in samples_of(spec):
        call = Sampled(spec, sample, NdArray)
        call.by_text(call.inputs()[: len(spec.user_inputs)])
    assert not in_force().arrays
