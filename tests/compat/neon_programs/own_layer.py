"""A layer of one's own among neon's: a scale for each map behind a convolution, with a gradient of its own."""

import numpy as np
from neon.backends import gen_backend
from neon.initializers import Constant, Uniform
from neon.layers import Convolution, Pooling
from neon.layers.layer import ParameterLayer
from neon.optimizers import GradientDescentMomentum, Schedule


class MapScale(ParameterLayer):
    """outputs = W of the map * inputs."""

    def __init__(self, init, name=None):
        super().__init__(init, name, "Disabled")
        self.owns_output = True

    def configure(self, in_obj):
        super().configure(in_obj)
        self.out_shape = self.in_shape
        self.maps, self.pixels = self.in_shape[0], int(np.prod(self.in_shape[1:]))
        self.weight_shape = (self.maps, 1)
        return self

    def fprop(self, inputs, inference=False):
        self.inputs = inputs
        rows = (self.maps, self.pixels * self.be.bsz)
        self.outputs.reshape(rows)[:] = inputs.reshape(rows) * self.W
        return self.outputs

    def bprop(self, error, alpha=1.0, beta=0.0):
        rows = (self.maps, self.pixels * self.be.bsz)
        self.dW[:] = self.be.sum(error.reshape(rows) * self.inputs.reshape(rows), axis=1)
        error.reshape(rows)[:] = error.reshape(rows) * self.W
        return error


be = gen_backend(backend="cpu", rng_seed=14, batch_size=5)
images = be.array(np.random.RandomState(15).normal(size=(2 * 6 * 6, 5)))
conv = Convolution((3, 3, 4), init=Uniform(-0.5, 0.5), name="conv")
scale = MapScale(Constant(1.5))
pool = Pooling(2, op="avg")
layers = [conv, scale, pool]
shape = (2, 6, 6)
for layer in layers:
    shape = layer.configure(shape)
    layer.allocate()
pool.deltas = be.iobuf(pool.in_shape)

optimizer = GradientDescentMomentum(0.05, 0.0, schedule=Schedule([2, 4], 0.5), gradient_clip_value=2)
for epoch in range(6):
    y = images
    for layer in layers:
        y = layer.fprop(y)
    error = pool.outputs  # of the cost "half the sum of squares"
    print("cost", 0.5 * float((y.get() ** 2).sum()))
    error = pool.bprop(error)
    error = scale.bprop(error)
    conv.bprop(error)
    optimizer.optimize([conv, scale], epoch)
print("shapes", *pool.out_shape, *conv.W.shape)
print("scale", *scale.W.get().ravel())
print("description", scale.get_description()["type"].split(".")[-1])
