"""Lookup tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from atled.errors import four_parts, shortened
from atled.neon.backends.backend import Tensor
from atled.neon.layers.parameter_layer import ParameterLayer
from atled.neon.layers.shapes import interpret_in_shape


class LookupTable(ParameterLayer):
    """A row of weights for each word: `y[:, j] = W[x[j]]`.

    vocab_size: how many words there are.  embedding_dim: length of a row.  init: of W (vocab_size, embedding_dim).
    update: whether there is a gradient.  pad_idx: a word whose row is 0 and stays so; None for none.

    It takes a count of steps, or (1, steps), and gives (embedding_dim, steps). There are no deltas.
    """

    owns_delta = False

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int,
        init: Any,
        update: bool = True,
        pad_idx: int | None = None,
        name: str | None = None,
        parallelism: str = "Data",
    ) -> None:
        super().__init__(init, name, parallelism)
        self.vocab_size = vocab_size
        self.embedding_dim = embedding_dim
        self.update = update
        self.pad_idx = pad_idx
        self.nin = 0
        if pad_idx is not None and not 0 <= pad_idx < vocab_size:
            wrong = f"there are {vocab_size} words"
            remedy = f"give 0 to {vocab_size - 1}, or None"
            raise IndexError(four_parts(f"{self._told} with pad_idx={pad_idx}", wrong, "", remedy))

    def configure(self, in_obj: Any) -> LookupTable:
        """Take a count of steps; see Layer."""
        super().configure(in_obj)
        features, steps = interpret_in_shape(self.in_shape)
        self.nin = features * steps
        self.out_shape = self.embedding_dim, self.nin
        self.weight_shape = self.vocab_size, self.embedding_dim
        return self

    def allocate(self, shared_outputs: Tensor | None = None, accumulate_updates: bool = False) -> None:
        """See ParameterLayer."""
        super().allocate(shared_outputs, accumulate_updates)
        if self.inputs is None:
            self.inputs = self._present.zeros((1, self.outputs.shape[1]), dtype=np.int32)
        if self.pad_idx is not None:
            self.W[self.pad_idx] = 0

    def fprop(self, inputs: Tensor, inference: bool = False) -> Tensor:
        """The rows of words, as columns.

        inputs: (1, steps * batch) or (steps, batch), whole numbers of any dtype; which words.  inference: no effect.
        IndexError: a word that there is not.  RuntimeError: there is no memory yet.  ValueError: another count of
        words.  TypeError: no tensor. Nothing is written then.
        """
        self._check_allocated("fprop")
        count = self.outputs.shape[1]
        if not isinstance(inputs, Tensor):
            wrong = f"inputs are of type {type(inputs).__name__}"
            raise TypeError(four_parts(f"{self._told}.fprop", wrong, "", "make a tensor of them, by be.array"))
        if inputs.size != count:
            self._check_size("fprop", "inputs", inputs, (1, count))
        # Looked at here: kernels on a device find out about words while they run.
        words = inputs.asnumpyarray()
        if words.dtype.kind == "f" and np.any(np.floor(words) != words):
            wrong, remedy = "they are no whole numbers", "give whole numbers, one for each word"
            raise IndexError(four_parts(f"{self._told}.fprop of {shortened(words)}", wrong, "", remedy))
        if count and not 0 <= words.min() <= words.max() < self.vocab_size:
            asked = f"{self._told}.fprop with words from {words.min()} to {words.max()}"
            wrong = f"the table has {self.vocab_size} rows"
            raise IndexError(four_parts(asked, wrong, "", f"give words from 0 to {self.vocab_size - 1}"))
        self.inputs[:] = self._seen("x", inputs, lambda given: given.reshape((1, count)))
        self.outputs[:] = self._seen("y", self.W, self._rows)
        return self.outputs

    @ParameterLayer.accumulates
    def bprop(self, error: Tensor, alpha: float = 1.0, beta: float = 0.0) -> None:
        """`dW`: for each word the sum of the errors of where it stood, 0 for the one of pad_idx; gives None.

        error: (embedding_dim, steps * batch) float.  alpha, beta: no effect, as there are no deltas.
        Raises as `fprop`, but for IndexError.
        """
        self._check_allocated("bprop")
        self._check_size("bprop", "errors", error, self.outputs.shape)
        if self.update:
            self.dW[:] = 0
            self._present.compound_bprop_lut(error.shape[1], self.inputs, error, None, self.dW, self.pad_idx)

    def _rows(self, weights: Tensor) -> Any:
        return self._present.take(weights.T, self.inputs, axis=1)
