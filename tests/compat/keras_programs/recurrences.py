"""Recurrences by scan: powers, several states, sequences, non-sequences, backwards, outputs without a state."""

import natural_bm.backend as B
import numpy as np

# Element-wise powers of a vector, of a count that the call brings.
k = B.placeholder(ndim=0, dtype="int32", name="k")
A = B.placeholder(ndim=1, name="A")
result, updates = B.scan(
    lambda prior, A: prior * A, outputs_info=B.ones_like(A), non_sequences=A, n_steps=k, name="power"
)
power = B.function([A, k], result[-1], updates=updates)
print("power", *power(range(5), 2), *power([1, 2], 4))

# A polynomial: coefficients are a sequence, degrees another one.
coefficients = B.placeholder(ndim=1)
x = B.placeholder(ndim=0)
terms, _ = B.scan(
    lambda c, degree, x: c * x ** B.cast(degree, B.floatx()),
    sequences=[coefficients, B.arange(1000)],
    outputs_info=None,
    non_sequences=x,
)
print("polynomial", B.function([coefficients, x], B.sum(terms))([1, 0, 2], 3))

# Two states: Fibonacci's numbers, in whole ones.
(fibonacci, _), _ = B.scan(
    lambda a, b: [b, a + b], outputs_info=[B.variable(0, dtype="int32"), B.variable(1, dtype="int32")], n_steps=10
)
print("fibonacci", *B.eval(fibonacci))

# A plain recurrent layer, forwards and backwards.
rng = np.random.RandomState(2)
W_in, W = B.variable(rng.normal(size=(3, 4))), B.variable(0.5 * rng.normal(size=(4, 4)))
inputs = B.placeholder(ndim=3)  # steps, samples, features


def layer(x_t, h, W_in, W):
    return B.sigmoid(B.dot(x_t, W_in) + B.dot(h, W))


h0 = B.zeros((2, 4))
for backwards in (False, True):
    h, _ = B.scan(layer, sequences=inputs, outputs_info=[h0], non_sequences=[W_in, W], go_backwards=backwards)
    run = B.function([inputs], [h[-1], h.shape[0]])
    last, steps = run(np.linspace(-1, 1, 6 * 2 * 3).reshape(6, 2, 3))
    print("layer", steps, *last[0])
    _, steps = run(np.ones((3, 2, 3)))
    print("steps", steps)

# The gradient of a product of as many factors as a call brings.
w = B.placeholder(ndim=0)
products, _ = B.scan(lambda p, w: p * w, outputs_info=B.ones_like(w), non_sequences=w, n_steps=k)
slope = B.function([w, k], B.gradients(products[-1], w))
print("slope", slope(2.0, 5), slope(3.0, 1))

# A variable that the step counts in.
count = B.variable(0, dtype="int64")
_, counted = B.scan(lambda: {count: count + 2}, n_steps=k)
B.function([k], None, updates=counted)(7)
print("count", B.get_value(count))
