"""BatchMatmul whose factors are rounded to tf32 under `float`, which is strict."""

import numpy as np

from atled.conformance.broken.shelf import Run, ShelfPlugin, changed


def _tf32(values: np.ndarray) -> np.ndarray:
    return (values.view(np.uint32) & 0xFFFFE000).view(np.float32) if values.dtype == np.float32 else values


def _change(run: Run) -> Run:
    return lambda a, b, y: run(_tf32(a), _tf32(b), y)


PLUGIN = ShelfPlugin(**changed("BatchMatmul", _change))
