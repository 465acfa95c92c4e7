"""Logistic regression on random data, with L2 regularization: one function trains, another one predicts."""

import natural_bm.backend as B
import numpy as np

N, FEATS, STEPS = 200, 30, 300

rng = np.random.RandomState(0)
D = (rng.randn(N, FEATS).astype("float32"), rng.randint(size=N, low=0, high=2).astype("float32"))

x = B.placeholder(ndim=2, name="x")
y = B.placeholder(shape=(None,), name="y")
w = B.variable(rng.randn(FEATS) * 0.1, name="w")
b = B.variable(0.0, name="b")

p_1 = 1 / (1 + B.exp(-B.dot(x, w) - b))
prediction = p_1 > 0.5
xent = -y * B.log(p_1) - (1 - y) * B.log(1 - p_1)
cost = B.mean(xent) + 0.01 * B.sum(w**2)
gw, gb = B.gradients(cost, [w, b])

train = B.function(
    inputs=[x, y], outputs=[prediction, cost], updates=[(w, w - 0.1 * gw), (b, b - 0.1 * gb)], name="train"
)
predict = B.function(inputs=[x], outputs=prediction)

costs = [train(D[0], D[1])[1] for _ in range(STEPS)]
print("costs", costs[0], costs[-1])
print("right", int(np.sum(predict(D[0]) == D[1])))
print("w", *w.get_value()[:4])
print("b", B.get_value(b))
