"""Variables and updates: counters, swaps, steps that choose, values set in between."""

import natural_bm.backend as B
import numpy as np
from natural_bm.backend.common import floatx, set_floatx
from natural_bm.backend.theano_backend import variable

state = B.variable(0, dtype="int32", name="state")
inc = B.placeholder(ndim=0, dtype="int32", name="inc")
accumulator = B.function([inc], state, updates=[(state, state + inc)])
print("old", accumulator(1), accumulator(300), "new", state.get_value())

a, b = variable([1.0, 2.0], name="a"), variable([3.0, 4.0], name="b")
swap = B.function([], [a + b, a - b], updates={a: b, b: a})
total, difference = swap()
print("swapped", *a.get_value(), *b.get_value(), "from", *total, *difference)

# Parts of functions are replaced.
skip = B.function([inc], state, givens={state: inc * 2})
print("givens", skip(4), state.get_value())

# The chosen side is computed.
x, y = B.placeholder(ndim=1), B.placeholder(ndim=1)
larger = B.function([x, y], B.ifelse(B.greater(B.sum(x), B.sum(y)), x, y))
print("larger", *larger([1, 2], [0, 1]), *larger([1, 2], [5]))

rate = B.variable(0.5)
decay = B.function([], rate, updates=[(rate, B.ifelse(B.less(rate, 0.2), rate, rate * 0.5))])
for _ in range(5):
    decay()
print("rate", B.eval(rate))

B.batch_set_value([(a, np.zeros(2)), (b, [7, 8])])
print("set", *sum(B.batch_get_value([a, b])))
print("shapes", *B.eval(B.shape(a)), B.eval(a.shape[0]), B.ndim(a), B.dtype(a), B.get_variable_shape(b)[0])

set_floatx("float64")
print("wide", floatx(), B.variable([1]).dtype, B.dtype(B.variable([1]) + a), B.cast_to_floatx(1).dtype)
set_floatx("float32")

matrix = B.variable(np.arange(12).reshape(3, 4))
rows = B.placeholder(ndim=1, dtype="int32")
print("rows", *B.function([rows], B.sum(matrix[rows], axis=1))([2, 0, 2]))
print("built", *B.eval(sum([matrix[0], matrix[-1], matrix.T[:3, 0].dot(matrix)])))
