"""Lists of recurrent layers, one on the other, as containers take them."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts, shortened
from atled.neon.layers.recurrence.bi_lstm import BiLSTM
from atled.neon.layers.recurrence.bi_normalized import BiBNRNN
from atled.neon.layers.recurrence.bi_plain import BiRNN
from atled.neon.layers.recurrence.summaries import BiSum


class DeepBiRNN(list[Any]):
    """BiRNN on BiRNN: each direction goes on with its own half, or both with the sum of the halves.

    nout, init, init_inner, activation, reset_cells: as of BiRNN, for all.  depth: how many layers.
    batch_norm: whether they are BiBNRNN.  bi_sum: whether behind each one a BiSum adds both directions up.
    ValueError: a depth below 1.
    """

    def __init__(
        self,
        nout: int,
        init: Any,
        init_inner: Any = None,
        activation: Any = None,
        reset_cells: bool = False,
        depth: int = 1,
        batch_norm: bool = False,
        bi_sum: bool = False,
    ) -> None:
        super().__init__()
        _check_depth(self, depth)
        kind = BiBNRNN if batch_norm else BiRNN
        for number in range(depth):
            split = number > 0 and not bi_sum
            self.append(kind(nout, init, init_inner, activation, reset_cells, split_inputs=split))
            if bi_sum:
                self.append(BiSum())


class DeepBiLSTM(list[Any]):
    """BiLSTM on BiLSTM: each direction goes on with its own half.

    Arguments as of BiLSTM, for all.  depth: how many layers.  ValueError: a depth below 1.
    """

    def __init__(
        self,
        nout: int,
        init: Any,
        init_inner: Any = None,
        activation: Any = None,
        gate_activation: Any = None,
        reset_cells: bool = False,
        depth: int = 1,
    ) -> None:
        super().__init__()
        _check_depth(self, depth)
        about = (init, init_inner, activation, gate_activation, reset_cells)
        self.extend(BiLSTM(nout, *about, split_inputs=number > 0) for number in range(depth))


def _check_depth(layers: Any, depth: int) -> None:
    if depth < 1:
        asked = f"{type(layers).__name__}(depth={shortened(depth)})"
        raise ValueError(four_parts(asked, "it has no layers", "", "give a depth from 1 on"))
