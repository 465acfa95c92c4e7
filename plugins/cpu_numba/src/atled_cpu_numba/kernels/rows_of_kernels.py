"""A call as a loop of one step, whose rows are kernels of other calls, with what is between them in workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from atled.plugin import RANGE_BLOCK_WORDS, ArrayDesc, Call, NamedTuple, Native, Prepared
from atled_cpu_numba.kernels.loop_block import LoopBlock
from atled_cpu_numba.kernels.shared.launch import float_bits
from atled_cpu_numba.kernels.shared.layout import NO_WORD


class Array(NamedTuple):
    """An array of the call or in workspace, or a part of it: the word with its address, and bytes beyond that."""

    word: int
    offset: int = 0


class Rows:
    """Puts the block of a loop together, row by row.

    arguments: of the call, inputs first; their words are filled in by whoever runs it.
    """

    def __init__(self, call: Call) -> None:
        self._loop = LoopBlock()
        self._attributes: dict[str, int] = {}
        self.arguments = [Array(self._loop.add([0])) for _ in (*call.inputs, *call.outputs)]
        wanted = (*(True for _ in call.inputs), *call.wanted)
        self._words = [
            array.word if is_wanted else NO_WORD for array, is_wanted in zip(self.arguments, wanted, strict=True)
        ]

    def between(self, desc: ArrayDesc) -> Array:
        """An array in workspace."""
        return Array(self._loop.place(self._loop.add([0]), desc.nbytes))

    def add(self, prepared: Prepared, *arrays: Array, **values: float) -> None:
        """A row for a kernel on its inputs and outputs.  values: of attributes that the call does not have."""
        kernel = prepared.native
        assert kernel is not None
        block = self._put(kernel, arrays, values)
        if prepared.workspace:
            self._loop.place(block + kernel.arguments[len(arrays)], prepared.workspace)
        self._loop.row(kernel, block)

    def add_carrying(
        self, formula: Prepared, inputs: Sequence[Array], made: ArrayDesc, prepared: Prepared, *others: Array
    ) -> None:
        """A row for a kernel whose first input is what a formula makes: on the way, or by a row before it."""
        step, kernel = formula.native, prepared.native
        assert step is not None
        assert kernel is not None
        carried = kernel.before.get(0)
        if carried is None or step.ranges is None or len(step.block) > RANGE_BLOCK_WORDS:
            between = self.between(made)
            self.add(formula, *inputs, between)
            self.add(prepared, between, *others)
            return
        loop = self._loop
        whole = Array(loop.add([0]))
        first, block = self._put(step, (*inputs, whole)), self._put(kernel, (whole, *others))
        pieces = kernel.range_bytes.get(0, 0) * kernel.most_parts
        address_word = step.arguments[len(inputs)]
        nbytes = loop.carry(block + carried, step, first, address_word, whole=made.nbytes, pieces=pieces)
        loop.place(whole.word, nbytes)
        if prepared.workspace:
            loop.place(block + kernel.arguments[1 + len(others)], prepared.workspace)
        loop.row(kernel, block)

    def finished(self, note: str) -> Prepared:
        """The loop."""
        native = self._loop.native(self._words, attributes=self._attributes)
        return Prepared(native=native, workspace=self._loop.workspace, note=note)

    def _put(self, kernel: Native, arrays: Sequence[Array], values: Mapping[str, float] = MappingProxyType({})) -> int:
        """The block of a kernel that gets these arrays; the number of its first word."""
        loop = self._loop
        block = loop.put(kernel)
        for word, array in zip(kernel.arguments, arrays, strict=False):
            if word != NO_WORD:
                loop.fill(block + word, array.word, array.offset)
        for name, word in kernel.attributes.items():
            if name in values:
                loop.words[block + word] = float_bits(values[name])
            elif name in self._attributes:
                loop.fill(block + word, self._attributes[name])
            else:
                self._attributes[name] = block + word
        return block
