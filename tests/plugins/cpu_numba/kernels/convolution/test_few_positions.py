"""Convolutions with few positions and many maps against windows in NumPy in float64."""

from types import SimpleNamespace

import numpy as np
import pytest

import atled as nn
import atled.functions as F
from atled_contexts import Context
from atled_cpu_numba.kernels.convolution import choice as convolution
from atled_cpu_numba.kernels.convolution import few_positions
from atled_cpu_numba.kernels.convolution.problem import problem_of, task_of
from atled_cpu_numba.kernels.shared.lanes import lanes_of

# images, channels, maps, sizes, kernel, pad, stride
CASES = [
    (1, 70, 64, (7, 7), (1, 1), (0, 0), (1, 1)),
    (2, 64, 32, (5, 6), (1, 1), (0, 0), (1, 1)),
    (1, 64, 96, (14, 13), (1, 1), (0, 0), (2, 2)),
    (1, 300, 64, (7, 7), (1, 1), (0, 0), (1, 1)),  # sums in three parts
    # under AVX2 collected tile by tile: low tiles, high ones in parts of the sums, one vector of positions, fewer
    (2, 66, 128, (7, 7), (1, 1), (0, 0), (1, 1)),
    (1, 330, 160, (5, 11), (1, 1), (0, 0), (1, 1)),
    (2, 64, 128, (4, 4), (1, 1), (0, 0), (1, 1)),
    (1, 65, 128, (1, 13), (1, 1), (0, 0), (1, 1)),
    (2, 66, 128, (14, 13), (1, 1), (0, 0), (2, 2)),
    (5, 66, 160, (5, 5), (1, 1), (0, 0), (1, 1)),  # all panels packed once for several images
    (3, 330, 128, (7, 7), (1, 1), (0, 0), (1, 1)),
    (1, 256, 192, (14, 14), (1, 1), (0, 0), (1, 1)),  # collected in two whole blocks of terms; in one and a single term
    (2, 129, 64, (7, 7), (1, 1), (0, 0), (1, 1)),
    (1, 257, 64, (14, 14), (1, 1), (0, 0), (2, 2)),
    (1, 257, 96, (14, 13), (1, 1), (0, 0), (1, 1)),  # in place: planes leave the level-1 cache
    (2, 130, 64, (9, 9), (1, 1), (0, 0), (1, 1)),
    (7, 9, 96, (5, 7), (3, 3), (1, 1), (2, 1)),
    (1, 330, 160, (9, 16), (1, 1), (0, 0), (2, 3)),
    (1, 9, 64, (7, 7), (3, 3), (1, 1), (2, 1)),
    (2, 31, 32, (5, 9), (3, 3), (1, 0), (2, 1)),
    (2, 17, 32, (14, 14), (3, 3), (1, 1), (2, 2)),
    (1, 8, 32, (9, 11), (2, 5), (0, 3), (1, 2)),
    (1, 3, 64, (28, 28), (7, 7), (3, 3), (2, 2)),
    (2, 14, 32, (9, 12), (5, 3), (2, 1), (1, 1)),  # tiles within rows
    (1, 13, 32, (25, 48), (4, 5), (0, 2), (3, 2)),
]


def draw(seed, *shape, dtype="f"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def wanted(x, weight, bias, pad, stride):
    x = np.pad(x.astype("d"), [(0, 0), (0, 0), *((p, p) for p in pad)])
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], (2, 3))[:, :, :: stride[0], :: stride[1]]
    y = np.einsum("nchwrs,kcrs->nkhw", windows, weight.astype("d"))
    return y if bias is None else y + bias[:, None, None]


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("images, channels, maps, sizes, kernel, pad, stride", CASES)
def test_values(run, parts, make_call, images, channels, maps, sizes, kernel, pad, stride, with_bias, dtype):
    x, weight = draw(0, images, channels, *sizes, dtype=dtype), draw(1, maps, channels, *kernel, dtype=dtype)
    bias = draw(2, maps, dtype=dtype) if with_bias else None
    expected = wanted(x, weight, bias, pad, stride)
    y = np.full(expected.shape, np.nan, dtype)
    geometry = {"base_axis": 1, "pad": pad, "stride": stride, "dilation": (1, 1), "group": 1}
    call = make_call("Convolution", [x, weight, bias], [y], **geometry)
    assert few_positions.can(task_of(problem_of(call)))
    way = next(way for way in convolution.ways(problem_of(call)) if way.name == "few positions")
    module = SimpleNamespace(accepts=convolution.accepts, prepare=lambda _: way.prepare())
    assert run(module, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, expected, rtol=0, atol=64 * np.finfo(dtype).eps * np.abs(expected).max())


