"""Convolution of images with the batch innermost against the reference in float64, in every way it is computed."""

import itertools

import numpy as np
import pytest

from atled.arrays.array import NdArray
from atled.arrays.views import View
from atled.keyed import Description
from atled.plugin import op_spec
from atled_cpu_numba import pool
from atled_cpu_numba.kernels.chwn import direct
from atled_cpu_numba.kernels.chwn.problem import Problem
from atled_cpu_numba.kernels.convolution import choice, weight
from atled_cpu_numba.kernels.shared.lanes import host_lanes
from atled_cpu_numba.kernels.shared.leading_axes import Axis

THREADS = (1, 2, 5)

# images, channels, maps, source, kernel, pad, stride, dilation
CASES = {
    "squares": (32, 9, 32, (9, 10), (3, 3), (1, 1), (1, 1), (1, 1)),
    "squares, odd sizes": (37, 17, 35, (7, 9), (3, 3), (0, 2), (1, 1), (1, 1)),
    "squares, many images": (150, 8, 33, (5, 8), (3, 3), (1, 1), (1, 1), (1, 1)),
    "squares, one vector of images": (16, 20, 16, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)),
    "first layer": (33, 3, 16, (8, 7), (5, 5), (2, 2), (1, 1), (1, 1)),
    "one channel": (40, 1, 5, (9, 9), (5, 5), (0, 0), (1, 1), (1, 1)),
    "few maps": (35, 6, 2, (7, 14), (3, 3), (1, 0), (1, 1), (1, 1)),
    "few maps, strides": (32, 2, 1, (6, 19), (2, 3), (0, 1), (2, 2), (1, 1)),
    "strides": (19, 5, 14, (9, 8), (3, 2), (1, 0), (2, 3), (1, 1)),
    "dilation": (48, 4, 7, (9, 10), (3, 3), (2, 3), (1, 2), (2, 3)),
    "points": (64, 20, 18, (5, 4), (1, 1), (0, 0), (1, 1), (1, 1)),
    "points, strides": (16, 4, 37, (5, 4), (1, 1), (1, 0), (2, 1), (1, 1)),
    "windows as large as the image": (16, 6, 40, (3, 4), (3, 4), (0, 0), (1, 1), (1, 1)),
    "windows wider than the image": (17, 2, 3, (2, 2), (5, 6), (2, 3), (1, 1), (1, 1)),
    "one axis": (260, 3, 5, (11,), (4,), (2,), (2,), (1,)),
    "three axes": (18, 3, 5, (4, 6, 5), (2, 3, 3), (1, 1, 0), (1, 2, 1), (1, 1, 2)),
}
CHANNELLED = {"channel_last": False}


def geometry_of(case):
    return {"base_axis": 1, "pad": case[5], "stride": case[6], "dilation": case[7], "group": 1}


def batch_last(count):
    """The order of axes in memory in which the first one is the innermost."""
    return (*range(1, count), 0)


def in_order(array, order):
    """An equal array whose axes lie in memory in another order, between bytes that must stay as they are."""
    memory = array.transpose(order)
    raw = np.full(memory.size + 64, 7.5, array.dtype)
    view = raw[16 : 16 + memory.size].reshape(memory.shape)
    view[...] = memory
    return view.transpose(np.argsort(order)), raw


def draw(case):
    """x, weight, bias and gy in float32, of scale 1 each."""
    images, channels, maps, source, kernel, pad, stride, dilation = case
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(source, pad, dilation, kernel, stride, strict=True)
    ]
    random = np.random.default_rng(0)
    arrays = (images, channels, *source), (maps, channels, *kernel), (maps,), (images, maps, *sizes)
    return [random.standard_normal(shape, "f") for shape in arrays]


