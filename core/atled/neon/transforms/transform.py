"""Transform: what activations are, those of programs as well."""

from __future__ import annotations

from typing import Any

from atled.errors import four_parts
from atled.neon.nervana_object import NervanaObject


class Transform(NervanaObject):
    """A function of a tensor or op-tree that gives an op-tree, with its derivative.

    Layer calls have it make its op-tree once, and compute that as a part of their program. They notice where its
    attributes are other numbers or strings than before. One that computes something by itself is called at each step.

    is_mklop: a flag that programs read; no effect.
    """

    is_mklop = False

    def __call__(self, x: Any) -> Any:
        """The op-tree.  x: a tensor or an op-tree.  NotImplementedError: the class has none."""
        raise NotImplementedError(self._missing("__call__", "the function"))

    def bprop(self, x: Any) -> Any:
        """The derivative, as an op-tree or a number.

        x: what the function gave, not what it was given.  NotImplementedError: the class has none.
        """
        raise NotImplementedError(self._missing("bprop", "its derivative"))

    def _missing(self, method: str, what: str) -> str:
        name = type(self).__name__
        return four_parts(f"{method} of {name}", "the class has no such method", "", f"define {what} in {name}")
