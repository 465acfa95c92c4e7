"""Formulas of units, on expressions and on the arrays of NumPy's module, which have to agree."""

import natural_bm.backend as B
import natural_bm.backend.numpy_backend as BN
import numpy as np

rng = np.random.RandomState(12)
energies = rng.normal(size=(4, 5)).astype("float32") * 3
x = B.placeholder(shape=energies.shape, name="x")

FORMULAS = {
    "softplus": lambda K, x: K.maximum(x, 0) + K.log(1 + K.exp(-K.abs(x))),
    "softmax": lambda K, x: K.exp(x - K.logsumexp(x, axis=-1, keepdims=True)),
    "logistic": lambda K, x: K.sigmoid(x) * (1 - K.sigmoid(x)),
    "hard": lambda K, x: K.clip(0.2 * x + 0.5, 0.0, 1.0),
    "moments": lambda K, x: K.concatenate([K.mean(x, axis=0), K.std(x, axis=0), K.var(x, axis=0)]),
    "ends": lambda K, x: K.stack([K.min(x, axis=1), K.max(x, axis=1)], axis=1),
    "places": lambda K, x: K.argmax(x) + K.argmin(x, axis=1),
    "swing": lambda K, x: K.sin(x) ** 2 + K.square(K.cos(x)),
    "signs": lambda K, x: K.sign(x) * K.sqrt(x) + K.round(x),
    "sums": lambda K, x: K.cumsum(x, axis=1) + K.cumprod(x / 4, axis=0),
    "turned": lambda K, x: K.reverse(K.permute_dimensions(x, (1, 0)), 0),
    "spread": lambda K, x: K.tile(K.repeat_elements(x, 2, axis=1), (1, 2)),
    "rows": lambda K, x: K.repeat(x, 3),
    "above": lambda K, x: K.any(K.greater(x, 4.0), axis=1),
    "powers": lambda K, x: K.pow(K.abs(x), 1.5) + K.prod(x, axis=0, keepdims=True),
}
for name, formula in FORMULAS.items():
    waited = B.function([x], formula(B, x))(energies)
    at_once = formula(BN, energies)
    same = np.allclose(waited, at_once, rtol=1e-4, atol=1e-5) and waited.shape == np.shape(at_once)
    print(name, *waited.shape, same, float(np.sum(waited)))
loss = B.sum(FORMULAS["softplus"](B, x))
print("slope", np.allclose(B.function([x], B.gradients(loss, x))(energies), BN.sigmoid(energies), atol=1e-5))
