"""Running a prepared kernel without an engine: its block filled in by the contract, share by share through ctypes."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from atled.array_desc import ArrayDesc
from atled.call import Call, Prepared
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.shared import launch as launching

MOST_PARTS = 5
THREADS = (1, 2, 3, 5)  # counts for which a result must have the same bits
KERNEL_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def make_call(
    name: str,
    inputs: Sequence[np.ndarray | None],
    outputs: Sequence[np.ndarray],
    **attributes: Any,
) -> Call:
    """A Call as the engine would make it from these arrays, which may be views."""
    descriptions = tuple(None if x is None else described(x) for x in inputs)
    results = tuple(map(described, outputs))
    return Call(types.SimpleNamespace(name=name), descriptions, results, attributes)  # type: ignore[arg-type]  # the kernels need the name alone


def described(array: np.ndarray) -> ArrayDesc:
    """The description of an array, with its strides."""
    return ArrayDesc(array.shape, array.dtype, [step // array.itemsize for step in array.strides])


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy of `array` at a multiple of 64 bytes, followed by bytes that must stay as they are."""
    guard = 64
    raw = np.full(array.nbytes + 64 + guard, 0xA5, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def guards_untouched(copy: np.ndarray) -> bool:
    """Whether the bytes around an array from `aligned` are as they were."""
    raw = copy
    while raw.base is not None:
        raw = raw.base
    start = -raw.ctypes.data % 64
    outside = np.concatenate([raw[:start], raw[start + copy.nbytes :]])
    return bool((outside == 0xA5).all())


def launch(
    prepared: Prepared,
    arrays: Sequence[np.ndarray | None],
    *,
    attributes: Mapping[str, float] | None = None,
    parts: int = 1,
) -> int:
    """Run the native form in `parts` shares, the last one first; returns the first nonzero code.

    arrays: inputs and outputs, 64-byte aligned. The workspace starts as NaN everywhere.
    """
    native = prepared.native
    assert native is not None
    workspace = aligned(np.full(prepared.workspace, 0xFF, np.uint8))
    block = native.block.copy()
    everything = [*arrays, *([workspace] if prepared.workspace else [])]
    assert len(everything) == len(native.arguments)
    for array, word in zip(everything, native.arguments, strict=True):
        if word >= 0:
            assert array is not None
            block[word] = array.ctypes.data
    for name, value in (attributes or {}).items():
        block[native.attributes[name]] = np.float64(value).view(np.int64)
    kernel = KERNEL_TYPE(native.address)
    for part in reversed(range(parts)):
        code = int(kernel(block.ctypes.data, part, parts))
        if code:
            return code
    assert guards_untouched(workspace)
    return 0


def assert_same_bits(found: np.ndarray, wanted: np.ndarray, because: str) -> None:
    """Signs of zeros count; NaNs are all alike."""
    if found.dtype.kind == "f":
        found, wanted = (np.where(np.isnan(x), -1, x.view(f"i{x.itemsize}")) for x in (found, wanted))
    np.testing.assert_array_equal(found, wanted, because)


Run = Callable[..., int]


@pytest.fixture(name="make_call")
def make_call_fixture() -> Callable[..., Call]:
    """The function `make_call`."""
    return make_call


@pytest.fixture(params=[1, 2, MOST_PARTS])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of shares to run; however small the work is, the kernels allow as many as they can make."""
    monkeypatch.setattr(launching, "SHARE_US", 1e-9)
    return request.param


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """run(module, name, inputs, outputs, parts=, floats=, **attributes): prepare and launch; fills in `outputs`.

    unread: positions of outputs that are left as they are, because nobody reads them.
    With MOST_PARTS it asserts that the outputs have the same bits however many threads the call is prepared for, in one
    share and in as many as it is worth.
    """

    def assert_same_for_all_threads(
        module: Any,
        call: Call,
        inputs: Sequence[np.ndarray | None],
        outputs: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        floats: Mapping[str, float] | None,
    ) -> None:
        for threads in THREADS:
            with monkeypatch.context() as patch:
                patch.setattr(pool, "_chosen_count", threads)
                prepared = module.prepare(call)
            for parts in {1, prepared.native.parts}:
                given = [None if x is None else aligned(x) for x in inputs]
                found = [aligned(y) for y in outputs]
                assert launch(prepared, [*given, *found], attributes=floats, parts=parts) == 0
                for one, wanted in zip(found, results, strict=True):
                    assert_same_bits(one, wanted, f"{parts} shares on {threads} threads")

    def run_kernel(
        module: Any,
        name: str,
        inputs: Sequence[np.ndarray | None],
        outputs: Sequence[np.ndarray],
        *,
        parts: int = 1,
        floats: Mapping[str, float] | None = None,
        mutated: Sequence[int] = (),
        unread: Sequence[int] = (),
        **attributes: Any,
    ) -> int:
        call = make_call(name, inputs, outputs, **attributes).without(unread)
        assert module.accepts(call) is True
        prepared = module.prepare(call)
        native = prepared.native
        given = [None if x is None else aligned(x) for x in inputs]
        results = [aligned(y) for y in outputs]
        # Shares beyond Native.parts would need more workspace than was asked for.
        most = native.parts if prepared.workspace else parts
        code = launch(prepared, [*given, *results], attributes=floats, parts=min(parts, most))
        if code == 0 and parts == MOST_PARTS:
            assert_same_for_all_threads(module, call, inputs, outputs, results, floats)
        for i, (copy, original) in enumerate(zip(given, inputs, strict=True)):
            if copy is None or original is None:
                continue
            assert guards_untouched(copy)
            if i in mutated:
                original[...] = copy
            else:
                np.testing.assert_array_equal(copy, original)
        for copy, original in zip(results, outputs, strict=True):
            assert guards_untouched(copy)
            original[...] = copy
        return code

    return run_kernel


@pytest.fixture
def run_in_place() -> Run:
    """run_in_place(module, name, inputs, outputs, parts=, **attributes): the same on these very arrays, or views."""

    def run_kernel(
        module: Any,
        name: str,
        inputs: Sequence[np.ndarray | None],
        outputs: Sequence[np.ndarray],
        parts: int = 1,
        **attributes: Any,
    ) -> int:
        call = make_call(name, inputs, outputs, **attributes)
        assert module.accepts(call) is True
        prepared = module.prepare(call)
        assert prepared.native is not None
        return launch(prepared, [*inputs, *outputs], parts=min(parts, prepared.native.parts))

    return run_kernel
