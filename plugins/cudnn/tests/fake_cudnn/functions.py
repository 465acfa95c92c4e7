"""The functions of the stand-in's library, called through C types as those of libcudnn.so.9 are."""

from __future__ import annotations

import ctypes
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np

from atled_cuda_emulator.queues import Work
from atled_cuda_emulator.stand_in.world import queue, thread, world
from fake_cudnn import computing, engines
from fake_cudnn import rules as r
from fake_cudnn.descriptors import Descriptor, Refused, refuse_unless

_C_TYPES = {
    r.HANDLE: c_void_p,
    r.BOOLEAN: ctypes.c_bool,
    r.INT64: c_int64,
    r.FLOAT: ctypes.c_float,
    r.DOUBLE: ctypes.c_double,
    r.VOID_PTR: c_void_p,
    r.DESCRIPTOR: c_void_p,
    r.INT32: ctypes.c_int32,
    r.CHAR: ctypes.c_char,
}
_handles = itertools.count(0x6300_0000_0000, 64)


class _Handle:
    def __init__(self, device: int) -> None:
        self.device = device
        self.stream = 0


class FakeCudnn:
    """libcudnn.so.9 of a version, for the devices of the emulator.

    handles: those that live, by address.  executed: how often each engine was.  graphs: all operation graphs that were
    finalized, as data.  calls: how often each function was called.
    """

    path = "fake_cudnn"

    def __init__(self, version: int = 92800) -> None:
        self.version = version
        self.handles: dict[int, _Handle] = {}
        self.descriptors: dict[int, Descriptor] = {}
        self.executed: Counter[int] = Counter()
        self.calls: Counter[str] = Counter()
        self.graphs: dict[str, list[Any]] = {}
        self._last = threading.local()
        self._failing: dict[str, int] = {}
        self._kept: list[Any] = []
        pointer = POINTER(c_void_p)
        self._export("cudnnGetVersion", c_size_t, (), lambda: self.version)
        self._export("cudnnGetErrorString", c_char_p, (c_int,), self._error_string, c_void_p)
        self._export("cudnnGetLastErrorString", None, (c_void_p, c_size_t), self._last_error)
        self._export("cudnnCreate", c_int, (pointer,), self._create)
        self._export("cudnnDestroy", c_int, (c_void_p,), self._destroy)
        self._export("cudnnSetStream", c_int, (c_void_p, c_void_p), self._set_stream)
        self._export("cudnnBackendCreateDescriptor", c_int, (c_int, pointer), self._create_descriptor)
        self._export("cudnnBackendDestroyDescriptor", c_int, (c_void_p,), self._destroy_descriptor)
        setting = (c_void_p, c_int, c_int, c_int64, c_void_p)
        self._export("cudnnBackendSetAttribute", c_int, setting, self._set_attribute)
        getting = (c_void_p, c_int, c_int, c_int64, POINTER(c_int64), c_void_p)
        self._export("cudnnBackendGetAttribute", c_int, getting, self._get_attribute)
        self._export("cudnnBackendFinalize", c_int, (c_void_p,), self._finalize)
        self._export("cudnnBackendExecute", c_int, (c_void_p, c_void_p, c_void_p), self._execute)
        self._texts = {status: ctypes.create_string_buffer(name.encode()) for status, name in r.NAMES.items()}

    @contextmanager
    def failing(self, function: str, status: int) -> Iterator[None]:
        """Within, a function fails."""
        self._failing[function] = status
        try:
            yield
        finally:
            del self._failing[function]

    def _export(
        self, name: str, result: Any, arguments: tuple[Any, ...], function: Callable[..., Any], inner: Any = None
    ) -> None:
        """Make a method a C function, as ctypes would find it in a library."""

        def called(*given: Any) -> Any:
            self.calls[name] += 1
            if result is not c_int:
                return function(*given)
            try:
                if name in self._failing:
                    raise Refused(self._failing[name], f"{name} was made to fail")
                function(*given)
            except Refused as error:
                self._last.text = str(error)
                return error.status
            except Exception as error:  # nothing passes through C: it is told when the test asks, and the call fails
                self.error = error
                self._last.text = f"{type(error).__name__}: {error}"
                return r.EXECUTION_FAILED
            return 0

        callback = ctypes.CFUNCTYPE(inner or result, *arguments)(called)
        self._kept.append(callback)
        setattr(self, name, ctypes.cast(callback, ctypes.CFUNCTYPE(result, *arguments)))

    error: Exception | None = None

    def _error_string(self, status: int) -> int:
        return ctypes.addressof(self._texts.get(status, self._texts[r.BAD_PARAM]))

    def _last_error(self, target: int, size: int) -> None:
        text = getattr(self._last, "text", "").encode()[: size - 1] + b"\0"
        ctypes.memmove(target, text, len(text))

    def _create(self, made: Any) -> None:
        address = next(_handles)
        self.handles[address] = _Handle(thread.device)
        made[0] = address

    def _handle(self, address: int | None) -> _Handle:
        refuse_unless(address in self.handles, "this is no handle", r.NULL_POINTER)
        assert address is not None
        return self.handles[address]

    def _destroy(self, address: int) -> None:
        self._handle(address)
        del self.handles[address]

    def _set_stream(self, address: int, stream: int | None) -> None:
        handle = self._handle(address)
        refuse_unless(handle.device == thread.device, "the handle is of another device")
        queue(stream or 0)  # there is such a stream
        handle.stream = stream or 0

    def _descriptor(self, address: int | None) -> Descriptor:
        refuse_unless(address in self.descriptors, "this is no descriptor", r.NULL_POINTER)
        assert address is not None
        return self.descriptors[address]

    def _create_descriptor(self, kind: int, made: Any) -> None:
        refuse_unless(kind in r.RULES, f"there are no descriptors of kind {kind}", r.NOT_SUPPORTED)
        descriptor = Descriptor(kind)
        self.descriptors[descriptor.address] = descriptor
        made[0] = descriptor.address

    def _destroy_descriptor(self, address: int) -> None:
        self._descriptor(address)
        del self.descriptors[address]

    def _set_attribute(self, address: int, name: int, type_: int, count: int, array: int) -> None:
        descriptor = self._descriptor(address)
        refuse_unless(bool(array), "no values", r.NULL_POINTER)
        values = list((_C_TYPES.get(type_, c_int) * count).from_address(array))
        if type_ == r.DESCRIPTOR:
            values = [self._descriptor(value) for value in values]
        descriptor.set(name, type_, values)

    def _get_attribute(self, address: int, name: int, type_: int, most: int, count: Any, array: int | None) -> None:
        descriptor = self._descriptor(address)
        rule = r.RULES[descriptor.kind].get(name)
        refuse_unless(rule is not None, f"descriptor {descriptor.kind} has no attribute {name}")
        assert rule is not None
        refuse_unless(type_ in rule.types, f"attribute {name} has not type {type_}", r.ATTRIBUTE_TYPE)
        refuse_unless(descriptor.is_final, "it is not finalized", r.NOT_FINALIZED)
        values = self._values(descriptor, name)
        if array is None:
            # As cuDNN does: the settings of knobs are not counted.
            count[0] = 0 if name == 302 else len(values)
            return
        values = values[:most]
        count[0] = len(values)
        target = (_C_TYPES.get(type_, c_int) * most).from_address(array)
        for place, value in enumerate(values):
            if type_ == r.DESCRIPTOR:
                self._fill(self._descriptor(target[place]), value)
            else:
                target[place] = value

    @staticmethod
    def _fill(empty: Descriptor, found: Descriptor) -> None:
        refuse_unless(empty.kind == found.kind, "the array has descriptors of another kind", r.DESCRIPTOR_TYPE)
        refuse_unless(not empty.is_final, "the array has finalized descriptors")
        empty.values, empty.types, empty.extra, empty.is_final = found.values, found.types, found.extra, True

    def _values(self, descriptor: Descriptor, name: int) -> list[Any]:
        if descriptor.kind == r.HEURISTICS and name == 202:
            graph = descriptor.one(201)
            return [self._config(graph, *found) for found in engines.offered(graph, descriptor.one(200))]
        if descriptor.kind == r.ENGINE and name == 1303:
            return engines.NOTES[descriptor.one(1301)]
        if descriptor.kind == r.PLAN and name == 402:
            return [engines.WORKSPACE[descriptor.one(401).one(300).one(1301)]]
        if descriptor.kind == r.DEVICE_PROPERTIES and name == 2702:
            return [bytes([byte]) for byte in json.dumps(descriptor.extra).encode() + b"\0"]
        return descriptor.values.get(name, [])

    def _config(self, graph: Descriptor, engine: int, knobs: list[tuple[int, int]]) -> Descriptor:
        made = Descriptor(r.ENGINE)
        made.set(1300, r.DESCRIPTOR, [graph])
        made.set(1301, r.INT64, [engine])
        made.finalize()
        choices = []
        for kind, value in knobs:
            choices.append(Descriptor(r.KNOB_CHOICE))
            choices[-1].set(600, r.KNOB_TYPE, [kind])
            choices[-1].set(601, r.INT64, [value])
            choices[-1].finalize()
        config = Descriptor(r.ENGINE_CONFIG)
        config.set(300, r.DESCRIPTOR, [made])
        if choices:
            config.set(302, r.DESCRIPTOR, choices)
        config.finalize()
        return config

    def _finalize(self, address: int) -> None:
        descriptor = self._descriptor(address)
        descriptor.finalize()
        if descriptor.kind == r.ENGINE:
            engines.check(descriptor.one(1300), descriptor.one(1301))
        if descriptor.kind == r.GRAPH:
            plain = descriptor.plain()
            self.graphs.setdefault(repr(plain), plain)

    def _execute(self, handle_address: int, plan_address: int, pack_address: int) -> None:
        handle = self._handle(handle_address)
        plan, pack = self._descriptor(plan_address), self._descriptor(pack_address)
        refuse_unless((plan.kind, pack.kind) == (r.PLAN, r.VARIANT_PACK), "no plan, or no pack", r.DESCRIPTOR_TYPE)
        refuse_unless(plan.is_final and pack.is_final, "it is not finalized", r.NOT_FINALIZED)
        refuse_unless(handle.device == thread.device, "the handle is of another device")
        engine = plan.one(401).one(300)
        graph, number = engine.one(1300), engine.one(1301)
        refuse_unless(plan.one(407).extra["cudaDeviceId"] == handle.device, "the plan is for another device")
        arrays, needs = self._arrays(graph, pack, handle.device)
        size, workspace = engines.WORKSPACE[number], pack.one(1003)
        if size:
            refuse_unless(bool(workspace), "the plan needs a workspace", r.NULL_POINTER)
            needs.append(world().memory.at(workspace, size, "a workspace of cuDNN", handle.device))

        def run() -> None:
            for allocation in needs:
                if not allocation.alive:
                    raise RuntimeError("cuDNN works on memory that was freed")
            if size:
                ctypes.memset(workspace, 0xFF, size)  # what was in it is gone
            computing.compute(graph, computing.Values(arrays, number))

        self.executed[number] += 1
        queue(handle.stream).put(Work("cuDNN", run, tuple(needs)))

    @staticmethod
    def _arrays(graph: Descriptor, pack: Descriptor, device: int) -> tuple[dict[int, Any], list[Any]]:
        given = dict(zip(pack.values[1000], pack.values[1001], strict=True))
        arrays, needs = {}, []
        for tensor in _tensors(graph):
            number, dtype = tensor.one(906), np.dtype(computing.DTYPES[tensor.one(901)])
            if tensor.one(907, False) or number in arrays:
                continue
            address = given.get(number)
            refuse_unless(bool(address), f"tensor {number} has no array", r.NULL_POINTER)
            assert address is not None
            refuse_unless(address % tensor.one(900) == 0, f"tensor {number} is misaligned", r.MISALIGNED)
            dims, strides = tensor.values[902], tensor.values[903]
            extent = (1 + sum((n - 1) * s for n, s in zip(dims, strides, strict=True))) * dtype.itemsize
            needs.append(world().memory.at(address, extent, f"tensor {number} of cuDNN", device))
            memory = (ctypes.c_char * extent).from_address(address)
            steps = [stride * dtype.itemsize for stride in strides]
            arrays[number] = np.ndarray(dims, dtype, memory, strides=steps)
        refuse_unless(set(given) == set(arrays), "arrays for tensors that the graph has not")
        return arrays, needs


def _tensors(graph: Descriptor) -> Iterator[Descriptor]:
    for operation in graph.values[801]:
        for values in operation.values.values():
            yield from (one for one in values if isinstance(one, Descriptor) and one.kind == r.TENSOR)
