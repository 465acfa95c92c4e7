"""Logistic regression whose gradients are found by Autodiff."""

import numpy as np
from neon.backends import Autodiff, gen_backend

be = gen_backend("cpu", rng_seed=2, batch_size=50)
data = np.random.RandomState(3)
points = data.normal(size=(2, 50)).astype(np.float32)
labels = (points.sum(axis=0, keepdims=True) > 0.3).astype(np.float32)

x, t = be.array(points), be.array(labels)
w, b = be.array(be.rng.normal(0, 0.1, (1, 2))), be.zeros((1, 1))
y = be.sig(be.dot(w, x) + b)
cost = be.mean(-t * be.safelog(y) - (1 - t) * be.safelog(1 - y), axis=1)

ad = Autodiff(op_tree=cost, be=be, next_error=None)
dw, db, value = be.empty(w.shape), be.empty(b.shape), be.empty((1, 1))
for _ in range(12):
    value[:] = cost
    ad.back_prop_grad([w, b], [dw, db])
    w[:] = w - dw
    b[:] = b - db
    print("cost", value.get()[0, 0])
dw[:], db[:] = ad.get_grad_op_tree([w, b])
print("gradients", *dw.get()[0], *db.get()[0])
right = be.empty((1, 1))
right[:] = be.mean(be.equal(be.greater(y, 0.5), t), axis=1)
print("right", right.get()[0, 0])
