"""Steps of a loop that run at once, each on memory of its own, give what they give one by one."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.graph.inference import by_samples
from atled.plugin import ApartPatchWord, ApartRowWord, ApartWord, TogetherWord
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.abreast import APART, TOGETHER
from atled_cpu_numba.store import Kernel

CALL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def _build_counter():
    from atled_cpu_numba.codegen import ints64, words
    from atled_cpu_numba.kernels.shared.options import kernel

    @kernel
    def counter(block, part, parts):
        w = words(block)
        ints64(w[1])[part] += parts
        return w[0]

    return counter


def counter():
    return Kernel("counter of tests", _build_counter).address()


def in_order(entries, words):
    return [entries[word] for word in words if word in entries]


@pytest.fixture
def threads():
    yield pool.set_thread_count
    pool.set_thread_count(None)


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 12, 20])
def test_each_share_of_each_block_is_computed_once(parts):
    counts = np.zeros((4, 3), np.int64)
    blocks = np.array([[0, row.ctypes.data] for row in counts])
    head = {TogetherWord.KERNEL: counter(), TogetherWord.PARTS: 3, TogetherWord.BLOCKS: 4}
    block = np.array([*in_order(head, TogetherWord), *(row.ctypes.data for row in blocks)])
    together = CALL(TOGETHER.address())
    assert [together(block.ctypes.data, part, parts) for part in range(parts)] == [0] * parts
    np.testing.assert_array_equal(counts, 3)
    blocks[2, 0] = 7  # a code
    assert 7 in [together(block.ctypes.data, part, parts) for part in range(parts)]


@pytest.mark.parametrize("parts", [1, 3])
def test_each_step_is_taken_by_one_share(parts):
    counts = np.zeros((5, 2), np.int64)  # of each step a number per row
    sets = np.array([[0, counts.ctypes.data, 0, counts.ctypes.data + 8]] * parts)
    head = {ApartWord.STEPS: 5, ApartWord.TAKEN: 0, ApartWord.ROWS: 2, ApartWord.PATCHES: 2}
    row = {ApartRowWord.KERNEL: counter(), ApartRowWord.CODE_COUNT: 5}
    rows = [row | {ApartRowWord.BLOCK: 16 * n, ApartRowWord.FIRST_CODE: 10 * n} for n in range(2)]
    patches = [{ApartPatchWord.WORD: word, ApartPatchWord.STRIDE: 16} for word in (1, 3)]
    words = in_order(head, ApartWord)
    words += [word for each in rows for word in in_order(each, ApartRowWord)]
    words += [word for each in patches for word in in_order(each, ApartPatchWord)]
    block = np.array([*words, *(each.ctypes.data for each in sets)])
    apart = CALL(APART.address())
    assert [apart(block.ctypes.data, part, parts) for part in reversed(range(parts))] == [0] * parts
    np.testing.assert_array_equal(counts, 1)
    for code, told in ((3, 13), (7, 15)):  # one of its codes, and one beyond them
        sets[0] = 0, counts.ctypes.data, code, counts.ctypes.data
        block[ApartWord.TAKEN] = 0
        assert apart(block.ctypes.data, 0, parts) == told


@pytest.mark.parametrize("batch", [2, 6, 7, 8])
def test_inference_gives_equal_bits_on_any_count_of_threads(batch, threads, monkeypatch):
    monkeypatch.setattr(by_samples, "core_cache_bytes", lambda: 1 << 10)
    rng = np.random.default_rng(batch)

    def convolved(x, maps, kernel, **how):
        weight = rng.standard_normal((maps, x.shape[1] // how.get("group", 1), kernel, kernel)).astype("f") / 8
        return F.convolution(x, nn.Variable.from_numpy_array(weight), **how)

    with nn.auto_forward(False), nn.context_scope(nn.Context(["cpu"], fallback="raise")):
        x = nn.Variable((batch, 3, 61, 61))
        y = F.relu(convolved(x, 16, 3, pad=(1, 1), stride=(2, 2)))
        y = F.relu(convolved(F.relu(convolved(y, 48, 1)), 48, 3, pad=(1, 1), group=48)) * 0.5
        y = F.mean(convolved(y, 24, 1), axis=(2, 3))
        values = rng.standard_normal(x.shape).astype("f")
        found = []
        for count in (1, 2, 3, 5, 9):
            threads(count)
            infer = nn.inference(y, x)
            found.append(infer(values))
            assert [step.name for step in infer.plan.steps].count("Loop") == 1
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
