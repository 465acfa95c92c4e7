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

from atled.compat.alias import MissingModuleError
from atled.compat.drop_in import DropIn
from atled.compat.nnabla_names import NNABLA

__all__ = ["MissingModuleError", "install", "uninstall"]

_DROP_IN = DropIn(NNABLA)


def install() -> None:
    """Let NNabla's names mean atled, as importing this module does; a second call does nothing.

    ImportError where the real NNabla was imported before: two libraries under one name would mix.
    """
    _DROP_IN.install()


def uninstall() -> None:
    """Take `install` back: the names are free again, and modules that were imported by them are forgotten."""
    _DROP_IN.uninstall()


install()