def computed(run_in_place, name, inputs, shape, /, *, parts=1, order=None, orders=None, **attributes):
    """What an op makes of inputs with the first axis innermost, where its result has an order of axes, too."""
    made = weight if name == "ConvolutionWeightGrad" else choice
    orders = orders or [batch_last(x.ndim) if x is not None and x.ndim > 1 else (0,) for x in inputs]
    given = [None if x is None else in_order(x, axes)[0] for x, axes in zip(inputs, orders, strict=True)]
    result, raw = in_order(np.full(shape, np.nan, "f"), order or batch_last(len(shape)))
    assert run_in_place(made, name, given, [result], parts=parts, **attributes) == 0
    assert (raw[:16] == 7.5).all()
    assert (raw[-48:] == 7.5).all()
    return result


def expected(name, inputs, **attributes):
    exact = [None if x is None else x.astype("d") for x in inputs]
    return op_spec(name).reference(*exact, **attributes, **CHANNELLED)


def calls_of(case):
    """For each op its inputs and attributes."""
    x, weights, bias, gy = draw(case)
    geometry = geometry_of(case)
    return {
        "Convolution": ([x, weights, bias], geometry),
        "ConvolutionDataGrad": ([gy, weights], {**geometry, "shape": case[3]}),
        "ConvolutionWeightGrad": ([x, gy], {**geometry, "kernel": case[4]}),
    }


def assert_close(found, wanted):
    """To the accuracy of Winograd's sums."""
    np.testing.assert_allclose(found, wanted, atol=1e-4 * max(float(wanted.std()), 1e-3))


