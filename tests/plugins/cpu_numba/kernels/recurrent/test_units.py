"""Recurrent layers whose steps are shared by units, against those whose sequences are: the same bits."""

import ctypes

import numpy as np
import pytest

from atled.plugin import LoopRowWord, LoopWord
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.recurrent import sequences, units
from atled_cpu_numba.kernels.shared.lanes import lanes_of

CELLS = [("LSTM", {}), ("GRU", {}), ("RNN", {"nonlinearity": "tanh"}), ("RNN", {"nonlinearity": "relu"})]
MAPS = {"LSTM": (4, 4), "GRU": (3, 4), "RNN": (1, 1)}


@pytest.fixture(autouse=True)
def every_size_is_worth_shares(monkeypatch):
    monkeypatch.setattr(units, "_SHARE_US", 1e-9)
    monkeypatch.setattr(sequences, "SHARE_US", 1e-9)


def arrays_of(kind, steps, batch, depth, size, dtype, with_bias=True):
    """Inputs and outputs of a forward."""
    rng = np.random.default_rng(size)
    maps, biases = MAPS[kind]
    states = [rng.standard_normal((batch, size)).astype(dtype) for _ in range(2 if kind == "LSTM" else 1)]
    weight = (rng.standard_normal((maps, size, depth + size)) / np.sqrt(depth + size)).astype(dtype)
    bias = rng.standard_normal((biases, size)).astype(dtype) if with_bias else None
    shapes = [(steps, batch, size), *[(batch, size)] * len(states)]
    shapes += {"LSTM": [(steps, batch, 4, size), (steps, batch, size)], "GRU": [(steps, batch, 4, size)]}.get(kind, [])
    outputs = [np.full(shape, np.nan, dtype) for shape in shapes]
    return [rng.standard_normal((steps, batch, depth)).astype(dtype), *states, weight, bias], outputs


def prepared_for(threads, monkeypatch, call):
    with monkeypatch.context() as patch:
        patch.setattr(pool, "_chosen_count", threads)
        return sequences.prepare(call)


def run_in_steps(native, arrays, workspace, order):
    """What the loop does, with the shares of each step in an order of ours."""
    block = native.block.copy()
    for array, word in zip([*arrays, workspace], native.arguments, strict=True):
        if word >= 0:
            block[word] = 0 if array is None else array.ctypes.data
    row = block[block[LoopWord.ROWS] :]
    parts, address = int(row[LoopRowWord.PARTS]), int(row[LoopRowWord.KERNEL])
    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
    first = min(word for word in native.arguments if word >= 0) - units.Forward.x
    for number in range(int(block[LoopWord.COUNT])):
        block[first + units.Forward.number] = number
        for part in order(range(parts)):
            assert kernel(block[first:].ctypes.data, part, parts) == 0
    return parts


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("kind", "attributes"), CELLS)
@pytest.mark.parametrize(("batch", "with_bias"), [(1, True), (2, False), (5, True)])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_results_are_those_of_sequences_shared(
    make_call, monkeypatch, kind, attributes, reverse, batch, with_bias, dtype
):
    size = 5 * lanes_of(np.dtype(dtype).name).columns
    inputs, wanted = arrays_of(kind, 4, batch, 300, size, dtype, with_bias)
    call = make_call(f"{kind}Sequence", inputs, wanted, **attributes, reverse=reverse)
    alone = prepared_for(1, monkeypatch, call)
    block, workspace = alone.native.block.copy(), np.empty(alone.workspace, np.uint8)
    for array, word in zip([*inputs, *wanted, workspace], alone.native.arguments, strict=True):
        if word >= 0:
            block[word] = 0 if array is None else array.ctypes.data
    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(alone.native.address)
    assert kernel(block.ctypes.data, 0, 1) == 0
    for threads, order in ((2, reversed), (3, list), (7, reversed)):
        shared = prepared_for(threads, monkeypatch, call)
        assert shared.note.endswith("steps shared by units")
        found = [np.full(array.shape, np.nan, dtype) for array in wanted]
        workspace = np.full(shared.workspace, 0xFF, np.uint8)
        assert run_in_steps(shared.native, [*inputs, *found], workspace, order) == min(threads, 5)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("kind", "attributes"), CELLS)
def test_a_pack_of_the_weight_is_read(make_call, monkeypatch, kind, attributes):
    size = 2 * lanes_of("float32").columns
    inputs, wanted = arrays_of(kind, 3, 2, 7, size, "f")
    shared = prepared_for(2, monkeypatch, make_call(f"{kind}Sequence", inputs, wanted, **attributes, reverse=False))
    workspace = np.empty(shared.workspace, np.uint8)
    run_in_steps(shared.native, [*inputs, *wanted], workspace, list)
    (pack,) = shared.packs
    panels, packing = np.empty(pack.nbytes, np.uint8), pack.native.block.copy()
    spare = np.empty(max(1, pack.workspace), np.uint8)
    for array, word in zip([inputs[pack.input], panels, spare], pack.native.arguments, strict=True):
        packing[word] = array.ctypes.data
    kernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(pack.native.address)
    assert kernel(packing.ctypes.data, 0, 1) == 0
    inputs[pack.input][...] = np.nan  # only the pack tells what it was
    shared.native.block[pack.word] = panels.ctypes.data
    found = [np.full(array.shape, np.nan, "f") for array in wanted]
    run_in_steps(shared.native, [*inputs, *found], workspace, list)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_units_that_fill_no_panels_are_not_shared(make_call, monkeypatch):
    inputs, outputs = arrays_of("LSTM", 3, 1, 7, lanes_of("float32").columns * 2 + 1, "f")
    call = make_call("LSTMSequence", inputs, outputs, reverse=False)
    assert "shared" not in prepared_for(2, monkeypatch, call).note
