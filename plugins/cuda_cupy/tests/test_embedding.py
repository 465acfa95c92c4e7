"""Tables by index: both ways to the gradient, indices out of range, failures that later calls do not hide."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.keyed import Description
from atled.plugin import ArrayDesc, Call, op_spec

RNG = np.random.default_rng(0)


def table_grad(gy, index, rows):
    """The gradient of a table by the plugin, prepared anew, and its note."""
    from atled_cuda_cupy.kernels import embedding
    from atled_cuda_cupy.plugin import array_class

    arrays = array_class()
    spec = op_spec("EmbedGrad")
    inputs = ArrayDesc(gy.shape, gy.dtype), ArrayDesc(index.shape, index.dtype)
    call = Call(spec, inputs, spec.infer_outputs(inputs, {"n": rows}), {"n": rows}, device_id="0")
    assert embedding.accepts_computing(call) is True
    made = embedding.prepare_embed_grad(call)
    workspace = ArrayDesc((made.workspace,), np.dtype(np.uint8))
    flag = ArrayDesc((1,), np.dtype(np.int64))
    given = [arrays.allocate(desc, "0") for desc in (*inputs, call.outputs[0], workspace, flag)]
    for source, target in zip((gy, index, np.zeros(1, np.int64)), (*given[:2], given[4]), strict=True):
        arrays.upload(source, target)
    gx, gi, gw, memory, failed = given
    made.run(gx, gi, gw, *([memory] if made.workspace else []), failed, 7)
    found, number = np.empty(call.outputs[0].shape, gy.dtype), np.empty(1, np.int64)
    arrays.download(gw, found)
    arrays.download(failed, number)
    return found, int(number[0]), made.note


CASES = [(300, 5000, 8), (70000, 3000, 4), (5, 1000, 1), (3, 700, 6), (256, 2048, 1), (255, 2049, 3), (1, 300, 4)]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("rows", "count", "width"), CASES)
def test_gradients_by_a_sort(where, monkeypatch, rows, count, width, dtype):
    from atled_cuda_cupy.kernels import embedding

    monkeypatch.setattr(embedding, "_SEARCHED", 0)
    index = RNG.integers(0, rows, count)
    index[count // 4 : count // 2] = rows - 1  # one row has chunks of its own
    gy = RNG.integers(-1, 2, (count, width)).astype(dtype)  # sums are exact
    found, failure, note = table_grad(gy, index, rows)
    expected = np.zeros((rows, width))
    np.add.at(expected, index, gy.astype(float))
    np.testing.assert_array_equal(found, expected)
    assert (failure, note[:6]) == (0, "sorted")


def test_gradients_by_a_search(where):
    index, gy = RNG.integers(0, 20, (40, 3)), RNG.integers(-9, 9, (40, 3, 5)).astype("float32")
    found, failure, note = table_grad(gy, index, 20)
    expected = np.zeros((20, 5))
    np.add.at(expected, index, gy)
    np.testing.assert_array_equal(found, expected)
    assert (failure, note) == (0, "")


@pytest.mark.parametrize("limit", [0, 2**24])
@pytest.mark.parametrize("wrong", [-1, 20, 2**40])
def test_gradients_tell_an_index_out_of_range(where, monkeypatch, limit, wrong):
    from atled_cuda_cupy.kernels import embedding

    monkeypatch.setattr(embedding, "_SEARCHED", limit)
    index, gy = RNG.integers(0, 20, 3000), np.ones((3000, 4), np.float32)
    index[1234] = wrong
    found, failure, _ = table_grad(gy, index, 20)
    np.testing.assert_array_equal(found[:, 0], np.bincount(np.delete(index, 1234), minlength=20))
    assert failure == 7


@pytest.mark.parametrize("wrong", [-1, 50])
@pytest.mark.parametrize("row", [(16,), (3,), (), (0,)])
def test_rows_of_a_table(cuda, row, wrong):
    table, index = RNG.standard_normal((50, *row)).astype("float32"), RNG.integers(0, 50, (7, 31))
    with nn.context_scope(cuda):
        y = F.embed(nn.NdArray.from_numpy_array(index), nn.NdArray.from_numpy_array(table))
        np.testing.assert_array_equal(y.data, table[index])
        index[3, 5] = wrong
        with pytest.raises(IndexError, match="out of range"):
            print(F.embed(nn.NdArray.from_numpy_array(index), nn.NdArray.from_numpy_array(table)).data)


def test_one_hot_of_several_numbers(cuda):
    index = np.stack((RNG.integers(0, 4, (6, 5)), RNG.integers(0, 6, (6, 5))), axis=-1)
    expected = np.zeros((6, 5, 4, 6))
    np.put_along_axis(expected.reshape(6, 5, 24), (index[..., 0] * 6 + index[..., 1])[..., None], 1, -1)
    with nn.context_scope(cuda):
        np.testing.assert_array_equal(F.one_hot(nn.NdArray.from_numpy_array(index), (4, 6)).data, expected)
        index[2, 3, 0] = 4
        with pytest.raises(IndexError, match="out of range"):
            print(F.one_hot(nn.NdArray.from_numpy_array(index), (4, 6)).data)


@pytest.mark.parametrize(("limit", "rows"), [(0, 20), (2**24, 21)])
def test_slices_are_added_by_indices_from_either_end(cuda, monkeypatch, limit, rows):
    from atled_cuda_cupy.kernels import embedding

    monkeypatch.setattr(embedding, "_SEARCHED", limit)
    index, gy = RNG.integers(-rows, rows, (300, 2)), RNG.integers(-9, 9, (300, 2, 5)).astype("float32")
    expected = np.zeros((rows, 5), np.float32)
    np.add.at(expected, index, gy)
    for wrong in (None, -rows - 1, rows):
        if wrong is not None:
            index[123, 1] = wrong
        program = Description(cuda)
        leaves = [program.leaf(nn.NdArray.from_numpy_array(array)) for array in (gy, index)]
        program.result(program.call("TakeGrad", *leaves, axis=0, size=rows))
        if wrong is None:
            assert ("sorted" in str(program.plan)) is (limit == 0)
            np.testing.assert_array_equal(program.run()[0].data, expected)
        else:
            with pytest.raises(IndexError, match="out of range"):
                print(program.run()[0].data)
