"""Generators: the row from which nodes begin, the nodes that there are, and how all begin again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atled.errors import four_parts
from atled.keras_backend.expressions.expression import Expression
from atled.keras_backend.expressions.leaves import Variable
from atled.keras_backend.expressions.sizes import size as as_size
from atled.keras_backend.functions.dtypes import dtype_of
from atled.keras_backend.random.seeds import row_of, stream_count
from atled.keras_backend.settings import floatx
from atled.named_tuple import NamedTuple
from atled.ops.mrg31k3p import STREAM, jumped, substreams
from atled_contexts import lock_across_forks


class StateUpdate(NamedTuple):
    """A node of a generator: its rows, what they are behind a draw, and what tells how many there are."""

    rows: Variable
    new_rows: Expression
    size: Any  # what the program gave as size
    nstreams: int | None


class Generator:
    """What makes rows: its own row, from which those of the next node begin, and a list of the nodes so far.

    rstate: (6,) int32.  default_instance_seed: the seed of the constructor.  state_updates: what `updates` lists.
    use_cuda: as given; the Context says where nodes are computed.
    """

    def __init__(self, seed: int | Sequence[int] = 12345, use_cuda: bool | None = None) -> None:
        """Streams of MRG31k3p from a seed, as of `set_rstate`. use_cuda: without effect."""
        self.rstate = row_of(seed)
        self.default_instance_seed = seed
        self.state_updates: list[StateUpdate] = []
        self.use_cuda = use_cuda
        self._lock = lock_across_forks()  # of those who make nodes, or renew them

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and `copy`: one that goes on as this one would, as long as it has made no node.

        TypeError: it has; an expression is neither copied nor pickled.
        """
        if self.state_updates:
            asked, wrong = "a copy or a pickle of random streams", "expressions draw from them, which cannot be copied"
            remedy = "keep `rstate`, from which the next draw that is written begins, and give it to make_rng"
            raise TypeError(four_parts(asked, wrong, "streams from which nothing draws are copied", remedy))
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "state_updates")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.state_updates = []
        self._lock = lock_across_forks()

    def set_rstate(self, seed: int | Sequence[int]) -> None:
        """Have the next node begin from a seed: an int for all six numbers of its row, or six.

        Nodes that are there are not touched.  ValueError: 0, a number of 2147462579 or more (2147483647 in the first
        half of six), or three zeros in a half.  TypeError: another count of numbers.
        """
        self.rstate = row_of(seed)

    def inc_rstate(self) -> None:
        """Have the next node begin 2**134 values further on."""
        with self._lock:
            self.rstate = jumped(self.rstate, STREAM)

    def seed(self, seed: int | Sequence[int] | None = None) -> None:
        """Begin again: all nodes so far get new rows, in the order in which they were made.

        seed: None for that of the constructor.
        """
        with self._lock:
            self.set_rstate(self.default_instance_seed if seed is None else seed)
            for node in self.state_updates:
                count = self.n_streams(node.size) if node.nstreams is None else node.nstreams
                node.rows.set_value(self.get_substream_rstates(count, floatx()))

    def n_streams(self, size: Any) -> int:
        """By how many streams a node of a size draws: 15360 where that is not a tuple of Python ints."""
        return stream_count(size)

    def get_substream_rstates(self, n_streams: int, dtype: str, inc_rstate: bool = True) -> np.ndarray:
        """Rows from that of the generator on, each 2**72 values behind the one before: (n_streams, 6) int32.

        dtype: of the numbers that will be drawn; the rows do not depend on it.
        inc_rstate: whether the generator moves on by 2**134.  ValueError: n_streams is not positive.
        """
        if n_streams < 1:
            wrong = f"n_streams={n_streams} is not positive"
            raise ValueError(four_parts("rows of streams", wrong, "", "ask for one at least"))
        dtype_of(dtype)
        with self._lock:
            rows = substreams(self.rstate, n_streams)
            if inc_rstate:
                self.inc_rstate()
        return rows

    def pretty_return(
        self, node_rstate: Variable, new_rstate: Expression, sample: Expression, size: Any, nstreams: int | None
    ) -> Expression:
        """Have every function that computes a sample assign its new rows, and `seed` renew them; the sample."""
        with self._lock:
            node_rstate.next = new_rstate
            self.state_updates.append(StateUpdate(node_rstate, new_rstate, size, nstreams))
        return sample

    def updates(self) -> list[StateUpdate]:
        """Rows, new rows, size and nstreams of each node so far."""
        return list(self.state_updates)

    def _rows(self, size: Any, nstreams: int | None, dtype: np.dtype) -> Variable:
        """The rows of the next node.  nstreams: None for those of the size."""
        count = self.n_streams(size) if nstreams is None else as_size(nstreams)
        if isinstance(count, Expression):
            wrong = f"nstreams={count!r} is known only when a function runs"
            raise TypeError(four_parts("rows of streams", wrong, "", "give an int"))
        return Variable(self.get_substream_rstates(count, dtype.name))
