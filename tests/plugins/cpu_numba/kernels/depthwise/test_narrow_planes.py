"""Filters of planes in half and bf16, which their kernels take as they are: float32's results, rounded once."""

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled.plugin import ArrayDesc, Call, op_spec
from atled_contexts import Context
from atled_cpu_numba import pool, processor
from atled_cpu_numba.kernels.depthwise import narrow_planes
from atled_cpu_numba.kernels.shared.lanes import lanes_of
from narrow_numbers import DTYPES, any_numbers, check_rounded

# shape of x, maps per channel, pad, stride
CASES = [
    ((2, 6, 28, 28), 1, (1, 1), 1),
    ((2, 6, 28, 28), 1, (1, 1), 2),
    ((3, 5, 9, 13), 2, (1, 1), 1),
    ((3, 5, 9, 13), 2, (0, 1), 2),
    ((1, 3, 5, 11), 1, (0, 0), 1),
    ((1, 3, 4, 150), 1, (1, 1), 1),  # too wide for strips
    ((1, 3, 3, 301), 1, (1, 1), 2),
    ((2, 4, 2, 8), 1, (1, 1), 1),
    ((2, 4, 1, 9), 1, (1, 0), 1),
    ((2, 3, 6, 112), 1, (1, 1), 1),
    ((2, 3, 6, 35), 2, (1, 1), 1),
    ((2, 3, 5, 18), 1, (1, 0), 1),
    ((2, 3, 7, 36), 1, (1, 0), 2),
    ((4, 7, 7, 7), 1, (1, 1), 1),  # narrower than a vector: cast some channels at a time
    *(((2, 5, width // 2, width), 1, (1, 1), stride) for width in (9, 14, 15, 16, 17, 18) for stride in (1, 2)),
]


def computed(config, function, *arrays):
    with nn.context_scope(Context([f"cpu:{config}"], fallback="raise")):
        return function(*map(nn.NdArray.from_numpy_array, arrays)).data


@pytest.mark.parametrize("config", list(DTYPES))
@pytest.mark.parametrize("shape, maps, pad, stride", CASES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_results_are_those_of_float32_rounded_once(config, shape, maps, pad, stride, has_bias):
    rng, before = np.random.default_rng(3), pool.thread_count()
    shapes = [shape, (maps * shape[1], 1, 3, 3), *([(maps * shape[1],)] if has_bias else [])]
    arrays = [rng.standard_normal(each).astype(DTYPES[config]) for each in shapes]

    def function(*inputs):
        return F.relu(F.convolution(*inputs, pad=pad, stride=(stride, stride), group=shape[1]))

    expected = computed("float", function, *(array.astype("f") for array in arrays))
    try:
        for count in (1, 3):
            pool.set_thread_count(count)
            check_rounded(computed(config, function, *arrays), expected)
    finally:
        pool.set_thread_count(before)


@pytest.mark.parametrize("config", list(DTYPES))
@pytest.mark.parametrize("shape, maps, pad, stride", [case for case in CASES if case[1] == 1])
@pytest.mark.parametrize("has_bias", [False, True])
def test_adjoints_are_those_of_float32_rounded_once(config, shape, maps, pad, stride, has_bias):
    rng = np.random.default_rng(3)
    shapes = [shape, (shape[1], 1, 3, 3), *([(shape[1],)] if has_bias else [])]
    arrays = [rng.standard_normal(each).astype(DTYPES[config]) for each in shapes]

    def function(*inputs):
        return F.deconvolution(*inputs, pad=pad, stride=(stride, stride), group=shape[1])

    check_rounded(
        computed(config, function, *arrays), computed("float", function, *(array.astype("f") for array in arrays))
    )


@pytest.mark.parametrize("config", list(DTYPES))
@pytest.mark.parametrize("width, stride", [(40, 1), (14, 1), (40, 2), (14, 2)])
def test_infinities_and_nan_are_values(config, width, stride):
    x = any_numbers(np.random.default_rng(4), (2, 3, 9, width), DTYPES[config])
    w = np.ones((3, 1, 3, 3), DTYPES[config])

    def function(*inputs):
        return F.convolution(*inputs, pad=(1, 1), stride=(stride, stride), group=3)

    with np.errstate(invalid="ignore", over="ignore"):
        check_rounded(computed(config, function, x, w), computed("float", function, x.astype("f"), w.astype("f")))


@pytest.mark.parametrize("config", list(DTYPES))
def test_channels_innermost_are_no_planes(config):
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(DTYPES[config]) for shape in ((2, 28, 28, 6), (6, 3, 3, 1)))

    def function(*inputs):
        return F.convolution(*inputs, pad=(1, 1), group=6, channel_last=True)

    check_rounded(computed(config, function, x, w), computed("float", function, x.astype("f"), w.astype("f")))


@pytest.mark.skipif(not processor.has_half_instructions(), reason="the processor has no instructions for half")
@pytest.mark.parametrize("width, is_taken", [(28, True), (7, False)])
@pytest.mark.parametrize("op", ["Convolution", "Deconvolution"])
def test_half_is_taken_as_it_is_where_rows_are_vectors(op, width, is_taken):
    # On any width of vectors: 16 lanes and fewer.
    x, w, y = (ArrayDesc(shape, np.float16) for shape in ((2, 6, width, width), (6, 1, 3, 3), (2, 6, width, width)))
    geometry = {"base_axis": 1, "pad": (1, 1), "stride": (1, 1), "dilation": (1, 1), "group": 6}
    prepared = narrow_planes.prepare(Call(op_spec(op), (x, w, None), (y,), geometry))
    assert (prepared is not None) is (is_taken or lanes_of("float32").vector <= width)


@pytest.mark.parametrize("width, is_taken", [(28, True), (14, True), (7, False)])
def test_bf16_is_taken_as_it_is_where_rows_are_half_a_vector_of_pairs(width, is_taken):
    x, w, y = (ArrayDesc(shape, DTYPES["bf16"]) for shape in ((2, 6, width, width), (6, 1, 3, 3), (2, 6, width, width)))
    geometry = {"base_axis": 1, "pad": (1, 1), "stride": (1, 1), "dilation": (1, 1), "group": 6}
    prepared = narrow_planes.prepare(Call(op_spec("Convolution"), (x, w, None), (y,), geometry))
    assert (prepared is not None) is is_taken
