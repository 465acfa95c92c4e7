"""NervanaDataIterator: what gives batches to a Model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atled.errors import four_parts
from atled.neon.nervana_object import NervanaObject


class NervanaDataIterator(NervanaObject):
    """Gives pairs of inputs and targets, a batch each; subclasses say which.

    shape: sizes of an example, as layers take them; a list of them for several inputs.
    ndata: count of examples.
    """

    shape: Any = None
    ndata: int = 0
    _nbatches: int | None = None

    @property
    def nbatches(self) -> int:
        """How many batches an epoch has: what a subclass has set, or else as many as hold ndata examples."""
        return self._count_batches() if self._nbatches is None else self._nbatches

    @nbatches.setter
    def nbatches(self, count: int) -> None:
        self._nbatches = count

    def _count_batches(self) -> int:
        return -(-self.ndata // max(1, self._present.bsz))

    def reset(self) -> None:
        """Begin with the first example again; no effect unless the class remembers where it is."""

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch.  NotImplementedError: the class has none."""
        name = self.classnm
        raise NotImplementedError(
            four_parts(f"batches of {name}", "the class has no __iter__", "", f"define it in {name}")
        )
