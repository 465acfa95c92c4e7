"""Packed weights that are kept from run to run: never stale, the same bits, shared, and given up where they change."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.solvers as S
from atled.arrays.constants import CONSTANTS
from atled.graph.inference import on_host
from atled.graph.run.packs import wanted
from atled.keyed import Description
from ways_of_writing import all_ways

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 16, 12, 12), "f")
WEIGHTS = RNG.standard_normal((3, 24, 16, 3, 3), "f")


@pytest.fixture(autouse=True)
def empty():
    nn.clear_memory_cache()
    yield
    CONSTANTS.set_limit(1 << 30)


def leaf(values, need_grad=None):
    return nn.Variable.from_numpy_array(values, need_grad=need_grad)


def convolution(images, weight):
    return F.convolution(images, weight, pad=(1, 1))


def computed(images, weight):
    """In a first run, which packs by itself."""
    y = convolution(leaf(images), leaf(weight))
    y.forward()
    return y.d.copy()


def counted():
    return nn.memory_statistics()["caches"]["constants"]


def is_kept(y):
    """Whether its plan has a pack after two runs more."""
    y.forward()
    y.forward()
    return counted() > 0


@pytest.fixture
def graph():
    """x, w, y with a kept pack of w."""
    x, w = leaf(IMAGES), leaf(WEIGHTS[0], need_grad=True)
    y = convolution(x, w)
    y.forward()
    y.forward()
    assert counted() == 1
    return x, w, y


def test_results_are_the_same_bits_with_and_without(graph):
    _, _, y = graph
    np.testing.assert_array_equal(y.d, computed(IMAGES, WEIGHTS[0]))


@all_ways
def test_no_way_of_writing_leaves_a_stale_pack(graph, write):
    _, w, y = graph
    write(w, WEIGHTS[1])
    for _ in range(4):
        y.forward()
        np.testing.assert_array_equal(y.d, computed(IMAGES, WEIGHTS[1]))


def test_a_view_that_is_held_is_looked_through_at_each_run(graph):
    _, w, y = graph
    view = w.d
    for values in (*WEIGHTS, *WEIGHTS):
        view[...] = values
        y.forward()
        np.testing.assert_array_equal(y.d, computed(IMAGES, values))


def trained_by_updates(y, w):
    solver = S.Sgd(0.1)
    solver.set_parameters({"w": w})

    def step():
        loss = F.mean(y)
        loss.forward()
        w.grad.zero()
        loss.backward()
        solver.update()

    return step


def trained_by_a_compiled_step(y, w):
    solver = S.Momentum(0.1)
    solver.set_parameters({"w": w})
    return nn.compile_step(F.mean(y), solver)


@pytest.mark.parametrize("training", [trained_by_updates, trained_by_a_compiled_step])
def test_updates_in_place_are_seen(graph, training):
    x, w, y = graph
    step = training(convolution(x, w), w)
    for _ in range(3):
        step()
        y.forward()
        y.forward()
        np.testing.assert_array_equal(y.d, computed(IMAGES, w.data.data.copy()))


def test_plans_of_several_batch_sizes_share_one_pack():
    w = leaf(WEIGHTS[0])
    made = [convolution(leaf(np.repeat(IMAGES, size, 0)), w) for size in (1, 2)]
    for y in made * 3:
        y.forward()
    assert counted() == 1


def test_what_changes_at_each_run_is_not_kept_and_hardly_looked_at():
    w = leaf(WEIGHTS[0])
    y = convolution(leaf(IMAGES), w)
    for number in range(200):
        w.d = WEIGHTS[number % 3]
        y.forward()
        assert counted() == 0
    packs = y.value.details.roots.forward.binding._packs
    assert packs._rest > 0 and packs._idle == 15
    assert is_kept_after(y, 40)


def is_kept_after(y, count):
    for _ in range(count):
        y.forward()
    return counted() > 0


def test_where_there_is_no_room_results_are_the_same():
    nn.set_constants_limit(0)
    y = convolution(leaf(IMAGES), leaf(WEIGHTS[0]))
    assert not is_kept(y)
    y.forward()
    np.testing.assert_array_equal(y.d, computed(IMAGES, WEIGHTS[0]))


def test_plans_whose_packs_do_not_all_fit_keep_what_they_have(graph):
    _, w, y = graph
    nn.set_constants_limit(nn.memory_statistics()["caches"]["bytes of constants"])
    others = [convolution(leaf(IMAGES), leaf(values)) for values in WEIGHTS[1:]]
    for _ in range(2):
        y.forward()
    for other in others:
        for _ in range(2):
            other.forward()
    kept = [each.value.details.roots.forward.binding._packs._wanted[0].constant for each in (y, *others)]
    assert [constant.kept is not None for constant in kept] == [False, False, True]  # the one that began last
    for _ in range(6):
        for each in (y, *others):
            each.forward()
    assert [constant.kept is not None for constant in kept] == [False, False, True]
    np.testing.assert_array_equal(y.d, computed(IMAGES, w.data.data))


def test_what_was_dropped_is_made_again(graph):
    _, _, y = graph
    nn.clear_memory_cache()
    assert counted() == 0
    assert is_kept(y)
    np.testing.assert_array_equal(y.d, computed(IMAGES, WEIGHTS[0]))


def test_a_trace_sees_the_same_results(graph):
    _, _, y = graph
    with nn.trace():
        y.forward()
    np.testing.assert_array_equal(y.d, computed(IMAGES, WEIGHTS[0]))


def test_what_is_pending_is_computed_before_the_lock_of_constants_is_held(monkeypatch):
    """A thread that plans holds the lock of planning and asks the store: in the other order the two would wait."""
    found = []

    def is_held():
        thread = threading.Thread(target=CONSTANTS.offers, args=(0, 0), daemon=True)
        thread.start()
        thread.join(5 if not found else 0)
        return thread.is_alive()

    def watched(*arguments, **how):
        item = wanted(*arguments, **how)

        def source():
            found.append(is_held())
            return item.source()

        return item._replace(source=source)

    monkeypatch.setattr(on_host, "wanted", watched)
    x, w = leaf(IMAGES), leaf(WEIGHTS[0])
    infer = nn.inference(convolution(x, w), x)
    for _ in range(4):
        infer(IMAGES)
    assert found and not found[0]


def test_what_is_written_while_threads_pack_it_is_not_stale_afterwards(graph):
    _, w, _ = graph
    graphs = [convolution(leaf(IMAGES), w) for _ in range(2)]
    done = threading.Event()

    def infer(y):
        while not done.is_set():
            y.forward()

    threads = [threading.Thread(target=infer, args=(y,)) for y in graphs]
    for thread in threads:
        thread.start()
    for number in range(60):
        w.data.data = WEIGHTS[number % 2]
    done.set()
    for thread in threads:
        thread.join()
    for y in graphs:
        y.forward()
        np.testing.assert_array_equal(y.d, computed(IMAGES, WEIGHTS[1]))


SHAPES = [
    ((1, 512, 7, 7), (512, 512, 3, 3), {"pad": (1, 1)}),
    ((1, 128, 28, 28), (256, 128, 3, 3), {"pad": (1, 1), "stride": (2, 2)}),
    ((2, 3, 64, 64), (64, 3, 7, 7), {"pad": (3, 3), "stride": (2, 2)}),
    ((2, 8, 32, 32), (12, 8, 5, 5), {"pad": (2, 2)}),
    ((2, 16, 9, 9), (24, 4, 3, 3), {"group": 4, "dilation": (2, 2)}),
    ((1, 16, 14, 14), (40, 16, 3, 3), {"pad": (1, 1)}),
    ((2, 4, 9, 9), (6, 2, 5, 5), {"group": 2}),
]


@pytest.mark.parametrize("x, w, attributes", SHAPES, ids=lambda value: str(value))
def test_every_way_of_convolving_gives_the_same_bits(x, w, attributes):
    rng = np.random.default_rng(1)
    images, weight, bias = (leaf(rng.standard_normal(shape, "f")) for shape in (x, w, w[:1]))
    y = F.relu(F.convolution(images, weight, bias, **attributes))
    found = []
    for _ in range(4):
        y.forward()
        found.append(y.d.copy())
    assert counted() == 1
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


PRODUCTS = [
    ((8, 300), (300, 200), {}),
    ((2, 600), (600, 200), {}),
    ((3, 1100), (1100, 120), {}),
    ((200, 64), (70, 64), {"transpose_b": True}),
    ((64, 40), (64, 300), {"transpose_a": True}),
    ((40, 1100), (1100, 33), {}),
    ((70, 600), (600, 513), {}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("a, b, attributes", PRODUCTS, ids=lambda value: str(value))
def test_products_with_a_packed_matrix_give_the_same_bits(a, b, attributes, dtype):
    rng = np.random.default_rng(2)
    left, right = (leaf(rng.standard_normal(shape).astype(dtype)) for shape in (a, b))
    with nn.context_scope(nn.Context({"float32": "cpu:float", "float64": "cpu:double"}[dtype])):
        y = F.batch_matmul(left, right, **attributes)
    found = []
    for _ in range(4):
        y.forward()
        found.append(y.d.copy())
    assert counted() == 1
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("rows", [2, 3, 8])
def test_a_layer_packs_its_weight_and_not_what_it_reads(rows):
    rng = np.random.default_rng(3)
    images, weight, bias = (leaf(rng.standard_normal(shape, "f")) for shape in ((rows, 300), (300, 200), (200,)))
    y = F.relu(F.affine(images, weight, bias))
    y.forward()
    expected = y.d.copy()
    y.forward()
    assert counted() == 1
    np.testing.assert_array_equal(y.d, expected)
    images.d = images.d.copy()
    y.forward()
    assert counted() == 1


@pytest.mark.parametrize("layer, maps", [("LSTMSequence", 4), ("GRUSequence", 3), ("RNNSequence", 1)])
def test_recurrent_layers_with_a_packed_weight_give_the_same_bits(layer, maps):
    rng = np.random.default_rng(4)
    steps, batch, depth, size = 3, 2, 20, 40
    shapes = [
        (steps, batch, depth),
        (batch, size),
        (batch, size),
        (maps, size, depth + size),
        (maps + (maps == 3), size),
    ]
    inputs = [array_of(rng, shape) for shape in (shapes if maps == 4 else [*shapes[:2], *shapes[3:]])]
    found = []
    for _ in range(4):
        d = Description()
        d.result(d.call(layer, *map(d.leaf, inputs)))
        found.append(d.run()[0].data.copy())
    assert counted() == (1 if maps > 1 else 0)  # the smallest weight is one of those that are not packed there
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def array_of(rng, shape):
    return nn.NdArray.from_numpy_array(0.3 * rng.standard_normal(shape, "f"))


def test_a_result_of_another_plan_is_read_anew_whenever_that_ran():
    values = leaf(WEIGHTS[0])
    made = F.mul_scalar(values, 1.0)
    y = convolution(leaf(IMAGES), nn.Variable.from_numpy_array(WEIGHTS[0]))
    weight = y.parent.inputs[1]
    made.forward()
    weight.data = made.data
    for values.d in (*WEIGHTS, *WEIGHTS):
        made.forward()
        for _ in range(3):
            y.forward()
            np.testing.assert_array_equal(y.d, computed(IMAGES, values.data.data.copy()))
