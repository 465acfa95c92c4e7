"""An array class that was begun: arrays come and go, and nothing else."""

from atled.arrays.place import ArrayClass
from atled.conformance.broken.shelf import ShelfClass, ShelfPlugin


class _Begun(ShelfClass):
    copy = ArrayClass.copy
    fill = ArrayClass.fill
    view = ArrayClass.view


PLUGIN = ShelfPlugin(_Begun())
