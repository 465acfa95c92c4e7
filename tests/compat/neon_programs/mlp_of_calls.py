"""A network of two layers with drop-out by calls of the backend, activations and initializers."""

import numpy as np
from neon import NervanaObject
from neon.backends import gen_backend
from neon.initializers import GlorotUniform
from neon.transforms import Rectlin, Softmax

BATCH, UNITS, CLASSES = 24, 10, 3

gen_backend(backend="cpu", rng_seed=5, batch_size=BATCH)
be = NervanaObject.be
data = np.random.RandomState(6)
classes = data.randint(CLASSES, size=BATCH)
features = data.normal(size=(4, BATCH)) + 2 * np.eye(4)[:, classes]

x, t = be.array(features), be.array(np.eye(CLASSES)[:, classes])
w1, w2 = be.empty((UNITS, 4)), be.empty((CLASSES, UNITS))
for w in (w1, w2):
    GlorotUniform().fill(w)
dw1, dw2 = be.zeros_like(w1), be.zeros_like(w2)
hidden, mask, back = be.iobuf(UNITS), be.iobuf(UNITS), be.iobuf(UNITS)
out, error = be.iobuf(CLASSES), be.iobuf(CLASSES)
cost = be.empty((1, 1))
relu, softmax = Rectlin(), Softmax()

for epoch in range(15):
    be.compound_dot(w1, x, hidden)
    hidden[:] = relu(hidden)
    be.make_binary_mask(mask, keepthresh=0.8)
    hidden[:] = hidden * mask
    be.compound_dot(w2, hidden, out)
    out[:] = softmax(out)
    cost[:] = be.mean(-be.sum(t * be.safelog(out), axis=0), axis=1)
    error[:] = (out - t) / be.bsz
    be.compound_dot(error, hidden.T, dw2)
    be.compound_dot(w2.T, error, back)
    back[:] = back * mask * relu.bprop(hidden)
    be.compound_dot(back, x.T, dw1)
    for w, dw in ((w1, dw1), (w2, dw2)):
        w[:] = w - 0.5 * dw
    if epoch % 5 == 4:
        print("cost", cost.get()[0, 0])
print("w2", *w2.get().ravel())