# images, groups, channels and maps of each, sizes, kernel, pad, stride
GROUPED = [
    (1, 3, 17, 32, (7, 7), (3, 3), (1, 1), (1, 1)),
    (2, 2, 16, 64, (9, 8), (3, 3), (1, 0), (2, 2)),
    (3, 2, 33, 32, (5, 5), (3, 3), (1, 1), (1, 1)),  # all panels packed once for several images
    (3, 3, 64, 128, (4, 5), (1, 1), (0, 0), (1, 1)),  # under AVX2 collected tile by tile
    (2, 2, 66, 128, (9, 8), (1, 1), (0, 0), (2, 2)),
    (1, 2, 64, 32, (5, 6), (1, 1), (0, 0), (1, 1)),
    (2, 2, 14, 32, (9, 12), (5, 3), (2, 1), (1, 1)),  # tiles within rows
]


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("images, groups, channels, maps, sizes, kernel, pad, stride", GROUPED)
def test_values_of_groups(
    run, parts, make_call, images, groups, channels, maps, sizes, kernel, pad, stride, with_bias, dtype
):
    x = draw(0, images, groups * channels, *sizes, dtype=dtype)
    weight = draw(1, groups * maps, channels, *kernel, dtype=dtype)
    bias = draw(2, groups * maps, dtype=dtype) if with_bias else None
    by_group = zip(np.split(x, groups, 1), np.split(weight, groups), strict=True)
    expected = np.concatenate([wanted(a, w, None, pad, stride) for a, w in by_group], 1)
    expected += 0 if bias is None else bias[:, None, None]
    y = np.full(expected.shape, np.nan, dtype)
    geometry = {"base_axis": 1, "pad": pad, "stride": stride, "dilation": (1, 1), "group": groups}
    problem = problem_of(make_call("Convolution", [x, weight, bias], [y], **geometry))
    way = next(way for way in convolution.planar_ways(problem) if way.name == "few positions")
    module = SimpleNamespace(accepts=convolution.accepts, prepare=lambda _: way.prepare())
    assert run(module, "Convolution", [x, weight, bias], [y], parts=parts, **geometry) == 0
    np.testing.assert_allclose(y, expected, rtol=0, atol=64 * np.finfo(dtype).eps * np.abs(expected).max())


