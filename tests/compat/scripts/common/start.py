"""Start values that do not depend on the release of the library: initializers changed between releases."""

import nnabla as nn
import numpy as np


def draw_parameters(seed):
    """Draw the weights below the present scope from a generator of NumPy: uniform, with a variance of 1 / fan-in."""
    rng = np.random.RandomState(seed)
    for key, parameter in sorted(nn.get_parameters().items()):
        if parameter.ndim > 1 and key.split("/")[-1] not in ("beta", "gamma"):
            inputs = (
                1
                if key.endswith("embed/W")
                else np.prod(parameter.shape[1:] if parameter.ndim > 2 else parameter.shape[:1])
            )
            limit = np.sqrt(3 / inputs)
            parameter.d = rng.uniform(-limit, limit, parameter.shape)
