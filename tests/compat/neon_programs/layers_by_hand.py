"""Layers without a model: they are configured, allocated and called one by one, and an optimizer changes them."""

import numpy as np
from neon.backends import gen_backend
from neon.initializers import Constant, Gaussian
from neon.layers import Affine, GeneralizedCost
from neon.layers.container import DeltasTree
from neon.optimizers import GradientDescentMomentum
from neon.transforms import Identity, SumSquared, Tanh

be = gen_backend(backend="cpu", rng_seed=11, batch_size=16)
data = np.random.RandomState(12)
x = be.array(data.uniform(-1, 1, (2, 16)))
t = be.array(np.sin(3 * x.get()[:1]) * x.get()[1:])

init = Gaussian(scale=0.5)
layers = []
for part in (Affine(nout=8, init=init, bias=Constant(0.1), activation=Tanh()),
             Affine(nout=1, init=init, bias=Constant(0), activation=Identity())):  # fmt: skip
    layers.extend(part)
before = (2, 1)
pool = DeltasTree()
for layer in layers:
    before = layer.configure(before)
    layer.allocate()
    layer.allocate_deltas(pool)
pool.allocate_buffers()
for layer in layers:
    layer.set_deltas(pool)
cost = GeneralizedCost(costfunc=SumSquared())
cost.initialize(layers[-1])
optimizer = GradientDescentMomentum(0.1, momentum_coef=0.9, wdecay=0.001)

for epoch in range(20):
    y = x
    for layer in layers:
        y = layer.fprop(y)
    total = cost.get_cost(y, t)
    error = cost.get_errors(y, t)
    for layer in reversed(layers):
        error = layer.bprop(error)
    optimizer.optimize([layer for layer in layers if layer.has_params], epoch)
    if epoch % 5 == 4:
        print("cost", total[0, 0])
print("y", *y.get()[0])
print("names", *[layer.classnm for layer in layers])
