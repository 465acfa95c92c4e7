"""Drawn networks with sizes in them: for inputs of others they compute what is recorded with these, or refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

import atled as nn
import atled.functions as F
import atled.parametric_functions as PF


@pytest.fixture(autouse=True)
def recording():
    nn.clear_parameters()
    with nn.auto_forward(False):
        yield
    nn.clear_parameters()


def batch_normalized(h):
    # The variance is 0 at first: by an epsilon of 1e-5 everything would become 300 times as large.
    return F.relu(PF.batch_normalization(h, batch_stat=False, eps=1.0, name=f"n{h.shape[1]}"))


def rejoined(h):
    """Samples and positions joined for an affine, and taken apart again."""
    rows = F.reshape(h, (-1, h.shape[-1]))
    return F.reshape(PF.affine(rows, 4, name=f"rows{h.shape[-1]}"), (*h.shape[:-1], 4))


def attended(h):
    batch, length, features = h.shape
    heads = F.transpose(F.reshape(h, (batch, length, 2, features // 2)), (0, 2, 1, 3))
    joined = F.reshape(heads, (batch * 2, length, features // 2))
    scores = F.softmax(F.batch_matmul(joined, joined, transpose_b=True))
    apart = F.reshape(F.batch_matmul(scores, joined), (batch, 2, length, features // 2))
    return F.reshape(F.transpose(apart, (0, 2, 1, 3)), h.shape)


def normalized(h):
    mean = F.broadcast(F.mean(h, axis=1, keepdims=True), h.shape)
    return h - mean


def excited(h):
    scale = PF.affine(F.global_average_pooling(h), h.shape[1], name=f"excited{h.shape[1]}")
    return h * F.reshape(F.sigmoid(scale), (h.shape[0], h.shape[1], 1, 1))


def shuffled(h):
    batch, channels, height, width = h.shape
    if channels % 2:
        return h
    groups = F.transpose(F.reshape(h, (batch, 2, channels // 2, height, width)), (0, 2, 1, 3, 4))
    return F.reshape(groups, h.shape)


def unfolded(h):
    batch, channels, height, width = h.shape
    return F.reshape(F.transpose(F.reshape(h, (batch, channels, height * width)), (0, 2, 1)), (-1, channels))


def cropped(h):
    return F.concatenate(h[:, :, : h.shape[2] - 1], h[:, :, h.shape[2] - 1 :], axis=2)


def pooled_back(h):
    if min(h.shape[2:]) < 2:
        return h
    return F.unpooling(F.max_pooling(h, (2, 2)), (2, 2))[:, :, : h.shape[2], : h.shape[3]]


OF_LENGTHS = [
    attended,
    rejoined,
    normalized,
    F.tanh,
    lambda h: h + F.constant(0.5, h.shape),
    lambda h: h + F.constant(0.5, (1, *h.shape[1:])),
    lambda h: F.concatenate(h, F.constant(0.5, (h.shape[0], 1, h.shape[2])), axis=1),
    lambda h: F.concatenate(h, F.broadcast(F.mean(h, axis=1, keepdims=True), (h.shape[0], 2, h.shape[2])), axis=1),
    lambda h: h[:, : h.shape[1]],
    lambda h: h[:, 1:] if h.shape[1] > 1 else h,
    lambda h: h[:, ::-1],
    lambda h: F.stack(*F.split(h, axis=1), axis=1),
    lambda h: F.reshape(h, (h.shape[0], 1, *h.shape[1:]))[:, 0],
    lambda h: F.batch_matmul(h, F.batch_matmul(h, h, transpose_a=True)),
    lambda h: F.flip(h, axes=(1,)),
    lambda h: F.shift(h, (1, 0)),
]

OF_IMAGES = [
    excited,
    shuffled,
    cropped,
    pooled_back,
    lambda h: PF.convolution(h, 4, (3, 3), pad=(1, 1), name=f"c{h.shape[1]}"),
    batch_normalized,
    lambda h: h - F.broadcast(F.mean(h, axis=(2, 3), keepdims=True), h.shape),
    lambda h: h + F.average_pooling(h, h.shape[2:]),
    lambda h: F.average_pooling(h, (3, 3), stride=(1, 1), pad=(1, 1)),
    lambda h: F.max_pooling(h, (2, 2), ignore_border=False),
    lambda h: PF.deconvolution(h, 4, (2, 2), stride=(2, 2), name=f"d{h.shape[1]}"),
    lambda h: F.pad(h, (0, 1, 1, 0)),
    lambda h: F.reshape(F.reshape(h, (h.shape[0], -1)), h.shape),
    lambda h: F.reshape(F.tanh(unfolded(h)), (h.shape[0], h.shape[2], h.shape[3], h.shape[1])),
]

TO_THE_END = [
    lambda h: h,
    lambda h: F.reshape(h, (h.shape[0], -1)),
    lambda h: F.mean(h, axis=tuple(range(2, len(h.shape)))),
    lambda h: F.reshape(h, (math.prod(h.shape[:2]), -1)),
    lambda h: F.sum(h, axis=0),
    lambda h: h[0],
    lambda h: F.max(h, axis=1, keepdims=True),
]


def drawn(rng, blocks):
    """A network, as a function of its input."""
    chosen = [blocks[number] for number in rng.integers(len(blocks), size=rng.integers(1, 5))]
    end = TO_THE_END[rng.integers(len(TO_THE_END))]

    def network(x):
        h = x * 1.5
        for number, block in enumerate(chosen):
            with nn.parameter_scope(str(number)):
                h = block(h)
        return F.identity(end(h))

    return network


def attempt(rng, blocks, draw_shape):
    """The shapes for which a network was computed, and for which it was refused."""
    nn.clear_parameters()
    network = drawn(rng, blocks)
    recorded = draw_shape(rng)
    x = nn.Variable(recorded)
    infer = nn.inference(network(x), x)
    right, refused = [], []
    for _ in range(3):
        shape = draw_shape(rng)
        if rng.random() < 0.5:
            shape = (shape[0], *recorded[1:])
        given = rng.standard_normal(shape).astype(np.float32)
        again = nn.Variable.from_numpy_array(given)
        try:
            y = network(again)
        except ValueError:
            continue  # parameters of another size: it would be another network
        try:
            found = infer(given)
        except ValueError:
            assert shape != recorded
            refused.append(shape)
            continue
        y.forward()
        assert found.shape == y.shape, f"recorded with {recorded}, called with {shape}"
        error = np.abs(found - y.d).max(initial=0)  # of numbers of about 1, or more, which may cancel
        assert error < 1e-4 * np.abs(y.d).max(initial=1), f"recorded with {recorded}, called with {shape}"
        right.append(shape)
    return right, refused


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("blocks", "draw_shape"),
    [
        (OF_LENGTHS, lambda rng: (int(rng.integers(2, 6)), int(rng.integers(2, 9)), 4)),
        (OF_IMAGES, lambda rng: (int(rng.integers(2, 6)), 4, *map(int, rng.integers(2, 11, size=2)))),
    ],
)
def test_networks_compute_for_other_sizes_what_is_recorded_with_these_or_refuse(blocks, draw_shape, seed):
    rng = np.random.default_rng(seed)
    right = [len(attempt(rng, blocks, draw_shape)[0]) for _ in range(12)]
    assert sum(right) > 6