@pytest.mark.parametrize("name", ["Convolution", "ConvolutionDataGrad", "ConvolutionWeightGrad"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values(run_in_place, case, name):
    inputs, attributes = calls_of(case)[name]
    wanted = expected(name, inputs, **attributes)
    assert_close(computed(run_in_place, name, inputs, wanted.shape, **attributes), wanted)


@pytest.mark.parametrize("name", ["Convolution", "ConvolutionDataGrad", "ConvolutionWeightGrad"])
@pytest.mark.parametrize("case", ["squares, odd sizes", "first layer", "few maps", "strides"])
def test_equal_bits_however_it_is_divided(run_in_place, parts, monkeypatch, case, name):
    inputs, attributes = calls_of(CASES[case])[name]
    shape = expected(name, inputs, **attributes).shape
    monkeypatch.setattr(pool, "_chosen_count", 1)
    whole = computed(run_in_place, name, inputs, shape, **attributes)
    for threads in THREADS:
        monkeypatch.setattr(pool, "_chosen_count", threads)
        found = computed(run_in_place, name, inputs, shape, parts=parts, **attributes)
        np.testing.assert_array_equal(found, whole)


DIRECT = [name for name in CASES if not name.startswith("squares")]


@pytest.mark.parametrize("name", ["Convolution", "ConvolutionDataGrad"])
@pytest.mark.parametrize("case", DIRECT)
def test_equal_bits_from_copies_of_any_pieces_as_from_what_is_read_in_place(run_in_place, monkeypatch, case, name):
    inputs, attributes = calls_of(CASES[case])[name]
    shape = expected(name, inputs, **attributes).shape
    monkeypatch.setattr(direct, "_COPY_BYTES", 0)
    in_place = computed(run_in_place, name, inputs, shape, **attributes)
    pair = 2 * host_lanes().vector
    for rows, columns in [(1, 1), (2, 3), (1, 1 << 10), (1 << 10, 1 << 10)]:
        pieces = direct._Pieces(rows, columns, pair, 0)
        monkeypatch.setattr(
            direct, "_pieces_of", lambda p, made=pieces: made._replace(copied_bytes=direct._seen_bytes(p, made))
        )
        found = computed(run_in_place, name, inputs, shape, parts=3, **attributes)
        np.testing.assert_array_equal(found, in_place)


def pieces_of(images, channels, sides, kernel=5, forward=True):
    """Those of a convolution or adjoint with padding and 64 maps, and their problem."""
    axes = [Axis(1, 1, 1, 0, 1, 1)] * (3 - len(sides)) + [Axis(n, n, kernel, kernel // 2, 1, 1) for n in sides]
    strides = (1,) * 5
    problem = Problem(forward, images, channels, 64, tuple(axes), strides, strides, strides, (), "")
    return direct._pieces_of(problem), problem


def test_pieces_are_copied_where_that_fits_the_cache(monkeypatch):
    monkeypatch.setattr(pool, "_chosen_count", 1)
    pair = 2 * host_lanes().vector
    images, per_channel = 8 * pair, 4 * pair
    whole, problem = pieces_of(images, 1, (14, 14))
    assert whole == (14, 14, pair, 14 * 14 * per_channel)
    some, problem = pieces_of(images, direct._COPY_BYTES // (14 * 28 * per_channel), (28, 28))
    assert 1 <= some.rows < 28
    assert some.columns == 28
    assert 0 < some.copied_bytes == direct._seen_bytes(problem, some) <= direct._COPY_BYTES
    narrow, _ = pieces_of(images, direct._COPY_BYTES // (5 * 40 * per_channel), (64, 64))
    assert narrow.rows == 1
    assert direct._LEAST_COLUMNS <= narrow.columns < 64
    in_place = (1, 28, images, 0)
    assert pieces_of(images, direct._COPY_BYTES // per_channel, (28, 28))[0] == in_place
    assert pieces_of(pair, 16, (28, 28))[0] == (1, 28, pair, 0)  # the batch is no longer than what is read at once
    assert pieces_of(images, 1, (28, 28), kernel=1)[0] == in_place  # nothing is read twice


@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize("sides", [(14, 14), (2000,)])
@pytest.mark.parametrize("pairs", [1, 2])
def test_there_is_a_piece_for_each_thread(monkeypatch, threads, sides, pairs):
    monkeypatch.setattr(pool, "_chosen_count", threads)
    pieces, problem = pieces_of(pairs * 2 * host_lanes().vector, 32, sides)
    assert direct._piece_count(problem, pieces) >= threads


@pytest.mark.parametrize("case", ["squares, odd sizes", "first layer"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_results_in_any_order_of_axes(run_in_place, case, order):
    x, weights, bias, gy = draw(CASES[case])
    geometry = geometry_of(CASES[case])
    wanted = expected("Convolution", [x, weights, bias], **geometry)
    orders = [batch_last(4), order, (0,)]
    made = computed(run_in_place, "Convolution", [x, weights, bias], gy.shape, order=order, orders=orders, **geometry)
    assert_close(made, wanted)
    geometry["kernel"] = CASES[case][4]
    wanted = expected("ConvolutionWeightGrad", [x, gy], **geometry)
    found = computed(run_in_place, "ConvolutionWeightGrad", [x, gy], weights.shape, order=order, **geometry)
    assert_close(found, wanted)


@pytest.mark.parametrize("case", ["squares", "dilation"])
def test_steps_backwards_and_with_gaps(run_in_place, case):
    x, weights, _, gy = draw(CASES[case])
    geometry = geometry_of(CASES[case])
    wide = np.zeros((*x.shape[1:3], 2 * x.shape[3], x.shape[0] + 3), "f")
    part = wide[::-1, :, ::-2, 1:-2].transpose(3, 0, 1, 2)
    part[...] = x
    result = np.zeros((gy.shape[1], gy.shape[2], gy.shape[3] + 1, x.shape[0]), "f")
    y = result[:, ::-1, 1:].transpose(3, 0, 1, 2)
    turned = np.ascontiguousarray(weights[:, :, ::-1, ::-1])[:, :, ::-1, ::-1]
    assert run_in_place(choice, "Convolution", [part, turned, None], [y], **geometry) == 0
    assert_close(y, expected("Convolution", [x, weights, None], **geometry))
    assert not result[:, :, 0].any()
    gw = np.zeros(weights.shape, "f")
    geometry["kernel"] = CASES[case][4]
    assert run_in_place(weight, "ConvolutionWeightGrad", [part, in_order(gy, (1, 2, 3, 0))[0]], [gw], **geometry) == 0
    assert_close(gw, expected("ConvolutionWeightGrad", [x, gy], **geometry))


def call_of(make_call, name, shapes, result, /, **attributes):
    """A call on arrays with the first axis innermost."""
    views = [None if s is None else in_order(np.zeros(s, "f"), batch_last(len(s)))[0] for s in (*shapes, result)]
    return make_call(name, views[:-1], views[-1:], **attributes)


@pytest.mark.parametrize(
    "images, changes, reason",
    [
        (2 * host_lanes().vector, {"group": 2}, "one group"),
        (2 * host_lanes().vector, {"base_axis": 2}, "one batch axis"),
        (host_lanes().vector - 1, {}, "images and more"),
    ],
)
def test_refusals(make_call, images, changes, reason):
    attributes = {**geometry_of(CASES["squares"]), **changes}
    x, y = (images, 4, 8, 8), (images, 6, 8, 8)
    call = call_of(make_call, "Convolution", [x, (6, 4, 3, 3), None], y, **attributes)
    assert reason in choice.accepts(call)
    call = call_of(make_call, "ConvolutionWeightGrad", [x, y], (6, 4, 3, 3), kernel=(3, 3), **attributes)
    assert reason in weight.accepts(call)


def test_channels_innermost_are_refused(make_call):
    x = in_order(np.zeros((32, 4, 8, 8), "f"), (0, 2, 3, 1))[0]
    arrays = [x, np.zeros((6, 4, 3, 3), "f"), None], [np.zeros((32, 6, 8, 8), "f")]
    call = make_call("Convolution", *arrays, **geometry_of(CASES["squares"]))
    assert "the batch axis is the innermost" in choice.accepts(call)


@pytest.mark.parametrize("name", ["Convolution", "ConvolutionDataGrad", "ConvolutionWeightGrad"])
@pytest.mark.parametrize("flag", ["deterministic", "local_errors"])
def test_direct_sums_where_a_context_wants_them(make_call, name, flag):
    inputs, attributes = calls_of(CASES["squares, odd sizes"])[name]
    shape = expected(name, inputs, **attributes).shape
    call = call_of(make_call, name, [None if x is None else x.shape for x in inputs], shape, **attributes)
    made = weight if name == "ConvolutionWeightGrad" else choice
    assert made.prepare(call).note.startswith("winograd 4x4, batch innermost")
    setattr(call, flag, True)
    assert made.prepare(call).note == f"direct, batch innermost, for {flag}"


def described(name, inputs, shape, /, **attributes):
    """A program that reads transposed views and assigns to one, and the array that it assigns to."""
    description = Description()

    def leaf(array):
        if array.ndim == 1:
            return description.leaf(NdArray.from_numpy_array(array))
        memory = NdArray.from_numpy_array(np.ascontiguousarray(array.transpose(batch_last(array.ndim))))
        return description.leaf(View(memory).transpose((array.ndim - 1, *range(array.ndim - 1))))

    result = NdArray.from_numpy_array(np.zeros((*shape[1:], shape[0]), "f"))
    target = description.leaf(View(result).transpose((len(shape) - 1, *range(len(shape) - 1))))
    values = [None if x is None else leaf(x) for x in inputs]
    description.assign(target, description.call(name, *values, **attributes))
    description.run()
    return description, result


@pytest.mark.parametrize("name", ["Convolution", "ConvolutionDataGrad", "ConvolutionWeightGrad"])
def test_a_program_on_views_is_one_step(name):
    inputs, attributes = calls_of(CASES["squares"])[name]
    wanted = expected(name, inputs, **attributes)
    program, result = described(name, inputs, wanted.shape, **attributes)
    assert str(program.plan).startswith("plan: 1 steps")
    assert_close(result.data.transpose(len(wanted.shape) - 1, *range(len(wanted.shape) - 1)), wanted)


def test_what_has_no_kernel_is_gathered_and_the_plan_shows_it():
    x, weights, _, gy = draw((32, 4, 6, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1)))
    attributes = {**geometry_of(CASES["squares"]), "group": 2}
    program, result = described("Convolution", [x, weights[:, :2], None], gy.shape, **attributes)
    assert "Identity" in str(program.plan)
    assert_close(
        result.data.transpose(3, 0, 1, 2), expected("Convolution", [x, weights[:, :2].copy(), None], **attributes)
    )
