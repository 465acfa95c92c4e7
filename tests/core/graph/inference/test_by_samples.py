"""Chains of convolutions pass through an inference some samples at a time where that moves fewer bytes."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.errors import OutOfMemoryError
from atled.graph.compile import loops
from atled.graph.compile.loops import graph_of
from atled.graph.inference import by_samples
from atled.graph.nodes.loops import LoopOp
from late_handler import interrupted, needs_signals, raises_late

CONTEXT = nn.Context(["cpu"], fallback="raise")
TOLERANCE = 1e-5  # of the largest element: algorithms differ by the number of images


@pytest.fixture(autouse=True)
def recording():
    with nn.auto_forward(False), nn.context_scope(CONTEXT):
        yield


@pytest.fixture(autouse=True)
def near_bytes(monkeypatch):
    """A cache in which hardly anything stays, whatever the processor has; called with another size it has that."""

    def set_to(nbytes):
        monkeypatch.setattr(by_samples, "core_cache_bytes", lambda: nbytes)

    set_to(1 << 10)
    return set_to


def leaf(rng, *shape):
    return nn.Variable.from_numpy_array(rng.standard_normal(shape).astype(np.float32) / np.float32(np.prod(shape[1:])))


def convolved(rng, x, maps, kernel=3, group=1, **geometry):
    weight = leaf(rng, maps, x.shape[1] // group, kernel, kernel)
    return F.convolution(x, weight, leaf(rng, maps), group=group, **geometry)


def inverted_residual(rng, x, wide, maps, stride=1):
    """Expansion, filters of single planes, projection; added to x where the shapes are equal."""
    y = F.minimum_scalar(F.relu(convolved(rng, x, wide, 1)), 6)
    y = F.minimum_scalar(F.relu(convolved(rng, y, wide, 3, wide, pad=(1, 1), stride=(stride, stride))), 6)
    y = convolved(rng, y, maps, 1)
    return x + y if x.shape == y.shape else y


def loops_of(infer):
    return [step.node.spec for step in infer.plan.steps if isinstance(step.node.spec, LoopOp)]


def check(y, x, *, loops):
    """Results are those of forward; the names of what is in the loops."""
    infer = nn.inference(y, x)
    values = np.random.default_rng(5).standard_normal(x.shape, dtype=np.float32)
    found = infer(values)
    x.d = values
    y.forward()
    np.testing.assert_allclose(found, y.d, rtol=0, atol=TOLERANCE * np.abs(y.d).max())
    assert len(loops_of(infer)) == loops
    assert all(step.native is not None for step in infer.plan.steps)
    return [node.spec.name for spec in loops_of(infer) for node in spec.body.nodes]


@pytest.mark.parametrize("seed", range(6))
def test_drawn_chains_give_what_forward_gives(seed, monkeypatch):
    monkeypatch.setattr(by_samples, "_read_again", lambda _: 0)  # however large the weights are
    rng = np.random.default_rng(seed)
    for _ in range(4):
        batch, channels = int(rng.choice([2, 3, 4, 6])), int(rng.integers(1, 20))
        x = nn.Variable((batch, channels, *rng.integers(17, 40, size=2).tolist()))
        y = convolved(rng, x, int(rng.integers(8, 24)), 3, pad=(1, 1), stride=(int(rng.integers(1, 3)),) * 2)
        for _ in range(int(rng.integers(1, 4))):
            maps = y.shape[1] if rng.random() < 0.5 else int(rng.integers(4, 24))
            y = inverted_residual(rng, y, int(rng.integers(8, 60)), maps, int(rng.choice([1, 1, 2])))
        check(F.mean(y, axis=(2, 3)), x, loops=1)


def test_what_reads_all_samples_is_behind_the_loop():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = inverted_residual(rng, x, 32, 8)
    y = convolved(rng, y - F.mean(y, axis=0, keepdims=True), 8, 1)
    assert "Mean" not in check(y, x, loops=1)


def squeezed(rng, y, reduce=F.mean):
    """y scaled by a number per sample and map, which follows from what all positions have in common."""
    return y * F.sigmoid(convolved(rng, reduce(y, axis=(2, 3), keepdims=True), y.shape[1], 1))


@pytest.mark.parametrize("reduce", [F.max, F.mean, F.min, F.sum])
def test_what_scales_each_sample_is_within_a_chain(reduce):
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = squeezed(rng, inverted_residual(rng, x, 32, 16), reduce)
    names = check(inverted_residual(rng, y, 32, 16), x, loops=1)
    assert names.count("Convolution") == 7
    assert {"Max", "Mean", "Min", "Sum"} & set(names)


def test_a_number_per_sample_may_be_left_without_its_axes():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = F.mean(convolved(rng, F.relu(convolved(rng, x, 32, 1)), 16, 3), axis=(3, 1))
    assert "Mean" in check(F.mean(y * y, axis=-1), x, loops=1)


def test_scales_of_all_samples_end_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = convolved(rng, F.relu(convolved(rng, x, 32, 1)), 16, 3)
    assert "Mul2" not in check(convolved(rng, y * F.mean(y, axis=(0, 2, 3), keepdims=True), 8, 1), x, loops=1)


def test_layers_on_maps_behind_positions_are_within_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((3, 8, 25, 23))
    y = F.transpose(convolved(rng, convolved(rng, x, 16, 1), 16, 5, 16, pad=(2, 2)), (0, 2, 3, 1))
    y = (y - F.mean(y, axis=-1, keepdims=True)) * leaf(rng, 1, 1, 1, 16)
    y = F.affine(F.tanh(F.affine(y, leaf(rng, 16, 48), leaf(rng, 48), base_axis=3)), leaf(rng, 48, 8), base_axis=-1)
    names = check(convolved(rng, x + F.transpose(y, (0, 3, 1, 2)), 12, 1), x, loops=1)
    assert names.count("Affine") == 2 == names.count("Transpose")


def test_samples_that_change_places_end_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = convolved(rng, F.relu(convolved(rng, x, 32, 1)), 4, 3, pad=(1, 1))
    assert "Transpose" not in check(convolved(rng, F.transpose(y, (1, 0, 2, 3)), 8, 1), x, loops=1)


def test_a_product_with_what_is_no_parameter_ends_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = convolved(rng, F.relu(convolved(rng, x, 32, 1)), 4, 3, pad=(1, 1))
    assert "Affine" not in check(F.affine(y, F.reshape(y, (24, -1)), base_axis=3), x, loops=1)


def test_an_operand_that_is_the_same_for_all_samples_is_read_by_each():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = convolved(rng, x, 32, 1) * leaf(rng, 1, 32, 24, 24) + leaf(rng, 1, 1, 1, 24)
    assert "Mul2" in check(convolved(rng, y, 16, 3), x, loops=1)


def test_pooling_is_within_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((3, 3, 33, 33))
    y = F.max_pooling(F.relu(convolved(rng, x, 24, 3, stride=(2, 2))), (3, 3), stride=(2, 2), pad=(1, 1))
    assert check(convolved(rng, y, 8, 1), x, loops=1).count("MaxPooling") == 1


def test_maps_of_branches_are_joined_within_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    branches = [F.relu(convolved(rng, x, maps, kernel, pad=(kernel // 2,) * 2)) for maps, kernel in ((5, 1), (12, 3))]
    y = F.concatenate(F.concatenate(x, *branches, axis=1), F.concatenate(branches[1], x, axis=-3), axis=1)
    assert check(convolved(rng, y, 8, 1), x, loops=1).count("Concatenate") == 3


def test_rows_and_columns_are_joined_within_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((3, 8, 24, 24))
    y = convolved(rng, x, 16, 3)
    y = F.concatenate(y, F.concatenate(y, y, axis=3)[:, :, :, 3:25], axis=2)
    y = convolved(rng, F.concatenate(y, y), 16, 3)
    assert "Concatenate" in check(convolved(rng, y, 8, 1), x, loops=1)


def test_samples_that_are_joined_end_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = convolved(rng, F.relu(convolved(rng, x, 32, 1)), 16, 3)
    assert "Concatenate" not in check(F.concatenate(y, -y, axis=0), x, loops=1)


def test_maps_that_are_joined_with_a_parameter_end_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    y = convolved(rng, F.relu(convolved(rng, x, 32, 1)), 16, 3)
    assert "Concatenate" not in check(F.concatenate(y, leaf(rng, *y.shape), axis=1), x, loops=1)


def test_what_joining_reads_counts_in_full(near_bytes):
    rng = np.random.default_rng(0)
    x = nn.Variable((12, 8, 24, 24))
    y = convolved(rng, x, 8, 3, pad=(1, 1))
    y = convolved(rng, F.concatenate(*[F.relu(y)] * 4, axis=1), 8, 1)
    near_bytes(2 * 4 * 24 * 24 * (8 + 32))  # of two samples, if one input of four counted
    (loop,) = loops_of(nn.inference(y, x))
    assert loop.body.inputs[0].shape[0] == 1


def test_several_values_may_leave_a_chain():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    inner = inverted_residual(rng, x, 32, 16)
    outer = inverted_residual(rng, inner, 48, 16)
    infer = nn.inference([inner, outer, F.reshape(outer, (4, -1))], x)
    values = rng.standard_normal(x.shape, dtype=np.float32)
    found = infer(values)
    x.d = values
    for one, y in zip(found, (inner, outer, F.reshape(outer, (4, -1))), strict=True):
        y.forward()
        np.testing.assert_allclose(one, y.d, rtol=0, atol=TOLERANCE * np.abs(y.d).max())
    assert len(loops_of(infer)) == 1


def test_large_weights_on_few_positions_take_the_batch_as_a_whole():
    rng = np.random.default_rng(0)
    x = nn.Variable((8, 256, 5, 5))
    check(convolved(rng, F.relu(convolved(rng, x, 256, 1)), 256, 1), x, loops=0)


def test_what_stays_in_the_cache_takes_the_batch_as_a_whole(near_bytes):
    near_bytes(1 << 24)
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    check(inverted_residual(rng, x, 32, 8), x, loops=0)


def test_as_many_samples_at_a_time_as_stay_in_the_cache(near_bytes):
    rng = np.random.default_rng(0)
    x = nn.Variable((12, 8, 24, 24))
    y = inverted_residual(rng, x, 32, 8)
    one = 4 * 24 * 24 * (32 + 32)  # bytes that the filters read and write of one sample
    for size, count in ((one // 2, 1), (one, 1), (3 * one, 3), (5 * one, 4)):
        near_bytes(size)
        infer = nn.inference(y, x)
        (loop,) = loops_of(infer)
        assert loop.body.inputs[0].shape[0] == count
        assert f"{count} of 12 samples at a time" in str(infer.plan)


def test_an_explanation_tells_of_the_loop():
    rng = np.random.default_rng(0)
    x = nn.Variable((12, 8, 24, 24))
    y = inverted_residual(rng, x, 32, 8)
    explained = nn.explain(nn.inference(y, x))
    assert str(explained).endswith(explained.loops[0])
    (loop,) = explained.loops
    assert "1 of 12 at a time" in loop and loop.endswith("Convolution, Add2") and "its steps: Convolution, ReLU" in loop
    infer = nn.inference(y, x)
    infer(np.zeros((1, 8, 24, 24), np.float32))
    assert nn.explain(infer).loops == (), "of the plan that ran last"
    assert nn.explain(y).loops == ()


def test_an_explanation_of_what_cannot_be_planned_says_so(monkeypatch):
    x = nn.Variable((12, 8, 24, 24))
    infer = nn.inference(F.relu(x), x)
    monkeypatch.setattr(nn.inferring, "compile_inference", lambda *_: 1 / 0)
    explained = nn.explain(infer)
    assert [call.op for call in explained.calls] == ["ReLU"]
    assert str(explained).endswith("planning it fails: ZeroDivisionError: division by zero")


@needs_signals
def test_what_a_handler_of_a_signal_raises_amid_planning_is_no_answer(monkeypatch):
    x = nn.Variable((12, 8, 24, 24))
    explained = nn.explain(nn.inference(F.relu(x), x))
    monkeypatch.setattr(nn.inferring, "compile_inference", interrupted)
    with raises_late():
        str(explained)


def test_one_sample_needs_no_loop():
    rng = np.random.default_rng(0)
    x = nn.Variable((1, 8, 24, 24))
    check(inverted_residual(rng, x, 32, 8), x, loops=0)


def test_batches_of_any_size_have_one_plan_of_what_is_in_the_loop(monkeypatch):
    made = []
    monkeypatch.setattr(loops, "graph_of", lambda *given: made.append(given) or graph_of(*given))
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 7, 23, 25))
    y = F.mean(inverted_residual(rng, x, 33, 9), axis=(2, 3))
    infer = nn.inference(y, x)
    for batch in (4, 6, 3, 4):
        values = rng.standard_normal((batch, 7, 23, 25), dtype=np.float32)
        one_by_one = np.concatenate([infer(values[n : n + 1]) for n in range(batch)])
        found = infer(values)
        np.testing.assert_allclose(found, one_by_one, rtol=0, atol=TOLERANCE * np.abs(found).max())
        assert [loop.length for loop in loops_of(infer)] == [batch]
    assert len(made) == 1


def test_memory_is_for_few_samples(monkeypatch):
    rng = np.random.default_rng(0)
    x = nn.Variable((16, 8, 24, 24))
    y = F.mean(inverted_residual(rng, x, 96, 8), axis=(2, 3))
    whole = sum(slot.nbytes for slot in nn.inference(y, x).plan.slots if slot.source[0] == "internal")
    monkeypatch.setattr(by_samples, "_chain", lambda *_: None)
    expanded = 16 * 96 * 24 * 24 * 4
    assert sum(slot.nbytes for slot in nn.inference(y, x).plan.slots if slot.source[0] == "internal") > expanded
    assert whole < expanded


def test_a_parameter_that_is_written_is_read_anew():
    rng = np.random.default_rng(0)
    x = nn.Variable((4, 8, 24, 24))
    weight = leaf(rng, 32, 8, 1, 1)
    infer = nn.inference(convolved(rng, F.relu(F.convolution(x, weight)), 8, 3), x)
    values = rng.standard_normal(x.shape, dtype=np.float32)
    before = infer(values)
    np.testing.assert_array_equal(infer(values), before)  # by packs that are kept
    weight.d = 0
    assert np.abs(infer(values) - before).max() > 0
    assert len(loops_of(infer)) == 1


def test_a_batch_that_no_memory_holds_is_refused_at_once():
    """How many samples go at a time is not looked for among all counts up to 2 ** 40."""
    x = nn.Variable((2, 3))
    infer = nn.inference(PF.affine(F.tanh(x), 4, name="a"), x)
    with pytest.raises(OutOfMemoryError):
        infer(np.broadcast_to(np.float32(1), (1 << 40, 3)))
