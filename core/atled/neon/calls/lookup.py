"""Gradients of lookup tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atled.errors import four_parts
from atled.keyed import Description, View
from atled.neon.calls.checks import check_dtypes, check_numbers, check_shapes, check_tensors
from atled.neon.calls.described import Described, DescribedCalls, layer_call
from atled.neon.trees.tensor import Tensor

if TYPE_CHECKING:
    from atled_contexts import Context


class LookupCalls(DescribedCalls):
    """Adds up the errors of words."""

    if TYPE_CHECKING:
        context: Context
        device_type: int

    @layer_call
    def compound_bprop_lut(
        self,
        nin: int,
        inputs: Tensor,
        error: Tensor,
        error_t: Tensor | None,
        dW: Tensor,
        pad_idx: int | None,
        alpha: float = 1.0,
        beta: float = 0,
    ) -> Described:
        """Add up, per word, the errors of where it stands: `dW[v] = alpha * sum of error[:, j] + beta * dW[v]`.

        The sum is over the j with `inputs[j] == v`. Rows of words that do not occur stay as they are.

        Args:
            nin: how many words there are.
            inputs: (1, nin) whole numbers from 0 to V - 1, int32: which words.
            error: (E, nin) float.
            error_t: (nin, E); scratch memory in neon, not used here. None is taken, too.
            dW: (V, E), of the dtype of error; the target.
            pad_idx: the word whose row stays as it is; None for none.
            alpha, beta: numbers. Where beta is 0, what dW holds counts for nothing.

        Raises:
            IndexError: a word from outside of the table; nothing is written then. On a device the host looks at the
                words first, which waits for them.
            ValueError: shapes that do not fit, or tensors of another backend.
            TypeError: several dtypes, or what is no tensor or number.
        """
        call = "compound_bprop_lut"
        check_tensors(self, call, ["error_t"], inputs=inputs, error=error, error_t=error_t, dW=dW)
        check_dtypes(call, error=error, dW=dW)
        check_numbers(call, alpha=alpha, beta=beta)
        shapes = {"inputs": (1, nin), "error": (dW.shape[1], nin), "error_t": (nin, dW.shape[1])}
        check_shapes(call, shapes, inputs=inputs, error=error, error_t=error_t, dW=dW)
        rows, d = dW.shape[0], Description(self.context)
        words = d.leaf(inputs.view[0])
        gradient = d.call("EmbedGrad", d.leaf(error.view.T), words, n=rows)
        counted = d.call("Constant", val=1.0, shape=(nin,))
        if pad_idx is not None:
            counted = d.call("Where", d.call("NotEqual", words, d.number(pad_idx)), counted, d.number(0.0))
        occurs = d.call("Reshape", d.call("EmbedGrad", counted, words, n=rows), shape=(rows, 1))
        if alpha != 1:
            gradient = d.call("Mul2", gradient, d.number(alpha))
        before = d.leaf(dW.view)
        new = d.call("Add2", gradient, d.call("Mul2", before, d.number(beta))) if beta else gradient
        d.assign(dW.view, d.call("Where", occurs, new, before))
        return Described(_OfWords(d, inputs.view, rows) if self.device_type else d)


class _OfWords:
    """A program that is run on words of a table alone.

    Kernels on a device find out what is wrong with a word while they run, when others behind them write already.
    """

    def __init__(self, program: Description, words: View, rows: int) -> None:
        self._program = program
        self._words = words
        self._rows = rows

    def run(self) -> None:
        """Look at the words, then run.  IndexError: one from outside of the table."""
        words = self._words.numpy()
        if words.size and not 0 <= words.min() <= words.max() < self._rows:
            asked = f"compound_bprop_lut with words from {words.min()} to {words.max()}"
            wrong = f"out of range: the table has {self._rows} rows"
            raise IndexError(four_parts(asked, wrong, "", f"give words from 0 to {self._rows - 1}"))
        self._program.run()

    @property
    def plan(self) -> Any:
        """That of the program."""
        return self._program.plan
