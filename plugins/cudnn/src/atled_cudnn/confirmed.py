"""On which versions of cuDNN and devices a GPU has shown what cuDNN's documents do not say.

The gradient of max pooling: that of equal maxima of a window the first gets it, and that the first NaN counts as the
maximum. `tests/test_on_gpu.py` looks for both, and prints the line for this table.
"""

from __future__ import annotations

FIRST_MAXIMUM: frozenset[tuple[int, str]] = frozenset()
"""(version of cuDNN, name of the device) of those where both hold."""
