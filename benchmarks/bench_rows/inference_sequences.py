"""Further networks that are only inferred, of sequences: sound, text, films."""

from __future__ import annotations

import itertools
from typing import Any

from bench_rows.inference_layers import Layers, Network


def _tcn(layers: Layers, h: Any) -> Any:
    """Bai et al., Generic Convolutional and Recurrent Networks for Sequence Modeling, 2018, figure 1: six blocks of 64
    maps with weight normalization in the weights, and padded on both sides.
    """
    channels, maps = 32, 64
    for block in range(6):
        name, dilation = f"block{block}", 2**block
        inner = layers.relu(layers.convolution_nd(h, channels, maps, (3,), name + "a", dilation=dilation))
        inner = layers.relu(layers.convolution_nd(inner, maps, maps, (3,), name + "b", dilation=dilation))
        shortcut = h if channels == maps else layers.convolution_nd(h, channels, maps, (1,), name + "shortcut")
        h = layers.relu(inner + shortcut)
        channels = maps
    return h


def _wav2vec_encoder(layers: Layers, h: Any) -> Any:
    """Baevski et al., wav2vec 2.0, 2020, section 4.2: the encoder of features, of 64 maps for 512, not normalized."""
    channels, maps = 1, 64
    for number, (kernel, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))):
        h = layers.convolution_nd(h, channels, maps, (kernel,), f"conv{number}", stride=(stride,), is_padded=False)
        h = layers.gelu(h)
        channels = maps
    return h


def _keyword_spotting(layers: Layers, h: Any) -> Any:
    """Separable convolutions over time as in Majumdar and Ginsburg, MatchboxNet, 2020: four residual blocks of 64 maps
    on 40 coefficients of a second of sound, normalization in the weights.
    """
    maps = 64
    h = layers.relu(layers.convolution_nd(h, 40, maps, (3,), "first"))
    for block in range(4):
        name = f"block{block}"
        inner = layers.convolution_nd(h, maps, maps, (9,), name + "each", groups=maps)
        h = h + layers.relu(layers.convolution_nd(inner, maps, maps, (1,), name + "point"))
    return layers.affine(layers.mean_of_positions(h), maps, 12, "last")


def _text_cnn(layers: Layers, h: Any) -> Any:
    """Kim, Convolutional Neural Networks for Sentence Classification, 2014, figure 1 and section 3.1; 60 words of 128
    numbers each.
    """
    branches = []
    for words in (3, 4, 5):
        branch = layers.relu(layers.convolution_nd(h, 128, 100, (words,), f"words{words}", is_padded=False))
        branches.append(layers.max_of_positions(branch))
    return layers.affine(layers.concatenate(*branches), 300, 5, "last")


def _gru(layers: Layers, h: Any) -> Any:
    """Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014, section 2.3: one layer."""
    return layers.gru(h, 128, 256, "gru")


def _autoencoder(layers: Layers, h: Any) -> Any:
    """Banbury et al., MLPerf Tiny Benchmark, 2021: anomalies in sound, normalization in the weights."""
    widths = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128)
    for number, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        h = layers.relu(layers.affine(h, inputs, outputs, f"affine{number}"))
    return layers.affine(h, 128, 640, "last")


def _c3d(layers: Layers, h: Any) -> Any:
    """Tran et al., Learning Spatiotemporal Features, 2015, figure 3: its first three stages, narrower."""
    channels = 3
    for stage, (maps, pooled) in enumerate(((32, (1, 2, 2)), (64, (2, 2, 2)), (64, (2, 2, 2)))):
        h = layers.relu(layers.convolution_nd(h, channels, maps, (3, 3, 3), f"stage{stage}"))
        h = layers.max_pooling_nd(h, pooled)
        channels = maps
    return layers.affine(layers.mean_of_positions(h), channels, 10, "last")


def _r3d(layers: Layers, h: Any) -> Any:
    """Tran et al., A Closer Look at Spatiotemporal Convolutions, 2018, table 1, R3D: a block for each of three stages,
    half as wide, normalization in the weights.
    """
    h = layers.relu(layers.convolution_nd(h, 3, 32, (3, 7, 7), "first", stride=(1, 2, 2)))
    channels = 32
    for stage, maps in enumerate((32, 64, 128)):
        name, stride = f"stage{stage}", (1, 1, 1) if channels == maps else (2, 2, 2)
        inner = layers.relu(layers.convolution_nd(h, channels, maps, (3, 3, 3), name + "a", stride=stride))
        inner = layers.convolution_nd(inner, maps, maps, (3, 3, 3), name + "b")
        shortcut = h
        if channels != maps:
            shortcut = layers.convolution_nd(h, channels, maps, (1, 1, 1), name + "shortcut", stride=stride)
        h = layers.relu(inner + shortcut)
        channels = maps
    return layers.affine(layers.mean_of_positions(h), channels, 10, "last")


SEQUENCE_NETWORKS = {
    "TCN": Network((32, 512), _tcn),
    "wav2vec encoder": Network((1, 16000), _wav2vec_encoder),
    "keyword spotting": Network((40, 100), _keyword_spotting),
    "text CNN": Network((128, 60), _text_cnn),
    "GRU": Network((50, 128), _gru),
    "autoencoder": Network((640,), _autoencoder),
    "C3D": Network((3, 16, 56, 56), _c3d),
    "R3D": Network((3, 8, 64, 64), _r3d),
}
