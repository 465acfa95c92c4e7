"""The random state of one call: its key, and how often it was drawn from."""

from __future__ import annotations

import numpy as np

from atled.arrays.cell import ArrayCell
from atled.arrays.place import HOST
from atled.arrays.storage import HostStorage
from atled.random import random_key


def new_random_state(seed: int) -> ArrayCell:
    """The random state of one function: key and call count. Seed -1: see `atled.random.seed`."""
    cell = ArrayCell(2)
    storage = cell.output(HOST, np.dtype(np.int64))
    assert isinstance(storage, HostStorage)
    # The count is raised before each call, so that the first one draws at 0.
    storage.write_integers(random_key(seed), -1)
    return cell
