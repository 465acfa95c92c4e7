"""Scripts and notebooks written for NNabla, unchanged.

    python -m atled.compat.nnabla SCRIPT ARGUMENTS...

or, at the top of a notebook:

    import atled.compat.nnabla
    import nnabla as nn
    import nnabla.functions as F

From then on `import nnabla`, `nnabla.functions`, `nnabla.utils.data_iterator`, `nnabla_ext.cudnn` and so on give
what atled has, also where NNabla itself is installed. What atled does not have is an ImportError or AttributeError that
says so. Nothing else is changed: not NumPy, and not a module that is there already.
"""

from __future__ import annotations

import sys

from atled.compat.alias import FOREIGN, Alias, Finder, MissingModuleError
from atled.errors import four_parts, listing

__all__ = ["MissingModuleError", "install", "uninstall"]

_FINDER = Finder()


def install() -> None:
    """Let NNabla's names mean atled, as importing this module does; a second call does nothing.

    ImportError where the real NNabla was imported before: two libraries under one name would mix.
    """
    if _FINDER in sys.meta_path:
        return
    found = [name for name in FOREIGN if name in sys.modules and not isinstance(sys.modules[name], Alias)]
    if found:
        raise ImportError(
            four_parts(
                "import atled.compat.nnabla",
                f"the real {listing(found)} is imported already",
                listing(str(getattr(sys.modules[name], "__file__", None)) for name in found),
                "start a new process (restart the notebook's kernel) and import atled.compat.nnabla first",
            )
        )
    # The first one, before the finder of installed packages: NNabla may be among them.
    sys.meta_path.insert(0, _FINDER)


def uninstall() -> None:
    """Take `install` back: the names are free again, and modules that were imported by them are forgotten."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    for name in [name for name, module in sys.modules.items() if isinstance(module, Alias)]:
        del sys.modules[name]


install()
