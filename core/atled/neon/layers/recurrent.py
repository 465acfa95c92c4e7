"""Recurrent layers, under neon's name of the module."""

from __future__ import annotations

from atled.neon.layers.recurrence.bi_lstm import BiLSTM
from atled.neon.layers.recurrence.bi_normalized import BiBNRNN
from atled.neon.layers.recurrence.bi_plain import BiRNN
from atled.neon.layers.recurrence.deep import DeepBiLSTM, DeepBiRNN
from atled.neon.layers.recurrence.gated import GRU, LSTM
from atled.neon.layers.recurrence.plain import Recurrent
from atled.neon.layers.recurrence.steps import get_steps
from atled.neon.layers.recurrence.summaries import BiSum, RecurrentLast, RecurrentMean, RecurrentSum
from atled.neon.layers.shapes import interpret_in_shape

__all__ = [
    "GRU",
    "LSTM",
    "BiBNRNN",
    "BiLSTM",
    "BiRNN",
    "BiSum",
    "DeepBiLSTM",
    "DeepBiRNN",
    "Recurrent",
    "RecurrentLast",
    "RecurrentMean",
    "RecurrentSum",
    "get_steps",
    "interpret_in_shape",
]
