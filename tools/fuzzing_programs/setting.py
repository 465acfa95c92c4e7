"""How a program is to run."""

from __future__ import annotations

from typing import NamedTuple

_ROUNDED = ("half", "tf32")


class Setting(NamedTuple):
    """How a program is to run.

    context: the backends, with blanks between; what the first one refuses goes to the next.
    as_large: whether small arrays are treated as large ones are.
    modes: what a simulated device is told, as it is written after `with`.
    """

    context: str
    as_large: bool = False
    modes: tuple[str, ...] = ()

    @property
    def is_on_device(self) -> bool:
        """Whether it is a simulated device that computes."""
        return self.context.startswith("sim")

    @property
    def is_rounded(self) -> bool:
        """Whether results are too far from those in float64 to tell anything."""
        return self.context.split()[0].endswith(_ROUNDED)

    @property
    def fallback(self) -> str:
        """What to do with ops that the first backend refuses."""
        return "quiet" if len(self.context.split()) > 1 else "raise"