@pytest.mark.skipif(lanes_of("float32").rows != 6, reason="elsewhere groups have another way")
@pytest.mark.parametrize(
    ("images", "maps", "size", "stride", "kernel", "is_few"),
    [
        (1, 32, 7, 1, 3, True),
        (2, 32, 14, 2, 3, True),
        (1, 64, 7, 1, 3, True),
        (3, 32, 7, 1, 3, False),  # images
        (1, 128, 7, 1, 3, False),  # maps
        (1, 32, 7, 1, 5, False),  # taps
        (1, 32, 14, 3, 3, False),  # stride
    ],
)
def test_small_groups_of_windows_are_computed_in_tiles_of_positions(
    make_call, images, maps, size, stride, kernel, is_few
):
    result, pad = -(-size // stride), kernel // 2
    x = np.zeros((images, 4 * 32, size, size), "f")
    weight, y = np.zeros((4 * maps, 32, kernel, kernel), "f"), np.zeros((images, 4 * maps, result, result), "f")
    geometry = {"base_axis": 1, "pad": (pad, pad), "stride": (stride, stride), "dilation": (1, 1), "group": 4}
    problem = problem_of(make_call("Convolution", [x, weight, None], [y], **geometry))
    found = next(way.name for way in convolution.planar_ways(problem) if way.pays)
    assert (found == "few positions") == is_few


@pytest.mark.parametrize("packs", [True, False])
def test_groups_read_weights_that_are_kept_or_packed_by_each_run(packs):
    x, w, b = nn.Variable((1, 96, 7, 7)), nn.Variable((96, 32, 3, 3)), nn.Variable((96,))
    x.d, w.d, b.d = draw(3, *x.shape), draw(4, *w.shape), draw(5, 96)
    with nn.context_scope(Context(["cpu:float"])), nn.auto_forward(False):
        y = F.relu(F.convolution(x, w, b, pad=(1, 1), group=3))
        infer = nn.inference(y, x)
        for turn in range(3):
            if not packs:
                w.d = draw(5 + turn, *w.shape)
            pairs = zip(np.split(x.d, 3, 1), np.split(w.d, 3), strict=True)
            expected = np.concatenate([wanted(a, v, None, (1, 1), (1, 1)) for a, v in pairs], 1) + b.d[:, None, None]
            np.testing.assert_allclose(infer(x.d), np.maximum(expected, 0), atol=1e-4)


@pytest.mark.skipif(lanes_of("float32").rows != 6, reason="elsewhere images are multiplied together")
def test_images_that_stay_in_the_nearest_cache_are_computed_one_by_one(run, make_call):
    x, weight = draw(0, 5, 16, 13, 14), draw(1, 16, 16, 4, 5)
    y = np.full((5, 16, 14, 14), np.nan, "f")
    geometry = {"base_axis": 1, "pad": (2, 2), "stride": (1, 1), "dilation": (1, 1), "group": 1}
    call = make_call("Convolution", [x, weight, None], [y], **geometry)
    assert convolution.prepare(call).note == "direct, few positions"
    assert run(convolution, "Convolution", [x, weight, None], [y], **geometry) == 0
    np.testing.assert_allclose(y, wanted(x, weight, None, (2, 2), (1, 1)), rtol=0, atol=1e-3)


@pytest.mark.skipif(lanes_of("float32").rows != 6, reason="elsewhere images are multiplied together")
@pytest.mark.parametrize(
    ("channels", "size", "is_few"), [(1024, 7, True), (1024, 14, True), (1023, 7, False), (1024, 4, False)]
)
def test_images_of_long_sums_are_computed_one_by_one_where_tiles_fill_them(make_call, channels, size, is_few):
    x, weight, y = (
        np.zeros(shape, "f") for shape in ((3, channels, size, size), (64, channels, 1, 1), (3, 64, size, size))
    )
    geometry = {"base_axis": 1, "pad": (0, 0), "stride": (1, 1), "dilation": (1, 1), "group": 1}
    note = convolution.prepare(make_call("Convolution", [x, weight, None], [y], **geometry)).note
    assert note.startswith("direct, few positions") == is_few


@pytest.mark.skipif(lanes_of("float32").rows != 6, reason="elsewhere images are multiplied together")
@pytest.mark.parametrize(
    ("images", "channels", "maps", "size", "is_few"),
    [
        (8, 320, 1280, 7, True),
        (8, 512, 256, 7, False),
        (8, 528, 256, 7, True),
        (9, 528, 256, 7, False),
        (8, 528, 256, 14, False),
        (8, 528, 256, 3, False),
    ],
)
def test_some_images_read_weights_that_leave_the_level_2_cache_once_each(
    make_call, images, channels, maps, size, is_few
):
    shapes = (images, channels, size, size), (maps, channels, 1, 1), (images, maps, size, size)
    x, weight, y = (np.zeros(shape, "f") for shape in shapes)
    geometry = {"base_axis": 1, "pad": (0, 0), "stride": (1, 1), "dilation": (1, 1), "group": 1}
    note = convolution.prepare(make_call("Convolution", [x, weight, None], [y], **geometry)).note
    assert (note == "direct, few positions, tile by tile") == is_few


@pytest.mark.parametrize("packs", [True, False])
def test_several_images_read_weights_that_are_kept_or_packed_by_each_run(packs):
    x, w = nn.Variable((5, 1024, 5, 5)), nn.parameter.get_parameter_or_create("w", (64, 1024, 1, 1), need_grad=True)
    x.d, w.d = draw(3, *x.shape), draw(4, *w.shape)
    with nn.context_scope(Context(["cpu:float"])), nn.auto_forward(False):
        y = F.convolution(x, w)
        infer = nn.inference(y, x)
        for turn in range(3):
            if not packs:
                w.d = draw(5 + turn, *w.shape)
            expected = wanted(x.d, w.d, None, (0, 0), (1, 1))
            np.testing.assert_allclose(infer(x.d), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.skipif(lanes_of("float32").rows != 6, reason="elsewhere the source is read in place")
@pytest.mark.parametrize(("size", "most_in_place"), [(7, 48), (8, 48), (9, 176), (14, 176)])
def test_many_maps_have_the_source_collected(make_call, size, most_in_place):
    def note(maps):
        shapes = (1, 64, size, size), (maps, 64, 1, 1), (1, maps, size, size)
        x, weight, y = (np.zeros(shape, "f") for shape in shapes)
        geometry = {"base_axis": 1, "pad": (0, 0), "stride": (1, 1), "dilation": (1, 1), "group": 1}
        return convolution.prepare(make_call("Convolution", [x, weight, None], [y], **geometry)).note

    assert [note(maps) for maps in (most_in_place, most_in_place + 16)] == [
        f"direct, few positions, {way}" for way in ("in place", "tile by tile")
    ]


@pytest.mark.parametrize("maps", [64, 128])
def test_formulas_are_computed_on_the_way(maps):
    x, w, b = nn.Variable((1, 64, 7, 7)), nn.Variable((maps, 64, 1, 1)), nn.Variable((maps,))
    x.d, w.d, b.d = draw(3, *x.shape), draw(4, *w.shape), draw(5, maps)
    with nn.context_scope(Context(["cpu:float"])), nn.auto_forward(False):
        y = F.relu(F.convolution(x, w, b))
        y.forward()
    assert [step.name for step in y.plan.steps if step.carrier is not None] == ["ReLU"]
    np.testing.assert_allclose(y.d, np.maximum(wanted(x.d, w.d, b.d, (0, 0), (1, 1)), 0), atol=1e-4)


@pytest.mark.skipif(lanes_of("float32").rows != 6, reason="elsewhere long sums have another way")
@pytest.mark.parametrize(("size", "is_few"), [(7, True), (6, True), (8, False), (9, False)])
def test_one_image_whose_positions_fill_no_vectors_is_computed_in_tiles_of_them(make_call, size, is_few):
    x, weight, y = (np.zeros(shape, "f") for shape in ((1, 128, size, size), (64, 128, 3, 3), (1, 64, size, size)))
    geometry = {"base_axis": 1, "pad": (1, 1), "stride": (1, 1), "dilation": (1, 1), "group": 1}
    call = make_call("Convolution", [x, weight, None], [y], **geometry)
    ways = convolution.planar_ways(problem_of(call)._replace(direct_for="without Winograd"))
    assert next(way.name for way in ways if way.pays) == ("few positions" if is_few else "window panels")
