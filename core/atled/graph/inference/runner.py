"""What runs a compiled inference: the interface, and the way that takes any plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from atled.array_desc import ArrayDesc
from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.graph.inference.compiling import Compiled
from atled.graph.inference.fixed_values import FixedValues, Generation
from atled.graph.inference.quiet import run_whole

Arrays = Sequence[np.ndarray]

_NONE = Generation(-1)  # for runs that read nothing but parameters themselves


class Runner(ABC):
    """An inference compiled for inputs of some shapes and dtypes, for any threads.

    compiled: its outside arrays are the inputs, the parameters, and what is computed from these alone.
    descs: of the inputs.
    shapes: of the outputs.
    """

    def __init__(self, compiled: Compiled, descs: Sequence[ArrayDesc], values: FixedValues) -> None:
        self.plan = compiled.plan
        self.compiled = compiled
        self._descs = list(descs)
        self.shapes = compiled.shapes
        self._values = values
        # What steps count as changed, as normalization in half does, they leave as it is.
        changed = {number - len(self._descs) for number, _, _ in compiled.plan.written}
        self._watched = [cell for number, cell in enumerate(values.parameters) if number not in changed]

        # The inputs are no part of what is computed from parameters alone.
        self._outside = [*(ArrayCell(0) for _ in descs), *values.parameters]

    def _value(self, generation: Generation, number: int) -> ArrayCell:
        """A parameter, or what is computed from these alone, by its number among them; inputs do not count."""
        parameters = self._values.parameters
        if number < len(parameters):
            return parameters[number]
        return generation.value(self.compiled.keys[number - len(parameters)], self.compiled, self._outside)

    @abstractmethod
    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """The outputs, in new arrays, of parameters that nobody wrote meanwhile.

        inputs: of the shapes of the plan; what has another dtype is cast.
        """

    @abstractmethod
    def let_go(self) -> None:
        """Keep nothing alive that is read beside inputs, until the next run; others may be running it."""

    def renew(self) -> None:
        """Likewise, but for what may be packed of parameters that nobody wrote."""
        self.let_go()


class BoundRunner(Runner):
    """Any plan, and any that is observed: each run binds it to arrays of its own."""

    def __init__(self, compiled: Compiled, descs: Sequence[ArrayDesc], values: FixedValues) -> None:
        super().__init__(compiled, descs, values)
        self._last: tuple[Generation, Sequence[ArrayCell]] | None = None

    def run(self, inputs: Arrays) -> list[np.ndarray]:
        """See Runner."""
        outputs, _ = run_whole(lambda: self._run(inputs), self._watched)
        return outputs

    def let_go(self) -> None:
        """See Runner."""
        self._last = None

    def _run(self, inputs: Arrays) -> list[np.ndarray]:
        from atled.graph.run.binding import Binding  # lazy: what runs in host memory is not bound

        last = self._last
        if not self.compiled.keys:
            last = _NONE, self._values.parameters
        elif last is None or not self._values.is_current(last[0]):
            generation, count = self._values.current(), len(self._values.parameters) + len(self.compiled.keys)
            last = generation, [self._value(generation, number) for number in range(count)]
            generation.let_go()
            self._last = last if self._values.fits() else None
        last[0].runs += 1
        plan = self.plan
        cells = [_cell_of(array, desc) for array, desc in zip(inputs, self._descs, strict=True)]
        made = [ArrayCell(plan.slots[slot].desc.size) for slot in plan.targets]
        floats = [value for _, value in plan.floats]
        Binding(plan, [*cells, *last[1]], made, floats).run()
        outputs = []
        for cell, shape in zip(made, self.shapes, strict=True):
            cell.settle()
            assert cell.dtype is not None
            storage = cell.copy_at(HOST, cell.dtype)
            assert isinstance(storage, HostStorage)
            outputs.append(storage.array(shape, cell.dtype).copy())
        return outputs


def _cell_of(array: np.ndarray, desc: ArrayDesc) -> ArrayCell:
    """A new array with some values."""
    cell = ArrayCell(desc.size)
    storage = cell.output(HOST, desc.dtype)
    assert isinstance(storage, HostStorage)
    storage.array(desc.shape, desc.dtype)[...] = array
    return cell
