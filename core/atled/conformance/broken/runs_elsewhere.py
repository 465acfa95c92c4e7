"""Tanh that lets the library compute it somewhere else."""

import numpy as np

from atled.conformance.broken.shelf import Run, ShelfPlugin, changed


def _change(run: Run) -> Run:
    def delegate(x: np.ndarray, y: np.ndarray) -> None:
        import atled as nn  # here, since the front of the library imports plugins
        import atled.functions as F

        with nn.using("reference"):
            y[...] = F.tanh(nn.NdArray.from_numpy_array(x)).data

    return delegate


PLUGIN = ShelfPlugin(**changed("Tanh", _change))
