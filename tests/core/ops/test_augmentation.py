"""Random crops, flips and shifts: draws per sample, their range, and gradients that go where elements came from."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import atled as nn
import atled.functions as F
from atled.array_desc import ArrayDesc
from atled.ops import philox
from atled.ops.spec import SPECS

X = np.arange(400 * 3 * 8.0).reshape(400, 3, 8)
RANDOM_STATE = np.array([7, 3])


def draw(op, x=X, random_state=RANDOM_STATE, **attributes):
    """y of one call by the reference."""
    spec = SPECS[op]
    desc = ArrayDesc(x.shape, x.dtype)
    y, index = spec.reference(x, random_state, **spec.check_attributes(attributes, [desc]))
    assert_array_equal(y, x.reshape(-1)[index])
    return y


def test_crops_are_parts_at_every_possible_place():
    y = draw("RandomCrop", shape=(2, 5))
    rows, columns = (y[:, 0, 0] - X[:, 0, 0]) // 8, (y[:, 0, 0] - X[:, 0, 0]) % 8
    assert set(zip(rows, columns, strict=True)) == {(r, c) for r in range(2) for c in range(4)}
    for sample in range(0, 400, 37):
        r, c = int(rows[sample]), int(columns[sample])
        assert_array_equal(y[sample], X[sample, r : r + 2, c : c + 5])


def test_the_offset_of_a_crop_is_word_by_word_of_the_stream():
    y = draw("RandomCrop", shape=(2, 5))
    words = philox.words(RANDOM_STATE, 800).reshape(400, 2)
    offsets = (words * np.array([2, 4], np.uint64)) >> np.uint64(32)
    assert_array_equal(y[:, 0, 0] - X[:, 0, 0], offsets @ np.array([8, 1], np.uint64))


def test_base_axis_0_makes_all_one_sample():
    y = draw("RandomCrop", X[:6], shape=(6, 3, 5), base_axis=0)
    assert len(set(y[:, 0, 0] % 8)) == 1


def test_a_size_before_base_axis_may_be_repeated():
    assert_array_equal(draw("RandomCrop", shape=(400, 2, 5)), draw("RandomCrop", shape=(2, 5)))


def test_flips_come_with_probability_a_half_each():
    y = draw("RandomFlip", axes=(1, 2))
    up = y[:, 0, 0] - X[:, 0, 0] >= 8
    over = (y[:, 0, 0] - X[:, 0, 0]) % 8 == 7
    for flipped in (up, over, up & over):
        share = 0.25 if flipped is not up and flipped is not over else 0.5
        assert abs(flipped.mean() - share) < 0.1  # at least 4 standard deviations
    for sample in range(20):
        each = X[sample, :: -1 if up[sample] else 1, :: -1 if over[sample] else 1]
        assert_array_equal(y[sample], each)


@pytest.mark.parametrize("border_mode", ["nearest", "reflect"])
def test_shifts_are_those_of_shift_within_their_range(reference, border_mode):
    y = draw("RandomShift", shifts=(1, 2), border_mode=border_mode)
    seen = set()
    for sample in range(60):
        for shift in ((a, b) for a in (-1, 0, 1) for b in (-2, -1, 0, 1, 2)):
            if np.array_equal(y[sample], reference("Shift", X[sample], shifts=shift, border_mode=border_mode)):
                seen.add(shift)
                break
        else:
            pytest.fail(f"sample {sample} is not x shifted")
    assert len(seen) == 15


@pytest.mark.parametrize(
    ("function", "attributes"),
    [("random_crop", {"shape": (2, 5)}), ("random_flip", {"axes": (1, 2)}), ("random_shift", {"shifts": (1, 3)})],
)
def test_gradients_count_where_elements_came_from(backend, function, attributes):
    x = nn.Variable.from_numpy_array(X[:5].astype(np.float32), need_grad=True)
    y = getattr(F, function)(x, seed=3, **attributes)
    draws = []
    for _ in range(2):
        y.forward()
        x.grad.zero()
        y.backward(1)
        assert_array_equal(x.g.ravel(), np.bincount(y.d.ravel().astype(int), minlength=x.size))
        draws.append(y.d.copy())
    assert not np.array_equal(*draws)


def test_equal_seeds_draw_equally(backend):
    x = nn.Variable.from_numpy_array(X[:20].astype(np.float32))
    first, second = (F.random_crop(x, (2, 5), seed=3) for _ in range(2))
    for _ in range(2):
        first.forward()
        second.forward()
        assert_array_equal(first.d, second.d)
