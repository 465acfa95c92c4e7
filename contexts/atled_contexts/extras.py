"""The extras of `pip install "atled[EXTRA]"` that bring a backend: which one brings what.

`extras.json` beside this file is the table, the only place that names a distribution of a plugin. `make generated`
writes it from the plugins' manifests.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from atled_contexts.errors import did_you_mean

# Names that people write for hardware, with the device family of backends that would do.
_HARDWARE = {"gpu": "cuda", "cuda": "cuda", "cudnn": "cuda"}


class Extra(NamedTuple):
    """One extra.

    name: as in `atled[name]`.  distributions: of the plugins.
    backends: their names with their device families.  default: whether one of them becomes the default Context's.
    settings: names of `ATLED_*` variables.
    """

    name: str
    distributions: tuple[str, ...]
    backends: dict[str, str]
    default: bool
    settings: tuple[str, ...]

    @property
    def install(self) -> str:
        """The command that installs it."""
        return f'pip install "atled[{self.name}]"'


@functools.cache
def extras() -> tuple[Extra, ...]:
    """All extras that bring a backend, sorted by name."""
    import json  # lazy, for the import cost: the table is read where something is missing
    from pathlib import Path

    table = json.loads(Path(__file__).with_name("extras.json").read_text("utf-8"))
    return tuple(
        Extra(name, tuple(row["distributions"]), row["backends"], row["default"], tuple(row["settings"]))
        for name, row in table.items()
    )


def settings_of_extras() -> dict[str, Extra]:
    """The settings that plugins declare once they are installed, with the extra that brings each."""
    return {name: extra for extra in extras() for name in extra.settings}


def how_to_install(wanted: str, known: tuple[str, ...] = ()) -> str:
    """What to do where no installed plugin offers what was `wanted`: a backend, a device family or "gpu".

    known: further names that may have been meant.
    """
    families = {wanted, _HARDWARE.get(wanted, wanted)}
    found = [extra for extra in extras() if wanted in extra.backends or families & set(extra.backends.values())]
    if found:
        return " or ".join(extra.install for extra in found)
    offered = [backend for extra in extras() for backend in extra.backends]
    return did_you_mean(wanted, [*known, *offered], f"install a plugin that offers {wanted!r}")
