"""A reshape takes apart what another one joined, for inputs of other shapes."""

from __future__ import annotations

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF
from atled.errors import RefusedError


@pytest.fixture(autouse=True)
def recording():
    nn.clear_parameters()
    with nn.auto_forward(False):
        yield
    nn.clear_parameters()


def check(made, recorded, shapes):
    """An inference of a graph gives for each shape what the graph recorded with that gives."""
    x = nn.Variable(recorded)
    infer = nn.inference(made(x), x)
    for shape in shapes:
        values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        own = nn.Variable.from_numpy_array(values)
        expected = made(own)
        expected.forward()
        np.testing.assert_allclose(infer(values), expected.d, rtol=1e-4, atol=1e-5)


def attention(x, heads=4, size=4):
    """Heads counted as samples, and taken apart again: (N, T, D) -> (N, T, D)."""
    n, t = x.shape[:2]

    def apart(name):
        h = F.reshape(PF.affine(x, heads * size, base_axis=2, name=name), (n, t, heads, size))
        return F.reshape(F.transpose(h, (0, 2, 1, 3)), (n * heads, t, size))

    scores = F.softmax(F.batch_matmul(apart("q"), apart("k"), transpose_b=True), axis=2)
    h = F.reshape(F.batch_matmul(scores, apart("v")), (n, heads, t, size))
    return F.reshape(F.transpose(h, (0, 2, 1, 3)), (n, t, heads * size))


def test_heads_of_attention_are_counted_as_samples():
    check(attention, (3, 5, 8), [(3, 5, 8), (7, 5, 8), (3, 9, 8), (4, 4, 8), (6, 17, 8), (1, 1, 8), (0, 5, 8)])


def test_sequences_may_lead():
    def made(x):  # (T, N, D), where the samples are behind the length, as PyTorch and NNabla 1.39 have it
        t, n = x.shape[:2]
        h = F.transpose(F.reshape(x, (t, n * 4, 2)), (1, 0, 2))
        h = F.softmax(F.batch_matmul(h, h, transpose_b=True), axis=2)
        return F.reshape(
            F.transpose(F.batch_matmul(h, F.tanh(F.reshape(F.transpose(h, (0, 2, 1)), h.shape))), (1, 0, 2)),
            (t, n, 4 * t),
        )

    check(made, (5, 3, 8), [(5, 7, 8)])


def test_positions_that_an_affine_map_takes_as_samples_come_back():
    def made(x):
        h = F.relu(PF.affine(F.reshape(x, (x.shape[0] * x.shape[1], 8)), 6, name="a"))
        return F.reshape(PF.affine(h, 4, name="b"), (x.shape[0], x.shape[1], 4))

    check(made, (3, 5, 8), [(7, 5, 8), (3, 2, 8), (6, 10, 8), (5, 3, 8), (1, 1, 8)])


def test_normalization_folded_into_a_product_keeps_what_was_joined():
    def made(x):
        h = PF.affine(F.reshape(x, (x.shape[0] * x.shape[1], 8)), 6, name="a")
        h = F.relu(PF.batch_normalization(h, batch_stat=False, name="a"))
        return F.reshape(h, (x.shape[0], x.shape[1], 6))

    check(made, (3, 5, 8), [(7, 5, 8), (6, 10, 8)])


def test_frames_of_videos_are_images():
    def made(x):
        n, t = x.shape[:2]
        h = PF.convolution(F.reshape(x, (n * t, *x.shape[2:])), 4, (3, 3), pad=(1, 1), name="c")
        return F.mean(F.reshape(F.max_pooling(h, (2, 2)), (n, t, 4, 4, 4)), axis=1)

    check(made, (2, 3, 3, 8, 8), [(5, 3, 3, 8, 8), (2, 7, 3, 8, 8), (4, 4, 3, 8, 8)])


@pytest.mark.parametrize("shape", [(1, 1, 4), (1, 4), (4, 1)])
def test_one_sample_that_was_joined_is_not_taken_for_that_of_an_axis_of_one(shape):
    x = nn.Variable((1, 4))
    infer = nn.inference(F.tanh(F.reshape(F.tanh(F.reshape(x, (4,))), shape)), x)
    with pytest.raises(RefusedError, match=r"were joined to \(12,\)(?s:.*)a batch of 2 or more"):
        infer(np.ones((3, 4), np.float32))


def test_heads_that_were_recorded_with_one_sample_are_refused():
    x = nn.Variable((1, 5, 8))
    infer = nn.inference(attention(x), x)
    with pytest.raises(RefusedError, match=r"reshape from \(4, 5, 4\) to \(1, 4, 5, 4\)"):
        infer(np.ones((3, 5, 8), np.float32))
    assert infer(np.ones((1, 7, 8), np.float32)).shape == (1, 7, 16)


def test_an_axis_that_nothing_joined_is_not_taken_apart():
    x = nn.Variable((12, 4))
    infer = nn.inference(F.tanh(F.reshape(x, (3, 4, 4))), x)
    with pytest.raises(RefusedError, match="which axis of the result is axis 0"):
        infer(np.ones((28, 4), np.float32))


class Drawn:
    """Reshapes and transpositions of an array whose axes have names, written with the sizes that these have."""

    def __init__(self, seed, sizes):
        self.random = np.random.default_rng(seed)
        self.sizes = sizes

    def __call__(self, x):
        self.random = np.random.default_rng(self.random.bit_generator.seed_seq)
        axes, h = [[0], [1], [2], [3]], x
        for _ in range(self.random.integers(2, 7)):
            way, at = self.random.integers(0, 4), self.random.integers(0, len(axes))
            if way == 0 and at + 1 < len(axes):
                axes[at : at + 2] = [axes[at] + axes[at + 1]]
            elif way == 1 and len(axes[at]) > 1:
                cut = self.random.integers(1, len(axes[at]))
                axes[at : at + 1] = [axes[at][:cut], axes[at][cut:]]
            elif way == 2:
                order = self.random.permutation(len(axes)).tolist()
                h, axes = F.transpose(h, order), [axes[each] for each in order]
            else:
                h = F.tanh(h) + h * 0.5
            shape = [int(np.prod([self.sizes[each] for each in axis])) for axis in axes]
            h = F.reshape(h, shape)
        return F.relu(h)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_reshapes_are_right_or_refused(seed):
    random = np.random.default_rng([seed, 1])
    recorded = random.integers(1 + seed % 2, 5, 4).tolist()
    x = nn.Variable(recorded)
    infer = nn.inference(Drawn(seed, recorded)(x), x)
    for _ in range(8):
        sizes = [size if random.random() < 0.5 else int(random.integers(1, 7)) for size in recorded]
        values = random.standard_normal(sizes).astype(np.float32)
        expected = Drawn(seed, sizes)(nn.Variable.from_numpy_array(values))
        expected.forward()
        try:
            found = infer(values)
        except RefusedError:
            continue
        np.testing.assert_array_equal(found.reshape(expected.shape), expected.d)
        assert found.shape == expected.shape
